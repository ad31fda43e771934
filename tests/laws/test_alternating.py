"""Moves that alternate in sign: w of them cost at most w times one, for every mechanism that says so."""

from itertools import combinations
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import BufferedToeplitz, choose
from streamgauge.noise import DiscreteLaplace
from tests.support.catalogue import Case, every_case

TICKS = 9
WINDOWED = {"WindowSum", "ExponentialDecay", "PolynomialDecay"}  # of windows in which no statistic alternates


def costs_of(strategy: Any) -> tuple[np.ndarray, bool]:
    """Return the cost of a move of 1 in each row, or its square; True for pure loss."""
    rows = list(zip(strategy.distributions, strategy.grids, strict=True))
    pure = isinstance(rows[0][0], DiscreteLaplace)
    prices = [grid / float(d.scale) if pure else grid**2 / float(2 * d.parameter) for d, grid in rows]
    return np.array(prices), pure


@every_case
def test_overlaps_fall_with_distance_where_that_is_said(case: Case) -> None:
    for ticks in (1, 2, 5, 16, 33, 100):
        claim = case.claim(ticks)
        if not claim.has_falling_overlaps:
            assert case.cls.__name__ in WINDOWED or not claim.bounds_alternating or case.loss.currency == "pure"
            continue
        strategy = claim.strategy(ticks)
        gram = (strategy.measure.T * costs_of(strategy)[0]) @ strategy.measure
        later = np.triu(gram[:, 1:] - gram[:, :-1], 1)  # entry (s, t + 1) less (s, t), for t > s
        assert later.max(initial=0) <= 1e-9 * gram.max()
        assert gram.min() >= 0


@pytest.mark.one_of_each("case")
@every_case
def test_every_alternating_sequence_costs_at_most_its_length(case: Case) -> None:
    claim = case.claim(TICKS)
    if not claim.bounds_alternating:
        return
    strategy = claim.strategy(TICKS)
    costs, pure = costs_of(strategy)
    one = (costs @ np.abs(strategy.measure) ** (1 if pure else 2)).max()
    for size in range(1, TICKS + 1):
        signs = np.array([(-1) ** place for place in range(size)])
        moves = np.zeros((TICKS, 0))
        for chosen in combinations(range(TICKS), size):
            moves = np.hstack([moves, np.zeros((TICKS, 1))])
            moves[list(chosen), -1] = signs
        lost = costs @ np.abs(strategy.measure @ moves) ** (1 if pure else 2)
        assert lost.max() <= size * one * (1 + 1e-12)


@pytest.mark.parametrize("horizon", [None, 20, 2**12])
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/2"), sg.Approx(1, 1e-6)])
def test_choose_takes_none_without_a_proof(loss: Any, horizon: int | None) -> None:
    assert choose(loss, horizon=horizon, alternating=True).bounds_alternating
    assert choose(sg.Zcdp(1), horizon=20).bounds_alternating is False


def test_moves_of_one_sign_cost_more_than_their_number() -> None:
    """The broken twin: without alternation, w moves cost nearly w^2 times one."""
    strategy = BufferedToeplitz(sg.Zcdp("1/2"), horizon=64).strategy(64)
    moved = strategy.measure[:, :4].sum(axis=1)
    assert moved @ moved > 2 * 4 * (strategy.measure[:, 0] @ strategy.measure[:, 0])
