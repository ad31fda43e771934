"""The main privacy law: the worst loss of all neighbours, enumerated, equals the claim.

From the strategy: one unit moves column t of C (times its bound); under discrete Laplace noise the
loss is the sum of |moves|/scale, under discrete Gaussian noise the sum of moves^2/(2 parameter).
"""

from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import Binary, LinearMechanism, SmoothBinary, Strategy, TwoLevel
from streamgauge.noise import DiscreteLaplace
from streamgauge.privacy import Tick
from streamgauge.testing.noise import CountedNoise, SilentNoise
from tests.support.catalogue import Case, every_case, every_kept_case

UNITS = [sg.WEvent(4), sg.User(1, 3), sg.User(2, 2), sg.User(2, per=3), sg.Event(replace=True, moves=True), Tick(3)]
EVERY = range(1, 301)
FEW = (1, 2, 7, 27, 100, 300)
SLACK = Fraction(1, 10**4)  # excess charge that a rounded recursion is allowed


def declared(claim: LinearMechanism[Any]) -> Fraction:
    rest = claim.loss.additive_loss
    return rest.amount


def weights(strategy: Strategy, bound: int) -> tuple[np.ndarray, bool]:
    """Return the cost of each row per |move| (Laplace) or per move^2 (Gaussian)."""
    rows = list(zip(strategy.distributions, strategy.grids, strict=True))
    (pure,) = {isinstance(distribution, DiscreteLaplace) for distribution, _ in rows}
    costs = {row: cost(*row, bound) for row in set(rows)}  # few distinct rows
    return np.array([costs[row] for row in rows]), pure


def cost(distribution: Any, grid: int, bound: int) -> float:
    if isinstance(distribution, DiscreteLaplace):
        return float(bound * grid / distribution.scale)
    return float(Fraction((bound * grid) ** 2) / (2 * distribution.parameter))


def worst(strategy: Strategy, bound: int) -> float:
    """Return the worst loss of all neighbours that differ in one tick."""
    costs, pure = weights(strategy, bound)
    return float((costs @ np.abs(strategy.measure) ** (1 if pure else 2)).max())


def check(claim: LinearMechanism[Any], ticks: int, *, tight: bool) -> None:
    loss = worst(claim.strategy(ticks), claim.bound)
    most = float(declared(claim))
    assert loss <= most * (1 + 1e-12)
    assert not tight or loss >= most * float(1 - SLACK), f"{loss} is far below the declared {most}"


@every_case
def test_worst_loss_of_all_neighbours_equals_the_claim(case: Case) -> None:
    """Mechanisms without a horizon need not be tight before tick 300. Others must be."""
    for horizon in FEW:
        check(case.claim(horizon), horizon, tight=not case.unbounded)
    check(case.claim(300, bound=3), 300, tight=True)


@pytest.mark.slow
@every_kept_case
def test_worst_loss_equals_the_claim_at_horizons_to_300(case: Case) -> None:
    """(epsilon, delta) is omitted, since it is calibrated as its stored rho."""
    for horizon in EVERY:
        check(case.claim(horizon), horizon, tight=not case.unbounded)


@every_kept_case
def test_native_units_lose_at_most_the_claim(case: Case) -> None:
    refused: Any = sg.User if dict(case.settings).get("pan_private") else ()  # see test_pan_private
    for unit in UNITS:
        if not isinstance(unit, refused):
            check_unit(case, unit)


def check_unit(case: Case, unit: Any, ticks: int = 12) -> None:
    claim = case.claim(ticks, unit=unit, bound=unit.events)
    strategy = claim.strategy(ticks)
    costs, pure = weights(strategy, claim.bound)
    runs = [range(s, s + unit.ticks) for s in range(ticks - unit.ticks + 1)]
    patterns = runs if unit.consecutive else combinations(range(ticks), unit.ticks)
    moves = [np.abs(strategy.measure[:, list(p)]).sum(axis=1) for p in patterns]
    enumerated = max(float(costs @ move ** (1 if pure else 2)) for move in moves)
    assert enumerated <= float(declared(claim)) * (1 + 1e-12)
    assert claim.mean_variance(ticks) <= grouped(case, ticks, unit.ticks, claim.bound) * (1 + 1e-6)


def grouped(case: Case, ticks: int, size: int, bound: int) -> float:
    """Return the variance of a tick-level calibration that covers a group of `size`."""
    rest = case.loss.additive_loss
    smaller = rest.part(Fraction(1, size**rest.power))
    return Case(case.cls, smaller, case.settings).claim(ticks, bound=bound).mean_variance(ticks)


@every_case
def test_gaussian_noise_is_drawn_after_last_item_of_row(case: Case) -> None:
    """Without this, adaptive privacy is proved for Laplace noise alone."""
    ticks, noise = 40, CountedNoise(SilentNoise())
    claim = case.claim(ticks)
    if claim.strategy(1).distributions[0] != claim.distribution or case.loss.currency == "pure":
        return
    run = claim.start(1, noise)
    drawn = [0] * noise.total
    for tick in range(1, ticks + 1):
        run.step([1])
        drawn += [tick] * (noise.total - len(drawn))
    strategy = claim.strategy(ticks)
    latest = dict(zip(strategy.draws, drawn, strict=True))
    for row, tick in latest.items():
        decoded = strategy.decode[:, row].any()
        assert not decoded or not strategy.measure[row, tick:].any()


def published_part(claim: LinearMechanism[Any], ticks: int) -> float:
    """Return the part of the declared rho that the releases have, were their noise continuous Gaussian.

    Releases are B C x + B z, with noise of covariance v B B': an event at t loses a' (v B B')^-1 a/2, for
    a = B C e_t.
    """
    strategy = claim.strategy(ticks)
    (variance,) = {float(each.parameter) for each in strategy.distributions}
    moves, spread = strategy.workload, variance * strategy.decode @ strategy.decode.T
    losses = np.einsum("ij,ij->j", moves, np.linalg.solve(spread, moves)) / 2
    return float(losses.max()) * claim.bound**2 / float(declared(claim))


@pytest.mark.parametrize(
    ("make", "horizons", "least", "most"),
    [
        (SmoothBinary, (16, 20, 35, 64, 126, 251, 300), 0.54, 0.67),
        (partial(Binary, refine=True), (16, 32, 64, 100, 128, 242, 300), 0.86, 0.88),
        (Binary, (16, 20, 64, 100, 300), 1.0, 1.0),
        (TwoLevel, (16, 20, 64, 100, 300), 1.0, 1.0),
    ],
)
def test_releases_lose_the_stated_share_of_rho(make: Any, horizons: tuple[int, ...], least: float, most: float) -> None:
    """The source of the figures in README.md and docs/continual.md, to two digits."""
    parts = [published_part(make(sg.Zcdp(1), horizon=horizon), horizon) for horizon in horizons]
    assert (round(min(parts), 2), round(max(parts), 2)) == (least, most)
