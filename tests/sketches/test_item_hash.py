"""Keyed names and bits of items, hostile ones included."""

import enum
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

from streamgauge.sketches import ItemHash, create_key
from streamgauge.sketches.item_hash import parse_item, parse_weights
from tests.support.sketch_streams import key

KEY = bytes(range(32))


class Raising(str):
    """A text whose own methods raise."""

    def encode(self, *args: Any) -> bytes:
        raise RuntimeError("private")

    __str__ = __hash__ = encode


class Word(enum.StrEnum):
    TEA = "tea"


class Bad:
    def __int__(self) -> int:
        raise RuntimeError("private")

    __index__ = __float__ = __int__


HOSTILE = [
    "",
    "x" * 10**6,
    "\ud800",
    None,
    True,
    float("nan"),
    1e300,
    2**64,
    -(2**63) - 1,
    b"x",
    [],
    {},
    Bad(),
    object(),
]


def test_arrays_and_lists_give_the_same_names() -> None:
    numbers = [0, 1, -1, 2**62, -(2**63)]
    hashed = ItemHash(KEY)
    assert hashed.names(np.array(numbers)).tolist() == hashed.names(numbers).tolist()
    assert hashed.names(np.array([2**64 - 1, 5], np.uint64)).tolist() == hashed.names([2**64 - 1, 5]).tolist()
    assert hashed.names(np.array(["a", "b"])).tolist() == hashed.names(["a", "b"]).tolist()
    assert hashed.names(np.array([1.0, 2.0])).tolist() == hashed.names([1, 2]).tolist()


def test_different_items_have_different_names() -> None:
    items = [0, 1, -1, 2**64 - 1, "0", "1", "", "a", "A", "\u00e9", "e\u0301"]
    assert len({tuple(name) for name in ItemHash(KEY).names(items).tolist()}) == len(items)


def test_hostile_items_never_raise_and_move_no_neighbour() -> None:
    hashed = ItemHash(KEY)
    plain = hashed.names(["tea"])[0].tolist()
    for item in [*HOSTILE, Raising("tea"), Word.TEA]:
        found = hashed.names(["tea", item, "tea"]).tolist()
        assert len(found) == 3
        assert found[0] == found[2] == plain


def test_items_that_are_no_item_are_the_empty_text() -> None:
    assert [parse_item(item) for item in HOSTILE[3:]] == [""] * len(HOSTILE[3:])
    assert [parse_item(item) for item in (Raising("tea"), Word.TEA, 7.0, np.int8(3), "\ud800")] == [
        "tea",
        "tea",
        7,
        3,
        "�",
    ]


def test_masked_items_are_not_read() -> None:
    masked = np.ma.MaskedArray([5, 6], [True, False])
    assert ItemHash(KEY).names(masked).tolist() == ItemHash(KEY).names(["", 6]).tolist()


def test_every_bit_is_fair_and_follows_item_and_key() -> None:
    names = ItemHash(KEY).names(np.arange(4096))
    one, two = ItemHash(KEY).bits(names, 2), ItemHash(create_key()).bits(names, 2)
    for words in (one, one ^ two, one[:, :2] ^ one[:, 2:]):
        ones = np.unpackbits(np.ascontiguousarray(words).view(np.uint8).reshape(4096, -1), axis=1).sum(axis=0)
        assert all(binomtest(int(count), 4096).pvalue > 1e-12 for count in {int(ones.min()), int(ones.max())})


def test_threads_that_share_a_hash_find_the_same_bits() -> None:
    """A release is read in one thread while its run steps in another."""
    numbers = np.arange(50_000)
    with ThreadPoolExecutor(4) as pool:
        for seed in range(5):
            shared, alone = ItemHash(key(seed)), ItemHash(key(seed))
            expected = alone.bits(alone.names(numbers), 3)
            found = pool.map(lambda _, hashes=shared: hashes.bits(hashes.names(numbers), 3), range(8))
            assert all(np.array_equal(each, expected) for each in found)


def test_keys_are_fresh_and_checked() -> None:
    assert create_key() != create_key()
    for wrong in (b"short", "x" * 32, None):
        with pytest.raises(ValueError, match="key must be 32 bytes, got another value"):
            ItemHash(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="items must be a list or an array, got str"):
        ItemHash(KEY).names("tea")


def test_weights_are_clipped_one_by_one_without_raising() -> None:
    given = [1, -1, 5, -5, 2.9, -2.9, float("nan"), float("inf"), 10**30, "9", None, True, Bad()]
    assert parse_weights(given, 3, len(given)).tolist() == [1, -1, 3, -3, 2, -2, 0, 3, 3, 0, 0, 0, 0]  # type: ignore[union-attr]
    for kind in (np.uint64, np.int64, np.float64):
        assert parse_weights(np.array([7, 1], kind), 3, 2).tolist() == [3, 1]  # type: ignore[union-attr]
    assert parse_weights(None, 3, 2) is None
    with pytest.raises(ValueError, match="weights must be as many as items, got another number"):
        parse_weights([1], 3, 2)
