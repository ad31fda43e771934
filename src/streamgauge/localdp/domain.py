"""Declared items: a public list, in an order that devices and collectors share.

Two items are the same if their texts are (`hashing.encode_item`): 7 and "7" cannot both be in a list. A claim stores
items in a form that every client can read: lone surrogates as U+FFFD, whole numbers from 2^53 on as their digits, and
members of enumerations as their values. A device may have an item that is not on the list. That is private, so it
never raises, and each protocol states what it counts for. To count such items, put one more on the list, like
"other", and report that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.localdp.coded_reports import SupportMechanism
from streamgauge.localdp.hashing import INTEGER_LIMIT, SAFE_INTEGER_LIMIT, encode_item, encode_items
from streamgauge.localdp.oracle import Item, Table, allocate_table
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Floats

MAX_ITEMS = 2**20
NOT_LISTED = -1


@dataclass(frozen=True)
class DomainMechanism(SupportMechanism):
    """A claim over a list of items; by default its table has a cell for each."""

    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "items", parse_domain(self.items))
        self.chances  # noqa: B018 - rejects a loss that is too small

    @cached_property
    def _item_places(self) -> dict[bytes, int]:
        return {encode_item(item): place for place, item in enumerate(self.items)}

    def find_place(self, item: object) -> int:
        """Return the place of an item on the list, or NOT_LISTED."""
        return self._item_places.get(encode_item(item), NOT_LISTED)

    def find_places(self, items: Sequence[Item]) -> Ints:
        return np.array([self._item_places.get(text, NOT_LISTED) for text in encode_items(items)], np.int64)

    def require_places(self, items: Sequence[Item]) -> Ints:
        """Return the places of items whose estimates are requested; reject others."""
        places = self.find_places(items)
        for missing in np.flatnonzero(places == NOT_LISTED)[:1]:
            raise ValueError(f"items must be among those of the claim, got {items[missing]!r}")
        return places

    def build_table(self) -> Table:
        return allocate_table(len(self.items))

    def count_support(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        return table[self.require_places(items)].astype(np.float64)


def parse_domain(items: Any) -> tuple[Item, ...]:
    """Return a list of items as a claim stores it, or reject it."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ValueError(f"items must be a tuple of texts and whole numbers, got {items!r}")
    plain = tuple(_to_plain_item(item) for item in items)
    if not 2 <= len(plain) <= MAX_ITEMS:
        raise ValueError(f"items must be at least 2 and at most 2**20, got {len(plain)}")
    texts: set[bytes] = set()
    for item in plain:
        if (text := encode_item(item)) in texts:
            raise ValueError(f"items must be distinct as texts, got {item!r} twice")
        texts.add(text)
    return plain


def _to_plain_item(item: Any) -> Item:
    if isinstance(item, str):
        return encode_item(item).decode()
    if isinstance(item, int | np.integer) and not isinstance(item, bool) and abs(int(item)) < INTEGER_LIMIT:
        return int(item) if abs(int(item)) < SAFE_INTEGER_LIMIT else str(int(item))
    raise ValueError(f"items must be texts and whole numbers below 2**63, got {item!r}")
