"""An announced intrusion into a pan-private pipeline: noise, an export, noise.

    lock, key, store -> of every run: noise, a copy, noise -> commit: state and ledger entry -> the copies

A run that ended without a clean shutdown is rerandomized first (`live.state`).

Privacy
    The exported state has its own noise. The state that continues has more, which is never exported. So an
    unannounced look, before or after, finds no two states that differ by data alone (see `continual.trees.tree`,
    `continual.trees.window_sum` and `panprivate`). A counter survives any number of intrusions. A table of users
    survives as many as its mechanism reserves, whose loss was charged with it. The next one is refused
    (`LimitExceededError`).

    The copies are in memory only, until three conditions are met: the continuing state and its ledger entry are
    committed, the rollback guard has the commit, and the journal is empty. So a crash can record an intrusion
    without an export, but never export without a record. The copies are lost in the crash: no noise is ever exported
    twice.

An intrusion happens between two runs. A run has no key that opens its store, and a second process must not draw
for it.
"""

import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from streamgauge.clock import Clock, SystemClock
from streamgauge.config.settings import PipelineFile, Stream
from streamgauge.interfaces import StepHook, ignore_step
from streamgauge.noise import Noise
from streamgauge.panprivate import LimitExceededError
from streamgauge.panprivate.validation import build_intrusions_error
from streamgauge.releases.release import format_utc_time
from streamgauge.runtime.adhoc.releases import add_adhoc_releases, plan_ended_release
from streamgauge.runtime.edits import find_edits
from streamgauge.runtime.format import loss_text, unit_text
from streamgauge.runtime.intrusion.count import INTRUSION_KIND, IntrusionCount, has_later_ticks
from streamgauge.runtime.intrusion.export import (
    NamedArray,
    ReleaseSnapshot,
    check_export_path,
    check_outside,
    describe_arrays,
    list_disk_files,
    reserve_export_folder,
    write_export,
)
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.live.state import CLEAN_SHUTDOWN_PART, CLEAN_SHUTDOWN_STATE, rerandomize_lost_runs
from streamgauge.runtime.options import Options
from streamgauge.runtime.published import read_ledger_log, read_tick
from streamgauge.runtime.publisher import Publisher
from streamgauge.runtime.release_run import ReleaseRun, build_removals, state_name
from streamgauge.runtime.resources import RunResources
from streamgauge.runtime.rollback import find_rollback
from streamgauge.runtime.session import OPENED_MARK
from streamgauge.store.drivers import has_store
from streamgauge.store.encryption import overwrite
from streamgauge.store.errors import AlreadyRunningError
from streamgauge.store.keys import default_key, redact_key
from streamgauge.store.store import LedgerEntry

PART_HEADER_BYTES = 2**16  # of the manifest and of array headers, for each part of the state
RERANDOMIZED_TEXT = (
    "every register and entry with data had noise added before this copy was made, and once "
    "more after it: the run continues from that state, which is not exported"
)
NO_POSITIONS_TEXT = "the position in a source, the batches that came and the number of events are not stored"
NEVER_RAN_TEXT = "pipeline must have run before an intrusion, got one without state"
NO_ACTIVE_RELEASE_TEXT = "pipeline must have an active release for an intrusion, got none: it has no state"


class IntrusionError(ValueError):
    """An intrusion that is refused, or that has no state to export. Nothing was drawn.

    With code `still_running` a run or a server is using the pipeline.
    """

    def __init__(self, message: str, code: str = "intrusion_refused") -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class IntrusionExport:
    """An intrusion that is on record, with the folder of the exported state."""

    folder: Path
    number: int
    tick: int
    manifest: Mapping[str, Any]


def check_intrusion(file: PipelineFile, to: Path) -> IntrusionCount:
    """Return the number of intrusions, or reject as far as possible without a key."""
    name = file.path.name
    if why := find_stream_refusal(file.stream):
        raise IntrusionError(f"{name}: {why}")
    if not has_store(file):
        raise IntrusionError(f"{name}: {NEVER_RAN_TEXT}")
    check_outside(to, file.folder)
    check_export_path(to)
    known = IntrusionCount.from_ledger_log(read_ledger_log(file), file.stream, read_tick(file))
    if known.remaining == 0:
        raise build_no_intrusion_error(file)
    return known


def find_stream_refusal(stream: Stream) -> str | None:
    """Return the reason why a stream must not be intruded upon, or None."""
    if stream.pan_private:
        return None
    if not stream.reports:
        return "pan_private must be true to survive an intrusion, got false: its state is exact, and encrypted"
    noise, plain = list(stream.reports), [name for name in stream.columns if name not in stream.reports]
    state = f"the state of {', '.join(noise)} is noise, which the collector has anyway"
    rest = f"; the state of {', '.join(plain)} is exact, and encrypted" if plain else ""
    return f'source must be other than "reports" for an intrusion: {state}{rest}'


def build_no_intrusion_error(file: PipelineFile) -> LimitExceededError:
    refusal = build_intrusions_error(file.stream.reserved_intrusions)
    refusal.add_note(file.path.name)
    return refusal


def intrude(
    file: PipelineFile,
    to: Path,
    *,
    noise: Noise | None = None,
    clock: Clock | None = None,
    step: StepHook = ignore_step,
) -> IntrusionExport:
    """Make an announced intrusion, and export the state to a new folder."""
    check_intrusion(file, to)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    with RunResources(file) as resources:
        try:
            publisher = resources.open_publisher(step)
        except AlreadyRunningError as refusal:
            way = "stop that run or server (Ctrl-C), intrude, then start it again"
            raise IntrusionError(f"{file.path.name}: {refusal}: {way}", "still_running") from None
        return Intrusion(file, publisher, clock or SystemClock(), noise).export(resources, to, step)


class Intrusion:
    """An intrusion into an open store, under its lock."""

    def __init__(self, file: PipelineFile, publisher: Publisher, clock: Clock, noise: Noise | None) -> None:
        self.file, self.publisher, self.clock = file, publisher, clock
        self.store = publisher.store
        self.ledger_log = LedgerLog.read(self.store.ledger_entries(), file.stream.unit)
        self._check_store()
        self.state, self.runs = self.store.state(), list[ReleaseRun]()
        try:
            for name in self._list_releases():
                entry = self.ledger_log.releases[name]
                plan = plan_ended_release(file, entry, self.ledger_log)
                self.runs.append(ReleaseRun.load(plan, name, entry.first, self.state, noise))
                self.runs[-1].end_tick = entry.end_tick
            rerandomize_lost_runs(self.runs, self.state)
        except BaseException:
            self.forget()
            raise

    def forget(self) -> None:
        """Wipe the loaded and the continuing state.

        Both are in the store. Together with the memory of the next run either would be a second look.
        """
        for run in self.runs:
            run.forget()
        overwrite(self.state)

    def _check_store(self) -> None:
        """Reject a stream that is not the charged one, and a store that is not the newest."""
        changed = find_edits(add_adhoc_releases(self.file, self.ledger_log), (), self.ledger_log)
        if changed.refusals:
            raise IntrusionError(f"{self.file.path.name}: {'; '.join(changed.refusals)}")
        find_rollback(self.publisher, self.ledger_log, self.file.stream, Options(clock=self.clock))

    def _list_releases(self) -> list[str]:
        """Return the active releases that have state."""
        entries, tick = self.ledger_log.releases, self.store.tick
        active = [name for name, entry in entries.items() if has_later_ticks(entry, tick)]
        found = [name for name in active if state_name(name, 0) in self.state]
        if not found:
            why = NEVER_RAN_TEXT if active or not entries else NO_ACTIVE_RELEASE_TEXT
            raise IntrusionError(f"{self.file.path.name}: {why}")
        return found

    @property
    def other_arrays(self) -> dict[str, NamedArray]:
        """State outside of the runs, by file name."""
        names = (name for name in self.state if not name.startswith("run/") and name != CLEAN_SHUTDOWN_PART)
        parts = {name: self.state[name] for name in names}
        return {f"{name}.npy": (name, np.frombuffer(part, np.uint8)) for name, part in parts.items()}

    def export(self, resources: RunResources, to: Path, step: StepHook) -> IntrusionExport:
        """Draw, commit, and export the state in between; wipe everything else."""
        try:
            return self._export(resources, to, step)
        finally:
            self.forget()

    def _export(self, resources: RunResources, to: Path, step: StepHook) -> IntrusionExport:
        size = sum(map(len, self.state.values())) + PART_HEADER_BYTES * (1 + len(self.state))  # an upper bound
        with reserve_export_folder(to, size) as partial:
            snapshots = [self._capture_release(run) for run in self.runs]
            act = self._commit_intrusion()
            manifest = self._build_public_manifest(act) | {"journal_is_empty": self.store.empty_journal()}
            resources.close_store()
            step("state_copied")
            manifest |= self._build_state_manifest(snapshots)
            files = {name: each for release in snapshots for name, each in release.files.items()} | self.other_arrays
            write_export(partial, to, {name: array for name, (_, array) in files.items()}, manifest)
        return IntrusionExport(to, act.body["number"], act.body["tick"], manifest)

    def _capture_release(self, run: ReleaseRun) -> ReleaseSnapshot:
        try:
            return ReleaseSnapshot.capture(run)
        except LimitExceededError:
            raise build_no_intrusion_error(self.file) from None

    def _commit_intrusion(self) -> LedgerEntry:
        """Commit the continuing state and the ledger entry.

        Then write the rollback guard and show the commit to readers.
        """
        number = IntrusionCount.from_ledger_log(self.ledger_log, self.file.stream).total + 1
        names = [run.name for run in self.runs]
        body = {"number": number, "tick": self.store.tick, "releases": names}
        act = LedgerEntry(INTRUSION_KIND, body, time=self.clock.now())
        state = {name: part for run in self.runs for name, part in run.save_state().items()}
        removed = build_removals(self.state, names)  # no state of another release stays next to the export
        try:
            self.publisher.commit(acts=[act], state={**removed, **state, **CLEAN_SHUTDOWN_STATE})
        finally:
            overwrite(state)
        return act

    def _build_public_manifest(self, act: LedgerEntry) -> dict[str, Any]:
        opened = int(self.store.marks().get(OPENED_MARK, b"0"))
        return {
            "pipeline": self.file.path.name,
            "store": self.store.identity,
            "intrusion": act.body["number"],
            "time": format_utc_time(act.time),
            "tick": act.body["tick"],
            "open_tick": opened if opened > act.body["tick"] else None,
            "protects": unit_text(self.file.stream.unit),
            "budget": loss_text(self.file.stream.budget),
            "noise_description": RERANDOMIZED_TEXT,
            "positions": [],
            "positions_description": NO_POSITIONS_TEXT,
        }

    def _build_state_manifest(self, snapshots: list[ReleaseSnapshot]) -> dict[str, Any]:
        key = redact_key(self.file.stream.key or default_key(self.file.path))
        return {
            "releases": [release.as_json() for release in snapshots],
            "other_state": describe_arrays(self.other_arrays),
            "disk": {"folder": str(self.file.folder), "key": key, "files": list_disk_files(self.file.folder)},
        }
