"""Estimates of tables: exactly unbiased, with stated standard errors and valid intervals."""

from dataclasses import replace
from fractions import Fraction
from functools import partial
from math import sqrt

import numpy as np
import pytest
from scipy.stats import binom, chi2, norm

from streamgauge.panprivate import CroppedMean, Density, HeavyFraction, Incidence, MultiplicativeDensity
from streamgauge.panprivate.collisions import compound_tails
from streamgauge.panprivate.error_bounds import half_width
from streamgauge.panprivate.occupancy import CellOccupancy
from streamgauge.panprivate.users import Hash
from streamgauge.privacy import Pure
from streamgauge.testing.noise import InsecureNoise
from tests.support.every_draw import views

NEVER = 1e-9
HALF = Fraction(1, 2)
SETTINGS = {"universe": 1, "split": HALF}
CLAIMS = {
    "density": (Density(Pure(1), **SETTINGS), lambda n: n > 0),
    "density, paper": (Density(Pure(1), law="paper", **SETTINGS), lambda n: n > 0),
    "cropped mean": (CroppedMean(Pure(1), limit=3, **SETTINGS), lambda n: min(n, 3)),
    "cropped mean, paper": (CroppedMean(Pure(1), limit=2, law="paper", **SETTINGS), lambda n: min(n, 2)),
    "heavy fraction": (HeavyFraction(Pure(1), at_least=2, law="paper", **SETTINGS), lambda n: n >= 2),
    "incidence": (Incidence(Pure(1), exactly=2, **SETTINGS), lambda n: n == 2),
    "never came": (Incidence(Pure(1), exactly=0, law="paper", **SETTINGS), lambda n: n == 0),
}


def moments(claim, acts):
    """Mean and variance of the sum before noise, exactly."""
    sums = {}
    for _, found in views(claim, [*acts, "release"]).items():
        for ((total,),), probability in found.items():
            sums[total] = sums.get(total, 0) + probability
    assert sum(sums.values()) == 1
    mean = sum(total * p for total, p in sums.items())
    return mean, sum((total - mean) ** 2 * p for total, p in sums.items())


def stated(claim, truth, intrusions):
    """Return the stated variance of the sum before noise, rescaled from the value."""
    slope = (
        claim.build_estimate(np.array([1]), intrusions).value - claim.build_estimate(np.array([0]), intrusions).value
    )
    return claim.stddev(float(truth), intrusions) ** 2 / slope**2 - claim.noise.variance


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("times", range(5))
def test_estimates_are_unbiased_with_the_stated_variance_exactly(name, times):
    claim, truth = CLAIMS[name]
    mean, variance = moments(claim, [[0] * (times // 2), [0] * (times - times // 2)])
    values = [claim.build_estimate(np.array([sum_]), 0).value for sum_ in (0, 1)]
    assert values[0] + float(mean) * (values[1] - values[0]) == pytest.approx(float(truth(times)), abs=1e-7)
    assert stated(claim, truth(times), 0) == pytest.approx(float(variance), rel=1e-6)


@pytest.mark.parametrize("name", ["density", "density, paper", "cropped mean, paper", "never came"])
@pytest.mark.parametrize("acts", [["intrude", [0]], [[0], "intrude"], [[0], "intrude", [0]]])
def test_announced_intrusions_leave_estimates_unbiased_and_their_variance_stated(name, acts):
    claim, truth = CLAIMS[name]
    intruded = replace(claim, intrusions=1, loss=Pure(2))
    mean, variance = moments(intruded, acts)
    values = [intruded.build_estimate(np.array([sum_]), 1).value for sum_ in (0, 1)]
    times = sum(len(act) for act in acts if act != "intrude")
    assert values[0] + float(mean) * (values[1] - values[0]) == pytest.approx(float(truth(times)), abs=1e-6)
    assert stated(intruded, truth(times), 1) == pytest.approx(float(variance), rel=1e-6)


def errors(claims, users, truth, runs, intruded=0):
    """Return standardised errors of `runs` runs, which share one noise stream."""
    found, noise = [], InsecureNoise(1)
    for seed in range(runs):
        run = claims(seed).start(noise=noise)
        run.add(users)
        for _ in range(intruded):
            run.intrude()
        found.append((run.estimate().value - truth) / run.claim.stddev(truth, intruded))
    return np.array(found)


def standard(sample, factor=1.0):
    """Return whether a sample is centred with this standard deviation, by a test at NEVER."""
    scaled = sample / factor
    spread = chi2.cdf((scaled**2).sum(), len(sample))
    centre = abs(scaled.mean()) * sqrt(len(sample)) < norm.isf(NEVER / 2)
    return centre and NEVER / 2 < spread < 1 - NEVER / 2


U = 500
COUNTS = np.arange(U) % 5
USERS = np.repeat(np.arange(U), COUNTS)
MOST = Fraction(15, 16)


def fixed(claim):
    return lambda seed: claim


SIMULATED = {
    "density": (fixed(Density(Pure(1), universe=U)), (COUNTS > 0).mean()),
    "density, intruded": (fixed(Density(Pure(9), universe=U, intrusions=1)), (COUNTS > 0).mean()),
    "density, sampled": (
        lambda seed: Density(Pure(30), universe=U, sample=50, seed=seed, split=MOST),
        (COUNTS > 0).mean(),
    ),
    "heavy": (fixed(HeavyFraction(Pure(2), universe=U, at_least=3)), (COUNTS > 2).mean()),
    "incidence": (fixed(Incidence(Pure(2), universe=U, exactly=2)), (COUNTS == 2).mean()),
}


@pytest.mark.parametrize("name", SIMULATED)
def test_standard_errors_match_simulation(name):
    claims, truth = SIMULATED[name]
    sample = errors(claims, USERS, truth, 400, intruded=int("intruded" in name))
    assert standard(sample)
    assert not standard(sample, 0.6)
    assert not standard(sample, 1.5)


def test_cropped_mean_of_unequal_users_meets_stated_error():
    claim = CroppedMean(Pure(9), universe=U, limit=2)
    sample = errors(fixed(claim), USERS, np.minimum(COUNTS, 2).mean(), 200)
    assert chi2.sf((sample**2).sum(), len(sample)) > NEVER


@pytest.mark.parametrize("users", [60, 600])
def test_collisions_are_corrected_and_included_in_the_error(users):
    """The table is nearly exact, so only the hash is random; 60 of 400 cells and 600."""
    names = np.arange(users) + 10**9
    claim = Density(Pure(40), universe=400, hashed=True, split=MOST)
    sample = errors(lambda seed: replace(claim, seed=seed), names, users / 400, 400)
    shifted = sample - sample.mean()  # the bias of a logarithm, of second order
    assert abs(sample.mean()) < 0.6
    assert standard(shifted)
    assert not standard(shifted, 1.5)
    assert not standard(shifted, 0.6)


KINDS = {
    "density": partial(Density, Pure(2)),
    "cropped mean": partial(CroppedMean, Pure(2), limit=3),
    "heavy fraction": partial(HeavyFraction, Pure(2), at_least=2),
}


@pytest.mark.parametrize("name", KINDS)
def test_users_hashed_earlier_have_the_same_estimates(name):
    """Users given as cells have the same estimate, standard error and interval."""
    names = np.arange(250, dtype=np.uint64)
    cells = names.copy()
    Hash(400, seed=0).map_words(cells)
    found = []
    for users, hashed in ((names, True), (cells, "before")):
        claim = KINDS[name](universe=400, hashed=hashed)
        run = claim.start(noise=InsecureNoise(7))
        run.add(users.astype(np.int64))
        found.append(run.estimate())
    assert found[0].value == found[1].value
    assert found[0].stddev == found[1].stddev
    assert found[0].interval() == found[1].interval()


TIMES = np.arange(200) % 5 + 1
CROWDED = {"universe": 400, "hashed": True, "split": Fraction(15, 16)}
SHARED = {
    "heavy": (HeavyFraction(Pure(40), at_least=3, **CROWDED), (TIMES >= 3).sum() / 400),
    "incidence": (Incidence(Pure(40), exactly=2, **CROWDED), (TIMES == 2).sum() / 400),
    "cropped": (CroppedMean(Pure(40), limit=3, **CROWDED), np.minimum(TIMES, 3).sum() / 400),
    "cropped, sampled": (CroppedMean(Pure(4), sample=300, limit=2, **CROWDED), np.minimum(TIMES, 2).sum() / 400),
}


@pytest.mark.parametrize("name", SHARED)
def test_counts_of_users_in_shared_cells_are_unbiased(name):
    claim, truth = SHARED[name]
    names, noise, sample, missed = np.repeat(np.arange(200) + 10**9, TIMES), InsecureNoise(1), [], 0
    for seed in range(180):
        run = replace(claim, seed=seed).start(noise=noise)
        run.add(names)
        found = run.estimate()
        sample.append((found.value - truth) / found.stddev)
        low, high = found.interval(0.9) if seed < 40 else (truth, truth)
        missed += not low <= truth <= high
    centred = np.array(sample) - np.mean(sample)
    assert abs(np.mean(sample)) < 0.3  # of second order
    assert standard(centred)
    assert not standard(centred, 1.6)
    assert not standard(centred, 0.6)
    assert binom.sf(missed - 1, 40, 0.1) > NEVER


def test_compound_decoder_inverts_its_tails():
    claim, _ = SHARED["incidence"]
    compound = claim.build_collision_estimator(0).decoder
    tails = compound_tails(0.3, 2, 3)
    assert compound.decode(tails) == pytest.approx(0.3)
    gradient = compound.gradient(tails)
    for j in range(3):
        moved = tails + 1e-6 * (np.arange(3) == j)
        assert (compound.decode(moved) - compound.decode(tails)) * 1e6 == pytest.approx(gradient[j], rel=1e-4)


@pytest.mark.parametrize("load", [0.01, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("name", SHARED)
def test_interval_contains_values_of_all_likely_tails(name, load):
    """The interval contains the values of all tails inside the half width."""
    compound = replace(SHARED[name][0], universe=10**6, sample=None).build_collision_estimator(0)
    length, chance = len(compound.weights), np.random.default_rng(1)
    truth = compound_tails(load, 1, length)
    half = half_width(compound._tail_deviations(), 1 - 0.1 / length)
    for _ in range(8):
        told = truth + half * chance.uniform(-1, 1, length)
        estimate = compound.estimate_from_tails(told, 10**6)
        low, high = estimate.region.interval(0.9)
        assert low <= compound.decoder.decode(truth) <= high < np.inf
        other = np.minimum.accumulate((told + half * chance.choice([-1, 1], length)).clip(0, 1 - 1e-9))
        if np.abs(other - told).max() <= half:
            assert low <= compound.decoder.decode(other) <= high


@pytest.mark.parametrize("name", SHARED)
def test_interval_of_a_full_table_is_unbounded(name):
    claim, _ = SHARED[name]
    full = claim.build_collision_estimator(0).estimate_from_tails(np.full(claim.length, 0.999), claim.universe)
    assert full.interval(0.95) == (0.0, np.inf)


def test_long_cycle_with_crowded_cells_has_unbounded_interval():
    """The release is already charged, so an infinite error is no failure."""
    claim = CroppedMean(Pure(1), universe=1000, limit=100, hashed=True, split=MOST)
    run = claim.start(noise=InsecureNoise(1))
    run.add(np.repeat(np.arange(3000), 3))
    found = run.estimate()
    assert found.stddev > 1e20
    assert found.interval() == (0.0, np.inf)
    assert np.isfinite(found.value)


def test_number_of_occupied_cells_has_stated_mean_and_variance():
    cells, users = 7, 5
    taken = {}
    for code in range(cells**users):
        digits = {code // cells**place % cells for place in range(users)}
        seen = len([digit for digit in digits if digit < 4])
        taken[seen] = taken.get(seen, 0) + Fraction(1, cells**users)
    mean = sum(number * p for number, p in taken.items())
    variance = sum(number**2 * p for number, p in taken.items()) - mean**2
    occupied = CellOccupancy(cells, 4)
    assert occupied.occupied_part(users / cells) == pytest.approx(float(mean) / 4)
    assert occupied.variance(users / cells) == pytest.approx(float(variance) / 16)
    assert occupied.estimate_load(occupied.occupied_part(0.7)) == pytest.approx(0.7)


@pytest.mark.parametrize("came", [100, 10_000])
def test_a_multiplicative_density_finds_few_users_and_many(came):
    claim = MultiplicativeDensity(Pure(8), universe=65_536, shrink=16)
    sample, noise, stddev = [], InsecureNoise(1), claim.stddev(came / 65_536) * 65_536
    for seed in range(20):
        run = replace(claim, seed=seed).start(noise=noise)
        run.add(np.arange(came) * 6)
        found = run.estimate()
        low, high = found.interval(0.99)
        assert low <= came / 65_536 <= high
        sample.append((found.count - came) / stddev)
    assert chi2.sf((np.array(sample) ** 2).sum(), len(sample)) > NEVER


def test_multiplicative_density_errs_less_for_few_users():
    claim, plain = (kind(Pure(1), universe=10**7) for kind in (MultiplicativeDensity, Density))
    assert claim.stddev(1e-5) < plain.stddev() / 5
    assert claim.stddev(0.5) > plain.stddev()


@pytest.mark.parametrize(
    "claim",
    [
        Density(Pure(1), universe=40),
        Density(Pure(1), universe=4000, law="paper"),
        CroppedMean(Pure(2), universe=100, limit=4),
        Incidence(Pure(2), universe=400, exactly=1),
    ],
)
def test_intervals_hold_at_least_as_often_as_stated(claim):
    """The tails of the sum are exact, by enumeration of all binomials without noise."""
    sample = errors(fixed(claim), np.arange(claim.universe // 2), 0.5, 200)
    half = claim.start(noise=InsecureNoise(0)).estimate()
    low, high = half.region.interval(0.9)
    width = (high - low) / 2 / claim.stddev(0.5)
    missed = int((np.abs(sample) > width).sum())
    assert binom.sf(missed - 1, len(sample), 0.1) > NEVER
    assert width < 4


def test_intervals_of_large_tables_are_those_of_the_normal_law():
    claim = Density(Pure(1), universe=10**7)
    estimate = claim.build_estimate(np.array([5_000_000]), 0)
    low, high = estimate.interval(0.95)
    assert 1.9599 < (high - low) / 2 / estimate.stddev < 2.02
    parts = estimate.region.deviations
    assert half_width(parts, 0.99) > half_width(parts, 0.9)


@pytest.mark.parametrize("name", CLAIMS)
def test_the_split_is_that_of_least_error(name):
    claim, _ = CLAIMS[name]
    best = replace(claim, universe=1000, split=None)
    for share in (Fraction(1, 4), HALF, Fraction(99, 100)):
        assert best.stddev() <= replace(best, split=share).stddev()


def test_split_adapts_to_releases_and_paper_law():
    often = Density(Pure(1), universe=1000, releases=1000)
    assert Fraction(7, 16) < often.split < Fraction(9, 16)
    assert often.stddev() < replace(often, split=Fraction(15, 16)).stddev() / 2
    assert Density(Pure(16), universe=1000, law="paper").state_loss.epsilon <= Fraction(3, 2)


def test_counts_are_values_times_the_universe():
    estimate = Density(Pure(1), universe=1000).start().estimate()
    assert estimate.count == 1000 * estimate.value
    assert estimate.count_stddev == 1000 * estimate.stddev
    with pytest.raises(ValueError, match="confidence must be at least 0 and below 1, got 1"):
        estimate.interval(1)
