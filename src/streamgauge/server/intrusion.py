"""Announced intrusions into a served run: between two batches, exported next to the file.

    request -> run stops -> noise, copy, noise, ledger entry -> CLINIC.intrusions/NAME -> run resumes

**Promise.** It is the intrusion of `streamgauge intrude`, under the lock of the server. The export goes to a
new folder on the server's disk and never over the network. A client with a curator's token names the folder,
but cannot choose its place. A refused intrusion draws no noise, and the run continues, as after any failure
that leaves its store intact. The same name never causes a second intrusion: its folder exists, or a part of a
failed one does.

**Privacy.** The entry has the publish time, since the commit time shows how long the run took to stop. State,
copies and key are cleared when the run resumes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from streamgauge.clock import Clock
from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import StepHook
from streamgauge.noise import Noise
from streamgauge.runtime.intrusion.export import EXPORT_LOST_TEXT
from streamgauge.runtime.intrusion.intrude import Intrusion, IntrusionError
from streamgauge.runtime.resources import RunResources

FOLDER_NAME_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,100}")
EXPORT_SUFFIX = ".intrusions"
FAILED_MESSAGE = "the intrusion failed: the ledger shows if it is on record, the curator's log has the reason"
PUBLIC_CODES = {
    "intrusions_exhausted": "no_intrusion_left",
    "export_exists": "folder_exists",
    "intrusion_refused": "intrusion_rejected",
    "still_running": "intrusion_rejected",
    "export_unwritable": "no_disk_space",
    "key_refused": "key_unavailable",
    "wrong_key": "key_unavailable",
}  # by the code of an error


@dataclass(frozen=True)
class IntrusionRecord:
    """A recorded intrusion, and the folder of its export."""

    folder: Path
    number: int
    tick: int


def to_public_intrusion_error(failure: Exception) -> IntrusionError:
    """Return the public error of a failure: a code, and words that follow from declarations and the disk."""
    code = PUBLIC_CODES.get(getattr(failure, "code", ""), "intrusion_failed")
    words = (
        FAILED_MESSAGE if code == "intrusion_failed" else ": ".join([*getattr(failure, "__notes__", ()), str(failure)])
    )
    return IntrusionError(words, "export_failed" if words.endswith(EXPORT_LOST_TEXT) else code)


def build_export_path(file: PipelineFile, name: str) -> Path:
    """Return the path of the export of this name."""
    return file.path.with_suffix(EXPORT_SUFFIX) / name


@dataclass(frozen=True)
class PublishTimeClock:
    """A clock that returns the time at which readers see a commit made now."""

    clock: Clock
    find_publish_time: Callable[[int], int]

    def now(self) -> int:
        return self.find_publish_time(self.clock.now())

    def steady(self) -> int:
        return self.clock.steady()

    def sleep(self, microseconds: int) -> None:
        self.clock.sleep(microseconds)


def export_intrusion(
    resources: RunResources, to: Path, clock: Clock, noise: Noise | None, step: StepHook
) -> IntrusionRecord:
    """Run an intrusion while the pipeline is stopped; close the store and the key in any case."""
    try:
        export = Intrusion(resources.file, resources.open_publisher(step), clock, noise).export(resources, to, step)
    finally:
        resources.close_store()
    return IntrusionRecord(export.folder, export.number, export.tick)
