"""The noise of many ticks: each law once, scaled for its tick, and never too narrow."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import Binary, BufferedToeplitz, ExponentialDecay, Hybrid, Kary, SquareRoot
from streamgauge.noise import NoiseSum
from streamgauge.statistics import Count
from streamgauge.statistics.estimate import NoiseLaws, TickNoises, half_width_factors, noise_half_widths, noise_stddevs

TICKS = 8


def counters() -> Iterator[Any]:
    for loss in (sg.Pure(1), sg.Zcdp("1/20")):
        for cls in (Kary, SquareRoot, BufferedToeplitz, Hybrid):
            if loss in (sg.Pure(1),) and cls in (SquareRoot, BufferedToeplitz):
                continue
            yield Count(loss, horizon=TICKS, mechanism=cls).counter
        yield Count(loss, window="decayed 5", mechanism=ExponentialDecay).counter
        yield Count(loss, window="sliding 7").counter


every_counter = pytest.mark.parametrize("counter", list(counters()), ids=repr)


def all_noises(counter: Any) -> list[NoiseSum]:
    return [counter.noise_at(tick) for tick in range(1, TICKS + 1)]


@every_counter
def test_half_widths_are_those_of_each_tick_and_never_less(counter: Any) -> None:
    noises = all_noises(counter)
    exact = np.array([noise.half_width(0.95) for noise in noises])
    found = noise_half_widths(TickNoises(counter, 1, TICKS), 0.95).ravel()
    assert (found >= exact).all()
    np.testing.assert_allclose(found, exact, rtol=1e-15)
    np.testing.assert_array_equal(found, noise_half_widths(noises, 0.95).ravel())
    np.testing.assert_allclose(noise_stddevs(noises).ravel(), [noise.stddev for noise in noises], rtol=1e-14)


@every_counter
def test_factors_are_half_widths_in_standard_deviations(counter: Any) -> None:
    noises = all_noises(counter)
    for confidence in (0.5, 0.95):
        exact = [noise.half_width(confidence) / noise.stddev for noise in noises if noise.stddev >= 2]
        found = half_width_factors(noises, confidence, 1).ravel()[[noise.stddev >= 2 for noise in noises]]
        np.testing.assert_allclose(found, exact, rtol=1e-12)
    assert (half_width_factors(noises, 0.95, 3) >= half_width_factors(noises, 0.95, 1) * (1 - 1e-12)).all()


def test_toeplitz_counter_has_one_law_and_tree_has_several() -> None:
    toeplitz = Count(sg.Zcdp(1), horizon=TICKS, mechanism=BufferedToeplitz).counter
    tree = Count(sg.Pure(1), horizon=TICKS, mechanism=Binary).counter
    assert len(NoiseLaws.from_noises(all_noises(toeplitz)).distinct_laws) == 1
    assert len(NoiseLaws.from_noises(all_noises(tree)).distinct_laws) == len(set(all_noises(tree))) < TICKS


def test_the_scale_of_a_law_matters() -> None:
    """The broken twin: laws without their scales."""
    noises = all_noises(Count(sg.Zcdp(1), horizon=TICKS, mechanism=BufferedToeplitz).counter)
    laws = NoiseLaws.from_noises(noises)
    wrong = NoiseLaws(laws.distinct_laws, laws.law_indices, np.ones(TICKS)).map_outwards(
        lambda law: law.half_width(0.95)
    )
    right = laws.map_outwards(lambda law: law.half_width(0.95))
    exact = [noise.half_width(0.95) for noise in noises]
    assert np.allclose(right, exact)
    assert not np.allclose(wrong, exact)


def test_exact_zero_stays_exact_zero() -> None:
    assert noise_half_widths([NoiseSum(()), NoiseSum(())], 0.95).tolist() == [[0.0], [0.0]]
    assert half_width_factors([NoiseSum(())], 0.95, 2).tolist() == [[0.0]]
    assert noise_half_widths([], 0.95).shape == (0, 1)
