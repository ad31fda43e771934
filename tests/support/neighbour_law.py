"""The law of neighbours, as a list of the ways in which two watched runs break it.

    Of two inputs that differ in one unit, a tick's vector of every part moves by at most the part's declared
    sensitivity, in L1 and in squared L2, at no more ticks than a unit touches. All else is equal: errors and
    messages, files, rows, columns, marks, and the lengths of the sealed parts of the state.

Where groups are discovered, a vector has a place for every key of either input.
"""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from streamgauge.plan.parts import CounterPart
from tests.support.watched_runs import Watched

SHOWN = 300  # letters of a difference

Moves = tuple[CounterPart, Any]


def broken(before: Watched, after: Watched, units: int = 1) -> list[str]:
    """Return the violations of the law by two runs whose inputs differ in so many units."""
    found = told_apart(before, after)
    if len(before.parts) != len(after.parts):
        return [*found, "parts"]
    moves = moves_of(before, after)
    for part, moved in moves:
        found += [f"{part.statistic}: {what}" for what in moved_too_far(part.statistic, moved, units)]
    return found + list(touched_too_often(moves, units))


def broken_at_a_tick(before: Watched, after: Watched) -> list[str]:
    """The same where the inputs differ in one event at each tick, so that every tick is a law of its own.

    Only first appearances move at other ticks than their event's.
    """
    found = told_apart(before, after)
    for part, moved in moves_of(before, after):
        statistic, reach, (l1, l2) = part.statistic, part.statistic.tick_sensitivity, norms(moved)
        of_all = len(l1) * statistic.counter_unit.ticks * reach.l1
        far = any(l1 > reach.l1) or any(l2 > reach.l2_squared)
        if sum(l1) > of_all if statistic.HAS_MEMORY else far:
            found.append(f"{statistic}: L1 {l1}, squared L2 {l2}")
    return found


def told_apart(before: Watched, after: Watched) -> list[str]:
    """Return all differences of the two runs but their releases."""
    return [
        f"{name}: {str(before.public.get(name))[:SHOWN]} became {str(after.public.get(name))[:SHOWN]}"
        for name in sorted({*before.public, *after.public})
        if before.public.get(name) != after.public.get(name)
    ]


def moves_of(before: Watched, after: Watched) -> list[Moves]:
    """Return how far each place of each tick moved, by part."""
    both = zip(before.parts, after.parts, strict=True)
    return [(part, moved(part, old, new)) for (part, old), (_, new) in both]


def moved(part: CounterPart, old: Any, new: Any) -> Any:
    if part.measure.key is None:
        return new.astype(object) - old.astype(object)
    keys = sorted({key for counts in [*old, *new] for key in counts})
    both = zip(old, new, strict=True)
    return np.array([[is_[key] - was[key] for key in keys] for was, is_ in both], object)


def furthest(before: Watched, after: Watched) -> list[tuple[int, Fraction]]:
    """Return for each part how far a tick moved, and how far it may."""
    return [(max(norms(moved)[0]), part.statistic.tick_sensitivity.l1) for part, moved in moves_of(before, after)]


def norms(moves: Any) -> tuple[Any, Any]:
    """L1 and squared L2 of each tick."""
    return abs(moves).sum(axis=1), (moves**2).sum(axis=1)


def moved_too_far(statistic: Any, moves: Any, units: int) -> Iterator[str]:
    reach, ticks = statistic.tick_sensitivity, units * statistic.counter_unit.ticks
    l1, l2 = norms(moves)
    if max(l1) > units * reach.l1:
        yield f"L1 {max(l1)} above {units} x {reach.l1}"
    if max(l2) > units**2 * reach.l2_squared:
        yield f"squared L2 {max(l2)} above {units**2} x {reach.l2_squared}"
    if sum(l1) > ticks * reach.l1:
        yield f"L1 of all ticks {sum(l1)} above {ticks} x {reach.l1}"
    if statistic.HAS_MEMORY and statistic.alternates:  # a unit of one tick that pays for each of its moves
        return
    by_group = statistic.HAS_MEMORY and statistic.window == "running"  # each has first appearances of its own
    touched = (moves != 0).sum(axis=0).max() if by_group else np.count_nonzero(l1)
    if touched > ticks:
        yield f"{touched} ticks touched, above {ticks}"


def touched_too_often(moves: list[Moves], units: int) -> Iterator[str]:
    """A unit has its ticks for all parts together; but where first appearances are counted, others move."""
    known = [(part.statistic.unit.ticks, moved) for part, moved in moves if not part.statistic.HAS_MEMORY]
    touched = {int(tick) for _, moved in known for tick in np.flatnonzero(norms(moved)[0])}
    if known and len(touched) > units * max(ticks for ticks, _ in known):
        yield f"ticks {sorted(touched)} touched by all parts together"
