"""Joint estimates of several tables: the error includes all effects of chance."""

import numpy as np
import pytest

from streamgauge.panprivate import MultiplicativeDensity
from streamgauge.privacy import Pure

RUNS = 6000
TWENTIETH, NEVER_OFF = 0.05, 0.05  # tolerance of the claim, and of the simulation: six standard errors of 0.8 %
CASES = {
    "few": ({"universe": 10**5}, 1, 100),
    "some": ({"universe": 10**5}, 1, 3_000),
    "hashed": ({"universe": 10**4, "hashed": True}, 4, 300),
}


def released(claim, came, seed):
    """Return the noisy ones of all tables in many runs, drawn by their law."""
    chance = np.random.default_rng(seed)
    laws, decay = claim.laws_after(0), np.exp(-1 / float(claim.noise.scale))
    for number, size in enumerate(claim.sizes):
        taken = np.full(RUNS, came)
        if number or claim.hashed:
            cells = chance.integers(0, size, (RUNS, came), dtype=np.int32)
            cells.sort(axis=1)
            taken = 1 + (cells[:, 1:] != cells[:, :-1]).sum(axis=1)
        ones = chance.binomial(taken, float(laws.present)) + chance.binomial(size - taken, float(laws.absent))
        yield ones + chance.geometric(1 - decay, RUNS) - chance.geometric(1 - decay, RUNS)


def parts(claim, came, seed=5):
    counts = [table.count for table in claim.build_likelihood(0).tables]
    told = zip(counts, released(claim, came, seed), strict=True)
    return np.array([(ones / count.entries - float(count.laws.absent)) / float(count.laws.gap) for count, ones in told])


@pytest.mark.parametrize("name", CASES)
def test_stated_error_matches_simulation_to_a_twentieth(name):
    settings, loss, came = CASES[name]
    claim = MultiplicativeDensity(Pure(loss), **settings)
    truth, together = came / claim.universe, claim.build_likelihood(0)
    found = together.estimate(parts(claim, came))
    error = np.sqrt(((found - truth) ** 2).mean())
    assert abs(claim.stddev(truth) / error - 1) < TWENTIETH + NEVER_OFF
    assert 0 <= found.min() <= found.max() <= together.max_part


def test_first_order_error_is_too_large_near_zero():
    """A twin: it is a quarter too large for a truth near 0."""
    claim = MultiplicativeDensity(Pure(1), universe=10**4)
    together, truth = claim.build_likelihood(0), 10 / 10**4
    found = together.estimate(parts(claim, 10))
    error = np.sqrt(((found - truth) ** 2).mean())
    assert abs(together.root_mean_square_error(truth) / error - 1) < TWENTIETH + NEVER_OFF
    assert together.first_order_stddev(truth) / error > 1.15


def test_joint_error_is_at_most_that_of_best_table():
    claim = MultiplicativeDensity(Pure(2), universe=10**6)
    together = claim.build_likelihood(0)
    for truth in (1e-4, 1e-3, 1e-2, 0.1, 0.5):
        alone = [1 / np.sqrt(table.precision(truth)) for table in together.tables]
        assert together.first_order_stddev(truth) <= min(alone) == alone[together.find_best_table(truth)]


@pytest.mark.parametrize("hashed", [False, True])
def test_every_release_has_a_finite_estimate(hashed):
    """The release is already charged, so overfull small tables must not fail."""
    claim = MultiplicativeDensity(Pure(1), universe=10**7, hashed=hashed)
    for ones in (np.array(claim.sizes), -np.array(claim.sizes), np.array(claim.sizes) * 10**6):
        found = claim.build_estimate(ones, 0)
        assert np.isfinite([found.value, found.stddev]).all()
        low, high = found.interval()
        assert 0 <= low <= high


def test_exact_table_parts_give_the_exact_estimate():
    together = MultiplicativeDensity(Pure(8), universe=10**6).build_likelihood(0)
    for truth in (0.0, 1e-4, 0.02, 0.7, 1.0):
        told = np.array([[table.occupied_part(np.array(truth))] for table in together.tables], np.float64)
        assert together.estimate(told)[0] == pytest.approx(truth, abs=together.first_order_stddev(truth) / 20)


def test_error_of_too_many_users_is_their_number():
    claim = MultiplicativeDensity(Pure(1), universe=10**4, hashed=True)
    assert claim.stddev(1e300) == 1e300
    assert 1e6 - claim.build_likelihood(0).max_part < claim.stddev(1e6) < 1e6
