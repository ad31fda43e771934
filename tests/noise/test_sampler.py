"""Draws have the law they claim: chi-square with power both ways, and broken twins that it catches."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest
from chi_square import NEVER, p_value, two_sample_p_value

from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, sampler
from streamgauge.noise.laws import GaussianLaw, LaplaceLaw
from streamgauge.noise.source import sample
from streamgauge.testing import InsecureKeystream, InsecureNoise

SIZE = 1 << 18
SCALES = [
    Fraction(1, 3),
    Fraction(1),
    Fraction(20),
    Fraction(355, 113),
    Fraction(100),
    Fraction(10**4),
    Fraction(2**40),
]


def laplace(scale):
    return DiscreteLaplace(Fraction(scale))


def gaussian(sigma):
    return DiscreteGaussian(Fraction(sigma) ** 2)


def edges_of(law):
    """Every value where that is few, else 200 equal steps over eight deviations."""
    reach = int(8 * sqrt(law.variance)) + 3
    return np.unique(np.linspace(-reach, reach, min(2 * reach + 1, 201)).astype(np.int64))


def draws_of(law, seed=1, size=SIZE):
    return law.draw(InsecureNoise(seed), size)


@pytest.mark.parametrize("law", [f(s) for f in (laplace, gaussian) for s in SCALES], ids=str)
def test_draws_have_the_exact_law(law):
    assert p_value(draws_of(law), law.tail, edges_of(law)) > NEVER


@pytest.mark.parametrize("factor", [Fraction(7, 10), Fraction(13, 10)])
@pytest.mark.parametrize("scale", SCALES, ids=str)
@pytest.mark.parametrize("family", [laplace, gaussian])
def test_another_scale_is_caught(family, scale, factor):
    law = family(scale)
    assert p_value(draws_of(family(scale * factor)), law.tail, edges_of(law)) < NEVER


@pytest.mark.parametrize("law", [laplace(100), gaussian(100), laplace(2**40), gaussian(2**42)], ids=str)
def test_far_tails_are_as_heavy_as_claimed(law):
    draws = np.abs(draws_of(law, seed=2, size=1 << 20))
    for deviations in (2, 3, 4):
        edge = int(deviations * sqrt(law.variance))
        expected = 2 * law.tail(edge) * len(draws)
        assert abs(int((draws >= edge).sum()) - expected) < 6.5 * sqrt(expected) + 6.5


@pytest.mark.parametrize("law", [laplace(1), laplace(300), gaussian(2), gaussian(2**42)], ids=str)
def test_signs_are_even_and_neighbours_independent(law):
    signs = np.sign(draws_of(law, seed=3, size=1 << 20))
    assert abs(int(signs.sum())) < 6.5 * sqrt(len(signs))
    assert abs(int((signs[1:] * signs[:-1]).sum())) < 6.5 * sqrt(len(signs))


@pytest.mark.parametrize("law", [laplace(300), gaussian(300)], ids=str)
def test_sizes_of_neighbours_are_independent(law):
    draws = np.abs(draws_of(law, seed=4, size=1 << 20)).astype(float)
    centred = (draws - draws.mean()) / draws.std()
    for lag in (1, 2, 7):
        assert abs((centred[lag:] * centred[:-lag]).mean()) < 6.5 / sqrt(len(draws))


def test_tiny_scales_are_nearly_always_zero():
    assert not draws_of(laplace(Fraction(1, 1000)), size=1 << 20).any()
    assert not draws_of(DiscreteGaussian(Fraction(1, 1000)), size=1 << 20).any()
    assert not draws_of(laplace(Fraction(1, 10**12)), size=100).any()


@pytest.mark.parametrize("law", [laplace(2**40), gaussian(2**42), gaussian(2**45)], ids=str)
def test_low_bits_of_wide_noise_are_even(law):
    low = draws_of(law, seed=5) & 255
    assert p_value(low, lambda k: 1 - k / 256, np.arange(1, 256)) > NEVER


def phase_z(law, draws, shift):
    """Deviations by which the outer halves of the buckets are hit too often."""
    magnitude = np.where(draws >= 0, draws, -draws - 1)
    outer = (magnitude >> (shift - 1)) & 1
    middles = [(2 * c + 1) << (shift - 1) for c in range(4000)]
    half = 1 << (shift - 1)
    chance = sum(law.tail(m + side) - law.tail(m + half + side) for m in middles for side in (0, 1))
    return (outer.mean() - chance) / sqrt(chance * (1 - chance) / len(draws))


def test_the_wedge_puts_mass_where_the_law_has_it():
    law, size = laplace(2**13), 1 << 22
    assert abs(phase_z(law, draws_of(law, seed=6, size=size), 7)) < 6.5


def test_a_twin_that_keeps_the_whole_wedge_is_caught(monkeypatch):
    monkeypatch.setattr(sampler, "_dropped", lambda table, entropy, place, offset: np.zeros(len(place), bool))
    law, size = laplace(2**13), 1 << 22
    assert abs(phase_z(law, draws_of(law, seed=6, size=size), 7)) > 6.5


def test_a_twin_with_thresholds_of_eight_bits_is_caught():
    law = laplace(20)
    bytes_ = np.empty(SIZE, np.uint8)
    InsecureKeystream("eight bits").fill(bytes_)
    order = np.array([k for m in range(400) for k in ((m,) if m == 0 else (-m, m))])
    bounds = np.cumsum([law.pmf(int(k)) for k in order])
    draws = order[np.searchsorted(np.floor(bounds * 256), bytes_, side="right").clip(0, len(order) - 1)]
    assert p_value(draws, law.tail, edges_of(law)) < NEVER


def test_a_twin_that_keeps_minus_zero_is_caught():
    law = laplace(20)
    draws = draws_of(law)
    geometric = draws[draws >= 0]
    signs = 2 * (draws_of(gaussian(2**20), seed=9, size=len(geometric)) & 1) - 1
    assert p_value(geometric * signs, law.tail, edges_of(law)) < NEVER


def test_a_twin_with_biased_signs_is_caught():
    law = laplace(100)
    draws = draws_of(law)
    flip = draws_of(gaussian(2**20), seed=9) % 20 == 0
    assert p_value(np.where(flip, np.abs(draws), draws), law.tail, edges_of(law)) < NEVER


def test_opendp_draws_the_same_laws():
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = np.array(dp.m.make_laplace(*space, scale=5.0)([0] * 20_000))
    assert two_sample_p_value(sample(LaplaceLaw(Fraction(5)), InsecureKeystream("a"), 20_000), theirs) > NEVER
    assert two_sample_p_value(sample(LaplaceLaw(Fraction(7)), InsecureKeystream("a"), 20_000), theirs) < NEVER
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=5.0)([0] * 20_000))
    assert (
        two_sample_p_value(sample(GaussianLaw(Fraction(25)), InsecureKeystream("b"), 20_000), theirs) > NEVER
    )
    assert (
        two_sample_p_value(sample(GaussianLaw(Fraction(49)), InsecureKeystream("b"), 20_000), theirs) < NEVER
    )
