"""The loss of a linear mechanism, computed: the worst neighbour of its unit is found, nothing is drawn.

A unit in ticks p that moves each by at most its bound moves row r of the measurements by at most the sum of |C[r, t]|
over p. Under discrete Laplace noise the loss is the sum of moves over scales, under discrete Gaussian noise of squared
moves over twice the parameters. Both are exact rationals from the columns of C. Only the search is in floats.

The worst set of ticks is found without enumeration if possible:

    windows              all are tried
    sets, losses add     the k most costly ticks, exactly
    sets, squares add    all are tried if there are at most `MAX_PATTERNS`; else the set is known for falling Toeplitz
                         matrices and for trees, or the answer is an interval

Promise
    The loss lies between `WorstCase.floor` and `WorstCase.amount`, to one who sees all measurements. The two are equal,
    except if a row of C has both signs, so that the moves of a unit cannot all add up, and if there are too many
    patterns. If releases do not determine all measurements, the loss is less (see `costs`). Proof for squares: with
    G_st >= 0 the joint cost of the ticks s and t, a set W costs sum_{s in W} sum_{t in W} G_st. Each inner sum is at
    most the k largest entries of row s, so the k largest of these bound every W, and so does k times the largest
    eigenvalue of G. Lower end: some sets are tried, windows and sets that grow tick by tick. If G falls with the later
    tick and with the distance, as for a falling Toeplitz matrix, the first k ticks are the worst: the i-th and the j-th
    of any set are no earlier and no closer than i and j. For trees, a row that is v over a block of ticks and 0
    elsewhere costs c v^2 n^2 if n ticks of the set are in the block. Nested or disjoint blocks make a tree, and dynamic
    programming over all splits of n between the parts of a block is exact, in O(T k^2).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, islice
from math import comb, inf
from typing import Any

import numpy as np

from streamgauge.continual import LinearMechanism, Strategy
from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, Distribution, Ints
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Sensitivity, Unit


@dataclass
class NestedBlock:
    """A row: its ticks, what the square of one sighting costs, and what is known of those inside."""

    first: int
    end: int
    cost: float
    best: Floats = field(default_factory=lambda: np.zeros(1), repr=False)  # of 0, 1, .. ticks seen so far
    covered_ticks: int = 0  # ticks that are in it

    def add_part(self, best: Floats, size: int) -> None:
        """Add one more part."""
        most = min(size, len(self.best) + len(best) - 2)
        ways = np.full((len(best), most + 1), -np.inf)
        for count, value in enumerate(best):
            retained = self.best[: most + 1 - count]
            ways[count, count : count + len(retained)] = retained + value
        self.best = ways.max(axis=0)

    def compute_best(self, size: int) -> Floats:
        """Return the best costs with ticks that no smaller block has, and with its own cost."""
        alone = self.end - self.first - self.covered_ticks
        best = np.concatenate([self.best, np.full(min(alone, max(0, size + 1 - len(self.best))), 0.0)])
        for count in range(1, len(best)):
            best[count] = self.best[max(0, count - alone) : count + 1].max()
        return np.asarray(best + self.cost * np.arange(len(best)) ** 2, np.float64)


def max_nested_cost(moves: Floats, costs: Floats, size: int) -> float | None:
    """Return the cost of the worst set of so many ticks; None if rows are no nested blocks."""
    blocks = find_blocks(moves, costs)
    if blocks is None:
        return None
    open_blocks = [NestedBlock(0, moves.shape[1], 0.0)]
    for block in sorted(blocks, key=lambda each: (each.first, -each.end)):
        while block.first >= open_blocks[-1].end:
            close_block(open_blocks, size)
        if block.end > open_blocks[-1].end:
            return None
        open_blocks.append(block)
    while len(open_blocks) > 1:
        close_block(open_blocks, size)
    return float(open_blocks[0].compute_best(size)[min(size, moves.shape[1])])


def close_block(open_blocks: list[NestedBlock], size: int) -> None:
    """Make the innermost block a part of the next."""
    inner = open_blocks.pop()
    open_blocks[-1].add_part(inner.compute_best(size), size)
    open_blocks[-1].covered_ticks += inner.end - inner.first


def find_blocks(moves: Floats, costs: Floats) -> list[NestedBlock] | None:
    found = []
    for row, cost in zip(moves, costs, strict=True):
        ticks = np.flatnonzero(row)
        if not len(ticks):
            continue
        first, end = int(ticks[0]), int(ticks[-1]) + 1
        if not (row[first:end] == row[first]).all():
            return None
        found.append(NestedBlock(first, end, float(cost * row[first] ** 2)))
    return found


MAX_PATTERNS = 200_000  # sets of ticks that are enumerated
CHUNK_PATTERNS = 10_000
TIE_TOLERANCE = 1e-12  # relative: the first of several worst ones is named
MAX_SPECTRUM_TICKS = 512  # ticks up to which eigenvalues are worth their time

Pattern = tuple[int, ...]  # ticks, from 1


class TooManyPatternsError(ValueError):
    """A unit with more sets of ticks than can be enumerated, if only enumeration would do."""


@dataclass(frozen=True)
class WorstCaseSet:
    """A set of ticks, what it costs, and what no other exceeds."""

    pattern: Pattern
    lower_bound: float
    upper_bound: float


def list_patterns(unit: Unit, ticks: int) -> Iterator[Pattern]:
    """List all sets of ticks of one unit; smaller ones lose no more."""
    size = min(unit.ticks, ticks)
    if unit.consecutive:
        yield from (tuple(range(first, first + size)) for first in range(1, ticks - size + 2))
        return
    if not is_enumerable(unit, ticks):
        rule = f"ticks must leave at most {MAX_PATTERNS:,} sets of {size} ticks"
        raise TooManyPatternsError(f"{rule}, got {comb(ticks, size):,} of {ticks}")
    yield from combinations(range(1, ticks + 1), size)


def is_enumerable(unit: Unit, ticks: int, max_patterns: int = MAX_PATTERNS) -> bool:
    size = min(unit.ticks, ticks)
    return (ticks - size + 1 if unit.consecutive else comb(ticks, size)) <= max_patterns


def worst_case_set(unit: Unit, moves: Floats, costs: Floats, power: int) -> WorstCaseSet:
    """Find the worst set for moves (rows, ticks) without sign; sums, or their squares, have a cost."""
    size = min(unit.ticks, moves.shape[1])
    if unit.consecutive or size in {1, moves.shape[1]}:
        return worst_case_window(moves, costs, power, size)
    if power == 1:
        return price_set(moves, costs, power, find_largest(costs @ moves, size))
    gram = (moves.T * costs) @ moves
    if is_enumerable(unit, moves.shape[1]):
        return price_set(moves, costs, power, enumerate_worst_set(unit, gram))
    found = bound_worst_case_set(gram, size)
    most = max_nested_cost(moves, costs, size) if found.upper_bound > found.lower_bound else None
    return found if most is None else WorstCaseSet(found.pattern, found.lower_bound, max(found.lower_bound, most))


def bound_worst_case_set(gram: Floats, size: int) -> WorstCaseSet:
    """Bound the worst set, given the joint costs of each two ticks, never below 0."""
    begun = (np.arange(size), np.arange(len(gram) - size, len(gram)), grow_set(gram, size))
    best = max((improve_set(gram, chosen) for chosen in begun), key=lambda chosen: sum_gram(gram, chosen))
    least = sum_gram(gram, best)
    most = least if is_decreasing(gram) or is_decreasing(gram[::-1, ::-1]) else max(least, max_set_cost(gram, size))
    return WorstCaseSet(tuple(int(place) + 1 for place in best), least, most)


def is_decreasing(gram: Floats) -> bool:
    """Return whether joint costs fall with later ticks and with distance."""
    later, limit = gram[1:, 1:] - gram[:-1, :-1], TIE_TOLERANCE * float(gram.max())
    apart = np.triu(gram[:-1] - gram[1:], 1)
    return bool(later.max(initial=0.0) <= limit and apart.max(initial=0.0) <= limit)


def worst_case_window(moves: Floats, costs: Floats, power: int, size: int) -> WorstCaseSet:
    """Find the worst window of so many ticks."""
    running = np.cumsum(np.pad(moves, ((0, 0), (1, 0))), axis=1)
    totals = costs @ (running[:, size:] - running[:, :-size]) ** power
    first = int(np.argmax(totals >= totals.max() * (1 - TIE_TOLERANCE)))
    return price_set(moves, costs, power, np.arange(first, first + size))


def price_set(moves: Floats, costs: Floats, power: int, chosen: Ints) -> WorstCaseSet:
    cost = float(costs @ moves[:, chosen].sum(axis=1) ** power)
    return WorstCaseSet(tuple(int(place) + 1 for place in chosen), cost, cost)


def find_largest(values: Floats, size: int) -> Ints:
    """Return the places of the largest values, in order."""
    return np.sort(np.argsort(-values, kind="stable")[:size])


def enumerate_worst_set(unit: Unit, gram: Floats) -> Ints:
    """Find the worst of all sets, in blocks."""
    every, best = list_patterns(unit, len(gram)), (-1.0, np.zeros(0, np.int64))
    while piece := list(islice(every, CHUNK_PATTERNS)):
        sets = np.array(piece) - 1
        totals = gram[sets[:, :, None], sets[:, None, :]].sum(axis=(1, 2))
        place = int(np.argmax(totals))
        best = max(best, (float(totals[place]), sets[place]), key=lambda known: known[0])
    return best[1]


def sum_gram(gram: Floats, chosen: Ints) -> float:
    return float(gram[np.ix_(chosen, chosen)].sum())


def grow_set(gram: Floats, size: int) -> Ints:
    """Build a set tick by tick, each the most costly with those before."""
    worth, chosen = gram.diagonal().copy(), []
    for _ in range(size):
        chosen.append(int(np.argmax(worth)))
        worth = worth + 2 * gram[chosen[-1]]
        worth[chosen] = -np.inf
    return np.sort(np.array(chosen))


def improve_set(gram: Floats, chosen: Ints) -> Ints:
    """Exchange single ticks of a set for more costly ones, a few times its size."""
    found = chosen.copy()
    for rotation in range(4 * len(found)):
        place = rotation % len(found)
        others = np.delete(found, place)
        worth = gram.diagonal() + 2 * gram[others].sum(axis=0)
        worth[others] = -np.inf
        found[place] = int(np.argmax(worth))
    return np.sort(found)


def max_set_cost(gram: Floats, size: int) -> float:
    """Return a bound for every set of so many ticks."""
    rows = np.sort(gram, axis=1)[:, -size:].sum(axis=1)
    bound = float(np.sort(rows)[-size:].sum())
    if len(gram) > MAX_SPECTRUM_TICKS:
        return bound
    return min(bound, size * float(np.linalg.eigvalsh(gram)[-1]))


ROUNDING_TOLERANCE = 1e-9  # relative: what floats may be off
AGREEMENT_TOLERANCE = 1e-6  # and what rounds on the way, in code that is tried


@dataclass(frozen=True)
class WorstCase:
    """The worst neighbour: its ticks, and the largest loss of any neighbour.

    Without ticks, `observation` describes the neighbour.
    """

    pattern: Pattern
    amount: Fraction | float
    observation: str = ""  # what is seen besides releases
    lower_bound: float | None = None  # what this one loses at least, where that is not the same
    computed_from: str = ""  # it is known
    is_priced: bool = True  # in the currency of the claim: no other says anything
    computed_part: str = ""  # of the requested ticks, if that is not all
    faults: tuple[str, ...] = ()  # of estimates, which are computed and compared with the stated ones

    @property
    def floor(self) -> float:
        """The least loss."""
        return float(self.amount if self.lower_bound is None else min(self.lower_bound, self.amount))

    @property
    def is_decided(self) -> bool:
        """True if both ends are one number."""
        return self.floor == self.amount or float(self.amount) * (1 - AGREEMENT_TOLERANCE) <= self.floor

    def __str__(self) -> str:
        if not self.pattern:
            return self.observation
        ticks = ", ".join(map(str, self.pattern))
        plain = f"a unit in tick{'s' if len(self.pattern) > 1 else ''} {ticks}"
        return f"{plain}, {self.observation}" if self.observation else plain


def combine_worst_cases(found: Iterable[WorstCase]) -> WorstCase:
    """Combine several neighbours: both ends are the largest, and the one with the largest sure loss is named.

    >>> ends = combine_worst_cases([WorstCase((1,), 2.0, lower_bound=0.5), WorstCase((2,), 1.5)])
    >>> ends.pattern, ends.floor, ends.amount
    ((2,), 1.5, 2.0)
    """
    every = list(found)
    sure = max(every, key=lambda worst: (worst.floor, worst.amount))
    return replace(sure, amount=max(worst.amount for worst in every), lower_bound=sure.floor)


def describe_coverage(ticks: int, requested: int | None) -> str:
    """Describe the share of the requested ticks that was computed, if it is not all.

    >>> describe_coverage(24, 40), describe_coverage(24, 24)
    ('24 of 40 ticks', '')
    """
    return f"{ticks} of {requested} ticks" if requested is not None and requested > ticks else ""


def worst_neighbour(mechanism: LinearMechanism[Any], ticks: int) -> WorstCase:
    """Find the unit that loses most over the first ticks; any loss, if laws are not of the claim's currency.

    >>> from streamgauge.continual import Binary
    >>> from streamgauge.privacy import Pure
    >>> print(worst := worst_neighbour(Binary(Pure(1), horizon=4), 4), worst.amount)
    a unit in tick 1 1
    """
    strategy, pure = mechanism.strategy(ticks), mechanism.charged_loss.currency == "pure"
    how = f"matrices of {ticks} tick{'s' if ticks > 1 else ''}"
    if any(is_laplace(law) != pure for law in strategy.distributions):
        first = tuple(range(1, min(mechanism.unit.ticks, ticks) + 1))
        how = f"{how} have laws of another currency"
        return WorstCase(first, inf, lower_bound=0.0, computed_from=how, is_priced=False)
    reach, power = mechanism.tick_sensitivity, find_power(strategy)  # the search is in floats, the loss exact
    found = worst_case_set(mechanism.unit, np.abs(strategy.measure), row_costs(strategy), power)
    loss: Fraction | float = exact_loss(strategy, reach, found.pattern)
    sure = float(loss) if strategy.measure.min() >= 0 else signed_loss(strategy, reach, found.pattern)
    lower = None if sure == float(loss) else sure
    if found.upper_bound > found.lower_bound:
        reached = float(reach.l1 if power == 1 else reach.l2_squared)
        loss, lower = max(float(loss), found.upper_bound * reached), sure
    return WorstCase(found.pattern, loss, lower_bound=lower, computed_from=how)


def signed_loss(strategy: Strategy, reach: Sensitivity, pattern: Pattern) -> float:
    """Return the loss of a unit that moves all of these ticks by the same sign."""
    power = find_power(strategy)
    moved = np.abs(strategy.measure[:, [tick - 1 for tick in pattern]].sum(axis=1))
    return float(row_costs(strategy) @ moved**power) * float(reach.l1 if power == 1 else reach.l2_squared)


def exact_loss(strategy: Strategy, reach: Sensitivity, pattern: Pattern) -> Fraction:
    """Return the loss of a unit in these ticks."""
    columns = [strategy.column(tick) for tick in pattern]
    moved = [sum(map(abs, row), Fraction(0)) for row in zip(*columns, strict=True)]
    power = find_power(strategy)
    reached = reach.l1 if power == 1 else reach.l2_squared
    prices = map(price, strategy.distributions)
    return sum((move**power * cost * reached for move, cost in zip(moved, prices, strict=True)), Fraction(0))


def compute_loss(strategy: Strategy, move: Ints) -> float:
    """Return the loss of a move (places, ticks) of the data, if all measurements are visible."""
    moved = np.abs(strategy.measure @ move.T.astype(np.float64))
    return float(row_costs(strategy) @ (moved ** find_power(strategy)).sum(axis=1))


def row_costs(strategy: Strategy) -> Floats:
    """Return the cost of a move of one unit of the data, or of its square, in each row."""
    grids, power = strategy.grids, find_power(strategy)
    prices = zip(strategy.distributions, grids, strict=True)
    return np.array([float(price(law) * grid**power) for law, grid in prices])


def price(law: Distribution) -> Fraction:
    """Return the cost of a move by one grid point; under Gaussian noise, of the square of a move."""
    if isinstance(law, DiscreteLaplace):
        return 1 / law.scale
    if isinstance(law, DiscreteGaussian):
        return 1 / (2 * law.parameter)
    raise TypeError(f"law must be DiscreteLaplace or DiscreteGaussian, got {type(law).__name__}")


def find_power(strategy: Strategy) -> int:
    """Return 1 if moves add up, 2 if their squares do."""
    return 1 if is_laplace(strategy.distributions[0]) else 2


def is_laplace(law: Distribution) -> bool:
    return isinstance(law, DiscreteLaplace)
