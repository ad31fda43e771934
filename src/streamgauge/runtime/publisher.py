"""Commit, then publish: the only path by which a release gets out.

    draw -> commit (state, ledger, position and releases in one transaction) -> rollback guard -> sinks -> marks

Promise
    Only committed releases are published, and every committed release is published. If the mark of a sink is behind
    the store, the sink is cut back to the mark. It is then written again from the store, with identical values. So
    no tick is published from two draws, and none is lost, wherever the run is killed. The position of a sink is
    stored per release. So a release that is added to a sink later arrives with all its ticks.

    After a rollback that was paid for, a sink has the same ticks as its store. Proof: a sink may have another history
    at the mark, or nothing. `Sink.diverged` detects that. The sink loses its marks in the commit of the payment, and
    is then written from its beginning. All of it is stamped with a commit of now. So a crash in the middle leaves a
    trace that no older copy of the store knows.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from streamgauge.config.settings import PipelineFile, SinkSettings
from streamgauge.interfaces import Sink, StepHook, ignore
from streamgauge.plan.planner import build_schema, outline_layout, outline_schema
from streamgauge.releases.release import ReleaseSchema, TickRelease
from streamgauge.releases.schema import base_name
from streamgauge.sinks import SinkError
from streamgauge.store.rollback_guard import GUARD_MARK, GUARD_MARK_VALUE, RollbackGuard, collect_charges
from streamgauge.store.store import LedgerEntry, Store, Trace

FIRST_STAMP_KEY = ""  # key among the releases of a sink: the first commit of its stamps


@dataclass
class SinkCursor:
    """A sink and its position in the history of each release.

    It gets all releases of the file if none are named, and never an ad hoc release.
    """

    sink: Sink
    releases: tuple[str, ...]
    written_commits: dict[str, int] = field(default_factory=dict)  # last written commit, by release
    needs_rewrite: bool = False  # True if it must be written from its beginning
    adhoc_releases: frozenset[str] = frozenset()  # releases that analysts requested

    @property
    def position_mark(self) -> str:
        """Name of the mark with the position in the sink."""
        return f"sink/{self.sink.name}"

    @property
    def commit_mark(self) -> str:
        """Name of the mark with the last written commit of each release."""
        return f"entry/{self.sink.name}"

    def wants(self, release: str) -> bool:
        name = base_name(release)
        return name not in self.adhoc_releases and (not self.releases or name in self.releases)

    def misses(self, release: str, number: int) -> bool:
        """Return whether a commit of a release belongs into the sink and is not there."""
        return self.wants(release) and self.written_commits.get(release, 0) < number

    def next_written_commits(self, number: int, releases: Iterable[str]) -> dict[str, int]:
        """Return the written commits after these releases are written up to `number`."""
        wanted = {name: number for name in releases if self.misses(name, number)}
        return self.written_commits | wanted

    def build_reset_marks(self, number: int) -> dict[str, bytes]:
        """Return the marks of a sink that is rewritten.

        Its stamps begin with commit `number`.
        """
        marks = {self.position_mark: b"", self.commit_mark: encode_written_commits({FIRST_STAMP_KEY: number})}
        return marks if self.needs_rewrite else {}


@dataclass
class Publisher:
    """A store, the rollback guard next to its key, and the sinks."""

    store: Store
    rollback_guard: RollbackGuard
    sink_cursors: Sequence[SinkCursor]
    step: StepHook = ignore
    schemas: dict[str, ReleaseSchema] = field(default_factory=dict)

    def commit(
        self,
        *,
        tick: int | None = None,
        released: Sequence[TickRelease] = (),
        acts: Sequence[LedgerEntry] = (),
        state: Mapping[str, bytes | None] | None = None,
        marks: Mapping[str, bytes] | None = None,
        entered: bool = False,
    ) -> None:
        """Commit everything in one transaction, then publish the releases.

        The order is the promise. The commit makes the draw the only one of its tick. The guard then knows it, so an
        older copy of the store is detected. Only then do readers (`Store.show`) and sinks see it.

        The rollback guard records every closed tick, with or without rows, and with `entered` any commit.
        """
        rows = [(each.release, each.tick, each.pack()) for each in released]
        self.step("releases_packed")
        all_marks = {**(marks or {}), **self._build_reset_marks()}
        self.store.commit(tick=tick, released=rows, acts=acts, entered=entered, state=state or {}, marks=all_marks)
        self.step("store_committed")
        if tick is not None or acts or entered:
            self.rollback_guard.write(self.store.trace, collect_charges(self.store.chained_entries()) if acts else None)
            self.step("guard_written")
            self.store.show()
        if released:
            for outlet in self.sink_cursors:
                self._write_sink(outlet, released, self.store.number)

    def resume(self) -> list[Trace]:
        """Find the position of each sink, and return the newest traces in the sinks.

        The traces may be beyond the marks. Rejects, before any charge, a sink or a guard that could not be written
        later.
        """
        self.rollback_guard.check_writable()
        marks = self.store.marks()
        found = [outlet.sink.resume(marks.get(outlet.position_mark) or None) for outlet in self.sink_cursors]
        traces = [Trace(*trace) for trace in found if trace is not None]
        self._check_sinks(all(map(self.store.knows, [*traces, *self.rollback_guard.traces()])))
        return traces

    def _check_sinks(self, newest: bool) -> None:
        """Reject sinks that changed since their last write.

        A changed sink is accepted, and rewritten, if another history explains the change.
        """
        for outlet in self.sink_cursors:
            astray = outlet.sink.diverged(lambda trace: self.store.knows(Trace(*trace)))
            if astray and newest:
                raise SinkError(astray)
            outlet.needs_rewrite = astray is not None

    def _build_reset_marks(self) -> dict[str, bytes]:
        number = self.store.number
        return {name: mark for outlet in self.sink_cursors for name, mark in outlet.build_reset_marks(number).items()}

    def _reset_sinks(self) -> None:
        """Reset the sinks that are rewritten. Their content stays until the first write."""
        if marks := self._build_reset_marks():
            self.store.mark(marks)
        for cursor in self.sink_cursors:
            if cursor.needs_rewrite:
                cursor.sink.resume(None)
                cursor.needs_rewrite = False

    def catch_up(self) -> None:
        """Publish committed releases that are in no sink yet, commit by commit.

        The rollback guard is written first.
        """
        self.rollback_guard.write(self.store.trace, collect_charges(self.store.chained_entries()))
        self.store.mark({GUARD_MARK: GUARD_MARK_VALUE})
        self.store.show()
        self._reset_sinks()
        marks = self.store.marks()
        for outlet in self.sink_cursors:
            wanted = [name for name in self.schemas if outlet.wants(name)]
            outlet.written_commits = dict(json.loads(marks.get(outlet.commit_mark) or b"{}"))
            self._catch_up(outlet, min((outlet.written_commits.get(name, 0) for name in wanted), default=0))
            outlet.written_commits = outlet.next_written_commits(self.store.number, wanted)

    def _catch_up(self, sink_cursor: SinkCursor, after: int) -> None:
        for number, rows in groupby(self.store.read_committed(after), key=lambda row: row[0]):
            released = [
                TickRelease.unpack(self.schemas[release], payload)
                for _, _, release, _, payload in rows
                if sink_cursor.misses(release, number)
            ]
            if released:
                self._write_sink(sink_cursor, released, number)

    def _write_sink(self, sink_cursor: SinkCursor, released: Sequence[TickRelease], number: int) -> None:
        """Write the missing releases of a commit, stamped with the sink's newest commit."""
        missed = [each for each in released if sink_cursor.misses(each.release, number)]
        written = sink_cursor.next_written_commits(number, self.schemas)
        marks = {sink_cursor.commit_mark: encode_written_commits(written)}
        if missed:
            newest = max(written.values())
            marks[sink_cursor.position_mark] = sink_cursor.sink.write(missed, *self.store.trace_at(newest))
        self.step("sink_written")
        self.store.mark(marks)
        sink_cursor.written_commits = written
        self.step("sink_position_saved")


def encode_written_commits(written: Mapping[str, int]) -> bytes:
    return json.dumps(written, sort_keys=True).encode()


def outline_schemas(file: PipelineFile, acts: Sequence[LedgerEntry], sink: SinkSettings) -> list[ReleaseSchema]:
    """Return the columns of all releases of a sink.

    Charged releases come first, then those of the file. Ended releases stay in the list. So a header changes only if a
    release with other columns is added.
    """

    def is_wanted(name: str) -> bool:
        return not sink.releases or base_name(name) in sink.releases

    found = {
        act.body["release"]: build_schema(act.body["release"], outline_layout(act.body["layout"]))
        for act in acts
        if act.kind == "charge" and "requested_by" not in act.body and is_wanted(act.body["release"])
    }
    for release in file.releases:
        if release.requested_by is None and release.name not in found and is_wanted(release.name):
            found[release.name] = outline_schema(file, release)
    return list(found.values())


def build_schemas(acts: Sequence[LedgerEntry], contributions: str = "") -> dict[str, ReleaseSchema]:
    """Return the schema of every charged release, without discovered groups."""
    return {
        act.body["release"]: build_schema(act.body["release"], act.body["layout"], contributions)
        for act in acts
        if act.kind == "charge"
    }
