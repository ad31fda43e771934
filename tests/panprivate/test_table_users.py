"""Users from any batch: items are read singly, and invalid items are dropped silently."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chisquare

from streamgauge.memory import WipedArrays
from streamgauge.panprivate.users import PIECE_ITEMS, Hash, HashedUniverse, SamplePermutation, Universe, split_batch

UNIVERSE = Universe(10, 10, 0)
CELLS = HashedUniverse(Hash(1000, 3), 1000)


class Hostile:
    """An item that raises on every operation."""

    def __float__(self):
        raise RuntimeError("user 7")

    def __eq__(self, other):
        raise RuntimeError("user 7")

    __hash__ = None


def places(kind, users):
    found = []
    for piece in split_batch(users):
        with WipedArrays() as secret:
            found += kind.find_places(piece, secret).tolist()
    return found


FORMS = [
    [3, 0, 9, 3],
    (3, 0, 9, 3),
    [3.0, Fraction(0), Decimal(9), np.int8(3)],
    np.array([3, 0, 9, 3]),
    np.array([3, 0, 9, 3], ">i8"),
    np.array([3, 0, 9, 3], np.uint64),
    np.array([3, 0, 9, 3], np.int16),
    np.array([3, 0, 9, 3], np.float32),
    np.array([3, 7, 0, 7, 9, 7, 3])[::2],
    np.array([[3, 0], [9, 3]]),
    np.ma.array([3, 5, 0, 9, 3], mask=[0, 1, 0, 0, 0]),
]


@pytest.mark.parametrize("users", FORMS)
def test_a_user_is_the_same_in_every_form(users):
    assert places(UNIVERSE, users) == [3, 0, 9, 3]
    assert places(CELLS, users) == places(CELLS, np.array([3, 0, 9, 3]))


GARBAGE = [
    None,
    "3",
    b"3",
    float("nan"),
    float("inf"),
    -1,
    10,
    2**63,
    -(2**63),
    2**64 + 3,
    10**400,
    2.5,
    3j,
    [3],
    {},
    Hostile(),
    np.datetime64("2026-01-01"),
]


def test_items_that_are_no_users_are_dropped_singly():
    for item in GARBAGE:
        assert places(UNIVERSE, [3, item, 4]) == [3, 4]
    assert places(UNIVERSE, [*GARBAGE, 5, *GARBAGE]) == [5]


@pytest.mark.parametrize(
    "users",
    [
        None,
        "345",
        b"345",
        {3: 4},
        3.5,
        object(),
        np.array(["3"]),
        np.array([3j]),
        [],
        Hostile(),
        np.array(["2026-01-01"], "M8[D]"),
        np.zeros(2, [("a", "i8")]),
        np.ma.zeros(2, [("a", "i8")]),
    ],
)
def test_invalid_batch_is_dropped_silently(users):
    assert places(UNIVERSE, users) == []


def test_numbers_outside_the_universe_are_dropped():
    assert places(UNIVERSE, np.array([2**64 - 1, 2**63 + 3, 2**32 + 3, 3], np.uint64)) == [3]
    assert places(UNIVERSE, np.array([-1, -(2**63), 9, 10])) == [9]
    assert places(UNIVERSE, np.array([np.nan, np.inf, -0.5, 2.5, -0.0, 1e300])) == [0]


def test_hashed_users_may_be_text():
    users = ["ana", "ben", b"ana", None, float("nan"), Hostile(), "ana", np.str_("ben"), 7, 7.0]
    found = places(CELLS, users)
    assert len(found) == 7
    assert found[0] == found[2] == found[3]
    assert found[1] == found[4]
    assert found[5] == found[6]
    assert places(CELLS, np.array(["ana", "ben"])) == found[:2]


def test_long_batches_are_read_whole():
    users = np.arange(2 * PIECE_ITEMS + 5) % 10
    assert places(UNIVERSE, users) == users.tolist()


@pytest.mark.parametrize("universe", [1, 2, 3, 10, 97, 1000, 4096])
def test_a_sample_is_drawn_by_a_permutation(universe):
    words = np.arange(universe, dtype=np.uint64)
    SamplePermutation(universe, 5).map_words(words)
    assert sorted(words.tolist()) == list(range(universe))
    assert sorted(places(Universe(universe, -(-universe // 3), 5), np.arange(universe))) == list(
        range(-(-universe // 3))
    )


def test_samples_and_hashes_depend_on_their_seed_only():
    """Saved tables depend on them: these numbers must not change."""
    words = np.arange(8, dtype=np.uint64)
    SamplePermutation(8, 1).map_words(words)
    cells = np.arange(8, dtype=np.uint64)
    Hash(1000, 1).map_words(cells)
    assert (words.tolist(), cells.tolist()) == FIXED


FIXED = ([0, 6, 7, 3, 1, 5, 4, 2], [163, 116, 132, 912, 379, 248, 482, 449])


def test_samples_of_many_seeds_choose_users_and_pairs_uniformly():
    universe, entries, seeds = 9, 3, 600
    together = np.zeros((universe, universe))
    for seed in range(seeds):
        words = np.arange(universe, dtype=np.uint64)
        SamplePermutation(universe, seed).map_words(words)
        chosen = (words < entries).astype(float)
        together += np.outer(chosen, chosen)
    pairs = together[np.triu_indices(universe, 1)]
    assert chisquare(np.diag(together) * 1.5).pvalue > 1e-9
    assert chisquare(pairs).pvalue > 1e-9


def test_hashed_users_occupy_cells_uniformly():
    words = np.arange(100_000, dtype=np.uint64)
    Hash(100, 4).map_words(words)
    assert chisquare(np.bincount(words.astype(np.int64), minlength=100)).pvalue > 1e-9
