"""Draws have the law they claim: chi-square with power both ways, and broken twins that it catches."""

from dataclasses import replace
from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, sampler
from streamgauge.noise.sampler_table import SLOW_CODE, GaussianLaw, LaplaceLaw, build_table
from streamgauge.noise.source import sample
from streamgauge.testing.noise import InsecureKeystream, InsecureNoise
from tests.support.chi_square import NEVER, p_value, two_sample_p_value

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
    """Return every value if they are few, else 200 equal steps across eight deviations."""
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


@pytest.mark.parametrize("law", [laplace(2**54), gaussian(2**54)], ids=str)
def test_low_bits_beyond_float_precision_are_even(law):
    draws = draws_of(law, seed=5)
    low = draws[np.abs(draws) > 2**53] & 255
    assert len(low) > SIZE // 2
    assert p_value(low, lambda k: 1 - k / 256, np.arange(1, 256)) > NEVER


class KnownBytes:
    """Entropy that returns these arrays, one after the other."""

    def __init__(self, *arrays):
        self.arrays = [array.view(np.uint8) for array in arrays]

    def fill(self, out):
        out[:] = self.arrays.pop(0)


@pytest.mark.parametrize("law", [LaplaceLaw(Fraction(2**54)), GaussianLaw(Fraction(2**108))], ids=str)
def test_draw_equals_its_bucket_plus_its_low_bits(law):
    built = build_table(law)
    decided = np.flatnonzero(built.codes != SLOW_CODE).astype(np.uint16)
    for low in (2**48 - 1, 2**48 - 2, 1, 0):
        out = np.empty(len(decided), np.int64)
        entropy = KnownBytes(decided, np.full(len(decided), low, np.uint64), np.empty(0, np.uint64))
        assert len(sampler.draw_chunk(built, entropy, out)) == 0
        assert out.tolist() == [(code << 48) + low for code in built.codes[decided].tolist()]


class Watched(np.ndarray):
    """An array that rejects operations on anything except integers and booleans."""

    def __array_ufunc__(self, ufunc, method, *inputs, out=(), **options):
        if method == "__call__":
            given = [type(one) if isinstance(one, int) else np.asarray(one).dtype for one in inputs]
            wanted = (None,) * len(given) + (np.dtype(options["dtype"]) if "dtype" in options else None,)
            loop = ufunc.resolve_dtypes((*given, None), signature=wanted, casting="unsafe")
            assert {one.kind for one in loop} <= set("iub"), (ufunc, loop)
        plain = [one.view(np.ndarray) if isinstance(one, Watched) else one for one in inputs]
        if out:
            options["out"] = tuple(one.view(np.ndarray) for one in out)
        result = getattr(ufunc, method)(*plain, **options)
        return out[0] if out else watched(result)

    def __array_function__(self, function, types, args, options):
        result = super().__array_function__(function, types, args, options)
        return watched(result) if isinstance(result, np.ndarray) else result


def watched(array):
    array = np.asarray(array)
    assert array.dtype.kind in "iub"
    return array.view(Watched)


def draw_watched(monkeypatch, law, size=1 << 11):
    monkeypatch.setattr(
        sampler, "draw_bytes", lambda entropy, size, fresh=sampler.draw_bytes: watched(fresh(entropy, size))
    )
    built = build_table(law)
    arrays = {name: watched(value) for name, value in vars(built).items() if isinstance(value, np.ndarray)}
    out = np.empty(size, np.int64)
    sampler.fill_draws(replace(built, **arrays), InsecureKeystream("watched"), out.view(Watched))
    return out


@pytest.mark.one_of_each
@pytest.mark.parametrize("shift", range(49))
def test_array_loops_of_a_draw_use_integers_only(monkeypatch, shift):
    laws = [LaplaceLaw(Fraction(2 ** (6 + shift))), GaussianLaw(Fraction(4 ** (6 + shift)))]
    for law in laws if shift % 8 in (0, 1) else laws[:1]:
        assert build_table(law).partition.shift == shift
        assert (draw_watched(monkeypatch, law) == sample(law, InsecureKeystream("watched"), 1 << 11)).all()


def test_loop_with_floats_is_detected():
    with pytest.raises(AssertionError):
        np.add(watched(np.ones(3, np.int64)), np.ones(3, np.uint64), casting="unsafe")
    with pytest.raises(AssertionError):
        watched(np.ones(3, np.int64)) / 2


def phase_z(law, draws, shift):
    """Return the excess of draws in the outer bucket halves, in standard deviations."""
    magnitude = np.where(draws >= 0, draws, -draws - 1)
    outer = (magnitude >> (shift - 1)) & 1
    middles = [(2 * c + 1) << (shift - 1) for c in range(4000)]
    half = 1 << (shift - 1)
    chance = sum(law.tail(m + side) - law.tail(m + half + side) for m in middles for side in (0, 1))
    return (outer.mean() - chance) / sqrt(chance * (1 - chance) / len(draws))


def test_wedge_mass_matches_the_law():
    law, size = laplace(2**13), 1 << 22
    assert abs(phase_z(law, draws_of(law, seed=6, size=size), 7)) < 6.5


def test_a_twin_that_keeps_the_whole_wedge_is_caught(monkeypatch):
    monkeypatch.setattr(sampler, "reject_wedge", lambda table, entropy, place, offset: np.zeros(len(place), bool))
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
    assert two_sample_p_value(sample(GaussianLaw(Fraction(25)), InsecureKeystream("b"), 20_000), theirs) > NEVER
    assert two_sample_p_value(sample(GaussianLaw(Fraction(49)), InsecureKeystream("b"), 20_000), theirs) < NEVER
