"""What an engine hands over: the exact sums of some ticks, and what was dropped, by rule.

A finished run is cut into passes by declarations alone: as many ticks as surely fit into memory, with every
group and cell of every measure taken. How often the files are read for them is the engine's own affair.

Inside the engine a record that is dropped has the number of its rule in place of a tick.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from streamgauge.query.measure import Measure, Tally

ROOM = 2**25  # numbers of all tallies of a pass
OUTSIDE, NO_TIME, NOT_READABLE, NO_USER, ELSEWHERE, BOUNDED, LATE, EARLY = range(0, -8, -1)
NO_PLACE = -1  # of events that a measure drops
KEYS = 2**14  # that a tick is believed to have, where they are discovered
RULES = {
    OUTSIDE: "outside",
    NO_TIME: "no time",
    NOT_READABLE: "not readable",
    NO_USER: "no user",
    BOUNDED: "bounded",
    LATE: "late",
    EARLY: "early",
}
Counts = dict[str, int]  # "records" that were read, and those dropped, by rule: for the curator only
Absences = dict[str, int]  # records without a column, a value of it or a user: for the curator only


@dataclass(frozen=True, eq=False)
class Pass:
    """Ticks from `first` to `last`: one tally for each measure."""

    first: int
    last: int
    tallies: list[Tally]
    counts: Counts
    absences: Absences = field(default_factory=dict)  # of all records in `counts`


def nothing_counted() -> Counts:
    return {"records": 0} | dict.fromkeys(RULES.values(), 0)


def counted(numbers: Iterable[tuple[int, int]]) -> Counts:
    """From pairs of a tick, or the number of a rule, and how many records it has."""
    counts = nothing_counted()
    for tick, count in numbers:
        counts["records"] += count
        if tick in RULES:
            counts[RULES[tick]] += count
    return counts


def together(parts: Sequence[Pass]) -> Pass:
    """Passes of the same ticks, of different records."""
    if len(parts) == 1:
        return parts[0]
    counts = {rule: sum(part.counts[rule] for part in parts) for rule in nothing_counted()}
    columns = {what: sum(part.absences[what] for part in parts) for what in parts[0].absences}
    tallies = zip(*(part.tallies for part in parts), strict=True)
    return Pass(parts[0].first, parts[0].last, [joined(tally) for tally in tallies], counts, columns)


def joined(tallies: Sequence[Tally]) -> Tally:
    """All of them, one after the other; where groups are discovered, their keys too."""
    reports = [tally.reports for tally in tallies if tally.reports is not None]
    begins = [0, *accumulate(len(tally.keys) for tally in tallies)]
    return Tally(
        np.concatenate([tally.ticks for tally in tallies]),
        np.concatenate([tally.places + begin for tally, begin in zip(tallies, begins, strict=False)]),
        np.concatenate([tally.cells for tally in tallies]),
        np.concatenate([tally.sums for tally in tallies], axis=1),
        tuple(key for tally in tallies for key in tally.keys),
        np.concatenate(reports) if reports else None,
    )


def cut(measures: Sequence[Measure], first: int, last: int, room: int = ROOM) -> Iterator[tuple[int, int]]:
    """The ticks of each pass."""
    size = max(1, room // max(1, sum(numbers(measure) for measure in measures)))
    for begin in range(first, last + 1, size):
        yield begin, min(last, begin + size - 1)


def numbers(measure: Measure) -> int:
    """How many numbers the tally of one tick has at most, or is believed to have."""
    if measure.text is not None:
        return KEYS * 4
    cells = 1 if measure.cell is None else measure.cell.count
    return measure.width * cells * (3 + measure.rows)
