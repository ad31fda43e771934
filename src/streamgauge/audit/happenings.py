"""Events of short streams, and neighbours that differ in one unit of them.

    Happened("a", group=0, user=7)      one event: what it carries, in which group, whose it is
    a stream                            the events of each tick, in order

A statistic is driven with such streams through its own run, so that whatever it does to events before they
are counted (clamping, bounding users, dropping) is done; only its counter is replaced by one that writes
down the exact vectors.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from streamgauge.audit.exact import Pattern, patterns
from streamgauge.continual.saved import NoNoise
from streamgauge.noise import Ints, NoiseSum
from streamgauge.privacy import Tick, Unit
from streamgauge.statistics import EventRun, Statistic
from streamgauge.statistics.contributions import Contributions
from streamgauge.statistics.held import Held

OTHERS = 5  # events of other people in every tick of a busy stream


@dataclass(frozen=True)
class Happened:
    """One event."""

    carried: Any
    group: int = 0
    user: int = 0


Content = tuple[Happened, ...]  # what the events of a unit are, in turn
Stream = tuple[tuple[Happened, ...], ...]  # the events of each tick
Given = Callable[[list[Any]], Mapping[str, Any]]  # of what events carry: the columns that a run is given


def as_values(carried: list[Any]) -> Mapping[str, Any]:
    """Most statistics: one column of values."""
    return {"values": carried}


def as_users(carried: list[Any]) -> Mapping[str, Any]:
    """Statistics of who came, and nothing else."""
    return {"users": carried}


def columns(statistic: Statistic[Any], events: Sequence[Happened], given: Given) -> dict[str, Any]:
    """What a run is given of the events of one tick."""
    rows = dict(given([event.carried for event in events]))
    rows["groups"] = np.array([event.group for event in events], np.int64)
    if statistic.why_users and "users" not in rows:
        rows["users"] = np.array([event.user for event in events], np.int64)
    return rows


class Recorder:
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
        return self.statistic.linear.noise_at(self.tick)


def vectors(statistic: Statistic[Any], stream: Stream, width: int, given: Given) -> Ints:
    """The exact vectors of a stream: (places, ticks)."""
    memory = statistic.memory(width)
    recorder: Any = Recorder(statistic, statistic.size(width, memory))
    public = statistic.counter.start(width, NoNoise()) if statistic.counts_are_public else None
    users = Contributions.of(statistic.unit) if statistic.bounds_users else None
    run = EventRun(statistic, width, None, Held(recorder, public, memory, users))
    for events in stream:
        run.step(**columns(statistic, events, given))
    written = np.zeros((recorder.width, len(stream)), np.int64)
    for tick, vector in enumerate(recorder.vectors):
        written[: len(vector), tick] = vector
    return written


@dataclass(frozen=True)
class Neighbouring:
    """Two streams that differ in one unit, which is in these ticks."""

    pattern: Pattern
    one: Stream
    other: Stream
    told: str


@dataclass(frozen=True)
class Allowed:
    """What neighbours may be made of, besides units that carry the same in all their events."""

    varied: bool = True  # a unit's events may carry different things: not where these say whose they are
    again: bool = False  # others may carry the same later: it matters where earlier ticks are remembered


def neighbouring(
    unit: Unit,
    ticks: int,
    carried: Sequence[Any],
    width: int,
    allowed: Allowed = Allowed(),  # noqa: B008 - frozen
) -> Iterator[Neighbouring]:
    """Neighbours of the empty stream, or of a stream of one other unit where units are replaced."""
    events = [Happened(what, group) for what, group in product(carried, range(width))]
    for pattern in patterns(unit, ticks):
        size = unit.events * len(pattern)
        for one, other in contents(unit, events, allowed.varied and size > 1):
            pair = _differing(unit, ticks, pattern, one, other)
            yield pair
            if allowed.again and pattern[-1] < ticks:
                yield coming_again(pair, one[:size] + other[:size])


def contents(unit: Unit, events: list[Happened], varied: bool) -> Iterator[tuple[Content, Content]]:
    """What the events of a unit are in turn, with it and instead of it: all alike, or one after the other."""
    what: list[Content] = [(event,) for event in events]
    if varied:
        for row in (events, sorted(events, key=lambda event: event.group)):
            what += [(*row[first:], *row[:first]) for first in range(len(row))]
    for one, other in product(what, what if unit.replace else [()]):
        if one != other:
            yield one, other


def _differing(unit: Unit, ticks: int, pattern: Pattern, one: Content, other: Content) -> Neighbouring:
    moves = unit.replace and not unit.consecutive
    there, instead = (pattern[:1], pattern[-1:]) if moves else (pattern, pattern)
    told = f"{_told(one)} for {_told(other)}" if other else _told(one)
    streams = [
        tuple(
            _of_tick(unit, places.index(tick), what) if tick in places else () for tick in range(1, ticks + 1)
        )
        for what, places in ((one, there), (other, instead))
    ]
    return Neighbouring(pattern, streams[0], streams[1], told)


def _of_tick(unit: Unit, place: int, what: Content) -> tuple[Happened, ...]:
    numbers = range(place * unit.events, (place + 1) * unit.events)
    return tuple(what[number % len(what)] for number in numbers) if what else ()


def _told(what: Content) -> str:
    return f"{what[0].carried!r}" if len(what) == 1 else f"{what[0].carried!r}, {what[1].carried!r}, .."


def coming_again(pair: Neighbouring, what: Content) -> Neighbouring:
    """With others who carry the same at the tick after the unit's last."""
    later = tuple(replace(event, user=1 + number) for number, event in enumerate(what))
    after = pair.pattern[-1]
    both = [
        (*stream[:after], (*stream[after], *later), *stream[after + 1 :]) for stream in (pair.one, pair.other)
    ]
    return Neighbouring(pair.pattern, both[0], both[1], f"{pair.told}, which comes again")


def crowded(pair: Neighbouring, unit: Unit, carried: Sequence[Any], width: int) -> Neighbouring:
    """The same unit among other people's events, before which it comes; a whole tick has no others."""
    if isinstance(unit, Tick):
        return pair

    def among(stream: Stream) -> Stream:
        places = [(tick, number) for tick in range(len(stream)) for number in range(OTHERS)]
        others = [
            Happened(carried[(tick + number) % len(carried)], number % width, 1 + number)
            for tick, number in places
        ]
        return tuple(
            (*events, *others[tick * OTHERS : (tick + 1) * OTHERS]) for tick, events in enumerate(stream)
        )

    return Neighbouring(pair.pattern, among(pair.one), among(pair.other), f"{pair.told}, among others")
