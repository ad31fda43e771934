"""UnboundedToeplitz: error on every scale, memory, and the far end."""

import numpy as np
import pytest

from streamgauge.continual.factorizations.unbounded_toeplitz import UnboundedToeplitz
from streamgauge.continual.run import LimitExceededError
from streamgauge.privacy import Pure, WEvent, Zcdp
from streamgauge.testing.noise import InsecureNoise, SilentNoise

HALF = Zcdp("1/2")


@pytest.mark.parametrize(("scale", "jacobsen_fawaz"), [(10, 4.671), (16, 5.976), (20, 6.822)])
def test_the_error_is_below_that_of_jacobsen_and_fawaz(scale, jacobsen_fawaz):
    assert 0.98 * jacobsen_fawaz <= UnboundedToeplitz(HALF).rmse(2**scale) <= jacobsen_fawaz


def test_the_error_grows_with_the_logarithm_of_the_tick():
    claim = UnboundedToeplitz(HALF)
    errors = [claim.rmse(2**j) for j in range(49)]
    assert all(error < 2.8 + 0.2135 * j for j, error in enumerate(errors))


def test_memory_is_18_numbers_and_less_for_shorter_streams():
    assert UnboundedToeplitz(HALF).memory() == 18
    sizes = [UnboundedToeplitz(HALF, last_tick=2**k).memory() for k in range(0, 49, 4)]
    assert sizes == sorted(sizes)
    assert sizes[5] <= 14


def test_a_nearer_last_tick_costs_less():
    errors = [UnboundedToeplitz(HALF, last_tick=2**k).rmse(2**10) for k in (20, 30, 40, 48)]
    assert errors == sorted(errors)


def test_charged_norm_matches_enumeration():
    claim = UnboundedToeplitz(HALF, last_tick=500)
    column = claim.strategy(500).measure[:, 0]
    assert float(claim.sensitivity) == pytest.approx(np.linalg.norm(column), rel=1e-12)
    assert UnboundedToeplitz(HALF, last_tick=500, unit=WEvent(3)).sensitivity <= 3 * claim.sensitivity


def test_rounding_of_all_ticks_is_charged_and_small():
    claim = UnboundedToeplitz(HALF)
    assert 2**24 < claim.slack < claim.sensitivity * 2**claim.grid_bits / 10**5
    assert claim.overflow < -256


def test_large_bound_is_charged_for_all_possible_groups():
    one, many, most = (UnboundedToeplitz(HALF, bound=bound) for bound in (1, 32, 10**6))
    assert many.slack == 32 * one.slack == most.slack
    assert most.slack < most.sensitivity * 2**most.grid_bits / 1000


@pytest.mark.parametrize("width", [1, 40])
def test_feeding_equals_stepping_and_loading_bit_for_bit(width):
    claim = UnboundedToeplitz(HALF)
    values = np.random.default_rng(2).integers(0, 9, (60, width))
    noise = InsecureNoise(4)
    fed, stepped = claim.start(width, noise), claim.start(width, InsecureNoise(4))
    first = fed.feed(values[:30])
    again = claim.load(fed.save(), noise.clone())
    releases = np.concatenate([first, again.feed(values[30:])])
    assert np.array_equal(releases, np.array([stepped.step(row) for row in values]))


def test_silent_noise_gives_the_exact_counts():
    values = np.random.default_rng(0).integers(0, 2**40, (100, 3))
    releases = UnboundedToeplitz(HALF).start(3, SilentNoise()).feed(values)
    assert np.array_equal(releases, np.cumsum(values, axis=0))


def test_simulated_errors_are_the_predicted_ones():
    claim = UnboundedToeplitz(HALF)
    errors = claim.start(4000, InsecureNoise(8)).feed(np.zeros((50, 4000), np.int64))
    for tick in (1, 10, 50):
        assert 0.85 < errors[tick - 1].var() / claim.stddev(tick) ** 2 < 1.15


def test_past_the_last_tick_a_run_refuses():
    run = UnboundedToeplitz(HALF, last_tick=3).start()
    run.feed([1, 1, 1])
    with pytest.raises(LimitExceededError, match="tick must be at most"):
        run.step([1])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": Pure(1)}, "loss must be Zcdp or Approx for UnboundedToeplitz"),
        ({"pan_private": True}, "pan_private must be False for UnboundedToeplitz"),
        ({"last_tick": 0}, "last_tick must be a whole number of at least 1, got 0"),
        ({"last_tick": 2**48 + 1}, r"last_tick must be at most 2\*\*48"),
    ],
)
def test_invalid_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        UnboundedToeplitz(**{"loss": HALF, **settings})
