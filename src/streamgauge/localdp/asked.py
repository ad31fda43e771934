"""Items that somebody asks estimates of: a public list, so that what is no item is refused and shown."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from streamgauge.localdp.hashing import FARTHEST, text_of
from streamgauge.localdp.oracle import Item


def asked_items(name: str, items: Any) -> tuple[Item, ...]:
    """A list of texts and whole numbers, or a refusal."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise ValueError(f"{name} must be a list of texts and whole numbers, got {items!r}")
    asked = tuple(items)
    for item in asked:
        _check(name, item)
    return asked


def _check(name: str, item: Any) -> None:
    whole = isinstance(item, int | np.integer) and not isinstance(item, bool)
    if not (whole or isinstance(item, str)):
        raise ValueError(f"{name} must be texts or whole numbers, got {item!r}")
    if whole and abs(int(item)) >= FARTHEST:
        raise ValueError(f"{name} must be whole numbers below 2**63, got {item}")


def once_each(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """Of those that are the same as texts the first."""
    first: dict[bytes, Item] = {}
    for item in items:
        first.setdefault(text_of(item), item)
    return tuple(first.values())
