"""Records that may move a release: of declarations, of public tables, and of what the SQL compares with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any

from sqlglot import exp

from streamgauge.audit.input_records import ONE_TEXT, Line
from streamgauge.query.planner import Planned
from streamgauge.query.settings import Column, PipelineFile
from streamgauge.query.sql.dialect import read

FEW = 3  # labels of a column that are tried


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
