"""Attacks on runs that need no chance: values of any size, and overwritten releases."""

from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import Binary, LinearMechanism, SimpleII
from streamgauge.noise import Ints
from streamgauge.testing.noise import CountedNoise, InsecureNoise
from tests.support.catalogue import Case, every_case

TICKS = 7
LARGE = 2**30  # fits every grid


def run_over(claim: LinearMechanism[Any], first: int) -> tuple[Any, list[Any]]:
    """Return all releases for this count in the first tick, and the noise requests."""
    noise = CountedNoise(InsecureNoise(51))
    stream = np.zeros((TICKS, 2), np.int64)
    stream[0] = first
    return claim.start(2, noise).feed(stream), noise.requests


@pytest.mark.one_of_each("case")
@every_case
def test_noise_and_its_grid_do_not_depend_on_data_size(case: Case) -> None:
    """Precision attack: neither the draws nor the released precision depends on a value."""
    claim = case.claim(TICKS)
    (small, requested), (large, requested_too) = run_over(claim, 0), run_over(claim, LARGE)
    moved = claim.strategy(TICKS).workload[:, 0] * LARGE
    assert requested == requested_too
    assert small.dtype == large.dtype
    if small.dtype.kind == "i":
        assert (large - small == moved[:, None]).all()
    np.testing.assert_allclose(large - small, np.repeat(moved[:, None], 2, axis=1), rtol=1e-6, atol=1e-3)


def test_integers_are_exact_far_beyond_the_places_of_a_float() -> None:
    claim = Binary(sg.Pure(1), horizon=TICKS)
    small, large = (run_over(claim, first)[0] for first in (0, 2**60 + 1))
    assert (large - small == 2**60 + 1).all()


class Scaled(Binary):
    """A broken twin: the grid of its releases grows with what it counts."""

    def feed(self, state: Any, block: Ints, noise: Any) -> Ints:
        grid = max(1, int(block.max()) >> 20)
        releases: Ints = super().feed(state, block, noise)
        return releases // grid * grid


def test_a_grid_that_grows_with_the_data_is_caught() -> None:
    claim = Scaled(sg.Pure(1), horizon=TICKS)
    small, large = (run_over(claim, first)[0] for first in (0, LARGE))
    assert (large - small != LARGE).any()


@every_case
def test_overwritten_release_changes_no_later_release(case: Case) -> None:
    """The caller may overwrite releases and input vectors without effect on the run."""
    check_spoilt(case.claim(TICKS))


def check_spoilt(claim: LinearMechanism[Any]) -> None:
    chosen, spoilt = (claim.start(2, InsecureNoise(52)) for _ in range(2))
    for tick in range(TICKS):
        vector = np.array([tick, 1])
        left, right = chosen.step(vector), spoilt.step(given := vector.copy())
        np.testing.assert_array_equal(left, right)
        spoil(right)
        spoil(given)


def spoil(array: Ints) -> None:
    if array.flags.writeable:
        array[...] = 99


class Fed(SimpleII):
    """A broken twin: its running sum is the array that it released."""

    def step(self, state: Any, values: Ints, noise: Any) -> Ints:
        state.total += values + noise.laplace(self.distribution.scale, len(values))
        total: Ints = state.total
        return total


def test_twin_that_reuses_its_released_array_is_caught() -> None:
    with pytest.raises(AssertionError):
        check_spoilt(Fed(sg.Pure(1)))
