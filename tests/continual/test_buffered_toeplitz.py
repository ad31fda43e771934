"""BufferedToeplitz: tables, calibration, error and runs."""

from itertools import pairwise
from math import sqrt

import numpy as np
import pytest

from streamgauge.continual.factorizations.buffered_toeplitz import BufferedToeplitz
from streamgauge.continual.factorizations.encoder import rounding_width
from streamgauge.continual.run import LimitExceededError
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.privacy import Approx, Event, Pure, User, WEvent, Zcdp
from streamgauge.testing.noise import CountedNoise, InsecureNoise, SilentNoise

HALF = Zcdp("1/2")
PUBLISHED = {  # root mean squared errors of the buffers that minimise the *maximal* error, rho = 1/2
    10: {2: 3.142, 3: 3.113, 4: 3.110},
    16: {2: 4.817, 3: 4.505, 4: 4.450},
    20: {2: 6.333, 3: 5.561, 4: 5.382},
}


@pytest.mark.parametrize("scale", PUBLISHED)
@pytest.mark.parametrize("buffers", [2, 3, 4])
def test_rounded_tables_reach_the_best_real_valued_error(scale, buffers):
    claim = BufferedToeplitz(HALF, horizon=2**scale, buffers=buffers)
    assert 0.98 * PUBLISHED[scale][buffers] <= claim.rmse() <= PUBLISHED[scale][buffers]


def test_error_at_a_million_ticks_meets_its_target():
    assert BufferedToeplitz(HALF, horizon=2**20).rmse() <= 5.33
    assert BufferedToeplitz(HALF, horizon=2**20, buffers=6).rmse() <= 5.28


def test_the_error_stays_above_the_least_of_all_factorisations():
    for scale, least in ((10, 2.910), (16, 4.232), (20, 5.115)):
        assert BufferedToeplitz(HALF, horizon=2**scale, buffers=6).rmse() > least


def test_errors_grow_without_jumps_with_the_horizon():
    errors = [BufferedToeplitz(HALF, horizon=t).rmse() for t in range(1, 70)]
    assert errors[0] == pytest.approx(1, rel=1e-6)
    assert all(a < b + 1e-3 for a, b in pairwise(errors))


@pytest.mark.parametrize("loss", [HALF, Zcdp("1/1000"), Zcdp(50), Approx(1, 1e-6)])
@pytest.mark.parametrize("horizon", [1, 2, 100])
@pytest.mark.parametrize("bound", [1, 7])
def test_enumerated_loss_and_rounding_obey_the_claim_tightly(loss, horizon, bound):
    claim = BufferedToeplitz(loss, horizon=horizon, bound=bound)
    strategy = claim.strategy(horizon)
    move = bound * strategy.grid * np.linalg.norm(strategy.measure[:, 0])
    rounded = bound * float(rounding_width(claim.encoder)) * sqrt(horizon)
    allowed = sqrt(2 * float(loss.additive_loss.rho) * strategy.distributions[0].variance)
    assert move + rounded <= allowed * (1 + 1e-12)
    assert move >= allowed * (1 - 1e-6)


@pytest.mark.parametrize("unit", [WEvent(1), WEvent(5), WEvent(40), User(1, 12), Event(replace=True, moves=True)])
def test_unit_of_many_ticks_has_sensitivity_of_worst_columns(unit):
    horizon = 30
    claim, event = BufferedToeplitz(HALF, horizon=horizon, unit=unit), BufferedToeplitz(HALF, horizon=horizon)
    ticks = min(unit.ticks, horizon)
    columns = event.strategy(horizon).measure
    sums = [np.linalg.norm(columns[:, s : s + ticks].sum(axis=1)) for s in range(horizon - ticks + 1)]
    assert float(claim.sensitivity) == pytest.approx(max(sums), rel=1e-12)
    assert claim.sensitivity <= ticks * event.sensitivity


def test_the_matrices_multiply_to_running_sums():
    strategy = BufferedToeplitz(HALF, horizon=200).strategy(200)
    assert np.allclose(strategy.workload, np.tri(200), atol=1e-12)


def test_silent_noise_gives_the_exact_counts():
    values = np.random.default_rng(0).integers(-(2**40), 2**40, (300, 3))
    run = BufferedToeplitz(HALF, horizon=300).start(3, SilentNoise())
    assert np.array_equal(run.feed(values), np.cumsum(values, axis=0))


@pytest.mark.parametrize("width", [1, 40])
@pytest.mark.parametrize("loss", [HALF, Zcdp(10**20)])
def test_feeding_equals_stepping_bit_for_bit(width, loss):
    claim = BufferedToeplitz(loss, horizon=90)
    values = np.random.default_rng(2).integers(0, 9, (90, width))
    fed, stepped = claim.start(width, InsecureNoise(4)), claim.start(width, InsecureNoise(4))
    first = np.concatenate([fed.feed(values[:30]), fed.feed(values[30:30]), fed.feed(values[30:])])
    assert np.array_equal(first, np.array([stepped.step(row) for row in values]))
    assert fed.save() == stepped.save()


@pytest.mark.parametrize("width", [2, 40])
def test_saved_run_continues_bit_for_bit(width):
    claim = BufferedToeplitz(HALF, horizon=50)
    noise, ones = InsecureNoise(9), np.ones((25, width), np.int64)
    run = claim.start(width, noise)
    run.feed(ones)
    again = claim.load(run.save(), noise.clone())
    assert np.array_equal(run.feed(ones), again.feed(ones))
    with pytest.raises(InvalidSaveError, match="saved must be a run of"):
        BufferedToeplitz(HALF, horizon=50, buffers=3).load(run.save())


def test_each_tick_draws_once_for_each_group():
    noise = CountedNoise(SilentNoise())
    claim = BufferedToeplitz(HALF, horizon=9)
    claim.start(4, noise).feed(np.zeros((9, 4), np.int64))
    assert noise.requests == [("gaussian", claim.distribution.parameter, 36)]


def test_simulated_errors_are_the_predicted_ones():
    """4000 groups: the sample variance has a relative standard error of 2.2 %, so 6.5 of them are 15 %."""
    claim = BufferedToeplitz(HALF, horizon=64)
    errors = claim.start(4000, InsecureNoise(1)).feed(np.zeros((64, 4000), np.int64))
    for tick in (1, 2, 17, 64):
        ratio = errors[tick - 1].var() / claim.stddev(tick) ** 2
        assert 0.85 < ratio < 1.15
        half = claim.noise_at(tick).half_width(0.95)
        assert (np.abs(errors[tick - 1]) <= half).mean() > 0.93
    assert (errors**2).mean() == pytest.approx(claim.mean_variance(64), rel=0.1)


def test_mean_variance_is_the_mean_of_variances():
    claim = BufferedToeplitz(HALF, horizon=400)
    mean = np.mean([claim.stddev(t) ** 2 for t in range(1, 401)])
    assert claim.mean_variance(400) == pytest.approx(mean, rel=1e-8)


def test_run_stores_ten_numbers_per_group_for_any_horizon():
    assert {BufferedToeplitz(HALF, horizon=2**k).memory() for k in (8, 20, 40)} == {10}


def test_overflow_probability_is_below_that_of_guessing_key():
    for scale in (0, 10, 40):
        for buffers in (2, 6):
            assert BufferedToeplitz(HALF, horizon=2**scale, buffers=buffers).overflow < -256
    with pytest.raises(ValueError, match="bound must be small enough"):
        BufferedToeplitz(HALF, horizon=100, bound=2**50)


def test_noise_grid_makes_rounding_negligible():
    for claim in (BufferedToeplitz(HALF, horizon=2**20), BufferedToeplitz(HALF, horizon=2**20, bound=1000)):
        assert claim.slack < claim.sensitivity * 2**claim.grid_bits / 10**6
        assert 2**41 < sqrt(claim.distribution.variance) < 2**43


def test_past_the_horizon_a_run_refuses():
    run = BufferedToeplitz(HALF, horizon=3).start()
    run.feed([1, 1, 1])
    with pytest.raises(LimitExceededError, match="tick must be at most"):
        run.step([1])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": Pure(1)}, r"loss must be Zcdp or Approx for BufferedToeplitz \(its columns are short in L2 only"),
        ({"pan_private": True}, "pan_private must be False for BufferedToeplitz"),
        ({"buffers": 5}, "buffers must be one of 2, 3, 4, 6, got 5"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"horizon": 2**40 + 1}, r"horizon must be at most 2\*\*40"),
        ({"bound": 0}, "bound must be a whole number of at least 1 or a Sensitivity above 0, got 0"),
        ({"loss": Zcdp(10**60)}, "loss must leave noise"),
    ],
)
def test_invalid_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        BufferedToeplitz(**{"loss": HALF, "horizon": 10, **settings})


def test_replaced_event_doubles_the_charged_groups() -> None:
    added, replaced = (
        BufferedToeplitz(HALF, horizon=50, bound=100, unit=unit) for unit in (Event(), Event(replace=True))
    )
    assert replaced.slack**2 == pytest.approx(2 * float(added.slack) ** 2)
