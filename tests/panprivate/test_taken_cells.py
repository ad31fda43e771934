"""Cells that users occupy at random: a sum of independent coins, and tight intervals."""

from fractions import Fraction
from itertools import product
from math import comb, log

import numpy as np
import pytest
from scipy.stats import binom

from streamgauge.panprivate import ContinualDensity, CroppedMean, Density, HeavyFraction, MultiplicativeDensity
from streamgauge.panprivate.collisions import compound_tails
from streamgauge.panprivate.error_bounds import Coins
from streamgauge.panprivate.occupancy import CellOccupancy
from streamgauge.privacy import Pure

NEVER = 1e-9
SIZES = [(cells, entries, users) for cells in (3, 7, 30) for entries in (1, 2, cells) for users in (1, 4, 40)]


def chances(cells, entries, users):
    """Return the law of the number of occupied cells, by inclusion and exclusion."""
    missed = [comb(entries, k) * Fraction(cells - k, cells) ** users for k in range(entries + 1)]
    exactly = [
        sum((-1) ** (k - empty) * comb(k, empty) * missed[k] for k in range(empty, entries + 1))
        for empty in range(entries + 1)
    ]
    return np.array([float(each) for each in exactly[::-1]])


@pytest.mark.parametrize(("cells", "entries", "users"), [size for size in SIZES if size[1] < 30])
def test_number_of_occupied_cells_is_a_sum_of_coins(cells, entries, users):
    """Its generating function has real zeros only."""
    found = chances(cells, entries, users)
    likely = np.trim_zeros(np.where(found > 1e-9, found, 0))
    zeros = np.roots(likely[::-1])
    assert np.abs(zeros.imag).max(initial=0) <= 1e-4 * np.abs(zeros).max(initial=1)


@pytest.mark.parametrize(("cells", "entries", "users"), [size for size in SIZES if size[1] < 30])
@pytest.mark.parametrize("tilt", [-30.0, -3.0, -0.3, -1e-3, 1e-3, 0.3, 3.0, 30.0])
def test_coins_bound_the_moments_of_occupied_cells(cells, entries, users, tilt):
    found, occupied = chances(cells, entries, users), CellOccupancy(cells, entries)
    mean = float(occupied.occupied_part(users / cells))
    number = float(occupied.variance(users / cells)) * entries**2
    coins = Coins(entries, 1.0, (mean, mean), (number, number))
    exact = log(found @ np.exp(tilt * (np.arange(entries + 1) - entries * mean)))
    assert exact <= coins.log_mgf(tilt) + 1e-9
    assert coins.log_mgf(tilt) == coins.log_mgf(-tilt)


@pytest.mark.parametrize("cells", [3, 30, 10**6, 2**40])
def test_variance_range_bounds_all_parts_in_an_interval(cells):
    for low, high in product([0.0, 1e-3, 0.4, 0.7], [0.8, 0.95, 1.0]):
        for entries in {1, max(1, cells // 3), cells}:
            occupied = CellOccupancy(cells, entries)
            least, most = occupied.variance_range(low, high)
            parts = np.linspace(low, min(high, 1 - 1e-9), 200)
            found = occupied.variance(-np.log1p(-parts) / occupied._rate)
            assert least <= found.min() * (1 + 1e-9)
            assert found.max() <= most * (1 + 1e-9)
            assert found.max() == pytest.approx(most, rel=1e-2)


def test_variance_of_few_users_in_many_cells_is_precise():
    occupied = CellOccupancy(2**40, 2**40)
    assert occupied.variance(0.01) * 2**40 == pytest.approx(0.01**2 / 2 - 0.01**3 * 5 / 6, rel=1e-3)


def standard_widths(claim, load):
    """Return the width of a 95 % interval, relative to that of the normal law."""
    count, m = claim.build_bit_count(0), claim.entries
    taken = CellOccupancy(claim.universe, m).occupied_part(load)
    found = claim.build_estimate(np.array([round(m * float(count.laws.absent + count.laws.gap * taken))]), 0)
    low, high = found.interval(0.95)
    return (high - low) / (2 * 1.96 * found.stddev)


@pytest.mark.parametrize("epsilon", [1, 2, 4, 8, 16])
def test_intervals_of_large_cell_tables_are_nearly_normal(epsilon):
    claim = Density(Pure(epsilon), universe=10**6, hashed=True)
    assert all(0.99 < standard_widths(claim, load) < 1.15 for load in (0.1, 0.5, 1, 2))
    assert standard_widths(claim, 0.01) < 1.5
    small = Density(Pure(epsilon), universe=10**4, hashed=True)
    assert all(standard_widths(small, load) < 1.5 for load in (0.1, 0.5, 1, 2))


def test_intervals_of_a_continual_density_of_cells_are_narrow():
    claim = ContinualDensity(Pure(4), universe=10**6, hashed=True)
    slots, gap = 10**6, float(claim.signs.gap)
    ones = round(slots / 2 + gap * 10**6 * CellOccupancy(10**6, 10**6).occupied_part(0.7))
    found = claim.build_estimate(np.array([[1], [slots], [ones]]), 0)
    low, high = found.interval(0.95)
    assert 0.99 < (high - low) / (2 * 1.96 * found.stddev) < 1.3


@pytest.mark.one_of_each
@pytest.mark.parametrize("epsilon", [1, 4, 16])
@pytest.mark.parametrize("load", [0.02, 0.3, 1.5])
@pytest.mark.parametrize("entries", [300, 1000])
def test_intervals_hold_as_stated_for_randomly_placed_users(epsilon, load, entries):
    claim = Density(Pure(epsilon), universe=1000, sample=entries, hashed=True)
    chance, count, missed, runs = np.random.default_rng(3), claim.build_bit_count(0), 0, 150
    decay, users = np.exp(-1 / float(claim.noise.scale)), round(load * 1000)
    for _ in range(runs):
        taken = int((np.unique(chance.integers(0, 1000, users)) < entries).sum())
        bits = chance.binomial(taken, float(count.laws.present))
        bits += chance.binomial(entries - taken, float(count.laws.absent))
        noise = int(chance.geometric(1 - decay)) - int(chance.geometric(1 - decay))
        low, high = claim.build_estimate(np.array([bits + noise]), 0).interval(0.8)
        missed += not low <= users / 1000 <= high
    assert binom.sf(missed - 1, runs, 0.2) > NEVER


def test_hashed_cycles_may_be_negative_but_densities_are_clipped():
    """Clipping at 0 would bias cycles. The intervals of both are clipped."""
    settings = {"universe": 1000, "hashed": True}
    heavy = HeavyFraction(Pure(4), at_least=2, **settings)
    below = heavy.build_collision_estimator(0).estimate_from_tails(
        compound_tails(0.3, 1, 2) - np.array([0.0, 0.05]), 1000
    )
    assert below.value == pytest.approx(-0.05 / np.exp(-0.3))
    assert below.interval()[0] == 0
    cropped = (
        CroppedMean(Pure(4), limit=1, **settings)
        .build_collision_estimator(0)
        .estimate_from_tails(np.array([-0.1]), 1000)
    )
    assert cropped.value < 0
    assert Density(Pure(4), **settings).build_estimate(np.array([-50]), 0).value == 0


def test_joint_estimate_lies_in_its_own_interval():
    """The joint estimate may lie outside the intersection of all intervals."""
    claim = MultiplicativeDensity(Pure(8), universe=1000, hashed=True, shrink=4, smallest=8)
    found = claim.build_estimate(np.array([223, 44, 20, 13]), 0)
    assert found.interval(0.95)[0] <= found.value <= found.interval(0.95)[1]
