"""The noise of a bridge, exactly: blocks, weights, paths, the law of states that were not fed."""

from collections import Counter
from dataclasses import fields
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from streamgauge.continual.trees.bridge import Bridge, BridgeState, to_release
from streamgauge.noise import DiscreteLaplace, Ints, NoiseSum
from streamgauge.testing.noise import CountedNoise, ImpulseNoise, InsecureNoise, SilentNoise

TICKS = 60
INNER, TOP = DiscreteLaplace(Fraction(7)), DiscreteLaplace(Fraction(3))
RADICES = [(), (5,), (3, 2), (4, 3), (2, 2, 2), (3, 3, 2), (60,), (7, 11)]
every_bridge = pytest.mark.parametrize(
    "bridge", [Bridge(radices, INNER, top) for radices in RADICES for top in (INNER, TOP)], ids=repr
)


class RecordedNoise(InsecureNoise):
    """Noise that lists its draws before a run overwrites them."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.draws: list[int] = []

    def laplace(self, scale: Fraction, size: int) -> Ints:
        drawn = super().laplace(scale, size)
        self.draws += drawn.tolist()
        return drawn


def numbers(state: BridgeState, span: int = 1) -> list[Any]:
    """Return all numbers of a state, the sum as one."""
    found = [getattr(state, field.name).tolist() for field in fields(state)]
    return [*found[:-2], [whole * span + rest for whole, rest in zip(*found[-2:], strict=True)]]


@every_bridge
def test_weights_of_draws_decode_their_blocks_to_running_sums(bridge: Bridge) -> None:
    measure, decode, laws = bridge.build_matrices(TICKS)
    np.testing.assert_allclose(decode @ measure, np.tri(TICKS), atol=1e-12)
    assert (measure.sum(axis=0) == bridge.levels).all()
    variances = decode**2 @ np.array([law.variance for law in laws])
    stated = [NoiseSum(bridge.list_terms(tick)).variance for tick in range(1, TICKS + 1)]
    np.testing.assert_allclose(stated, variances, rtol=1e-12)
    sums = [bridge.sum_variances(tick) for tick in range(1, TICKS + 1)]
    np.testing.assert_allclose(sums, np.cumsum(variances), rtol=1e-12)


@every_bridge
def test_a_path_is_the_weighted_draws_step_by_step_and_fed(bridge: Bridge) -> None:
    _, decode, laws = bridge.build_matrices(TICKS)
    noise, state, path = RecordedNoise(1), bridge.initial(1), []
    for tick in range(TICKS):
        bridge.step(state, tick, noise)
        assert 0 <= state.rest[0] < bridge.span * (max(bridge.radices, default=0) + 1)
        path.append(to_release(state.whole, state.rest, bridge.span)[0])
    assert len(noise.draws) == len(laws)
    np.testing.assert_allclose(path, decode @ noise.draws, rtol=1e-12, atol=1e-9)
    for cuts in ([0, 60], [0, 1, 2, 9, 10, 33, 33, 60], [0, 7, 36, 37, 60]):
        fed, same = bridge.initial(1), InsecureNoise(1)
        parts = [bridge.feed(fed, a, b - a, same) for a, b in pairwise(cuts)]
        found = np.concatenate([to_release(whole, rest, bridge.span) for whole, rest in parts])[:, 0]
        np.testing.assert_allclose(found, path, rtol=1e-14)
        assert numbers(fed, bridge.span) == numbers(state, bridge.span)


def rounded(pattern: np.ndarray) -> tuple[float, ...]:
    return tuple((np.round(pattern, 6) + 0.0).tolist())


@every_bridge
def test_a_state_that_was_not_fed_has_the_draws_of_one_that_was(bridge: Bridge) -> None:
    _, decode, _ = bridge.build_matrices(TICKS)
    for tick in (0, 1, 5, 6, 23, 36, 44):
        counted, found = CountedNoise(SilentNoise()), Counter[Any]()
        bridge.zero_state(1, tick, counted)
        for draw in range(counted.total):
            state = bridge.zero_state(1, tick, ImpulseNoise(draw, bridge.span))
            path = bridge.feed(state, tick, TICKS - tick, SilentNoise())
            found[rounded(to_release(*path, bridge.span)[:, 0] / bridge.span)] += 1
        drawn = len(bridge.build_matrices(tick)[2]) if tick else 0
        expected = Counter(rounded(decode[tick:, draw]) for draw in range(drawn))
        nothing = (0.0,) * (TICKS - tick)
        found[nothing] = expected[nothing] = 0  # of children that have ended
        assert found == expected


@every_bridge
def test_an_event_that_its_blocks_hide_leaves_every_later_number_as_it_is(bridge: Bridge) -> None:
    """Draws of the blocks of tick t less D: the sum moves by -D from t on, and nothing else in memory does."""
    measure, _, laws = bridge.build_matrices(24)
    for tick in range(24):
        for moved in (1, -3, 2**62):
            honest, shifted = bridge.initial(1), bridge.initial(1)
            blocks = measure[:, tick].astype(np.int64)
            given = np.random.default_rng(tick).integers(-99, 99, len(laws))
            one, two = ListedNoise(given), ListedNoise(given - moved * blocks)
            for t in range(24):
                bridge.step(honest, t, one)
                bridge.step(shifted, t, two)
                if t >= tick:
                    shifted.whole += moved
                    assert numbers(shifted) == numbers(honest)
                    shifted.whole -= moved


class ListedNoise:
    """Draws from a list."""

    def __init__(self, draws: Ints) -> None:
        self.draws, self.used = draws, 0

    def laplace(self, scale: Fraction, size: int) -> Ints:
        self.used += size
        return self.draws[self.used - size : self.used].copy()

    gaussian = laplace
