"""All that one unit may do in the first ticks of a stream, as records: up to its bounds, and beyond them.

one record, again and again       as many as the unit may have, or twice as many
records that differ               in turn, up to its bounds
all that is allowed, of each      so many of every label (or number) in every tick: bounds must cut it off
                                  whatever the records carry
elsewhere in each tick            another label in every tick, in more ticks than are allowed
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from streamgauge.audit.candidate_records import FEW, plain
from streamgauge.audit.input_records import Input, Line
from streamgauge.privacy import User
from streamgauge.query.settings import Stream


@dataclass(frozen=True)
class Neighbours:
    """Two inputs that differ in one unit."""

    name: str
    one: Input
    other: Input

    @property
    def sides(self) -> tuple[Input, Input]:
        """By whether the unit is there."""
        return self.other, self.one


def unit_of(stream: Stream, line: Line, ticks: int, *, beyond: bool = False) -> Input:
    """All that one unit does at most within the first ticks; or twice as much."""
    unit = stream.unit
    first, last = (1, ticks) if beyond else (line.tick, min(ticks, line.tick + unit.ticks - 1))
    times = unit.events * (2 if beyond else 1)
    return tuple(replace(line, tick=tick) for tick in range(first, last + 1) for _ in range(times))


def varied(line: Line, lines: Sequence[Line]) -> dict[str, list[Line]]:
    """A record and others that differ from it in one column, by what candidates carry there."""
    found = {}
    for place, (name, own) in enumerate(line.columns):
        values = [own, *(each.columns[place][1] for each in lines)]
        few = list({(type(value), value): value for value in values}.values())[:FEW]
        found[name] = [rewritten(line, {name: value}) for value in few]
    return {name: each for name, each in found.items() if len(each) > 1}


def rewritten(line: Line, changed: Mapping[str, Any]) -> Line:
    """The line with other values in some of its columns."""
    return replace(line, columns=tuple((name, changed.get(name, value)) for name, value in line.columns))


def differing(stream: Stream, line: Line, lines: Sequence[Line], ticks: int) -> Iterator[tuple[str, Input]]:
    """Units whose events are not all alike, each with its name; none where a unit is one event."""
    unit, kinds = stream.unit, varied(line, lines)
    if not kinds or unit.ticks * unit.events == 1:
        return
    whole = unit_of(stream, line, ticks)
    turns = [line, *(each for some in kinds.values() for each in some[1:])]
    in_turn = tuple(replace(turns[n % len(turns)], tick=each.tick) for n, each in enumerate(whole))
    yield f"{told(stream, Line(1))} whose events differ", in_turn
    if isinstance(unit, User):
        for name, some in kinds.items():
            yield f"a user with all that is allowed of each {name}", _each(some, unit.events, ticks)
            yield f"a user with another {name} in each tick", _elsewhere(some, unit.events, ticks)


def _each(kinds: Sequence[Line], times: int, ticks: int) -> Input:
    every = range(1, ticks + 1)
    return tuple(replace(kind, tick=tick) for tick in every for kind in kinds for _ in range(times))


def _elsewhere(kinds: Sequence[Line], times: int, ticks: int) -> Input:
    moved = [(tick, kinds[tick % len(kinds)]) for tick in range(1, ticks + 1)]
    return tuple(replace(kind, tick=tick) for tick, kind in moved for _ in range(times))


def other_end(low: float, high: float, value: Any) -> float:
    return low if value == high else high


def beyond(size: float, low: float, high: float, value: Any) -> float:
    """A number far outside of its bounds, on the side that it was on."""
    return high + size * (high - low) if value == high else low - size * (high - low)


def with_bounds(stream: Stream, line: Line, changed: Callable[[Any, Any, Any], Any]) -> Line:
    """The line with other numbers in columns that have bounds."""
    bounds = {name: column.bounds for name, column in stream.columns.items()}
    columns = tuple(
        (name, changed(plain(found[0]), plain(found[1]), value) if (found := bounds.get(name)) else value)
        for name, value in line.columns
    )
    return replace(line, columns=columns)


def told(stream: Stream, line: Line) -> str:
    """
    >>> from types import SimpleNamespace
    >>> told(SimpleNamespace(unit=User(2, 3)), Line(1, (("region", "north"),)))
    'a user (2 a tick, 3 ticks) of region north'
    """
    unit = stream.unit
    what = (
        "an event" if unit.ticks == unit.events == 1 else f"a unit ({unit.events} a tick, {unit.ticks} ticks)"
    )
    what = what.replace("a unit", "a user") if isinstance(unit, User) else what
    carried = ", ".join(f"{name} {value}" for name, value in line.columns)
    return f"{what} of {carried}" if carried else what
