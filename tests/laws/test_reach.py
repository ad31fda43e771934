"""Laws of bounds: a unit that moves several numbers of a tick loses the claim, and not much less.

The effect of a move m of a tick's vector is enumerated from the strategy, row by row and coordinate by coordinate.
The mechanism's own sensitivity is not used.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import LinearMechanism, Strategy
from streamgauge.noise import DiscreteLaplace
from streamgauge.privacy import Sensitivity, Tick
from tests.support.catalogue import Case, every_case, every_kept_case

MOVES = {
    "replaced in a histogram": ((1, -1), Sensitivity(2, 2, 2)),
    "count, sum and squares": ((3, -2, 1), Sensitivity(6, 14, 3)),
}
every_move = pytest.mark.parametrize(("move", "reach"), MOVES.values(), ids=MOVES)
UNITS = [sg.WEvent(4), sg.User(1, 3), sg.User(2, 2), sg.Event(replace=True, moves=True), Tick(3)]
HORIZONS = [1, 2, 3, 4, 5, 7, 8, 9, 16, 31, 64, 100, 255, 300]
FEW = [1, 8, 300]  # horizons for (epsilon, delta), which is stored as a rho
SLACK = 1e-4  # excess charge that a rounded recursion is allowed


def lost(strategy: Strategy, ticks: tuple[int, ...], moves: np.ndarray) -> float:
    """Return the loss if the vectors differ by `moves`, one row a tick, at `ticks` (from 0)."""
    moved = strategy.measure[:, list(ticks)] @ moves * np.array(strategy.grids)[:, None]
    total = 0.0
    for row, distribution in zip(moved, strategy.distributions, strict=True):
        if isinstance(distribution, DiscreteLaplace):
            total += np.abs(row).sum() / float(distribution.scale)
        else:
            total += (row**2).sum() / float(2 * distribution.parameter)
    return total


def declared(claim: LinearMechanism[Any]) -> float:
    return float(claim.charged_loss.amount)


@pytest.mark.one_of_each("case", "move")
@every_case
@every_move
def test_one_tick_of_several_numbers_loses_the_declared_loss(case: Case, move: Any, reach: Sensitivity) -> None:
    unbounded = case.unbounded
    for horizon in FEW if case.loss.currency == "approximate" else HORIZONS:
        claim = case.claim(horizon, bound=reach)
        worst = worst_of_one(claim, horizon, move)
        assert worst <= declared(claim) * (1 + 1e-12)
        assert worst >= declared(claim) * (1 - SLACK) or (unbounded and horizon < 300)


def worst_of_one(claim: LinearMechanism[Any], ticks: int, move: tuple[int, ...]) -> float:
    """Return the loss at the worst tick. Unlike `lost`, compute the costs of rows once."""
    strategy, moves = claim.strategy(ticks), np.array(move, float)
    grids = np.array(strategy.grids, float)
    first = strategy.distributions[0]
    if isinstance(first, DiscreteLaplace):
        costs = grids / np.array([float(d.scale) for d in strategy.distributions])
        return float((costs @ np.abs(strategy.measure)).max() * np.abs(moves).sum())
    costs = grids**2 / np.array([float(2 * d.parameter) for d in strategy.distributions])
    return float((costs @ strategy.measure**2).max() * (moves**2).sum())


@every_case
@every_move
def test_loss_of_a_tick_matches_its_definition(case: Case, move: Any, reach: Sensitivity) -> None:
    claim = case.claim(9, bound=reach)
    strategy = claim.strategy(9)
    enumerated = max(lost(strategy, (t,), np.array([move])) for t in range(9))
    assert enumerated == pytest.approx(worst_of_one(claim, 9, move), rel=1e-12)


@pytest.mark.one_of_each("case", "move")
@every_case
@every_move
def test_twin_that_omits_a_coordinate_is_caught(case: Case, move: Any, reach: Sensitivity) -> None:
    """If only its largest number bounds it, the vector's move exceeds the claim."""
    claim = case.claim(300, bound=max(map(abs, move)))
    assert worst_of_one(claim, 300, move) > declared(claim) * 1.2


def directions(move: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield all moves of the same sensitivity: its numbers in any order, with any signs."""
    for order in sorted(set(permutations(move))):
        for signs in product((1, -1), repeat=len(order)):
            yield tuple(sign * number for sign, number in zip(signs, order, strict=True))


def units_of(case: Case) -> list[Any]:
    """Return the units that a claim accepts. Pan-private ones refuse users, see test_pan_private."""
    refused: Any = sg.User if dict(case.settings).get("pan_private") else ()
    return [unit for unit in UNITS if not isinstance(unit, refused)]


@pytest.mark.one_of_each("case")
@every_kept_case
@every_move
def test_units_of_several_ticks_lose_at_most_the_claim(case: Case, move: Any, reach: Sensitivity) -> None:
    ticks = 8
    for unit in units_of(case):
        claim, chance = case.claim(ticks, unit=unit, bound=reach.scale(unit.events)), np.random.default_rng(1)
        strategy, most = claim.strategy(ticks), declared(claim) * (1 + 1e-12)
        ways = np.array(list(directions(move))) * unit.events
        sets = combinations(range(ticks), unit.ticks)
        patterns = [p for p in sets if not unit.consecutive or p[-1] - p[0] == len(p) - 1]
        for pattern in patterns:
            assert lost(strategy, pattern, np.array([ways[0]] * len(pattern))) <= most, unit
            assert lost(strategy, pattern, chance.choice(ways, len(pattern))) <= most, unit


@every_kept_case
def test_sensitivity_cost_is_proportional_to_l1_or_squared_l2(case: Case) -> None:
    """For any unit: moves of several ticks can all have the same sign."""
    for unit in units_of(case):
        one = case.claim(20, unit=unit, bound=unit.events).strategy(20)
        for _, reach in MOVES.values():
            many = case.claim(20, unit=unit, bound=reach.scale(unit.events)).strategy(20)
            proportional(one, many, reach)


def proportional(one: Strategy, many: Strategy, reach: Sensitivity) -> None:
    for a, b, grid, other in zip(one.distributions, many.distributions, one.grids, many.grids, strict=True):
        if isinstance(a, DiscreteLaplace):
            assert b.scale == a.scale * reach.l1
        else:
            ratio = Fraction(b.parameter * grid**2, a.parameter * other**2)
            assert float(ratio) == pytest.approx(float(reach.l2_squared), rel=SLACK)


@every_case
def test_a_whole_bound_is_a_reach_of_one_direction(case: Case) -> None:
    for bound in (1, 3):
        claim, twin = (case.claim(20, bound=bound), case.claim(20, bound=Sensitivity(bound, bound**2, bound**2)))
        assert claim.distribution == twin.distribution
        assert claim.tick_sensitivity == twin.tick_sensitivity
        assert f"bound={bound}," in repr(claim)
        assert claim.identity() != twin.identity()


@pytest.mark.one_of_each("case")
@every_case
def test_a_run_under_a_reach_is_saved_and_loaded(case: Case) -> None:
    claim = case.claim(20, bound=Sensitivity(6, 14, 3))
    run = claim.start(3)
    run.feed(np.ones((5, 3), int))
    assert case.claim(20, bound=Sensitivity("6", 14.0, 3)).load(run.save()).tick == 5
    with pytest.raises(sg.continual.InvalidSaveError, match=r"^saved must be a run of .*l2_squared=15"):
        case.claim(20, bound=Sensitivity(6, 15, 3)).load(run.save())


@every_case
def test_a_reach_that_makes_no_claim_is_refused(case: Case) -> None:
    for bad in (Sensitivity(0, 0), Sensitivity(1, 0, 2), (2, 2), Fraction(5, 2)):
        with pytest.raises(
            ValueError, match=r"^bound must be a whole number of at least 1 or a Sensitivity above 0, got"
        ):
            case.claim(20, bound=bad)
    with pytest.raises(ValueError, match=r"^bound must be at least the unit's 5 events a tick, got Sensitivity"):
        case.claim(20, unit=Tick(5), bound=Sensitivity(4, 16))
    assert case.claim(20, unit=Tick(5), bound=Sensitivity(5, 13, 2)).tick_sensitivity.l1 == 5


def test_twin_that_uses_l2_for_every_loss_is_caught() -> None:
    claim = sg.continual.Kary(sg.Pure(1), horizon=20, bound=Sensitivity(6, 14, 3))
    twin = replace(claim, bound=Sensitivity(4, 14, 3))  # 4 is above the L2 norm of (3, -2, 1), and below its L1 norm
    assert worst_of_one(twin, 20, (3, -2, 1)) > declared(twin)
