"""Statistics under audit: the releases of their counters, which is the most that readers can see, or their own.

`StatisticSubject` builds the exact vectors of neighbouring streams, finds the worst, and attacks the counter's noisy
vectors, from which all publications are decoded: the loss is that of the counter. `PublishedSubject` runs the whole
statistic, one group for every run, and attacks the decoded estimates: nothing but the vectors may get out, also with
discovered keys.

    SyntheticEvent("a", group=0, user=7)    one event: its value, its group, its user
    a stream                                the events of each tick, in order

A statistic runs such streams through its own run, so that events are clamped, bounded and dropped as in service. Only
its counter is replaced by one that records the exact vectors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, ClassVar

import numpy as np

from streamgauge.audit.exact.linear import LikelihoodRatio, build_view, fix_streams
from streamgauge.audit.exact.worst_case import Pattern, WorstCase, compute_loss, list_patterns
from streamgauge.audit.subject import ClaimSubject, Pair
from streamgauge.audit.subjects.layouts import run_layout
from streamgauge.continual import Strategy
from streamgauge.continual.state_io import BlankNoise
from streamgauge.noise import Ints, NoiseSum
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Loss, Tick, Unit, User
from streamgauge.statistics import EventRun, RangeRelease, Ranking, Statistic
from streamgauge.statistics.run_state import RunState
from streamgauge.statistics.user_bounds import UserContributions

BACKGROUND_EVENTS = 5  # events of other people in every tick of a busy stream


@dataclass(frozen=True)
class SyntheticEvent:
    """One event."""

    value: Any
    group: int = 0
    user: int = 0


UnitEvents = tuple[SyntheticEvent, ...]  # what the events of a unit are, in turn
EventStream = tuple[tuple[SyntheticEvent, ...], ...]  # the events of each tick
ColumnBuilder = Callable[[list[Any]], Mapping[str, Any]]  # of what events carry: the columns that a run is given


def to_value_columns(values: list[Any]) -> Mapping[str, Any]:
    """Return one column of values, for most statistics."""
    return {"values": values}


def to_user_columns(users: list[Any]) -> Mapping[str, Any]:
    """Return one column of users, for statistics of visits."""
    return {"users": users}


def build_columns(
    statistic: Statistic[Any], events: Sequence[SyntheticEvent], to_columns: ColumnBuilder
) -> dict[str, Any]:
    """Build the arguments of a run for the events of one tick."""
    rows = dict(to_columns([event.value for event in events]))
    rows["groups"] = np.array([event.group for event in events], np.int64)
    if statistic.users_reason and "users" not in rows:
        rows["users"] = np.array([event.user for event in events], np.int64)
    return rows


class VectorRecorder:
    """Stands in for the run of a counter, and writes down what it is to count."""

    intrusions = 0

    def __init__(self, statistic: Statistic[Any], width: int) -> None:
        self.statistic = statistic
        self.width = width
        self.vectors: list[Ints] = []

    @property
    def tick(self) -> int:
        return len(self.vectors)

    def step(self, vector: Ints) -> Ints:
        self.vectors.append(vector.copy())
        return np.zeros_like(vector)

    def widen(self, more: int) -> None:
        self.width += more

    def noise(self) -> NoiseSum:
        return self.statistic.linear_counter.noise_at(self.tick)


def record_vectors(statistic: Statistic[Any], stream: EventStream, width: int, to_columns: ColumnBuilder) -> Ints:
    """Record the exact vectors of a stream, (places, ticks)."""
    memory = statistic.initial_memory(width)
    recorder: Any = VectorRecorder(statistic, statistic.vector_size(width, memory))
    public = statistic.counter.start(width, BlankNoise()) if statistic.has_public_counts else None
    users = UserContributions.from_unit(statistic.unit) if statistic.bounds_users else None
    run = EventRun(statistic, width, None, RunState(recorder, public, memory, users))
    for events in stream:
        run.step(**build_columns(statistic, events, to_columns))
    written = np.zeros((recorder.width, len(stream)), np.int64)
    for tick, vector in enumerate(recorder.vectors):
        written[: len(vector), tick] = vector
    return written


@dataclass(frozen=True)
class NeighbouringStreams:
    """Two streams that differ in one unit, which is in these ticks."""

    pattern: Pattern
    one: EventStream
    other: EventStream
    description: str

    @property
    def name(self) -> str:
        return str(WorstCase(self.pattern, 0, f"carrying {self.description}"))

    def add_events(self, others: Mapping[int, Sequence[SyntheticEvent]], words: str) -> "NeighbouringStreams":
        """Return both streams with events of others, by the place of their tick."""
        one, other = (
            tuple((*events, *others.get(place, ())) for place, events in enumerate(stream))
            for stream in (self.one, self.other)
        )
        return replace(self, one=one, other=other, description=f"{self.description}, {words}")


def list_unit_events(
    unit: Unit, events: list[SyntheticEvent], is_varied: bool
) -> Iterator[tuple[UnitEvents, UnitEvents]]:
    """List the events of a unit and of its replacement: all alike, or in rotation."""
    what: list[UnitEvents] = [(event,) for event in events]
    if is_varied:
        for row in (events, sorted(events, key=lambda event: event.group)):
            what += [(*row[first:], *row[:first]) for first in range(len(row))]
    for one, other in product(what, what if unit.replace else [()]):
        if one != other:
            yield one, other


def _build_neighbours(
    unit: Unit, ticks: int, pattern: Pattern, one: UnitEvents, other: UnitEvents
) -> NeighbouringStreams:
    moves = unit.replace and not unit.consecutive
    there, instead = (pattern[:1], pattern[-1:]) if moves else (pattern, pattern)
    found = f"{_describe_events(one)} for {_describe_events(other)}" if other else _describe_events(one)
    streams = [
        tuple(
            tuple(what[(places.index(tick) * unit.events + n) % len(what)] for n in range(unit.events))
            if what and tick in places
            else ()
            for tick in range(1, ticks + 1)
        )
        for what, places in ((one, there), (other, instead))
    ]
    return NeighbouringStreams(pattern, streams[0], streams[1], found)


def _describe_events(events: UnitEvents) -> str:
    return f"{events[0].value!r}" if len(events) == 1 else f"{events[0].value!r}, {events[1].value!r}, .."


def add_background(pair: NeighbouringStreams, unit: Unit, values: Sequence[Any], width: int) -> NeighbouringStreams:
    """Add events of other people after the unit; a whole tick has no others."""
    if isinstance(unit, Tick):
        return pair
    others = {
        tick: [SyntheticEvent(values[(tick + n) % len(values)], n % width, 1 + n) for n in range(BACKGROUND_EVENTS)]
        for tick in range(len(pair.one))
    }
    return pair.add_events(others, "among others")


USERS_PER_RUN = 1000  # of one run, where runs have users of their own


@dataclass(frozen=True)
class StatisticSubject(ClaimSubject):
    """The noisy vectors of a statistic over the first ticks; events carry one of `event_values`."""

    claim: Statistic[Any]
    ticks: int
    event_values: Sequence[Any]
    width: int = 1  # groups
    to_columns: ColumnBuilder = to_value_columns

    @property
    def loss(self) -> Loss:
        """The loss that the noise of the counter is calibrated to, from which the claim follows."""
        return self.claim.counter.charged_loss

    @cached_property
    def strategy(self) -> Strategy:
        return self.claim.linear_counter.strategy(self.ticks)

    @cached_property
    def worst_neighbours(self) -> tuple[float, NeighbouringStreams]:
        """Of all neighbours that can be made of what is carried."""
        exact = lru_cache(maxsize=None)(self._record_vectors)  # many pairs have a stream in common
        vectors = ((pair, *pad_vectors(exact(pair.one), exact(pair.other))) for pair in self._list_neighbours())
        priced = ((compute_loss(self.strategy, one - other), pair) for pair, one, other in vectors)
        return max(priced, key=lambda known: known[0])

    def _list_neighbours(self) -> Iterator[NeighbouringStreams]:
        """List neighbours of the empty stream, or of a stream of one other unit if units are replaced.

        The events of a unit may carry different values, but not if these name the user. Others may carry the same
        later, which matters if earlier ticks are remembered: not if they are the user, who is removed and not back.
        """
        unit, of_users = self.claim.unit, isinstance(self.claim.unit, User)
        is_varied = not (of_users and "users" in self.to_columns(list(self.event_values[:1])))
        events = [SyntheticEvent(what, group) for what, group in product(self.event_values, range(self.width))]
        for pattern in list_patterns(unit, self.ticks):
            size = unit.events * len(pattern)
            for one, other in list_unit_events(unit, events, is_varied and size > 1):
                pair = _build_neighbours(unit, self.ticks, pattern, one, other)
                yield pair
                if self.claim.HAS_MEMORY and not of_users and pattern[-1] < self.ticks:
                    again = [replace(event, user=1 + n) for n, event in enumerate(one[:size] + other[:size])]
                    yield pair.add_events({pattern[-1]: again}, "which comes again")

    def worst(self) -> WorstCase:
        amount, pair = self.worst_neighbours
        how = f"matrices of {self.ticks} ticks, and events through the statistic"
        return WorstCase(pair.pattern, amount, f"carrying {pair.description}", computed_from=how)

    def pairs(self) -> Sequence[Pair]:
        view, found = build_view(self.strategy), []
        for pair in self.list_attacked():
            one, other = pad_vectors(*map(self._record_vectors, (pair.one, pair.other)))
            found.append(Pair(pair.name, one, other, LikelihoodRatio(view, len(one), fix_streams(one, other))))
        return found

    def list_attacked(self) -> list[NeighbouringStreams]:
        """Return the worst neighbours, alone and among other events."""
        alone = self.worst_neighbours[1]
        return [alone, add_background(alone, self.claim.unit, self.event_values, self.width)]

    def _record_vectors(self, stream: EventStream) -> Ints:
        return record_vectors(self.claim, stream, self.width, self.to_columns)

    def views(self, data: Ints, runs: int) -> Floats:
        return run_layout(self.claim.linear_counter, data, runs, self.noise)


def pad_vectors(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Pad vectors to as many places, if one has grown further."""
    places = max(len(one), len(other))
    wide = [np.pad(vector, ((0, places - len(vector)), (0, 0))) for vector in (one, other)]
    return wide[0], wide[1]


@dataclass(frozen=True)
class PublishedSubject(ClaimSubject):
    """All that a statistic publishes over the first ticks, of one group, which every run has of its own."""

    claim: Statistic[Any]
    ticks: int
    event_values: Sequence[Any]
    to_columns: ColumnBuilder = to_value_columns

    DESCRIPTION: ClassVar[str] = " as published"

    def pairs(self) -> Sequence[Pair]:
        vectors = StatisticSubject(self.claim, self.ticks, self.event_values, to_columns=self.to_columns)
        return [Pair(pair.name, pair.one, pair.other) for pair in vectors.list_attacked()]

    def views(self, data: EventStream, runs: int) -> Floats:
        """Run the same events in every group, with other users if users are bounded."""
        run, found = self.claim.start(runs, self.noise), []
        users = USERS_PER_RUN if self.claim.bounds_users else 0
        for events in data:
            each = [replace(e, group=group, user=e.user + users * group) for group in range(runs) for e in events]
            found.append(self._read_release(run.step(**build_columns(self.claim, each, self.to_columns)), runs))
        return np.concatenate(found, axis=1)

    def _read_release(self, release: Any, runs: int) -> Floats:
        """Return all numbers of a release, a row for each group; NaN for a key that is not listed."""
        if isinstance(release, Ranking):
            places = {key: place for place, key in enumerate(dict.fromkeys(self.event_values))}
            listed = np.full((runs, len(places)), np.nan)
            for group, (keys, counts) in enumerate(zip(release.keys, release.counts, strict=True)):
                listed[group, [places[key] for key in keys]] = counts
            return listed
        if isinstance(release, RangeRelease):
            values = [release.nodes]  # of which all boxes are made
        else:
            values = [np.asarray(column.value, np.float64) for column in release.columns().values()]
        by_group = [np.moveaxis(value, value.shape.index(runs), 0).reshape(runs, -1) for value in values]
        return np.concatenate(by_group, axis=1)
