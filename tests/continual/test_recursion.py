"""The engine of correlated noise: its rounding, its privacy proof as a test, its norms and its error."""

from fractions import Fraction
from itertools import pairwise
from math import sqrt

import numpy as np
import pytest

from streamgauge.continual import BufferedToeplitz, Hybrid
from streamgauge.continual.factorizations.coefficients import (
    BUFFER_COUNTS,
    MAX_FITTED_TICKS,
    bounded_encoder,
    unbounded_encoder,
)
from streamgauge.continual.factorizations.encoder import (
    MAX_BUFFER_BITS,
    MAX_NARROW_GROUPS,
    PRODUCT_BITS,
    PRODUCT_HALF,
    Encoder,
    Exponential,
    NoiseBuffers,
    NoiseResponse,
    correlate,
    power_bound,
    rounding_width,
)
from streamgauge.privacy import Event, Sensitivity, User, Zcdp

ENCODERS = [bounded_encoder(2, 16), bounded_encoder(4, 2**20), bounded_encoder(6, 2**40), unbounded_encoder(2**48)]
ODD = Encoder((Exponential(1, 1, 1023, 11), Exponential(1023, 10, 511, 10)))


def correlated(encoder, z):
    """The engine's u for one group's draws z."""
    draws = np.array(z, np.int64)[:, None]
    correlate(encoder, NoiseBuffers.empty(encoder, 1), draws)
    return draws[:, 0].tolist()


def demanded(encoder, u):
    """Return r_t for given u by the module's definition, in Fractions."""
    values, demands = [Fraction(0)] * len(encoder.terms), []
    for u_t in u:
        floors = [v.__floor__() for v in values]
        products = [
            (term.weight * v * 2**PRODUCT_BITS).__floor__() for term, v in zip(encoder.terms, floors, strict=True)
        ]
        demands.append((sum(products) + PRODUCT_HALF) >> PRODUCT_BITS)
        values = [v - term.rate * f + u_t for term, v, f in zip(encoder.terms, values, floors, strict=True)]
    return demands


def ideal(encoder, u):
    """Return the demands without any rounding: (C - 1) u."""
    buffers, demands = [Fraction(0)] * len(encoder.terms), []
    for u_t in u:
        demands.append(sum(term.weight * b for term, b in zip(encoder.terms, buffers, strict=True)))
        buffers = [(1 - term.rate) * b + u_t for term, b in zip(encoder.terms, buffers, strict=True)]
    return demands


def streams(ticks):
    """Yield noise that is large, small, alternating, constant, and silent."""
    generator = np.random.default_rng(7)
    yield generator.integers(-(2**43), 2**43, ticks).tolist()
    yield generator.integers(-2, 3, ticks).tolist()
    yield [(-1) ** t * 2**40 for t in range(ticks)]
    yield [3] * ticks
    yield [0] * ticks


@pytest.mark.parametrize("encoder", [*ENCODERS, ODD])
def test_engine_matches_its_definition_in_fractions(encoder):
    for z in streams(60):
        u = correlated(encoder, z)
        assert [a - b for a, b in zip(z, demanded(encoder, u), strict=True)] == u


@pytest.mark.parametrize("encoder", [*ENCODERS, ODD])
def test_rounding_errors_lie_in_the_charged_interval(encoder):
    high = Fraction(1, 2) + sum(term.weight for term in encoder.terms)
    for z in streams(80):
        u = correlated(encoder, z)
        errors = [a - b for a, b in zip(demanded(encoder, u), ideal(encoder, u), strict=True)]
        assert all(high - rounding_width(encoder) <= error <= high for error in errors)


@pytest.mark.parametrize("encoder", [*ENCODERS, ODD])
@pytest.mark.parametrize("grid", [1, 2**10, 2**41])
def test_noise_difference_of_neighbours_is_at_most_the_charge(encoder, grid):
    """The proof of privacy as a test: x moves at one tick, y stays, and the draws explain it."""
    ticks = 50
    norm = sqrt(encoder.norm_squared(1, ticks))
    for z in streams(ticks):
        u = correlated(encoder, z)
        for moved in (0, 1, ticks - 1):
            other = [u_t - grid * (t == moved) for t, u_t in enumerate(u)]
            draws = [a + b for a, b in zip(other, demanded(encoder, other), strict=True)]
            assert correlated(encoder, draws) == other
            difference = np.array([float(a - b) for a, b in zip(draws, z, strict=True)])
            charged = grid * norm + float(rounding_width(encoder)) * sqrt(ticks)
            assert np.linalg.norm(difference) <= charged
            assert not difference[:moved].any()
            assert difference[moved] == -grid


def other_world(encoder, u, moves):
    """Return u and draws that give the same releases if the stream moves by `moves`."""
    other = [u_t - move for u_t, move in zip(u, moves, strict=True)]
    return other, [a + b for a, b in zip(other, demanded(encoder, other), strict=True)]


@pytest.mark.parametrize("encoder", [*ENCODERS, ODD])
@pytest.mark.parametrize("grid", [1, 2**41])
@pytest.mark.parametrize("reach", [Sensitivity(2, 2, 2), Sensitivity(6, 14, 3)], ids=repr)
def test_noise_difference_of_multi_group_neighbours_is_at_most_charge(encoder, grid, reach):
    """The unit moves several groups at two ticks, by different amounts."""
    ticks, touched = 40, (3, 17)
    numbers = [(1, -1), (-1, 1)] if reach.coordinates == 2 else [(3, -2, 1), (1, 3, 2)]
    squares = 0.0
    for group in range(reach.coordinates):
        z = np.random.default_rng(group).integers(-(2**42), 2**42, ticks).tolist()
        u = correlated(encoder, z)
        moves = [grid * numbers[touched.index(t)][group] if t in touched else 0 for t in range(ticks)]
        other, draws = other_world(encoder, u, moves)
        assert correlated(encoder, draws) == other
        squares += sum(float(a - b) ** 2 for a, b in zip(draws, z, strict=True))
    norm = sqrt(reach.l2_squared * encoder.norm_squared(len(touched), ticks))
    slack = float(rounding_width(encoder)) * sqrt(ticks * reach.coordinates * len(touched))
    assert sqrt(squares) <= grid * norm + slack


def test_twin_that_charges_rounding_of_one_group_is_caught():
    """196 groups moved by 1: their draws differ by more than C and one group's rounding explain."""
    encoder, ticks, groups = bounded_encoder(4, 2**20), 200, 196
    generator, squares = np.random.default_rng(4), 0.0
    for _ in range(groups):
        z = generator.integers(-40, 40, ticks).tolist()
        _, draws = other_world(encoder, correlated(encoder, z), [1] + [0] * (ticks - 1))
        squares += sum((a - b) ** 2 for a, b in zip(draws, z, strict=True))
    norm, one = sqrt(groups * encoder.norm_squared(1, ticks)), float(rounding_width(encoder)) * sqrt(ticks)
    assert sqrt(squares) > norm + one
    assert sqrt(squares) <= norm + one * sqrt(groups)


def test_claims_charge_rounding_of_every_group_of_a_unit():
    def groups(bound, unit=Event()):
        claim = BufferedToeplitz(Zcdp(1), horizon=100, bound=bound, unit=unit)
        return float(claim.slack / rounding_width(claim.encoder)) ** 2 / 100

    assert groups(Sensitivity(2, 2, 2)) == pytest.approx(2)
    assert groups(Sensitivity(6, 14, 3), User(1, 5)) == pytest.approx(5 * 3)
    assert groups(Sensitivity(3, 3, 1000)) == pytest.approx(3)  # whole numbers: three of them at most
    assert groups(Sensitivity(1000, 10**6, 2)) == pytest.approx(2)
    assert [groups(b) for b in (1, 5, 32, 33, 100)] == pytest.approx([1, 25, 1024, 1024, 1024])
    assert groups(100, Event(replace=True)) == pytest.approx(2048)
    assert groups(100, User(3, 2)) == pytest.approx(2 * 3072)


def test_hybrid_inner_mechanism_charges_all_groups_of_the_unit():
    hybrid = Hybrid(Zcdp(1), bound=100, unit=User(3, 2))
    assert hybrid.counter(0, 64).tick_sensitivity.coordinates == 3072


def test_a_twin_that_charges_no_rounding_is_caught():
    """On a coarse grid the difference of draws exceeds the columns of C."""
    encoder, ticks = unbounded_encoder(2**48), 400
    generator, worst = np.random.default_rng(3), 0.0
    for _ in range(4):
        u = correlated(encoder, generator.integers(-40, 40, ticks).tolist())
        other = [u_t - (t == 0) for t, u_t in enumerate(u)]
        pairs = zip(demanded(encoder, other), demanded(encoder, u), strict=True)
        worst = max(worst, sqrt(1 + sum((a - b) ** 2 for a, b in pairs)))
    assert worst > 1.5 * sqrt(encoder.norm_squared(1, ticks))
    assert worst <= sqrt(encoder.norm_squared(1, ticks)) + float(rounding_width(encoder)) * sqrt(ticks)


def test_twin_without_rounded_demands_leaves_the_lattice():
    """Without r_t on the grid, no draw explains the release in the other world: the supports differ."""
    encoder = bounded_encoder(4, 2**20)
    u = correlated(encoder, [2**30 + t for t in range(30)])
    other = [u_t - 2**20 * (t == 0) for t, u_t in enumerate(u)]
    differences = [a - b for a, b in zip(ideal(encoder, other), ideal(encoder, u), strict=True)]
    assert any(difference.denominator != 1 for difference in differences)


@pytest.mark.parametrize("encoder", [*ENCODERS, ODD])
def test_many_groups_get_the_same_numbers_as_one(encoder):
    generator = np.random.default_rng(5)
    draws = generator.integers(-(2**43), 2**43, (50, MAX_NARROW_GROUPS + 3))
    wide, buffers = draws.copy(), NoiseBuffers.empty(encoder, MAX_NARROW_GROUPS + 3)
    correlate(encoder, buffers, wide)
    alone, single = draws[:, 2:3].copy(), NoiseBuffers.empty(encoder, 1)
    correlate(encoder, single, alone[:20])
    correlate(encoder, single, alone[20:])
    assert np.array_equal(wide[:, 2:3], alone)
    assert np.array_equal(buffers.whole[:, 2:3], single.whole)
    assert np.array_equal(buffers.rest[:, 2:3], single.rest)


@pytest.mark.parametrize("encoder", [*ENCODERS, ODD])
def test_products_fit_64_bits_while_buffers_obey_their_bound(encoder):
    """At the capacity limit, NumPy integers still equal those of Python."""
    for sign in (1, -1):
        edge = sign * (2**MAX_BUFFER_BITS - 1)
        wide = NoiseBuffers(*(np.zeros((len(encoder.terms), MAX_NARROW_GROUPS + 1), np.int64) for _ in range(2)))
        wide.whole[:] = edge
        wide.rest[:] = np.array([[(1 << term.rate_bits) - 1] for term in encoder.terms])
        narrow = NoiseBuffers(wide.whole[:, :1].copy(), wide.rest[:, :1].copy())
        many, one = np.zeros((1, MAX_NARROW_GROUPS + 1), np.int64), np.zeros((1, 1), np.int64)
        correlate(encoder, wide, many)
        correlate(encoder, narrow, one)
        assert many[0, 0] == one[0, 0]
        assert np.array_equal(wide.whole[:, :1], narrow.whole)


@pytest.mark.parametrize("encoder", [*ENCODERS, ODD])
@pytest.mark.parametrize("ticks", [1, 2, 5, 30])
def test_norms_match_enumeration_rounded_up(encoder, ticks):
    horizon = 30
    column = [Fraction(1)]
    column += [sum(t.weight * (1 - t.rate) ** k for t in encoder.terms) for k in range(horizon - 1)]
    rows = [sum(column[max(0, k - ticks + 1) : k + 1]) for k in range(horizon)]
    excess = encoder.norm_squared(ticks, horizon) - sum(row**2 for row in rows)
    assert 0 <= excess <= Fraction(1, 2**60)


def test_first_ticks_move_the_encoded_stream_most():
    encoder, horizon = bounded_encoder(2, 16), 12
    column = encoder.coefficients(horizon)
    C = np.array([[column[i - j] if i >= j else 0.0 for j in range(horizon)] for i in range(horizon)])
    generator = np.random.default_rng(1)
    for ticks in (1, 2, 3, 5):
        most = float(encoder.norm_squared(ticks, horizon)) * (1 + 1e-12)
        for _ in range(200):
            chosen = generator.choice(horizon, ticks, replace=False)
            assert np.sum((C[:, chosen] @ generator.choice([-1, 1], ticks)) ** 2) <= most


def test_powers_are_rounded_to_the_requested_side():
    base = Fraction(2**61 - 733, 2**61)
    for exponent in (0, 1, 7, 100):
        assert power_bound(base, exponent, up=False) <= base**exponent <= power_bound(base, exponent, up=True)
    gap = power_bound(base, 2**48, up=True) - power_bound(base, 2**48, up=False)
    assert 0 < gap < Fraction(1, 2**250)


@pytest.mark.parametrize("encoder", [*ENCODERS, ODD])
@pytest.mark.parametrize("rate", [0.0, 0.25])
def test_predicted_errors_are_those_of_the_inverse_matrix(encoder, rate):
    ticks = 300
    response = NoiseResponse(encoder, rate)
    weights = response.coefficients(ticks)
    product = np.convolve(encoder.coefficients(ticks), weights)[:ticks]
    assert np.allclose(product, (1 - rate) ** np.arange(ticks), rtol=0, atol=1e-12)
    squares = np.cumsum(weights**2)
    assert [response.variance(t) for t in (1, 2, 77, ticks)] == pytest.approx(squares[[0, 1, 76, -1]], rel=1e-9)
    assert response.mean_variance(ticks) == pytest.approx(squares.mean(), rel=1e-9)


def test_mean_errors_have_no_seam_between_series_and_formula():
    response = NoiseResponse(unbounded_encoder(2**48))
    means = [response.mean_variance(2**j) for j in range(49)]
    assert means[0] == pytest.approx(1)
    assert all(1 < b / a < 4.5 for a, b in pairwise(means))


def test_every_table_row_is_an_encoder_with_distinct_rates():
    for buffers in BUFFER_COUNTS:
        for scale in range(MAX_FITTED_TICKS.bit_length()):
            encoder = bounded_encoder(buffers, 2**scale)
            assert len(encoder.terms) <= buffers
            assert (np.diff(encoder.rates) > 0).all()
            assert (NoiseResponse(encoder).amplitudes > 0).all()


@pytest.mark.parametrize(
    ("numbers", "words"),
    [((0, 5, 600, 11), "rate must be"), ((1024, 20, 600, 11), "rate must be"), ((600, 9, 600, 11), "rate must be")],
)
def test_rates_outside_their_range_are_refused(numbers, words):
    with pytest.raises(ValueError, match=words):
        Exponential(*numbers)


def test_weights_outside_their_range_are_refused():
    with pytest.raises(ValueError, match="weight must be"):
        Exponential(600, 11, 600, 9)
    with pytest.raises(ValueError, match="weights must sum to at most 1"):
        Encoder((Exponential(600, 11, 1000, 10), Exponential(600, 12, 1000, 10)))
