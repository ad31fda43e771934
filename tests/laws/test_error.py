"""Statistical laws: the claimed error matches the simulated one."""

import numpy as np
import pytest

from streamgauge.testing.noise import InsecureNoise
from tests.support.catalogue import Case, every_kept_case

WIDTH, TICKS = 4000, 24
BANDED = 9  # ticks of a band: the law of each is inverted
Z = 6.5  # standard errors: p below 1e-10 each


def scaled_errors(case: Case) -> np.ndarray:
    """Return simulated errors divided by the claimed standard error."""
    claim = case.claim(TICKS)
    values = np.random.default_rng(5).integers(0, 30, (TICKS, 1))
    released = claim.start(WIDTH, InsecureNoise(11)).feed(np.repeat(values, WIDTH, axis=1))
    errors = released - claim.strategy(TICKS).workload @ values
    claimed = np.array([claim.stddev(t) for t in range(1, TICKS + 1)])
    return np.asarray(errors / claimed[:, None])


def agrees(scaled: np.ndarray) -> bool:
    """Return True if the second moments match the claim, with tolerance from the fourth."""
    variance, fourth = (scaled**2).mean(axis=1), (scaled**4).mean(axis=1)
    uncertainty = np.sqrt(np.maximum(fourth - variance**2, 0.5) / WIDTH)
    return bool((np.abs(variance - 1) < Z * uncertainty + 1e-9).all())


@pytest.mark.one_of_each("case")
@every_kept_case
def test_standard_error_matches_simulation(case: Case) -> None:
    scaled = scaled_errors(case)
    assert agrees(scaled)
    assert (np.abs(scaled.mean(axis=1)) < Z / np.sqrt(WIDTH) + 1e-9).all()
    assert not any(agrees(scaled / wrong) for wrong in (0.7, 1.3))


@pytest.mark.one_of_each("case")
@every_kept_case
def test_intervals_hold_the_truth_as_often_as_stated(case: Case) -> None:
    claim = case.claim(TICKS)
    released = claim.start(WIDTH, InsecureNoise(12)).feed(np.zeros((TICKS, WIDTH), int))
    for tick in (1, 7, TICKS):
        low, high = claim.interval(released[tick - 1], tick, 0.9)
        covered = ((low <= 0) & (high >= 0)).mean()
        assert covered > 0.9 - Z * np.sqrt(0.09 / WIDTH)


@pytest.mark.one_of_each("case")
@every_kept_case
def test_a_band_holds_all_ticks_at_once(case: Case) -> None:
    claim = case.claim(BANDED)
    groups = 500
    released = claim.start(groups, InsecureNoise(13)).feed(np.zeros((BANDED, groups), int))
    low, high = claim.band(released[:, 0], confidence=0.9)
    half = (high - low) / 2
    inside = (np.abs(released) <= half[:, None] + 1e-9).all(axis=0).mean()
    assert inside > 0.9 - Z * np.sqrt(0.09 / groups)
