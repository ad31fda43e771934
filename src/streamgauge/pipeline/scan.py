"""What all parts of a release need of the events.

Parts that filter and group alike differ only in the values that they add up: they share one aggregation, and
each takes its own rows of the answer. Releases share none, so that one can come or go without a change in
what is known of the others' open ticks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamgauge.query.measure import Measure, Tally


@dataclass(frozen=True)
class Share:
    """Which rows of which answer belong to a part."""

    measure: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Scan:
    """The measures to ask for, and the share of each part."""

    measures: tuple[Measure, ...]
    shares: tuple[Share, ...]

    @classmethod
    def of(cls, asked: Sequence[Measure]) -> "Scan":
        merged: dict[Measure, Measure] = {}
        for measure in asked:
            frame = replace(measure, values=(), columns=frozenset())
            known = merged.get(frame, frame)
            values = tuple(dict.fromkeys([*known.values, *measure.values]))
            merged[frame] = replace(known, values=values, columns=known.columns | measure.columns)
        frames = list(merged)
        shares = []
        for measure in asked:
            frame = replace(measure, values=(), columns=frozenset())
            shares.append(Share(frames.index(frame), rows_of(measure, merged[frame])))
        return cls(tuple(merged.values()), tuple(shares))

    def tallies(self, answers: Sequence[Tally]) -> list[Tally]:
        """The answer for each part."""
        return [
            replace(answers[share.measure], sums=answers[share.measure].sums[list(share.rows)])
            for share in self.shares
        ]


def rows_of(measure: Measure, merged: Measure) -> tuple[int, ...]:
    """Where the sums of a measure are in those of one that has more values."""
    begins, begin = {}, 1
    for value in merged.values:
        begins[value] = begin
        begin += 1 + value.power
    rows = [0]
    for value in measure.values:
        rows += range(begins[value], begins[value] + 1 + value.power)
    return tuple(rows)
