"""Exact laws, no chance: what a mechanism releases, measures and charges."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from streamgauge.continual import ExponentialDecay, LinearMechanism, PolynomialDecay, WindowBridge, WindowSum
from streamgauge.noise import DiscreteLaplace
from streamgauge.testing.noise import CountedNoise, ImpulseNoise, SilentNoise
from tests.support.catalogue import CASES, KEPT, Case, every_case, exported, mechanisms

TICKS = 40
CLOSE = 1e-9


def stream(ticks: int, width: int = 1) -> np.ndarray:
    return np.random.default_rng(7).integers(-5, 50, (ticks, width))


def test_every_mechanism_is_exported_or_is_the_way_of_one_that_is() -> None:
    ways = {type(getattr(case.claim(TICKS), "implementation", None)) for case in CASES}
    assert set(mechanisms()) <= {*exported(), *ways}


def test_laws_that_are_not_tried_on_every_loss_are_tried_on_every_mechanism_and_its_settings() -> None:
    assert {(case.cls, case.settings) for case in CASES} == {(case.cls, case.settings) for case in KEPT}


@every_case
def test_silent_noise_gives_the_exact_answer_at_every_tick(case: Case) -> None:
    claim, values = case.claim(TICKS), stream(TICKS, 3)
    run = claim.start(3, SilentNoise())
    released = np.array([run.step(row) for row in values])
    truth = claim.strategy(TICKS).workload @ values
    off = np.array([claim.deviation(t) for t in range(1, TICKS + 1)])[:, None]
    allowed = off * np.cumsum(np.abs(values), axis=0) + CLOSE
    assert (np.abs(released - truth) <= allowed).all()
    assert off.max() < 1e-6


def requested_settings(claim: LinearMechanism[Any]) -> np.ndarray:
    """The weight of item s in the answer at tick t: running sums, unless the claim says otherwise."""
    age = np.subtract.outer(np.arange(TICKS), np.arange(TICKS))
    weights = np.ones_like(age, float)
    if hasattr(claim, "window"):
        weights = (age < claim.window).astype(float)
    if hasattr(claim, "decay_factor"):
        weights = float(claim.decay_factor) ** np.maximum(age, 0)
    if hasattr(claim, "exponent"):
        weights = (np.maximum(age, 0) + 1.0) ** -float(Fraction(claim.exponent))
    return np.where(age >= 0, weights, 0)


@every_case
def test_the_decoded_strategy_is_the_requested_query(case: Case) -> None:
    claim = case.claim(TICKS)
    answers = requested_settings(claim)
    np.testing.assert_allclose(claim.strategy(TICKS).workload, answers, atol=1e-6)
    others = WindowSum | WindowBridge | ExponentialDecay | PolynomialDecay
    assert isinstance(claim, others) or (answers == np.tri(TICKS)).all()


@pytest.mark.one_of_each("case")
@every_case
def test_the_noise_is_decoded_as_the_strategy_says(case: Case) -> None:
    claim = case.claim(TICKS)
    strategy = claim.strategy(TICKS)
    for draw, row in enumerate(strategy.draws):
        unit = strategy.grids[row]
        released = claim.start(1, ImpulseNoise(draw, unit)).feed(np.zeros((TICKS, 1), int))[:, 0]
        np.testing.assert_allclose(released, strategy.decode[:, row], rtol=1e-6, atol=1e-6)


@every_case
def test_noise_is_drawn_once_for_every_row_and_of_its_scale(case: Case) -> None:
    claim, noise = case.claim(TICKS), CountedNoise(SilentNoise())
    run = claim.start(1, noise)
    for value in stream(TICKS):
        run.step(value)
    drawn = [(kind, scale) for kind, scale, size in noise.requests for _ in range(size)]
    strategy = claim.strategy(TICKS)
    assert drawn == [request(strategy.distributions[row]) for row in strategy.draws]


def request(distribution: object) -> tuple[str, object]:
    if isinstance(distribution, DiscreteLaplace):
        return "laplace", distribution.scale
    return "gaussian", distribution.parameter


@every_case
def test_the_standard_error_is_that_of_the_strategy(case: Case) -> None:
    claim = case.claim(TICKS)
    strategy = claim.strategy(TICKS)
    one = np.array([d.variance / g**2 for d, g in zip(strategy.distributions, strategy.grids, strict=True)])
    copies = np.bincount(strategy.draws, minlength=len(one))
    variances = strategy.decode**2 @ (one * copies)
    predicted = [claim.noise_at(t).variance for t in range(1, TICKS + 1)]
    np.testing.assert_allclose(predicted, variances, rtol=1e-6)
    assert claim.mean_variance(TICKS) == pytest.approx(variances.mean(), rel=1e-6)
    assert claim.mean_variance(17) == pytest.approx(variances[:17].mean(), rel=1e-6)
