"""Items that are known beforehand: a public list, in an order that devices and collectors agree on.

Two items are the same if their texts are (`hashing.text_of`): 7 and "7" cannot both be in a list. A claim
keeps items as every client can be told of them: lone surrogates as U+FFFD, whole numbers from 2^53 on as
their digits, and members of enumerations as what they stand for. A device
may have an item that is not on it; that is private, so it never raises, and each protocol says what it
counts for. Whoever wants such items counted puts one more on the list, like "other", and reports that.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.localdp.hashing import FARTHEST, SAFE, text_of, texts_of
from streamgauge.localdp.oracle import Item, Table, blank_table
from streamgauge.localdp.support import SupportClaim
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats

MOST_ITEMS = 2**20
OUTSIDE = -1


@dataclass(frozen=True)
class DomainClaim(SupportClaim):
    """A claim over a list of items; its table has a cell for each, unless told otherwise."""

    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "items", listed_items(self.items))
        self.chances  # noqa: B018 - a loss too small to tell anything is refused now

    @cached_property
    def _at(self) -> dict[bytes, int]:
        return {text_of(item): place for place, item in enumerate(self.items)}

    def place(self, item: object) -> int:
        """Where an item is on the list, or OUTSIDE."""
        return self._at.get(text_of(item), OUTSIDE)

    def places(self, items: Sequence[Item]) -> Ints:
        return np.array([self._at.get(text, OUTSIDE) for text in texts_of(items)], np.int64)

    def asked(self, items: Sequence[Item]) -> Ints:
        """The places of items that somebody wants estimates of."""
        places = self.places(items)
        for missing in np.flatnonzero(places == OUTSIDE)[:1]:
            raise ValueError(f"items must be among those of the claim, got {items[missing]!r}")
        return places

    def blank(self) -> Table:
        return blank_table(len(self.items))

    def supported(self, table: Table, reports: int, items: Sequence[Item]) -> Floats:
        return table[self.asked(items)].astype(np.float64)


def listed_items(items: Any) -> tuple[Item, ...]:
    """A list of items as a claim keeps it, or a refusal."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ValueError(f"items must be a tuple of texts and whole numbers, got {items!r}")
    plain = tuple(_plain(item) for item in items)
    if not 2 <= len(plain) <= MOST_ITEMS:
        raise ValueError(f"items must be at least 2 and at most 2**20, got {len(plain)}")
    _check_distinct(plain)
    return plain


def _plain(item: Any) -> Item:
    if isinstance(item, str):
        return text_of(item).decode()
    if isinstance(item, int | np.integer) and not isinstance(item, bool) and abs(int(item)) < FARTHEST:
        return int(item) if abs(int(item)) < SAFE else str(int(item))
    raise ValueError(f"items must be texts and whole numbers below 2**63, got {item!r}")


def _check_distinct(items: tuple[Item, ...]) -> None:
    seen: set[bytes] = set()
    for item in items:
        if (text := text_of(item)) in seen:
            raise ValueError(f"items must be distinct as texts, got {item!r} twice")
        seen.add(text)
