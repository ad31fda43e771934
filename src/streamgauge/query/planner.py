"""The planner: from a pipeline file to releases that can be run, reading declarations only.

A planned release has its parts (which statistics, calibrated to which loss), and the shape of what readers
will see: the same places at every tick, whatever the data, unless groups are discovered.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, product
from typing import NotRequired, TypedDict

from streamgauge.privacy import Loss, XAdjacent
from streamgauge.query.alerts import Watched, watched_of
from streamgauge.query.canonical import asked_of, canonical
from streamgauge.query.chosen import Choice, Choices, choice_of, kept
from streamgauge.query.local_parts import local_parts, priced
from streamgauge.query.parts import Part, parts_of
from streamgauge.query.query import Query, Refused
from streamgauge.query.released import Place, Shape
from streamgauge.query.rollups import width_of
from streamgauge.query.settings import Label, PipelineFile, Release, Stream
from streamgauge.query.shapes import RENAME
from streamgauge.query.sql import parse
from streamgauge.query.user_parts import user_parts


class Layout(TypedDict):
    """The shape of a release as JSON: columns of groups with their labels, and levels that keep some."""

    measures: list[str]
    groups: list[tuple[str, list[Label]]]
    levels: list[int]
    discovered: NotRequired[str]  # the column whose groups come with time


def shape_of(release: str, layout: Layout, contributions: str = "") -> Shape:
    """All places of all levels, the last column of groups running fastest; none that are discovered."""
    places = [
        Place(level, tuple(zip([name for name, _ in groups], labels, strict=True)))
        for level in layout["levels"]
        for groups in [layout["groups"][:level]]
        for labels in product(*(labels for _, labels in groups))
    ]
    found = layout.get("discovered")
    return Shape(release, tuple(layout["measures"]), () if found else tuple(places), found, contributions)


def outline_layout(layout: Layout) -> Layout:
    """Return a layout of the same columns and levels with one label for each column."""
    return {**layout, "groups": [(name, labels[:1]) for name, labels in layout["groups"]]}


@dataclass(frozen=True)
class Planned:
    """A release that can be run."""

    release: Release
    query: Query
    parts: tuple[Part, ...]
    stream: Stream
    block: str  # its canonical text, which the store pins
    mechanisms: tuple[Choice | None, ...] = ()  # of its parts, which the charge pins
    alerts: tuple[Watched, ...] = ()  # its last measures

    @property
    def name(self) -> str:
        return self.release.name

    @property
    def layout(self) -> Layout:
        """What readers see at every tick, in short."""
        return build_layout(self.query, self.alerts)

    @property
    def columns(self) -> tuple[str, ...]:
        """What it is grouped by."""
        key = self.query.key
        return tuple(group.name for group in self.query.groups) if key is None else (key.name,)

    @property
    def groups(self) -> int:
        """How many groups all levels have, or, where they are discovered, are released at most."""
        return sum(part.groups for part in self.parts) if self.query.key else sum(self._widths.values())

    @cached_property
    def offsets(self) -> dict[int, int]:
        """Where the places of each level begin."""
        begins = accumulate(self._widths.values(), initial=0)
        return dict(zip(self._widths, begins, strict=False))

    @property
    def _widths(self) -> dict[int, int]:
        """How many groups each level has."""
        return {level: width_of(self.query, level) for level in self.query.levels}

    def last_tick(self, first: int) -> int | None:
        """The last tick of the stream that it can have if it starts at `first`."""
        ends = [end for end in (self.stream.ticks, self._horizon_from(first)) if end is not None]
        return min(ends, default=None)

    def _horizon_from(self, first: int) -> int | None:
        return None if self.release.horizon is None else first + self.release.horizon - 1


def build_layout(query: Query, alerts: tuple[Watched, ...]) -> Layout:
    """Return what readers see of a query and its alerts at every tick."""
    groups = [(group.name, list(group.labels)) for group in query.groups]
    names = [aggregate.name for aggregate in query.aggregates]
    names += [alert.name(names) for alert in alerts]
    layout: Layout = {"measures": names, "groups": groups, "levels": list(query.levels)}
    return layout if query.key is None else {**layout, "discovered": query.key.name}


def outline_shape(file: PipelineFile, release: Release) -> Shape:
    """Return the columns of a release without planning it: a shape with one place a level."""
    query = parse(release.sql, file.stream, file.lookups)
    layout = build_layout(query, watched_of(query, release.alerts))
    return shape_of(release.name, outline_layout(layout))


def planned(file: PipelineFile, release: Release, mechanisms: Choices | None = None) -> Planned:
    """Plans one release; refuses what cannot be kept, naming the release and the rule.

    `mechanisms` are those that it was charged with; of one that was not charged they are chosen now.
    """
    try:
        query = parse(release.sql, file.stream, file.lookups)
        release = priced(release, query, file.stream)
        parts = _parts(release, query, file.stream)
        alerts = watched_of(query, release.alerts)
        chosen = [choice_of(part.statistic) for part in parts] if mechanisms is None else mechanisms
        parts = kept(parts, chosen)
    except ValueError as refusal:
        raise Refused(f"{file.path.name}: release {release.name}: {refusal}") from None
    told = replace(release, sql=query.text, alerts=tuple(each.alert for each in alerts))
    block = canonical(asked_of(told))
    plan = Planned(release, query, parts, file.stream, block, tuple(chosen), alerts)
    _check_names(file, plan)
    return plan


def replanned(plan: Planned, loss: Loss) -> Planned:
    """Plan a release again at another loss, with mechanisms chosen for it."""
    release = replace(plan.release, loss=loss, share=None)
    return replace(plan, release=release, parts=_parts(release, plan.query, plan.stream))


def _parts(release: Release, query: Query, stream: Stream) -> tuple[Part, ...]:
    if query.report is not None:
        return local_parts(release, query, stream)
    return (user_parts if isinstance(stream.unit, XAdjacent) else parts_of)(release, query, stream)


def _check_names(file: PipelineFile, plan: Planned) -> None:
    """Refuses columns that readers could not tell apart, before anything is charged."""
    layout, columns = plan.layout, len(plan.query.aggregates)
    few = outline_layout(layout)
    own: Layout = {**few, "measures": few["measures"][:columns]}
    for told, way in ((own, RENAME), (few, "give the alert a name of its own, name = ...")):
        try:
            shape_of(plan.name, told)
        except ValueError as refusal:
            raise Refused(f"{file.path.name}: {refusal}".replace(RENAME, way)) from None
