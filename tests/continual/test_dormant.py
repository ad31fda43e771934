"""Dormant groups are cheap where the state holds few draws: as many draws as are in the next releases."""

import numpy as np
import pytest

from streamgauge import Pure, Zcdp
from streamgauge.continual import (
    Binary,
    BridgeTree,
    BufferedToeplitz,
    EndlessBridge,
    ExponentialDecay,
    Hybrid,
    Kary,
    SimpleI,
    SimpleII,
    SmoothBinary,
    SquareRoot,
    SubtractiveTree,
    TwoLevel,
    UnboundedToeplitz,
    WindowBridge,
    WindowSum,
    mechanism,
)
from streamgauge.continual.state_io import append_columns, join_columns
from streamgauge.continual.trees.tree import State
from streamgauge.testing.noise import CountedNoise, InsecureNoise, SilentNoise

FAR = 10**12


def drawn(claim, width, tick):
    noise = CountedNoise(SilentNoise())
    assert claim.zero_state(width, tick, noise).tick == tick
    return noise.total


@pytest.mark.parametrize("claim", [Kary(Pure(1), horizon=2**42), Binary(Zcdp(1), horizon=2**42)], ids=repr)
def test_a_tree_draws_once_for_every_block_of_the_count(claim):
    tree = getattr(claim, "implementation", claim)
    for tick in (0, 1, 999, FAR):
        assert drawn(claim, 3, tick) == 3 * sum(tree.digits(tick))


def test_a_subtractive_tree_draws_once_for_every_block():
    claim = SubtractiveTree(Pure(1), horizon=2**42)
    for tick in (0, 1, 999, FAR):
        digits = [abs(claim.digit(tick, level)) for level in range(claim.levels)]
        assert drawn(claim, 3, tick) == 3 * sum(digits)


def test_a_hybrid_draws_once_for_every_epoch_and_what_its_inner_mechanism_draws():
    claim = Hybrid(Pure(1))
    number, begin, length = claim.epoch(FAR + 1)
    inner = claim.counter(begin, length)
    assert drawn(claim, 3, FAR) == 3 * number + drawn(inner, 3, FAR - begin)
    assert drawn(claim, 1, FAR) < 200
    for last in (begin, begin + length):  # ends of epochs, after which the next has begun
        ended = claim.epoch(last)[0] + 1
        assert drawn(claim, 1, last) == ended


def test_a_window_draws_for_what_it_still_sees():
    claim = WindowSum(Pure(1), window=60)
    most = (claim.window + claim.tiling.span) * claim.levels
    assert 0 < drawn(claim, 1, FAR) <= most
    state = claim.zero_state(1, FAR, InsecureNoise(1))
    assert claim.current_noise(state) == claim.noise_at(FAR)


@pytest.mark.usefixtures("small_chunks")
def test_one_level_draws_once_for_every_item_in_bounded_memory():
    noise = CountedNoise(InsecureNoise(2))
    state = SimpleII(Pure(1)).zero_state(3, 1000, noise)
    assert noise.total == 3000
    assert max(size for _, _, size in noise.requests) <= 64
    assert abs(state.total / np.sqrt(2 * 1000)).max() < 6.5
    assert drawn(TwoLevel(Pure(1), block_size=100), 1, 12345) == 123 + 45


@pytest.mark.usefixtures("small_chunks")
def test_zeros_are_fed_in_bounded_memory():
    noise = CountedNoise(SilentNoise())
    SimpleI(Pure(1), horizon=200).zero_state(3, 200, noise)
    assert noise.total == 600
    assert max(size for _, _, size in noise.requests) <= 64


def test_public_arrays_are_not_appended_even_where_they_are_as_wide_as_one_group():
    claim = Kary(Pure(1), horizon=9, branching=3)
    one, two = claim.initial(1, SilentNoise()), claim.initial(1, SilentNoise())
    claim.append_groups(one, two)
    assert one.total.shape == (2,)
    assert one.draw_counts.shape == (claim.levels, 1)
    blind = State(0, *(np.zeros(shape, np.int64) for shape in ((1,), (2, 1), (2, 1))))
    append_columns(blind, blind, one, one)  # a twin that cannot tell: nothing differs in width
    assert blind.total.shape == (1,)


def test_arrays_with_more_room_keep_it_and_the_other_gets_it():
    short, long = np.ones((2, 1), np.int64), np.full((5, 3), 2)
    for both in (join_columns(short, long), join_columns(long, short)[:, [3, 0, 1, 2]]):
        assert both.tolist() == [[1, 2, 2, 2]] * 2 + [[0, 2, 2, 2]] * 3


CHEAP = [
    Kary(Pure(1), horizon=10**6),
    Binary(Zcdp(1), horizon=10**6),
    SubtractiveTree(Pure(1), horizon=10**6),
    BridgeTree(Pure(1), horizon=10**6),
    EndlessBridge(Pure(1)),
    WindowBridge(Pure(1), window=60),
    Hybrid(Pure(1)),
    Hybrid(Zcdp(1), inner=Kary),
    SimpleII(Pure(1), horizon=100),
    WindowSum(Pure(1), window=60),
]
DEAR = [
    BufferedToeplitz(Zcdp(1), horizon=10**6),
    UnboundedToeplitz(Zcdp(1)),
    SquareRoot(Zcdp(1), horizon=1000),
    SmoothBinary(Pure(1), horizon=1000),
    Binary(Pure(1), horizon=1000, refine=True),
    SimpleII(Pure(1)),
    Hybrid(Zcdp(1)),
    ExponentialDecay(Pure(1), half_life=9),
    Kary(Pure(1), horizon=1000, pan_private=True),
]


@pytest.mark.parametrize("claim", CHEAP, ids=repr)
def test_a_group_that_sleeps_cheaply_takes_few_draws_whenever_it_wakes(claim):
    assert claim.cheap_zero_state
    last = claim.horizon or 10**6
    assert (
        max(drawn(claim, 1, tick) for tick in (last // 3, last // 2, last - 1, last)) <= 2 * mechanism.MAX_CHEAP_DRAWS
    )


@pytest.mark.parametrize("claim", DEAR, ids=repr)
def test_a_group_that_does_not_takes_a_draw_for_every_tick_or_so(claim):
    assert not claim.cheap_zero_state
    assert drawn(claim, 1, 900) >= 450


def test_a_window_knows_what_it_keeps_without_making_it():
    for loss, window in ((Pure(1), 1), (Pure(1), 60), (Zcdp(1), 1000)):
        claim = WindowSum(loss, window=window)
        assert claim.memory() == mechanism.LinearMechanism.memory(claim)
    with pytest.raises(ValueError, match=r"^window must be at most 2\*\*26 ticks .a run remembers"):
        WindowSum(Pure(1), window=10**10)
