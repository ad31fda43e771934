"""The trees, exactly: tiles, digits, memberships, memory, the best shapes."""

from fractions import Fraction

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import Binary, Hybrid, Kary, Segments, SimpleII, SmoothBinary, SubtractiveTree, TwoLevel
from streamgauge.continual.state_io import count_numbers
from streamgauge.noise import DiscreteLaplace
from streamgauge.testing.noise import SilentNoise
from tests.support.saved_states import live_state

PURE = sg.Pure(1)
PLAIN = [
    Kary(PURE, horizon=200, branching=2),
    Kary(PURE, horizon=200, branching=5),
    Kary(PURE, horizon=200, branching=17),
    TwoLevel(PURE, horizon=200),
    Binary(PURE, horizon=200).implementation,
]


@pytest.mark.parametrize("tree", PLAIN, ids=repr)
def test_p_sums_tile_the_stream_at_every_tick(tree: Kary) -> None:
    strategy = tree.strategy(200)
    for t in range(1, 201):
        used = strategy.decode[t - 1].astype(bool)
        np.testing.assert_array_equal(strategy.measure[used].sum(axis=0), np.arange(1, 201) <= t)
        assert used.sum() == sum(tree.digits(t))


@pytest.mark.parametrize("horizon", [*range(1, 40), 255, 256, 257])
def test_claimed_memberships_equal_largest_number_of_p_sums(horizon: int) -> None:
    for tree in (
        Binary(PURE, horizon=horizon).implementation,
        TwoLevel(PURE, horizon=horizon),
        Kary(PURE, horizon=horizon),
    ):
        assert tree.strategy(horizon).measure.sum(axis=0).max() == tree.levels
    smooth = SmoothBinary(PURE, horizon=horizon)
    assert smooth.strategy(horizon).measure.sum(axis=0).max() == smooth.zero_count
    segments = Segments(PURE, horizon=horizon)
    assert np.abs(segments.strategy(horizon).measure).sum(axis=0).max() == segments.memberships


def test_binary_levels_exclude_blocks_used_only_at_last_tick() -> None:
    assert [Binary(PURE, horizon=T).levels for T in (1, 2, 3, 4, 5, 7, 8, 9, 2**20)] == [1, 1, 2, 2, 3, 3, 3, 4, 20]
    assert Binary(PURE, horizon=7).implementation.distribution == DiscreteLaplace(Fraction(3))


def test_the_best_shapes_are_those_of_the_published_search() -> None:
    found = [Kary(PURE, horizon=T) for T in (2**10, 2**16, 2**20)]
    assert [(kary.branching, kary.levels) for kary in found] == [(11, 3), (17, 4), (17, 5)]
    trees = [SubtractiveTree(PURE, horizon=T) for T in (2**10, 2**16, 2**20)]
    assert [(tree.branching, tree.levels) for tree in trees] == [(13, 3), (21, 4), (19, 5)]


def test_memory_meets_its_target() -> None:
    for tree in (SimpleII(PURE), *PLAIN, Binary(PURE, horizon=2**20, pan_private=True).implementation):
        assert tree.memory() <= tree.levels + 4
    for T in (2**10, 2**20):
        tree = SubtractiveTree(PURE, horizon=T)
        assert tree.memory() <= (tree.branching + 2) * tree.levels


def test_declared_memory_equals_numbers_in_the_state() -> None:
    claim = Kary(PURE, horizon=1000)
    run = claim.start(50, SilentNoise())
    run.feed(np.ones((1000, 50), int))
    assert count_numbers(live_state(run)) == 50 * claim.memory() + claim.levels


def test_subtractive_tree_signs_decode_the_prefix() -> None:
    tree = SubtractiveTree(PURE, horizon=1000, branching=5)
    strategy = tree.strategy(200)
    for t in range(1, 201):
        signs = strategy.decode[t - 1]
        np.testing.assert_array_equal(signs @ strategy.measure, np.arange(1, 201) <= t)
        assert np.abs(signs).sum() == sum(abs(tree.digit(t, level)) for level in range(tree.levels))


def test_smooth_names_are_all_names_of_their_weight_in_order() -> None:
    claim = SmoothBinary(PURE, horizon=300)
    names = claim.names(0, 301)
    assert (np.diff(names) > 0).all()
    assert set(np.bitwise_count(names)) == {claim.one_count}
    in_order = [n for n in range(2**claim.depth) if n.bit_count() == claim.one_count]
    np.testing.assert_array_equal(names, in_order[:301])


def test_a_hybrid_restarts_at_the_ends_of_its_epochs() -> None:
    hybrid = Hybrid(PURE, inner=Binary, growth=2, first=1, split="1/2")
    assert [hybrid.epoch(t) for t in (1, 2, 3, 4, 7, 8)] == [
        (0, 0, 1),
        (1, 1, 2),
        (1, 1, 2),
        (2, 3, 4),
        (2, 3, 4),
        (3, 7, 8),
    ]
    assert hybrid.counter(7, 8).horizon == 7


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Kary(PURE), "horizon must be given for this mechanism, got None"),
        (lambda: Kary(PURE, horizon=9, branching=1), "branching must be a whole number of at least 2, got 1"),
        (lambda: TwoLevel(PURE, block_size=1), "block_size must be a whole number of at least 2, got 1"),
        (lambda: SubtractiveTree(PURE, horizon=9, branching=4), "branching must be odd, got 4"),
        (lambda: Hybrid(PURE, growth=1), "growth must be a whole number of at least 2, got 1"),
        (lambda: Hybrid(PURE, split=1), "split must be between 0 and 1, got 1"),
        (
            lambda: SubtractiveTree(sg.Zcdp(1), horizon=9),
            "loss must be Pure for SubtractiveTree (its noise looks ahead",
        ),
        (lambda: Hybrid(sg.Zcdp(1), inner=SubtractiveTree), "loss must be Pure for SubtractiveTree (its noise looks"),
        (
            lambda: SubtractiveTree(PURE, horizon=9, pan_private=True),
            "pan_private must be False for SubtractiveTree (its memory is the exact total",
        ),
    ],
)
def test_refusal_message_states_setting_and_reason(make: object, message: str) -> None:
    with pytest.raises(ValueError, match="must be") as refusal:
        make()
    assert message in str(refusal.value)
