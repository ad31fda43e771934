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

An intrusion happens between two runs (`intrude`), or between two rounds of an open run (`announce_intrusion`). Another
process must not draw for an open run, which has no key that opens its store. The open run adds noise to its own
registers, and commits them with the entry. If it is killed afterwards, the next run rerandomizes them.
"""

import resource
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.clock import Clock, SystemClock
from streamgauge.config.settings import PipelineFile, Stream
from streamgauge.interfaces import StepHook, ignore
from streamgauge.noise import Noise
from streamgauge.panprivate import LimitExceededError
from streamgauge.panprivate.validation import build_intrusions_error
from streamgauge.releases.release import format_utc_time
from streamgauge.runtime.adhoc.releases import add_adhoc_releases, plan_ended_release
from streamgauge.runtime.edits import find_edits
from streamgauge.runtime.format import loss_text, unit_text
from streamgauge.runtime.intrusion.count import INTRUSION_KIND, IntrusionCount, has_later_ticks
from streamgauge.runtime.intrusion.export import (
    EXPORT_LOST_TEXT,
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
from streamgauge.runtime.resources import acquire_lock, open_publisher
from streamgauge.runtime.rollback import find_rollback
from streamgauge.runtime.ticks import OPENED_MARK
from streamgauge.store.drivers import has_store
from streamgauge.store.encryption import SECRET_PART, overwrite
from streamgauge.store.errors import AlreadyRunningError
from streamgauge.store.keys import default_key, redact_key
from streamgauge.store.store import LedgerEntry

if TYPE_CHECKING:
    from streamgauge.runtime.session import RunSession

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

    @property
    def is_fault(self) -> bool:
        """True if it is a failure of the machine, and not a refusal."""
        return self.code in ("export_failed", "intrusion_failed", "no_disk_space")


FAILED_MESSAGE = "the intrusion failed: the ledger shows if it is on record, the curator's log has the reason"
PUBLIC_CODES = {
    "intrusions_exhausted": "no_intrusion_left",
    "export_exists": "folder_exists",
    "intrusion_refused": "intrusion_rejected",
    "still_running": "intrusion_rejected",
    "export_unwritable": "no_disk_space",
}  # by the code of an error


def to_public_intrusion_error(failure: Exception) -> IntrusionError:
    """Return the public error of a failure: a code, and words that follow from declarations and the disk."""
    code = PUBLIC_CODES.get(getattr(failure, "code", ""), "intrusion_failed")
    words = (
        FAILED_MESSAGE if code == "intrusion_failed" else ": ".join([*getattr(failure, "__notes__", ()), str(failure)])
    )
    return IntrusionError(words, "export_failed" if words.endswith(EXPORT_LOST_TEXT) else code)


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


@dataclass
class IntrusionProgress:
    """How far an intrusion got, for a caller that handles its failure."""

    has_drawn: bool = False
    is_committed: bool = False


def intrude(
    file: PipelineFile, to: Path, *, noise: Noise | None = None, clock: Clock | None = None, step: StepHook = ignore
) -> IntrusionExport:
    """Make an announced intrusion into a stopped pipeline, and export the state to a new folder."""
    check_intrusion(file, to)
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    clock = clock or SystemClock()
    with ExitStack() as lock, ExitStack() as store:
        try:
            acquire_lock(file, lock)
        except AlreadyRunningError as refusal:
            way = "stop that run or server (Ctrl-C), intrude, then start it again"
            raise IntrusionError(f"{file.path.name}: {refusal}: {way}", "still_running") from None
        publisher = open_publisher(file, step, store)
        ledger_log = LedgerLog.read(publisher.store.ledger_entries(), file.stream.unit)
        _check_store(file, publisher, ledger_log, clock)
        state, runs = publisher.store.state(), list[ReleaseRun]()
        try:
            _load_runs(file, publisher, ledger_log, state, noise=noise, runs=runs)
            names = [run.name for run in runs]
            intrusion = Intrusion(
                file,
                publisher,
                ledger_log,
                runs,
                {name: part for name, part in state.items() if not name.startswith("run/")},
                time=clock.now(),
                step=step,
                also={**build_removals(state, names), **CLEAN_SHUTDOWN_STATE},
            )
            return intrusion.export(to, IntrusionProgress(), close_store=store.close)
        finally:  # either state, together with the memory of the next run, would be a second look
            for run in runs:
                run.forget()
            overwrite(state)


def _check_store(file: PipelineFile, publisher: Publisher, ledger_log: LedgerLog, clock: Clock) -> None:
    """Reject a stream that is not the charged one, and a store that is not the newest."""
    changed = find_edits(add_adhoc_releases(file, ledger_log), (), ledger_log)
    if changed.refusals:
        raise IntrusionError(f"{file.path.name}: {'; '.join(changed.refusals)}")
    find_rollback(publisher, ledger_log, file.stream, Options(clock=clock))


def _load_runs(
    file: PipelineFile,
    publisher: Publisher,
    ledger_log: LedgerLog,
    state: Mapping[str, bytes],
    *,
    noise: Noise | None,
    runs: list[ReleaseRun],
) -> None:
    """Load the active releases that have state into `runs`."""
    entries, tick = ledger_log.releases, publisher.store.tick
    active = [name for name, entry in entries.items() if has_later_ticks(entry, tick)]
    found = [name for name in active if state_name(name, 0) in state]
    if not found:
        why = NEVER_RAN_TEXT if active or not entries else NO_ACTIVE_RELEASE_TEXT
        raise IntrusionError(f"{file.path.name}: {why}")
    for name in found:
        entry = entries[name]
        plan = plan_ended_release(file, entry, ledger_log)
        runs.append(ReleaseRun.load(plan, name, entry.first, state, noise))
        runs[-1].end_tick = entry.drain_tick
    rerandomize_lost_runs(runs, state)


def announce_intrusion(session: "RunSession", to: Path, time: int, progress: IntrusionProgress) -> IntrusionExport:
    """Make an announced intrusion into an open run, between two rounds. The run continues with the new state."""
    file, ledger_log = session.file, session.ledger_log
    if why := find_stream_refusal(file.stream):
        raise IntrusionError(f"{file.path.name}: {why}")
    check_outside(to, file.folder)
    runs = [run for run in session.runs if run.runs and not run.is_finished]
    if not runs:
        raise IntrusionError(f"{file.path.name}: {NO_ACTIVE_RELEASE_TEXT}")
    if IntrusionCount.from_ledger_log(ledger_log, file.stream, session.publisher.store.tick).remaining == 0:
        raise build_no_intrusion_error(file)
    secret = {SECRET_PART: session.secret}  # the store is sealed, so a commit needs all parts
    publisher, step = session.publisher, session.options.step
    intrusion = Intrusion(file, publisher, ledger_log, runs, secret, time=time, step=step, also=secret)
    return intrusion.export(to, progress)


@dataclass
class Intrusion:
    """An intrusion into runs in memory, under the lock of their store."""

    file: PipelineFile
    publisher: Publisher
    ledger_log: LedgerLog
    runs: Sequence[ReleaseRun]
    other_state: Mapping[str, bytes]  # state outside of the runs
    time: int  # of the ledger entry
    step: StepHook = ignore
    also: Mapping[str, bytes | None] = field(default_factory=dict)  # other changes of the stored state

    @property
    def other_arrays(self) -> dict[str, NamedArray]:
        """State outside of the runs, by file name."""
        parts = {name: part for name, part in self.other_state.items() if name != CLEAN_SHUTDOWN_PART}
        return {f"{name}.npy": (name, np.frombuffer(part, np.uint8)) for name, part in parts.items()}

    def export(
        self, to: Path, progress: IntrusionProgress, close_store: Callable[[], None] = lambda: None
    ) -> IntrusionExport:
        """Draw, commit, and export the state in between."""
        with reserve_export_folder(to, self._compute_size()) as partial:
            progress.has_drawn = True
            snapshots = [self.capture_release(run) for run in self.runs]
            act = self._commit_intrusion()
            progress.is_committed = True
            journal = self.publisher.store.empty_journal()
            manifest = self._build_public_manifest(act) | {"journal_is_empty": journal}
            close_store()
            self.step("state_copied")
            manifest |= self._build_state_manifest(snapshots)
            files = {name: each for release in snapshots for name, each in release.files.items()} | self.other_arrays
            write_export(partial, to, {name: array for name, (_, array) in files.items()}, manifest)
        return IntrusionExport(to, act.body["number"], act.body["tick"], manifest)

    def _compute_size(self) -> int:
        """Return an upper bound of the bytes of the export."""
        state = self._save_runs()
        size = sum(len(part or b"") for part in [*state.values(), *self.other_state.values()])
        overwrite(state)
        return size + PART_HEADER_BYTES * (1 + len(state) + len(self.other_state))

    def _save_runs(self) -> dict[str, bytes | None]:
        return {name: part for run in self.runs for name, part in run.save_state().items()}

    def capture_release(self, run: ReleaseRun) -> ReleaseSnapshot:
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
        body = {"number": number, "tick": self.publisher.store.tick, "releases": names}
        act = replace(self.ledger_log.note(INTRUSION_KIND, body), time=self.time)
        state = self._save_runs()
        try:
            self.publisher.commit(acts=[act], state={**state, **self.also})
        finally:
            overwrite(state)
        return act

    def _build_public_manifest(self, act: LedgerEntry) -> dict[str, Any]:
        opened = int(self.publisher.store.marks().get(OPENED_MARK, b"0"))
        return {
            "pipeline": self.file.path.name,
            "store": self.publisher.store.identity,
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
            "releases": [release.to_json() for release in snapshots],
            "other_state": describe_arrays(self.other_arrays),
            "disk": {"folder": str(self.file.folder), "key": key, "files": list_disk_files(self.file.folder)},
        }
