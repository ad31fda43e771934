"""Neighbouring inputs of a pipeline file: what one unit may do at worst, and what a hostile one may try.

Records are made of declarations: labels, bounds and their middle, keys of public tables, and what the SQL
itself compares with. One real run without noise tells how far each of them moves every release, and the
dearest are attacked:

    alone          a unit and nobody else                 its events in the first ticks, one group, at bounds
    among others   the same before other people's         in a crowd, where groups are discovered
    in a balance   between as many at both ends           which one unit tips: of a median, say
    at the other end                                      of its bounds
    out of bounds  the same with absurd numbers           which must count as the bound
    unreadable     a record that is torn                  which must count for nothing
    far ahead      a record from another century          the same
    beyond bounds  a user with twice as many events       which must be cut off
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import numpy as np
from sqlglot import exp

from streamgauge.audit.input_records import ONE_TEXT, Input, Line
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import User
from streamgauge.query.planner import Planned
from streamgauge.query.settings import Column, PipelineFile, Stream
from streamgauge.query.sql.dialect import read

FEW = 3  # labels of a column that are tried
OTHERS = 3  # events of other people in every tick
BALANCED = 40  # events of other people at each end of the bounds
CROWD = 300  # events of other people in one group, where groups must be large to be told
FAR, ABSURD = 10.0, 1e290  # ranges beyond the bounds
CENTURY = 36525 * 86_400_000_000  # microseconds
TORN = b'{"torn": "'

Record = tuple[tuple[str, Any], ...]


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


@dataclass(frozen=True)
class Candidates:
    """Records that may move a release, for a file whose releases are planned."""

    file: PipelineFile
    plans: Sequence[Planned]
    ticks: int

    def lines(self, most: int) -> list[Line]:
        """So many at most, spread over all that there may be."""
        told = [self._told(column) for column in self._columns]
        sides = [*told, (0.5, 0.0, 0.99) if self._by_time else (0.5,), self._starts]
        total = prod(map(len, sides))
        picked = dict.fromkeys(number * total // min(most, total) for number in range(min(most, total)))
        return [self._line(sides, number) for number in picked]

    def _line(self, sides: Sequence[Sequence[Any]], number: int) -> Line:
        values = []
        for side in sides:
            number, place = divmod(number, len(side))
            values.append(side[place])
        names = [column.name for column in self._columns]
        return Line(values[-1], tuple(zip(names, values, strict=False)), at=values[-2])

    @property
    def _columns(self) -> list[Column]:
        used = {name for plan in self.plans for name in plan.query.columns}
        return [column for name, column in self.file.stream.columns.items() if name in used]

    @property
    def _by_time(self) -> bool:
        """Whether it matters when in a tick an event is."""
        return any(self.file.stream.time in plan.query.columns for plan in self.plans)

    @property
    def _starts(self) -> Sequence[int]:
        return range(1, self.ticks + 1) if self._by_time else (1,)

    def _told(self, column: Column) -> list[Any]:
        """Values of a column that are worth a try."""
        return list(dict.fromkeys(KINDS[kind_of(column)](self, column)))

    def labels(self, column: Column) -> list[Any]:
        return list(column.values or ())[:FEW]

    def numbers(self, column: Column) -> list[Any]:
        near = [
            value + move
            for value in self._literals(False)
            for move in (0, column.grid or 1, -(column.grid or 1))
        ]
        if column.bounds is None:
            return [plain(number) for number in [*near[: 4 * FEW], Fraction(1)]]
        low, high = column.bounds
        inside = [number for number in near if low < number < high]
        return [plain(number) for number in [high, low, *inside[: 2 * FEW], (low + high) / 2]]

    def truths(self, column: Column) -> list[Any]:
        return [True, False]

    def texts(self, column: Column) -> list[Any]:
        keys = [lookup.keys[:FEW] for lookup in self.file.lookups.values() if lookup.on == column.name]
        if keys:
            return [key for some in keys for key in some]
        return [text.strip("%") for text in self._literals(True)[: 2 * FEW]] + [ONE_TEXT]

    def one_text(self, column: Column) -> list[Any]:
        return [ONE_TEXT]

    def _literals(self, texts: bool) -> list[Any]:
        """What the SQL of the releases compares with."""
        found = [node for plan in self.plans for node in read(plan.release.sql).find_all(exp.Literal)]
        return [node.this if texts else Fraction(node.this) for node in found if node.is_string == texts]


KINDS: dict[str, Callable[[Candidates, Column], list[Any]]] = {
    "values": Candidates.labels,
    "number": Candidates.numbers,
    "boolean": Candidates.truths,
    "text": Candidates.texts,
    "hashed": Candidates.one_text,
}


def kind_of(column: Column) -> str:
    if column.values is not None:
        return "values"
    return "hashed" if column.hashed is not None or column.max_groups is not None else column.kind


def plain(number: Fraction) -> int | float:
    return int(number) if number.denominator == 1 else float(number)


def unit_of(stream: Stream, line: Line, ticks: int, *, beyond: bool = False) -> Input:
    """All that one unit does at most within the first ticks; or twice as much."""
    unit = stream.unit
    first, last = (1, ticks) if beyond else (line.tick, min(ticks, line.tick + unit.ticks - 1))
    times = unit.events * (2 if beyond else 1)
    return tuple(replace(line, tick=tick) for tick in range(first, last + 1) for _ in range(times))


def worth(value: Floats, stddev: Floats, nothing: Floats) -> Floats:
    """How far each candidate moves what is told, by standard errors; the first axis is of candidates."""
    apart = np.abs(np.nan_to_num(value, nan=-1.0) - np.nan_to_num(nothing, nan=-1.0))
    spread = np.where(np.isfinite(stddev) & (stddev > 0), stddev, 1.0)
    return np.asarray((apart / spread).reshape(len(value), -1).sum(axis=1), np.float64)


def dearest(worths: Sequence[Floats]) -> list[int]:
    """Candidates, best first: those that move most releases, then those that move them farthest.

    `worths` has an array for each release.
    """
    moves = sum((each > 0).astype(np.float64) for each in worths)
    share = sum(each / max(float(each.max()), 1e-300) for each in worths)
    joint = int(np.lexsort((-np.asarray(share), -np.asarray(moves)))[0])
    own = [int(np.argmax(each)) for each in worths if each[joint] == 0 < each.max()]
    return list(dict.fromkeys([joint, *own]))


def neighbours(
    stream: Stream, ticks: int, lines: Sequence[Line], best: Sequence[int], *, discovered: bool = False
) -> Iterator[Neighbours]:
    """All pairs that are worth an attack, the dearest first."""
    line = lines[best[0]]
    unit, others = unit_of(stream, line, ticks), crowd(ticks, lines, best)
    yield Neighbours(f"{told(stream, line)}, alone", unit, ())
    yield Neighbours(f"{told(stream, line)}, among others", unit + others, others)
    turned = with_bounds(stream, line, other_end)
    if turned != line:
        ends = tuple(replace(each, user=1 + n) for n in range(BALANCED) for each in (line, turned))
        yield Neighbours(f"{told(stream, line)}, in a balance", unit + ends, ends)
    if discovered:
        many = tuple(replace(line, user=1 + number) for number in range(CROWD))
        yield Neighbours(f"{told(stream, line)}, in a crowd", unit + many, many)
    for number in best[1:]:
        yield Neighbours(f"{told(stream, lines[number])}, alone", unit_of(stream, lines[number], ticks), ())
    yield from _hostile(stream, ticks, line, others)


def _hostile(stream: Stream, ticks: int, line: Line, others: Input) -> Iterator[Neighbours]:
    turned = with_bounds(stream, line, other_end)
    if turned != line:
        yield Neighbours(f"{told(stream, turned)}, alone", unit_of(stream, turned, ticks), ())
        for what, size in (("out of bounds", FAR), ("absurd", ABSURD)):
            wild = with_bounds(stream, line, partial(beyond, size))
            yield Neighbours(f"a unit whose numbers are {what}", unit_of(stream, wild, ticks), ())
    if stream.format != "parquet":
        torn = Line(line.tick, raw=TORN)
        yield Neighbours("a record that cannot be read, before others", (torn, *others), others)
    ahead = replace(line, at=CENTURY / stream.tick)
    yield Neighbours("a record from the next century, before others", (ahead, *others), others)
    if isinstance(stream.unit, User):
        twice = unit_of(stream, line, ticks, beyond=True)
        yield Neighbours("a user with twice as many events as allowed", twice, ())


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


def crowd(ticks: int, lines: Sequence[Line], best: Sequence[int]) -> Input:
    """Other people's events, some in every tick: like the dearest, and unlike."""
    kinds = [lines[best[0]], *(lines[number] for number in (len(lines) // 3, 2 * len(lines) // 3))][:OTHERS]
    return tuple(
        replace(line, tick=tick, user=1 + number)
        for tick in range(1, ticks + 1)
        for number, line in enumerate(kinds)
    )


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
