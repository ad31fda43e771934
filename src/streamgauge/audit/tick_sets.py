"""The sets of ticks that one unit may be in, and the dearest of them without going through all.

    windows             all are tried
    sets, losses add    the k dearest ticks, exactly
    sets, squares do    all are tried if there are at most PATTERNS, else it is known for Toeplitz matrices
                        that fall and for trees (see `nested_rows`), or the answer is an interval

Promise
    The dearest set costs between the two ends. Proof for squares: with G_st >= 0 what the ticks s and t cost
    together, a set W costs sum_{s in W} sum_{t in W} G_st. Each inner sum is at most the k largest entries
    of row s, so the k largest of these bound every W; and so does k times the largest eigenvalue of G. From
    below, some set costs what it costs: windows, and sets that are made tick by tick, are tried. Where G
    falls with the later tick and with the distance, as of a Toeplitz matrix that falls, the first k ticks
    are the dearest: the i-th and the j-th of any set are no earlier and no closer than i and j.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from math import comb

import numpy as np

from streamgauge.audit.nested_rows import nested_most
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Unit

PATTERNS = 200_000  # sets of ticks that are gone through
PIECE = 10_000
EQUAL = 1e-12  # relative: the first of several that are dearest is named
LARGEST_SPECTRUM = 512  # ticks up to which eigenvalues are worth their time

Pattern = tuple[int, ...]  # ticks, from 1


class TooManyPatterns(ValueError):  # noqa: N818 - refusals are named by what they say
    """A unit that may be in more sets of ticks than can be gone through, where nothing less would do."""


@dataclass(frozen=True)
class DearestSet:
    """A set of ticks, what it costs, and what no other exceeds."""

    pattern: Pattern
    least: float
    most: float


def patterns(unit: Unit, ticks: int) -> Iterator[Pattern]:
    """All sets of ticks that one unit may be in, no smaller ones: they lose no more."""
    size = min(unit.ticks, ticks)
    if unit.consecutive:
        yield from (tuple(range(first, first + size)) for first in range(1, ticks - size + 2))
        return
    if not can_be_listed(unit, ticks):
        rule = f"ticks must leave at most {PATTERNS:,} sets of {size} ticks"
        raise TooManyPatterns(f"{rule}, got {comb(ticks, size):,} of {ticks}")
    yield from combinations(range(1, ticks + 1), size)


def can_be_listed(unit: Unit, ticks: int, most: int = PATTERNS) -> bool:
    size = min(unit.ticks, ticks)
    return (ticks - size + 1 if unit.consecutive else comb(ticks, size)) <= most


def dearest_set(unit: Unit, moves: Floats, costs: Floats, power: int) -> DearestSet:
    """Of moves (rows, ticks) without sign, whose sums over a set, or the squares of these, cost so much."""
    size = min(unit.ticks, moves.shape[1])
    if unit.consecutive or size in {1, moves.shape[1]}:
        return dearest_window(moves, costs, power, size)
    if power == 1:
        return of_one_set(moves, costs, power, largest(costs @ moves, size))
    gram = (moves.T * costs) @ moves
    if can_be_listed(unit, moves.shape[1]):
        return of_one_set(moves, costs, power, dearest_listed(unit, gram))
    found = by_squares(gram, size)
    most = nested_most(moves, costs, size) if found.most > found.least else None
    return found if most is None else DearestSet(found.pattern, found.least, max(found.least, most))


def by_squares(gram: Floats, size: int) -> DearestSet:
    """Of what ticks cost together, two by two and never below 0: an interval for the dearest set."""
    begun = (np.arange(size), np.arange(len(gram) - size, len(gram)), grown(gram, size))
    best = max((exchanged(gram, chosen) for chosen in begun), key=lambda chosen: total(gram, chosen))
    least = total(gram, best)
    most = least if falling(gram) or falling(gram[::-1, ::-1]) else max(least, highest(gram, size))
    return DearestSet(tuple(int(place) + 1 for place in best), least, most)


def falling(gram: Floats) -> bool:
    """Whether ticks cost less together the later they are, and the further apart."""
    later, limit = gram[1:, 1:] - gram[:-1, :-1], EQUAL * float(gram.max())
    apart = np.triu(gram[:-1] - gram[1:], 1)
    return bool(later.max(initial=0.0) <= limit and apart.max(initial=0.0) <= limit)


def dearest_window(moves: Floats, costs: Floats, power: int, size: int) -> DearestSet:
    """Of all windows of so many ticks."""
    running = np.cumsum(np.pad(moves, ((0, 0), (1, 0))), axis=1)
    totals = costs @ (running[:, size:] - running[:, :-size]) ** power
    first = int(np.argmax(totals >= totals.max() * (1 - EQUAL)))
    return of_one_set(moves, costs, power, np.arange(first, first + size))


def of_one_set(moves: Floats, costs: Floats, power: int, chosen: Ints) -> DearestSet:
    cost = float(costs @ moves[:, chosen].sum(axis=1) ** power)
    return DearestSet(tuple(int(place) + 1 for place in chosen), cost, cost)


def largest(values: Floats, size: int) -> Ints:
    """The places of the largest values, in order."""
    return np.sort(np.argsort(-values, kind="stable")[:size])


def dearest_listed(unit: Unit, gram: Floats) -> Ints:
    """The dearest of all sets, gone through piece by piece."""
    every, best = patterns(unit, len(gram)), (-1.0, np.zeros(0, np.int64))
    while piece := list(islice(every, PIECE)):
        sets = np.array(piece) - 1
        totals = gram[sets[:, :, None], sets[:, None, :]].sum(axis=(1, 2))
        place = int(np.argmax(totals))
        best = max(best, (float(totals[place]), sets[place]), key=lambda known: known[0])
    return best[1]


def total(gram: Floats, chosen: Ints) -> float:
    return float(gram[np.ix_(chosen, chosen)].sum())


def grown(gram: Floats, size: int) -> Ints:
    """A set that is made tick by tick, each the dearest beside those before."""
    worth, chosen = gram.diagonal().copy(), []
    for _ in range(size):
        chosen.append(int(np.argmax(worth)))
        worth = worth + 2 * gram[chosen[-1]]
        worth[chosen] = -np.inf
    return np.sort(np.array(chosen))


def exchanged(gram: Floats, chosen: Ints) -> Ints:
    """The set after all exchanges of one tick for another that make it dearer, a few times its size."""
    found = chosen.copy()
    for turn in range(4 * len(found)):
        place = turn % len(found)
        others = np.delete(found, place)
        worth = gram.diagonal() + 2 * gram[others].sum(axis=0)
        worth[others] = -np.inf
        found[place] = int(np.argmax(worth))
    return np.sort(found)


def highest(gram: Floats, size: int) -> float:
    """What no set of so many ticks exceeds."""
    rows = np.sort(gram, axis=1)[:, -size:].sum(axis=1)
    bound = float(np.sort(rows)[-size:].sum())
    if len(gram) > LARGEST_SPECTRUM:
        return bound
    return min(bound, size * float(np.linalg.eigvalsh(gram)[-1]))
