"""The bridge tree: its bars, its radices, wrap-around, and twins with another error or promise."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import BridgeTree, Hybrid, choose
from streamgauge.continual.mechanism import draw_rows
from streamgauge.continual.trees.bridge_tree import State
from streamgauge.noise import DiscreteLaplace, Noise
from streamgauge.testing.noise import InsecureNoise, SilentNoise

PURE = sg.Pure(1)
BARS = {2**10: (11.25, 14.1), 2**16: (20.9, 26.1), 2**20: (28.4, 35.7)}  # mean and worst, of standard errors
WIDTH, Z = 4000, 6.5  # standard errors: p below 1e-10


@pytest.mark.parametrize("horizon", BARS)
def test_the_error_meets_its_bar_and_is_what_choose_takes(horizon: int) -> None:
    tree = BridgeTree(PURE, horizon=horizon)
    mean, worst = BARS[horizon]
    assert tree.rmse() <= mean
    assert max(tree.stddev(tick) for tick in range(1, horizon + 1, max(1, horizon // 1021))) <= worst
    assert choose(PURE, horizon=horizon) == tree
    assert tree.memory() == 1 + sum(tree.radices) + len(tree.radices) + 2


def test_a_simulated_run_has_the_predicted_error() -> None:
    tree, groups = BridgeTree(PURE, horizon=2**10), 3000
    released = tree.start(groups, InsecureNoise(1)).feed(np.zeros((2**10, groups), np.int64))
    squares = (released**2).mean(axis=0)
    uncertainty = squares.std() / np.sqrt(groups)
    predicted = tree.rmse() ** 2
    assert abs(squares.mean() - predicted) < Z * uncertainty
    assert all(abs(squares.mean() - predicted * wrong**2) > Z * uncertainty for wrong in (0.7, 1.3))


def check_matrices(horizon: int) -> None:
    """Weights decode blocks to running sums, whatever the radices; each item is in one block of each level."""
    for radices in (None, (2,), (3, 2), (4, 3), (2, 2, 2), (horizon + 1,)):
        claim = BridgeTree(PURE, horizon=horizon, radices=radices)
        strategy = claim.strategy(horizon)
        np.testing.assert_allclose(strategy.workload, np.tri(horizon), atol=1e-12)
        assert (strategy.measure.sum(axis=0) == claim.bridge.levels).all()
        assert claim.distribution == DiscreteLaplace(claim.bridge.levels)


@pytest.mark.parametrize("horizon", [1, 2, 3, 12, 24, 100, 299, 300])
def test_blocks_decode_to_running_sums(horizon: int) -> None:
    check_matrices(horizon)


@pytest.mark.slow
def test_blocks_decode_to_running_sums_for_every_horizon_to_300() -> None:
    for horizon in range(1, 301):
        check_matrices(horizon)


@pytest.mark.parametrize("horizon", [1, 2, 5, 20, 27, 60])
def test_the_radices_are_the_best_of_all(horizon: int) -> None:
    """All nondecreasing radices of at most three levels of children are tried."""
    found = BridgeTree(PURE, horizon=horizon).rmse()
    for first in range(1, horizon + 1):
        for second in range(1, horizon // first + 1):
            radices = tuple(k for k in (first, second) if k > 1)
            assert found <= BridgeTree(PURE, horizon=horizon, radices=radices).rmse() * 1.02


def test_radices_that_were_given_stay_and_are_part_of_the_claim() -> None:
    claim = BridgeTree(PURE, horizon=20, radices=[3, np.int64(2)])
    assert repr(claim) == repr(BridgeTree(PURE, horizon=20, radices=(3, 2)))
    with pytest.raises(ValueError, match=r"^saved must be a run of .*radices=\(2, 3\)"):
        BridgeTree(PURE, horizon=20, radices=(2, 3)).load(claim.start().save())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: BridgeTree(PURE, horizon=9, radices=(3, 1)), "radices must be a whole number of at least 2, got 1"),
        (lambda: BridgeTree(PURE, horizon=9, radices=(2**31, 2)), "radices must have a product of at most 2**62"),
        (lambda: BridgeTree(sg.Zcdp(1), horizon=9), "loss must be Pure for BridgeTree (its noise looks ahead"),
        (lambda: Hybrid(sg.Zcdp(1), inner=BridgeTree), "loss must be Pure for BridgeTree (its noise looks ahead"),
        (
            lambda: BridgeTree(PURE, horizon=9, pan_private=True),
            "pan_private must be False for BridgeTree (its memory is the exact total",
        ),
    ],
)
def test_a_refusal_says_what_and_why(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match="must") as refusal:
        make()
    assert message in str(refusal.value)


def test_sums_that_wrap_around_come_back_exact() -> None:
    tree = BridgeTree(sg.Pure(Fraction(1, 2**20)), horizon=36, radices=(3, 4))
    noise = InsecureNoise(2)
    plain = tree.start(1, noise.clone()).feed(np.zeros((36, 1), np.int64))[:, 0]
    values = np.array([2**62, 2**62, 2**62, 2**62, *[0] * 32])[:, None]
    wrapped = tree.start(1, noise.clone()).feed(values)[:, 0]
    np.testing.assert_allclose(wrapped[3:], plain[3:], rtol=1e-12)


class RedrawnTree(BridgeTree):
    """A broken twin: the items that have not come are drawn again after loading, under the old share."""

    def redraw_future_noise(self, state: State, noise: Noise) -> None:
        row, end = state.tick % self.bridge.radices[0], self.bridge.radices[0]
        state.noise.children[row:end] += draw_rows(self.distribution, noise, end - row, len(state.total))


class LateTree(BridgeTree):
    """A broken twin: groups that are added have only their next draws."""

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        state = super().zero_state(width, tick, noise)
        state.noise.whole[:] = 0
        return state


@pytest.mark.parametrize("cls", [BridgeTree, RedrawnTree])
def test_a_loaded_run_ends_a_block_with_the_noise_of_the_block(cls: type[BridgeTree]) -> None:
    claim = cls(PURE, horizon=8, radices=(8,))
    noise, zeros = InsecureNoise(3), np.zeros((8, WIDTH), np.int64)
    run = claim.start(WIDTH, noise)
    run.feed(zeros[:3])
    again = claim.load(run.save(), noise)
    again.redraw_future_noise()
    assert agrees(again.feed(zeros[3:])[-1], claim.stddev(8) ** 2) == (cls is BridgeTree)


@pytest.mark.parametrize("cls", [BridgeTree, LateTree])
def test_groups_that_are_added_have_the_noise_of_all_ticks(cls: type[BridgeTree]) -> None:
    claim = cls(PURE, horizon=40, radices=(3, 2))
    run = claim.start(1, InsecureNoise(4))
    run.feed(np.zeros((33, 1), np.int64))
    run.widen(WIDTH)
    assert agrees(run.step(np.zeros(WIDTH + 1, np.int64))[1:], claim.stddev(34) ** 2) == (cls is BridgeTree)


def agrees(errors: np.ndarray, variance: float) -> bool:
    squares = errors**2
    return bool(abs(squares.mean() - variance) < Z * squares.std() / np.sqrt(len(squares)))


def test_a_run_without_noise_is_the_count() -> None:
    run = BridgeTree(PURE, horizon=2**20).start(2, SilentNoise())
    assert run.feed(np.ones((50, 2), int))[-1].tolist() == [50.0, 50.0]
