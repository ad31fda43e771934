"""Error bounds of sums of noise: never too narrow, and nearly tight."""

from fractions import Fraction
from itertools import accumulate
from math import erfc, exp, inf, sqrt

import mpmath
import numpy as np
import pytest

from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, NoiseSum, Term, gaussian_variance, laplace_variance
from streamgauge.noise.tail_bounds import chernoff_width, inverted_width, normal_width
from streamgauge.noise.terms import merge_terms
from streamgauge.testing.noise import InsecureNoise


def lap(scale):
    return DiscreteLaplace(Fraction(scale))


def gauss(parameter):
    return DiscreteGaussian(Fraction(parameter))


def exact_pmf(terms, reach):
    """Return the pmf by direct convolution of positive numbers, without cancellation."""
    total = np.ones(1)
    for term in terms:
        one = np.zeros(2 * reach * abs(term.weight) + 1)
        one[:: abs(term.weight)] = [term.distribution.pmf(k) for k in range(-reach, reach + 1)]
        for _ in range(term.count):
            total = np.convolve(total, one)
    return total


INTEGRAL = [
    (Term(1, 1, lap(2)),),
    (Term(3, 1, lap(2)),),
    (Term(2, 1, lap(1)), Term(1, -3, lap(Fraction(1, 2)))),
    (Term(5, -1, gauss(2)),),
    (Term(2, 2, gauss(Fraction(1, 3))), Term(1, 1, lap(1))),
    (Term(4, 1, gauss(30)),),
]


@pytest.mark.parametrize("terms", INTEGRAL, ids=str)
@pytest.mark.parametrize("confidence", [0.0, 0.5, 0.9, 0.95, 0.999, 1 - 1e-9])
def test_half_widths_of_integer_noise_are_exact(terms, confidence):
    pmf = exact_pmf(terms, 60)
    centre = len(pmf) // 2
    beyond = [*[*accumulate(reversed(pmf[centre:].tolist()))][::-1], 0.0]
    least = next(h for h in range(centre) if 2 * beyond[h + 1] <= (1 - confidence) * (1 - 1e-7))
    assert NoiseSum(terms).half_width(confidence) == least
    for x in (1, max(least, 1), least + 1):
        assert beyond[x] <= NoiseSum(terms).upper_tail(x) <= beyond[x] * 1.001 + 1e-15


REAL = [
    (Term(3, 0.7, lap(20)), Term(4, -0.3, lap(20))),
    tuple(Term(1, 0.9**i, lap(3)) for i in range(50)),
    (Term(3, 0.7, gauss(100)),),
    tuple(Term(1, 0.8**i, gauss(25)) for i in range(30)),
    (Term(2, 0.5, gauss(9)), Term(1, 1.5, lap(3))),
    (Term(6, 1, lap(10**4)),),
    (Term(6, 1, lap(2**40)),),
    (Term(3, 0.25, gauss(2**84)), Term(2, 1, gauss(2**84))),
    (Term(40, 1, gauss(10**6)),),
]


@pytest.mark.one_of_each
@pytest.mark.parametrize("terms", REAL, ids=lambda terms: str(terms[0]))
def test_half_widths_agree_with_simulation(terms):
    """A share beta of 2^18 draws lies outside, up to 6 deviations. A width 2.5 % smaller fails."""
    size, noise = 1 << 18, InsecureNoise(11)
    total = np.zeros(size)
    for term in terms:
        draws = term.distribution.draw(noise, size * term.count).reshape(term.count, size)
        total += float(term.weight) * draws.sum(axis=0, dtype=np.float64)
    for confidence in (0.9, 0.99):
        beta, width = 1 - confidence, NoiseSum(terms).half_width(confidence)
        noise_of_share = 6 * sqrt(beta / size)
        assert (np.abs(total) > width).mean() <= beta + noise_of_share
        assert (np.abs(total) > 0.975 * width).mean() >= beta - noise_of_share


@pytest.mark.parametrize("sigma", [5, 50, 2**42])
def test_gaussian_widths_approach_the_normal_ones(sigma):
    noise = NoiseSum(tuple(Term(1, 0.9**i, gauss(sigma**2)) for i in range(40)))
    stddev = sqrt(sum(0.81**i for i in range(40))) * sigma
    assert 0.999 < noise.half_width(0.95) / (1.959964 * stddev) < 1.02
    assert 0.999 < noise.half_width(1 - 2e-9) / (5.99781 * stddev) < 1.02


def test_width_of_wide_laplace_draw_matches_its_exact_tail():
    for scale in (10**4, 2**40):
        law = lap(scale)
        for confidence in (0.5, 0.95, 1 - 1e-6):
            width = NoiseSum((Term(1, 1, law),)).half_width(confidence)
            assert 2 * law.tail(int(width) + 1) <= (1 - confidence) * (1 + 1e-9)
            assert 2 * law.tail(int(0.98 * width)) > 1 - confidence


def test_each_bound_is_above_the_exact_one():
    summands = merge_terms((Term(4, 1, gauss(30)),))
    for need in (1.0, 3.0, 10.0, 40.0):
        exact = inverted_width(summands, need)
        assert exact <= chernoff_width(summands.log_mgf, summands.largest_weight, need)
        assert exact <= normal_width(summands, need)
    assert normal_width(merge_terms((Term(1, 1, lap(3)),)), 3.0) == inf


def test_the_lemma_about_rounded_normals_holds():
    for v in (16.0, 100.0, 1e4):
        theta = mpmath.nsum(lambda k, v=v: mpmath.exp(-k * k / (2 * v)), [-mpmath.inf, mpmath.inf])
        for k in range(int(12 * sqrt(v))):
            cell = (erfc((k - 0.5) / sqrt(2 * v)) - erfc((k + 0.5) / sqrt(2 * v))) / 2
            assert exp(-k * k / (2 * v)) / float(theta) <= (1 + 1 / (12 * v)) * cell * (1 + 1e-9)


def test_simultaneous_bands_are_the_union_bound_and_wider():
    noise = NoiseSum((Term(20, 1, lap(20)),))
    assert noise.simultaneous_half_width(0.95, 1) == noise.half_width(0.95)
    assert noise.simultaneous_half_width(0.95, 1000) == noise.half_width(1 - 0.05 / 1000)
    widths = [noise.simultaneous_half_width(0.95, 10**n) for n in range(0, 15, 2)]
    assert widths == sorted(widths)


def test_widths_grow_with_confidence_and_ignore_signs_order_and_splitting():
    terms = (Term(2, -1.5, lap(3)), Term(1, 2, gauss(4)), Term(0, 5, lap(9)))
    other = (Term(1, 2, gauss(4)), Term(1, 1.5, lap(3)), Term(1, -1.5, lap(3)))
    for confidence in (0.5, 0.9, 0.99):
        assert NoiseSum(terms).half_width(confidence) == NoiseSum(other).half_width(confidence)
    widths = [NoiseSum(terms).half_width(1 - 10.0**-n) for n in range(1, 10)]
    assert widths == sorted(widths)
    assert NoiseSum(terms).variance == pytest.approx(4.5 * lap(3).variance + 4 * gauss(4).variance)


def test_no_noise_has_no_width():
    silent = NoiseSum((Term(0, 1, lap(1)), Term(3, 0, lap(1))))
    for noise in (NoiseSum(()), silent):
        assert (noise.variance, noise.stddev, noise.half_width(0.95), noise.simultaneous_half_width(0.95, 10)) == (
            0,
            0,
            0,
            0,
        )
        assert (noise.upper_tail(0), noise.upper_tail(1)) == (1, 0)


def test_sums_of_many_draws_and_weights_are_bounded():
    many = NoiseSum((Term(10**6, 1, lap(3)), Term(10**6, 1, gauss(1))))
    assert 1.955 < many.half_width(0.95) / many.stddev < 1.965
    decayed = NoiseSum(tuple(Term(1, 0.99**i, lap(3)) for i in range(1000)))
    assert 1.94 < decayed.half_width(0.95) / decayed.stddev < 2.0


@pytest.mark.parametrize("bad", [-0.1, 1.0, 2.0, float("nan")])
def test_a_confidence_outside_its_range_is_refused(bad):
    with pytest.raises(ValueError, match="confidence must be at least 0 and below 1"):
        NoiseSum((Term(1, 1, lap(1)),)).half_width(bad)


def test_bad_terms_and_laws_are_refused():
    with pytest.raises(ValueError, match="count must be at least 0, got -1"):
        Term(-1, 1, lap(1))
    with pytest.raises(ValueError, match="weight must be finite, got inf"):
        Term(1, inf, lap(1))
    with pytest.raises(ValueError, match="ticks must be at least 1, got 0"):
        NoiseSum(()).simultaneous_half_width(0.9, 0)
    with pytest.raises(ValueError, match="scale must be positive"):
        lap(0)
    with pytest.raises(ValueError, match="variance must be positive"):
        gauss(-1)


@pytest.mark.parametrize(
    "law", [lap(Fraction(1, 1000)), lap(1), lap(30), gauss(Fraction(1, 2)), gauss(1), gauss(20), gauss(400)], ids=str
)
def test_pmf_tail_variance_and_moments_fit_together(law):
    reach = range(-1500, 1501)
    pmf = np.array([law.pmf(k) for k in reach])
    ks = np.array(reach, float)
    assert pmf.sum() == pytest.approx(1, abs=1e-13)
    assert (pmf * ks**2).sum() == pytest.approx(law.variance, rel=1e-12, abs=1e-300)
    for k in (-3, 0, 1, 5, 40):
        assert law.tail(k) == pytest.approx(pmf[ks >= k].sum(), rel=1e-11, abs=1e-300)
    x = 0.4 / max(sqrt(law.variance), 1)
    log = float(law.log_mgf(np.array(x)))
    assert exp(log) >= (pmf * np.exp(x * ks)).sum() * (1 - 1e-13)
    turned = (pmf * np.exp((x + 0.3j) * ks)).sum() / (pmf * np.exp(x * ks)).sum()
    assert law.tilted_transform(x, np.array([0.3]))[0] == pytest.approx(turned, rel=1e-11)


NARROW = [lap(Fraction(1, n)) for n in (1000, 100, 30, 12, 5, 2)] + [
    gauss(Fraction(1, n)) for n in (10**6, 1000, 100, 50, 20, 8, 3)
]


def power(pmf, count, reach):
    """Return the pmf of a sum of `count` draws up to `reach`, by squaring positive terms."""
    total, square = np.ones(1), pmf
    while count:
        total = cut(np.convolve(total, square), reach) if count % 2 else total
        square, count = cut(np.convolve(square, square), reach), count // 2
    return total


def cut(pmf, reach):
    beyond = max(len(pmf) // 2 - reach, 0)
    return pmf[beyond : len(pmf) - beyond]


@pytest.mark.parametrize("law", NARROW, ids=str)
def test_widths_of_narrow_noise_are_the_exact_ones(law):
    """The truncated tail lies beyond 400, and its mass is at most 1e-15."""
    one = np.array([law.pmf(k) for k in range(-40, 41)])
    for count in (c for c in (1, 7, 1000, 2**20) if c * law.variance < 400):
        pmf = power(one, count, 400)
        beyond = np.append(np.cumsum(pmf[::-1])[::-1], 0.0)[len(pmf) // 2 :]
        for confidence in (0.0, 0.5, 0.95, 1 - 1e-6, 1 - 1e-12):
            least = int(np.argmax(2 * beyond[1:] <= (1 - confidence) * (1 - 1e-7)))
            for weight in (1, 6, 0.5, 0.7):
                width = NoiseSum((Term(count, weight, law),)).half_width(confidence)
                assert width >= weight * least
                assert width == pytest.approx(weight * least, rel=1e-15)


LAWS = [*NARROW, lap(2), lap(1000), lap(2**54), gauss(1), gauss(1000), gauss(2**60), gauss(2**108)]


@pytest.mark.one_of_each
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_widths_are_finite_and_grow_with_confidence(law):
    for weights in ((1,), (1, 2), (1, 0.7, 0.3), (1e250,), (1e-300, 1.0)):
        for count in (3, 2**20):
            noise = NoiseSum(tuple(Term(count, weight, law) for weight in weights))
            widths = [noise.half_width(confidence) for confidence in (0.0, 0.95, 1 - 1e-12)]
            assert 0 <= widths[0] <= widths[1] <= widths[2] < inf
            near, far = (noise.upper_tail(width + weights[0]) for width in (widths[0], widths[2]))
            assert 0 < far <= near <= 1
            assert far <= 1e-10


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_moment_functions_agree_with_mpmath_at_every_scale(law):
    unit = float(1 / law.scale) if isinstance(law, DiscreteLaplace) else float(1 / law.parameter) ** 0.5
    beyond = [1.3 * unit**2] if isinstance(law, DiscreteGaussian) and unit > 1 else []
    for tilt in (1e-3 * unit, 0.4 * unit, 0.97 * unit, *beyond):
        angles = np.array([1e-6, 0.01, 0.3, 1.0, 3.0]) * min(unit, 1.0)
        with mpmath.workdps(min(60 + int(2 * unit), 300)):
            level = moment(law, mpmath.mpf(tilt))
            true = [complex(moment(law, mpmath.mpc(tilt, angle)) / level) for angle in angles]
            log = float(mpmath.log(level))
        assert log * (1 - 1e-9) <= float(law.log_mgf(np.array(tilt))) <= log * (1 + 1e-6) + 1e-8
        assert np.abs(law.tilted_transform(tilt, angles) - np.array(true)).max() <= 1e-12


def moment(law, s):
    """Return E exp(s X) by definition, for wide Gaussians by the one remaining dual term."""
    if isinstance(law, DiscreteLaplace):
        a = mpmath.exp(-1 / (mpmath.mpf(law.scale.numerator) / law.scale.denominator))
        return (1 - a) ** 2 / ((1 - a * mpmath.exp(s)) * (1 - a * mpmath.exp(-s)))
    v = mpmath.mpf(law.parameter.numerator) / law.parameter.denominator
    if v > 16:
        return mpmath.exp(v * s * s / 2)
    centre = int(v * mpmath.re(s))
    places = range(centre - 30, centre + 31)
    theta = mpmath.fsum(mpmath.exp(-k * k / (2 * v)) for k in range(-30, 31))
    return mpmath.fsum(mpmath.exp(k * s - k * k / (2 * v)) for k in places) / theta


@pytest.mark.parametrize("law", [lap(3), lap(2**30), lap(2**54), gauss(1), gauss(2**40), gauss(2**108)], ids=str)
@pytest.mark.parametrize("weights", [(1,), (1, 0.7, 0.3)])
def test_sums_of_a_million_draws_have_normal_widths(law, weights):
    noise = NoiseSum(tuple(Term(2**20, weight, law) for weight in weights))
    for confidence, quantile in ((0.95, 1.95996), (1 - 1e-6, 4.89164), (1 - 1e-12, 7.13051)):
        assert 0.9999 < noise.half_width(confidence) / (quantile * noise.stddev) < 1.02


def test_far_tails_are_never_zero():
    noise = NoiseSum((Term(3, 1, lap(1)), Term(1, 0.3, gauss(Fraction(1, 10**6)))))
    for x in (800.0, 1e6, 1e300, inf):
        assert 0 < noise.upper_tail(x) < 1e-300
    assert noise.upper_tail(-inf) == 1
    with pytest.raises(ValueError, match="x must be a number, got nan"):
        noise.upper_tail(float("nan"))


def test_weights_on_a_lattice_have_the_widths_of_integers():
    law, third = lap(Fraction(1, 3)), lap(Fraction(1, 3))
    for step in (0.5, 0.1, 3.0, 2.0**-40):
        fine = NoiseSum((Term(3, step, law), Term(2, 2 * step, third)))
        whole = NoiseSum((Term(3, 1, law), Term(2, 2, law)))
        assert fine.half_width(0.95) == pytest.approx(step * whole.half_width(0.95), rel=1e-15)


def test_laws_accept_any_number_type():
    assert DiscreteLaplace("1/3") == lap(Fraction(1, 3))
    assert DiscreteLaplace(0.1) == lap(Fraction(1, 10))
    assert type(DiscreteGaussian(np.int64(3)).parameter.numerator) is int
    with pytest.raises(ValueError, match="scale must be a finite number, got nan"):
        DiscreteLaplace(float("nan"))


def test_variances_of_wide_noise():
    assert laplace_variance(Fraction(2**40)) == pytest.approx(2.0**81)
    assert gaussian_variance(Fraction(2**90)) == 2.0**90
    assert gaussian_variance(Fraction(1, 2)) < 0.5
