"""Epsilon at a delta under discrete Gaussian noise, computed directly and not by rho.

A row that moves by m under noise of parameter s loses L = (m^2 + 2 m z)/(2 s), where z is the draw. Rows add up. Then
delta(epsilon) = E max(0, 1 - e^(epsilon - L)), which grows with L.

An (epsilon, delta) claim is kept through a rho. `price_as_stated` prices the claim itself, so a conversion that gives
away too much is condemned, whatever the rho is.

Promise
    Epsilon at the delta lies between the two ends, for every unit. Proof: the law of each row's loss is enumerated and
    moved to a grid, downwards for the lower end and upwards for the upper one. Sums of grid points are convolved. The
    mass beyond `MAX_DEVIATIONS` is less than float error. Moves and laws are probed, or written down if the code
    agrees with them. Of two units under the same laws, the one that moves no row as far as the other loses no more:
    noise whose logarithm is concave separates larger shifts better. The others are priced one by one or, if they are
    many, by the rho that none of them exceeds. Code that is not linear, or not known to be, is not priced.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from math import ceil, floor, inf, isqrt, sqrt
from typing import Any

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import ndtr

from streamgauge.audit.exact.linear import LinearView, build_view
from streamgauge.audit.exact.worst_case import Pattern, WorstCase, is_enumerable, list_patterns
from streamgauge.continual import LinearMechanism, Strategy
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Zcdp

MAX_DEVIATIONS = 12  # deviations
GRID_POINTS_PER_DEVIATION = 4000  # grid points in a deviation of the whole loss
MIN_SMOOTH_PARAMETER = 1e6  # parameter: beyond it a cell of the grid holds many draws
MAX_HALVINGS = 40

MovedRow = tuple[float, float]  # a move, and the parameter of the noise, both in grid points


def bound_epsilon(rows: Sequence[MovedRow], delta: float) -> tuple[float, float]:
    """
    >>> low, high = bound_epsilon([(1, 20.0)], 1e-3)
    >>> round(low, 2), round(high, 2)
    (0.52, 0.52)
    """
    moved = [(move, parameter) for move, parameter in rows if move]
    if not moved:
        return 0.0, 0.0
    step = sqrt(sum(move**2 / parameter for move, parameter in moved)) / GRID_POINTS_PER_DEVIATION
    ends = (sum_losses(moved, step, up=up) for up in (False, True))
    low, high = (solve_epsilon(losses, chances, delta) for losses, chances in ends)
    return low, high


def sum_losses(rows: Sequence[MovedRow], step: float, *, up: bool) -> tuple[Floats, Floats]:
    """Return the grid points of the loss, and the probability of each."""
    begin, chances = 0, np.ones(1)
    for (move, parameter), times in Counter(rows).items():
        at, law = row_loss(move, parameter, step, up=up)
        for _ in range(times):
            begin, chances = begin + at, np.maximum(fftconvolve(chances, law), 0.0)
    points: Floats = np.arange(begin, begin + len(chances), dtype=np.float64)
    return points * step, chances


def row_loss(move: float, parameter: float, step: float, *, up: bool) -> tuple[int, Floats]:
    """Return the first grid point of one row's loss, and the probabilities from there on."""
    if parameter > MIN_SMOOTH_PARAMETER:
        return smooth_row_loss(move, parameter, step, up=up)
    reach = ceil(MAX_DEVIATIONS * sqrt(parameter)) + 1
    drawn = np.arange(-reach, reach + 1)
    weights = np.exp(-(drawn**2) / (2 * parameter))
    points = (move**2 + 2 * move * drawn) / (2 * parameter * step)
    places = (np.ceil(points) if up else np.floor(points)).astype(np.int64)
    first = int(places.min())
    law: Floats = np.bincount(places - first, weights / weights.sum()).astype(np.float64)
    return first, law


def smooth_row_loss(move: float, parameter: float, step: float, *, up: bool) -> tuple[int, Floats]:
    """Return the same for noise so wide that it is continuous, but for a draw at the end of a cell: one cell more."""
    centre, deviation = move**2 / (2 * parameter), abs(move) / sqrt(parameter)
    first, last = (floor((centre + far * deviation) / step) for far in (-MAX_DEVIATIONS, MAX_DEVIATIONS))
    edges = (np.arange(first, last + 2) * step - centre) / deviation
    return first + (2 if up else -1), np.diff(ndtr(edges))


def solve_epsilon(losses: Floats, chances: Floats, delta: float) -> float:
    """Find the least epsilon whose delta is at most `delta`, by halving."""
    low, high = 0.0, max(0.0, float(losses[-1]))
    for _ in range(MAX_HALVINGS):
        middle = (low + high) / 2
        above = losses > middle
        is_less = float(chances[above] @ -np.expm1(middle - losses[above])) <= delta
        low, high = (low, middle) if is_less else (middle, high)
    return high


MAX_COMPARED_UNITS = 2000  # units that are compared
MAX_PRICED_UNITS = 3  # units none of which moves all rows as far as another, and that are priced one by one

TickMoves = tuple[Floats, Sequence[Any]]  # of each row by each tick, and the laws of the rows
MovesByParameter = dict[float, tuple[float, ...]]  # moves of rows, largest first, by the parameter of the noise


def price_as_stated(
    claim: LinearMechanism[Any], known: WorstCase, delta: float, strategy: Strategy | None, probed: LinearView | None
) -> WorstCase:
    """Return an interval: the sure loss of the unit with most rho, and a bound for every unit.

    Args:
        known: the same in rho
        strategy: the matrices, if the code agrees with them
        probed: the view of the code, if all ticks were probed and no layout differs
    """
    if known.floor == inf:  # no view of the two worlds is the same
        return known
    seen = read_moves(probed if strategy is None else build_view(strategy))
    measured = seen
    if strategy is not None:
        measured = strategy.measure * np.array(strategy.grids, np.float64)[:, None], strategy.distributions
    least = 0.0 if seen is None else bound_unit(claim, seen, known.pattern, delta)
    most = bound_all_units(claim, measured, float(known.amount), delta)
    return replace(known, amount=max(least, most), lower_bound=least)


def read_moves(view: LinearView | None) -> TickMoves | None:
    """Return the moves of a view, if it determines all draws of Gaussian noise."""
    if view is None or view.nonlinear_streams or not (view.is_gaussian and view.is_injective):
        return None
    if any(source.draws != 1 for source in view.sources):
        return None
    return view.inverse @ view.by_data, [source.law for source in view.sources]


def bound_unit(claim: LinearMechanism[Any], seen: TickMoves, pattern: Pattern, delta: float) -> float:
    """Return the loss of one unit that moves one number in all ticks by the same sign."""
    moves, laws = seen
    moved = np.abs(moves[:, to_indices(pattern)].sum(axis=1)) * isqrt(int(claim.tick_sensitivity.l2_squared))
    return bound_epsilon_cached(tuple(to_row_list(group_moves(build_rows(moved, laws)))), delta)[0]


def bound_all_units(claim: LinearMechanism[Any], measured: TickMoves | None, rho: float, delta: float) -> float:
    """Return a bound for all units, to one who sees all measurements."""
    if not rho < inf:
        return inf
    bound = float(Zcdp(rho).as_approx(delta).epsilon) if rho else 0.0
    if measured is None or not is_enumerable(claim.unit, measured[0].shape[1], MAX_COMPARED_UNITS):
        return bound
    moves, laws = np.abs(measured[0]) * sqrt(claim.tick_sensitivity.l2_squared), measured[1]
    sums = (moves[:, to_indices(pattern)].sum(axis=1) for pattern in list_patterns(claim.unit, moves.shape[1]))
    found = drop_dominated(group_moves(build_rows(each, laws)) for each in sums)
    if len(found) > MAX_PRICED_UNITS:
        return bound
    return min(bound, max(bound_epsilon_cached(tuple(to_row_list(each)), delta)[1] for each in found))


bound_epsilon_cached = lru_cache(maxsize=16)(bound_epsilon)  # of the same moves, from below and from above


def to_indices(pattern: Pattern) -> list[int]:
    return [tick - 1 for tick in pattern]


def build_rows(moved: Floats, laws: Sequence[Any]) -> list[MovedRow]:
    """Return moves and parameters, rounded to remove float error."""
    return [(round(float(m), 6), float(law.parameter)) for m, law in zip(moved, laws, strict=True)]


def group_moves(rows: Sequence[MovedRow]) -> MovesByParameter:
    """
    >>> group_moves([(1, 20.0), (3, 20.0), (0, 5.0)])
    {20.0: (3, 1)}
    """
    ordered = sorted(((width, -move) for move, width in rows if move))
    groups = groupby(ordered, key=lambda row: row[0])
    return {width: tuple(-move for _, move in group) for width, group in groups}


def to_row_list(moves: MovesByParameter) -> list[MovedRow]:
    return [(move, width) for width, every in moves.items() for move in every]


def drop_dominated(found: Iterator[MovesByParameter]) -> list[MovesByParameter]:
    """Drop those that another exceeds everywhere."""
    chosen: list[MovesByParameter] = []
    for moves in found:
        if not any(is_dominating(other, moves) for other in chosen):
            chosen = [other for other in chosen if not is_dominating(moves, other)] + [moves]
    return chosen


def is_dominating(one: MovesByParameter, other: MovesByParameter) -> bool:
    """
    >>> is_dominating({20.0: (3, 1)}, {20.0: (2,)}), is_dominating({20.0: (3, 1)}, {5.0: (1,)})
    (True, False)
    """
    return all(
        len(moves) <= len(one.get(width, ()))
        and all(most >= move for most, move in zip(one[width], moves, strict=False))
        for width, moves in other.items()
    )
