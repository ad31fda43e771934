"""The worst set of ticks is found without listing all sets, compared with enumeration."""

from itertools import combinations

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import MechanismSubject, Verdict, audit
from streamgauge.audit.exact.worst_case import bound_worst_case_set, exact_loss, max_nested_cost, worst_case_set
from streamgauge.continual import Binary, LinearMechanism, SimpleI, SquareRoot, SubtractiveTree, TwoLevel

TICKS = 7
CHANCE = np.random.default_rng(1)


def truth(moves: np.ndarray, costs: np.ndarray, size: int, power: int = 2) -> float:
    sets = combinations(range(moves.shape[1]), size)
    return max(float(costs @ moves[:, list(each)].sum(axis=1) ** power) for each in sets)


def nested(first: int, end: int) -> list[tuple[int, int]]:
    """Return randomly nested blocks."""
    if end - first < 2:
        return [(first, end)]
    middle = int(CHANCE.integers(first + 1, end))
    return [(first, end), *nested(first, middle), *nested(middle, end)][: int(CHANCE.integers(1, 9))]


@pytest.mark.parametrize("size", range(1, TICKS + 1))
def test_worst_set_of_nested_blocks_is_exact(size: int) -> None:
    for _ in range(20):
        blocks = nested(0, TICKS)
        moves = np.array([[first <= t < end for t in range(TICKS)] for first, end in blocks]) * 2.0
        costs = CHANCE.random(len(blocks))
        assert max_nested_cost(moves, costs, size) == pytest.approx(truth(moves, costs, size))
    assert max_nested_cost(np.array([[1.0, 1, 0], [0, 1, 1]]), np.ones(2), 1) is None
    assert max_nested_cost(np.array([[1.0, 2, 0]]), np.ones(1), 1) is None


@pytest.mark.parametrize("size", range(1, TICKS + 1))
def test_worst_set_lies_between_its_bounds(size: int) -> None:
    away = np.subtract.outer(range(TICKS), range(TICKS))
    for _ in range(20):
        moves = np.abs(CHANCE.normal(size=(4, TICKS)))
        found, costliest = bound_worst_case_set(moves.T @ moves, size), truth(moves, np.ones(4), size)
        assert found.lower_bound <= costliest + 1e-9 <= found.upper_bound + 2e-9
        toeplitz = np.where(away >= 0, np.sort(moves[0])[::-1][np.maximum(away, 0)], 0.0)
        known = bound_worst_case_set(toeplitz.T @ toeplitz, size)
        assert known.lower_bound == known.upper_bound == pytest.approx(truth(toeplitz, np.ones(TICKS), size))
        assert known.pattern == tuple(range(1, size + 1))


def test_additive_losses_are_those_of_the_worst_ticks() -> None:
    moves, costs = CHANCE.random((4, TICKS)), CHANCE.random(4)
    found = worst_case_set(sg.User(1, 3), moves, costs, 1)
    assert found.lower_bound == found.upper_bound == pytest.approx(truth(moves, costs, 3, 1))


LONG = [
    Binary(sg.Pure(1), horizon=40, unit=sg.User(1, 20)),
    Binary(sg.Zcdp(1), horizon=40, unit=sg.User(1, 20)),
    Binary(sg.Zcdp(1), horizon=300, unit=sg.WEvent(9)),
    SimpleI(sg.Pure(1), horizon=270, unit=sg.User(1, 50)),
    TwoLevel(sg.Zcdp(1), horizon=64, unit=sg.User(1, 20)),
    SquareRoot(sg.Zcdp(1), horizon=64, unit=sg.User(1, 20)),
    SubtractiveTree(sg.Pure(1), horizon=100, unit=sg.User(1, 30)),
]


@pytest.mark.one_of_each
@pytest.mark.parametrize("claim", LONG, ids=lambda claim: f"{type(claim).__name__}, {claim.unit}")
def test_units_of_more_patterns_than_can_be_listed_are_decided(claim: LinearMechanism) -> None:
    verdict = audit(MechanismSubject(claim, claim.horizon), runs=0)
    assert verdict.is_proved, verdict.computed_text
    assert verdict.exact is not None
    assert 0.6 < verdict.exact / verdict.claimed <= 1 + 1e-9
    worst = MechanismSubject(claim, claim.horizon).worst()
    some = tuple(range(3, 3 + len(worst.pattern)))
    assert exact_loss(claim.strategy(claim.horizon), claim.tick_sensitivity, some) <= worst.amount


def test_wrongly_calibrated_unit_is_condemned_by_lower_bound() -> None:
    claim = Binary(sg.Zcdp(1), horizon=40, unit=sg.User(1, 20))
    worst = MechanismSubject(claim, 40).worst()
    verdict = Verdict("half", sg.Zcdp("1/2"), worst)
    assert verdict.is_condemned
    assert "computed" in verdict.reasons[0]
