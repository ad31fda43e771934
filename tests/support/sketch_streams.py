"""Short streams for sketches, and keys that repeat."""

from hashlib import sha256
from typing import Any

import numpy as np

KEY = bytes(range(32))


def key(number: int) -> bytes:
    """Return the key of a number."""
    return sha256(b"%d" % number).digest()


def zipf_items(seed: int, events: int, largest: int = 10_000, exponent: float = 1.2) -> np.ndarray:
    """Return items of a Zipf law, cut at the largest."""
    found: np.ndarray = np.minimum(np.random.default_rng(seed).zipf(exponent, events), largest).astype(np.int64)
    return found


def exact_total(items: Any, weights: Any, item: Any) -> int:
    return sum(weight for each, weight in zip(items, weights, strict=True) if each == item)
