"""Neighbouring inputs of a pipeline file: what one unit may do at worst, and what a hostile one may try.

One real run without noise tells how far each candidate (see `candidate_records`) moves every release, and the
dearest are attacked:

    alone          a unit and nobody else                 its events in the first ticks, one group, at bounds
    among others   the same before other people's         in a crowd, where groups are discovered
    in a balance   between as many at both ends           which one unit tips: of a median, say
    differing      a unit in several groups               up to its bounds and beyond (see `unit_inputs`)
    hostile        records that nobody should have sent   which must count as declared (see `hostile_inputs`)
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from streamgauge.audit.hostile_inputs import hostile
from streamgauge.audit.input_records import Input, Line
from streamgauge.audit.unit_inputs import Neighbours, differing, other_end, told, unit_of, with_bounds
from streamgauge.noise.numbers import Floats
from streamgauge.query.settings import Stream

OTHERS = 3  # events of other people in every tick
BALANCED = 20  # events of other people at each end of the bounds
CROWD = 300  # events of other people in one group, where groups must be large to be told


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
    for name, mixed in differing(stream, line, lines, ticks):
        yield Neighbours(name, mixed, ())
    yield from hostile(stream, ticks, line, others)


def crowd(ticks: int, lines: Sequence[Line], best: Sequence[int]) -> Input:
    """Other people's events, some in every tick: like the dearest, and unlike."""
    kinds = [lines[best[0]], *(lines[number] for number in (len(lines) // 3, 2 * len(lines) // 3))][:OTHERS]
    return tuple(
        replace(line, tick=tick, user=1 + number)
        for tick in range(1, ticks + 1)
        for number, line in enumerate(kinds)
    )
