"""Dormant groups are cheap where the state holds few draws: as many draws as are in the next releases."""

import numpy as np
import pytest

from streamgauge import Pure, Zcdp
from streamgauge.continual import (
    Binary,
    Hybrid,
    Kary,
    SimpleI,
    SimpleII,
    SubtractiveTree,
    TwoLevel,
    WindowSum,
    mechanism,
)
from streamgauge.continual.columns import append_columns, beside
from streamgauge.continual.tree import State
from streamgauge.testing import CountedNoise, InsecureNoise, SilentNoise

FAR = 10**12


def drawn(claim, width, tick):
    noise = CountedNoise(SilentNoise())
    assert claim.dormant(width, tick, noise).tick == tick
    return noise.total


@pytest.mark.parametrize("claim", [Kary(Pure(1), horizon=2**42), Binary(Zcdp(1), horizon=2**42)], ids=repr)
def test_a_tree_draws_once_for_every_block_of_the_count(claim):
    tree = getattr(claim, "way", claim)
    for tick in (0, 1, 999, FAR):
        assert drawn(claim, 3, tick) == 3 * sum(tree.digits(tick))


def test_a_subtractive_tree_draws_once_for_every_block_added_or_taken_away():
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
    state = claim.dormant(1, FAR, InsecureNoise(1))
    assert claim.noise_now(state) == claim.noise_at(FAR)


def test_one_level_draws_once_for_every_item_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(mechanism, "CHUNK", 64)
    noise = CountedNoise(InsecureNoise(2))
    state = SimpleII(Pure(1)).dormant(3, 1000, noise)
    assert noise.total == 3000
    assert max(size for _, _, size in noise.requests) <= 64
    assert abs(state.total / np.sqrt(2 * 1000)).max() < 6.5
    assert drawn(TwoLevel(Pure(1), block_size=100), 1, 12345) == 123 + 45


def test_zeros_are_fed_in_bounded_memory(monkeypatch):
    monkeypatch.setattr(mechanism, "CHUNK", 64)
    noise = CountedNoise(SilentNoise())
    SimpleI(Pure(1), horizon=200).dormant(3, 200, noise)
    assert noise.total == 600
    assert max(size for _, _, size in noise.requests) <= 64


def test_public_arrays_are_not_appended_even_where_they_are_as_wide_as_one_group():
    claim = Kary(Pure(1), horizon=9, branching=3)
    one, two = claim.initial(1, SilentNoise()), claim.initial(1, SilentNoise())
    claim.append(one, two)
    assert one.total.shape == (2,)
    assert one.variables.shape == (claim.levels, 1)
    blind = State(0, *(np.zeros(shape, np.int64) for shape in ((1,), (2, 1), (2, 1))))
    append_columns(blind, blind, one, one)  # a twin that cannot tell: nothing differs in width
    assert blind.total.shape == (1,)


def test_arrays_with_more_room_keep_it_and_the_other_gets_it():
    short, long = np.ones((2, 1), np.int64), np.full((5, 3), 2)
    for both in (beside(short, long), beside(long, short)[:, [3, 0, 1, 2]]):
        assert both.tolist() == [[1, 2, 2, 2]] * 2 + [[0, 2, 2, 2]] * 3
