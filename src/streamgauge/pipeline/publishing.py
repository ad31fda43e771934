"""Commit, then publish: the only way by which a release leaves.

    draw -> commit (state, ledger, position and releases in one transaction) -> witness -> sinks -> marks

Promise
    Only what was committed leaves, and whatever was committed leaves: a sink whose mark is behind the store
    is cut back to the mark and written again from the store, with the very same values. So no tick is
    published from two draws, and none is lost, wherever the run was killed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from streamgauge.pipeline.book import base_name
from streamgauge.pipeline.options import Step, nothing
from streamgauge.pipeline.spent import spent_by
from streamgauge.pipeline.store import Act, Store, Trace
from streamgauge.pipeline.witness import Witness
from streamgauge.query.planner import shape_of
from streamgauge.query.protocols import Sink
from streamgauge.query.released import Released, Shape


@dataclass
class Outlet:
    """A sink, and which releases it gets."""

    sink: Sink
    releases: tuple[str, ...]

    @property
    def position(self) -> str:
        """The mark that tells how far the sink was written."""
        return f"sink/{self.sink.name}"

    @property
    def entry(self) -> str:
        """The mark that tells up to which commit."""
        return f"entry/{self.sink.name}"

    def wants(self, release: str) -> bool:
        return not self.releases or base_name(release) in self.releases


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
    ) -> None:
        """Commits all of it, then lets the releases out."""
        rows = [(each.release, each.tick, each.pack()) for each in released]
        self.step("packed")
        self.store.commit(tick=tick, released=rows, acts=acts, state=state or {}, marks=marks or {})
        self.step("stored")
        if released or acts:
            self.witness.write(self.store.trace, spent_by(self.store.told_acts()) if acts else None)
        self.step("witnessed")
        if released:
            for outlet in self.outlets:
                self._let_out(outlet, released, self.store.number)

    def resume(self) -> list[Trace]:
        """Looks how far the sinks are; tells the newest traces found in them, even beyond their marks."""
        marks = self.store.marks()
        found = [outlet.sink.resume(marks.get(outlet.position)) for outlet in self.outlets]
        return [Trace(*trace) for trace in found if trace is not None]

    def catch_up(self) -> None:
        """Publishes what was committed and is in no sink yet, commit by commit; the witness knows first."""
        self.witness.write(self.store.trace, spent_by(self.store.told_acts()))
        self.store.mark(self.witness.mark)
        marks = self.store.marks()
        for outlet in self.outlets:
            after = int(marks.get(outlet.entry, b"0"))
            for number, rows in groupby(self.store.published(after), key=lambda row: row[0]):
                released = [
                    Released.unpack(self.shapes[release], payload) for _, _, release, _, payload in rows
                ]
                self._let_out(outlet, released, number)

    def _let_out(self, outlet: Outlet, released: Sequence[Released], number: int) -> None:
        wanted = [each for each in released if outlet.wants(each.release)]
        marks = {outlet.entry: str(number).encode()}
        if wanted:
            marks[outlet.position] = outlet.sink.write(wanted, *self.store.trace_at(number))
        self.step("written")
        self.store.mark(marks)
        self.step("marked")


def shapes_of(acts: Sequence[Act]) -> dict[str, Shape]:
    """The shape of every release that was ever charged; without groups where these are discovered."""
    return {
        act.body["release"]: shape_of(act.body["release"], act.body["layout"])
        for act in acts
        if act.kind == "charge"
    }
