"""Commit, then publish: the only way by which a release leaves.

    draw -> commit (state, ledger, position and releases in one transaction) -> witness -> sinks -> marks

Promise
    Only what was committed leaves, and whatever was committed leaves: a sink whose mark is behind the store
    is cut back to the mark and written again from the store, with the very same values. So no tick is
    published from two draws, and none is lost, wherever the run was killed. How far a sink is, is known for
    each release, so one that is asked for later comes into it with all its ticks.

    After a rollback that was paid for, a sink has what its store has. Proof: one where another history stands
    at the mark, or nothing, is told so by `Sink.astray`, loses its marks in the very commit of the payment,
    and is then written from its beginning. All of that is stamped with a commit of now, so that a crash half
    way leaves a trace which no older copy of the store knows.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from streamgauge.pipeline.book import base_name
from streamgauge.pipeline.options import Step, nothing
from streamgauge.pipeline.spent import spent_by
from streamgauge.pipeline.store import Act, Store, Trace
from streamgauge.pipeline.witness import KEPT, WITNESSED, Witness
from streamgauge.query.planner import outline_layout, outline_shape, shape_of
from streamgauge.query.protocols import Sink
from streamgauge.query.released import Released, Shape
from streamgauge.query.settings import PipelineFile, SinkSettings
from streamgauge.sinks import ForeignSink

STAMPED = ""  # among the releases of a sink: the commit that its stamps begin with


@dataclass
class Outlet:
    """A sink, and which releases it gets: all of the file, if none are named; none that was asked for."""

    sink: Sink
    releases: tuple[str, ...]
    written: dict[str, int] = field(default_factory=dict)  # for each release, up to which commit
    anew: bool = False  # whether it is to be written from its beginning
    asked: frozenset[str] = frozenset()  # releases that analysts asked for

    @property
    def position(self) -> str:
        """The mark that tells how far the sink was written."""
        return f"sink/{self.sink.name}"

    @property
    def entry(self) -> str:
        """The mark that tells up to which commit, for each release."""
        return f"entry/{self.sink.name}"

    def wants(self, release: str) -> bool:
        name = base_name(release)
        return name not in self.asked and (not self.releases or name in self.releases)

    def misses(self, release: str, number: int) -> bool:
        """Whether what a commit has of a release should be in the sink, and is not."""
        return self.wants(release) and self.written.get(release, 0) < number

    def after(self, number: int, releases: Iterable[str]) -> dict[str, int]:
        """What will be written of those releases when the commits up to one are."""
        wanted = {name: number for name in releases if self.misses(name, number)}
        return self.written | wanted

    def forgotten(self, number: int) -> dict[str, bytes]:
        """The marks of a sink that begins anew, with no commit before one in its stamps."""
        return {self.position: b"", self.entry: entry_of({STAMPED: number})} if self.anew else {}


@dataclass
class Publisher:
    """A store, the witness beside its key, and the sinks behind it."""

    store: Store
    witness: Witness
    outlets: Sequence[Outlet]
    step: Step = nothing
    shapes: dict[str, Shape] = field(default_factory=dict)

    def commit(
        self,
        *,
        tick: int | None = None,
        released: Sequence[Released] = (),
        acts: Sequence[Act] = (),
        state: Mapping[str, bytes | None] | None = None,
        marks: Mapping[str, bytes] | None = None,
        entered: bool = False,
    ) -> None:
        """Commits all of it, then lets the releases out; where it is `entered`, the witness knows of it, too,
        even if there is nothing to let out."""
        rows = [(each.release, each.tick, each.pack()) for each in released]
        self.step("packed")
        noted = {**(marks or {}), **self._forgotten()}
        history: dict[str, Any] = {"tick": tick, "released": rows, "acts": acts, "entered": entered}
        self.store.commit(**history, state=state or {}, marks=noted)
        self.step("stored")
        if released or acts or entered:
            self.witness.write(self.store.trace, spent_by(self.store.told_acts()) if acts else None)
            self.step("witnessed")
            self.store.show()
        if released:
            for outlet in self.outlets:
                self._let_out(outlet, released, self.store.number)

    def resume(self) -> list[Trace]:
        """Looks how far the sinks are; tells the newest traces found in them, even beyond their marks.

        What could not be published later is refused here, before anything is charged.
        """
        self.witness.ready()
        marks = self.store.marks()
        found = [outlet.sink.resume(marks.get(outlet.position) or None) for outlet in self.outlets]
        traces = [Trace(*trace) for trace in found if trace is not None]
        self._compare(all(map(self.store.knows, [*traces, *self.witness.traces()])))
        return traces

    def _compare(self, newest: bool) -> None:
        """Looks for sinks that are not as they were left: refused, unless another history tells why."""
        for outlet in self.outlets:
            astray = outlet.sink.astray(lambda trace: self.store.knows(Trace(*trace)))
            if astray and newest:
                raise ForeignSink(astray)
            outlet.anew = astray is not None

    def _forgotten(self) -> dict[str, bytes]:
        number = self.store.number
        return {name: mark for outlet in self.outlets for name, mark in outlet.forgotten(number).items()}

    def _begin_anew(self) -> None:
        """Lets go of what the sinks have that begin anew; it stays there until their first write."""
        anew = [outlet for outlet in self.outlets if outlet.anew]
        if anew:
            self.store.mark(self._forgotten())
        for outlet in anew:
            outlet.sink.resume(None)
            outlet.anew = False

    def catch_up(self) -> None:
        """Publishes what was committed and is in no sink yet, commit by commit; the witness knows first."""
        self.witness.write(self.store.trace, spent_by(self.store.told_acts()))
        self.store.mark({WITNESSED: KEPT})
        self.store.show()
        self._begin_anew()
        marks = self.store.marks()
        for outlet in self.outlets:
            wanted = [name for name in self.shapes if outlet.wants(name)]
            outlet.written = written_of(marks.get(outlet.entry), wanted)
            self._catch_up(outlet, min((outlet.written.get(name, 0) for name in wanted), default=0))
            outlet.written = outlet.after(self.store.number, wanted)

    def _catch_up(self, outlet: Outlet, after: int) -> None:
        for number, rows in groupby(self.store.published(after), key=lambda row: row[0]):
            released = [
                Released.unpack(self.shapes[release], payload)
                for _, _, release, _, payload in rows
                if outlet.misses(release, number)
            ]
            if released:
                self._let_out(outlet, released, number)

    def _let_out(self, outlet: Outlet, released: Sequence[Released], number: int) -> None:
        """Writes to a sink what it misses of a commit, stamped with the newest commit that is in the sink."""
        missed = [each for each in released if outlet.misses(each.release, number)]
        written = outlet.after(number, self.shapes)
        marks = {outlet.entry: entry_of(written)}
        if missed:
            newest = max(written.values())
            marks[outlet.position] = outlet.sink.write(missed, *self.store.trace_at(newest))
        self.step("written")
        self.store.mark(marks)
        outlet.written = written
        self.step("marked")


def entry_of(written: Mapping[str, int]) -> bytes:
    return json.dumps(written, sort_keys=True).encode()


def written_of(mark: bytes | None, wanted: Iterable[str]) -> dict[str, int]:
    """What `entry_of` was given; earlier versions noted one commit for all releases."""
    told = json.loads(mark or b"{}")
    return dict(told) if isinstance(told, dict) else dict.fromkeys(wanted, int(told))


def outline_shapes(file: PipelineFile, acts: Sequence[Act], sink: SinkSettings) -> list[Shape]:
    """Return the columns of all releases that a sink gets: charged ones, then those of the file.

    Releases that have ended stay in it, so a header changes only if a release with other columns comes.
    """

    def wanted(name: str) -> bool:
        return not sink.releases or base_name(name) in sink.releases

    found = {
        act.body["release"]: shape_of(act.body["release"], outline_layout(act.body["layout"]))
        for act in acts
        if act.kind == "charge" and "asked" not in act.body and wanted(act.body["release"])
    }
    for release in file.releases:
        if release.asked is None and release.name not in found and wanted(release.name):
            found[release.name] = outline_shape(file, release)
    return list(found.values())


def shapes_of(acts: Sequence[Act], contributions: str = "") -> dict[str, Shape]:
    """The shape of every release that was ever charged; without groups where these are discovered."""
    return {
        act.body["release"]: shape_of(act.body["release"], act.body["layout"], contributions)
        for act in acts
        if act.kind == "charge"
    }
