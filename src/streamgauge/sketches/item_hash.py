"""Keyed hash of items: as many bits as a sketch needs, that look random without the key.

    name of a whole number    its 64 bits (two's complement), and 1 if it is negative, as 16 bytes
    name of a text            BLAKE2b of its UTF-8, keyed, 16 bytes
    bits of a name            AES-256 of it, under keys that BLAKE2b derives from the key: 16 bytes for each

A sketch is analysed for hashes that are independent of the items. So the key is drawn from the operating system
before the stream, and never from its data (`create_key`). Who knows it, or can test items against exact answers, can
build items that collide. That harms accuracy. No privacy claim depends on the key.

7 and "7" are two items. A whole float below 2^53 is that whole number, as in columns with gaps. An item is private,
so it never raises: missing values, truth values, other floats, whole numbers of more than 64 bits and anything else
are the empty text.
"""

from collections.abc import Iterator
from hashlib import blake2b
from threading import Lock
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

from streamgauge.noise import Ints
from streamgauge.noise.coerce import list_items
from streamgauge.noise.entropy import KEY_BYTES, read_system_key
from streamgauge.prime_field import Words, reduce_words

ITEM_PERSON, BLOCK_PERSON = b"sg.sketches.item", b"sg.sketches.bits"
NAME_BYTES = 16
SAFE_INTEGER_LIMIT = 2**53  # whole floats below it are known to be whole
CHUNK_ITEMS = 1 << 18  # items hashed at once

Item = int | str
Items = Any  # an array or a list of items


def create_key() -> bytes:
    """Return a fresh key of the operating system, for the hashes of one run."""
    return read_system_key()


def check_key(key: object) -> bytes:
    if not isinstance(key, bytes) or len(key) != KEY_BYTES:
        raise ValueError(f"key must be {KEY_BYTES} bytes, got another value")
    return key


def derive_key(key: bytes, person: bytes, number: int) -> bytes:
    """Return a key of its own for a purpose and a number."""
    return blake2b(number.to_bytes(8, "little"), digest_size=KEY_BYTES, key=key, person=person).digest()


def parse_item(item: Any) -> Item:
    """Return an item as a whole number of 64 bits or a text; never raise, and read the item alone."""
    try:
        if isinstance(item, str):
            return str.encode(item, "utf-16", "surrogatepass").decode("utf-16", "replace")
        if isinstance(item, int | np.integer) and not isinstance(item, bool) and -(2**63) <= int(item) < 2**64:
            return int(item)
        if isinstance(item, float | np.floating) and abs(float(item)) < SAFE_INTEGER_LIMIT and float(item).is_integer():
            return int(item)
    except Exception:
        return ""
    return ""


def list_parsed(items: Items) -> list[Item]:
    """Return every item as `parse_item` does; reject a text, which is one item and no list."""
    if isinstance(items, str | bytes):
        raise ValueError(f"items must be a list or an array, got {type(items).__name__}")
    if isinstance(items, np.ndarray):
        items = items.reshape(-1).tolist()
    return [parse_item(item) for item in list_items(items, [])]


def count_items(items: Items) -> int:
    """Return the number of items, which may be public or not; no item is read."""
    return int(items.size) if isinstance(items, np.ndarray) else len(list_items(items, []))


class ItemHash:
    """Hashes of one key.

    >>> first, second = ItemHash(bytes(32)).words([7, "7"])
    >>> first == second
    np.False_
    """

    def __init__(self, key: bytes) -> None:
        self.key = check_key(key)
        self._encryptors: list[CipherContext] = []
        self._lock = Lock()  # a context works for one thread at a time, and runs share theirs with their releases

    def names(self, items: Items) -> Words:
        """Return the names of items, two words each."""
        if isinstance(items, np.ndarray) and items.dtype.kind in "iu" and not isinstance(items, np.ma.MaskedArray):
            flat = items.reshape(-1)
            found = np.zeros((len(flat), 2), np.uint64)
            found[:, 0] = flat.astype(np.int64 if flat.dtype.kind == "i" else np.uint64).view(np.uint64)
            if flat.dtype.kind == "i":
                found[:, 1] = flat < 0
            return found
        named = b"".join(self._name(item) for item in list_parsed(items))
        return np.frombuffer(named, "<u8").astype(np.uint64).reshape(-1, 2)

    def _name(self, item: Item) -> bytes:
        if isinstance(item, int):
            return (item % 2**64).to_bytes(8, "little") + int(item < 0).to_bytes(8, "little")
        text = item.encode("utf-8", "replace")
        return blake2b(text, digest_size=NAME_BYTES, key=self.key, person=ITEM_PERSON).digest()

    def bits(self, names: Words, blocks: int = 1) -> Words:
        """Return 128 bits a block of every name: 2 words a block."""
        data = np.ascontiguousarray(names, "<u8").tobytes()
        parts = []
        for block in range(blocks):
            with self._lock:
                encrypted = self._encryptor(block).update(data)
            parts.append(np.frombuffer(encrypted, "<u8").reshape(-1, 2))
        return np.concatenate(parts, axis=1) if blocks > 1 else parts[0]

    def _encryptor(self, block: int) -> CipherContext:
        """Return the cipher of a block, which has no state between whole blocks of AES."""
        while len(self._encryptors) <= block:
            key = derive_key(self.key, BLOCK_PERSON, len(self._encryptors))
            self._encryptors.append(Cipher(AES(key), ECB()).encryptor())
        return self._encryptors[block]

    def words(self, items: Items) -> Words:
        """Return a word below 2^61 - 1 of every item, for `PolynomialHash`."""
        return reduce_words(self.bits(self.names(items))[:, 0])


def iterate_chunks(names: Words, weights: Ints | None) -> Iterator[tuple[Words, Ints | None]]:
    """Yield parts of items that fit the cache."""
    for start in range(0, len(names), CHUNK_ITEMS):
        part = slice(start, start + CHUNK_ITEMS)
        yield names[part], None if weights is None else weights[part]


def parse_weights(weights: Any, bound: int, size: int) -> Ints | None:
    """Return weights as whole numbers clipped to [-bound, bound], each by itself; None stands for ones.

    Anything that is no number counts 0. Fractions are cut towards 0.
    """
    if weights is None:
        return None
    array = weights if isinstance(weights, np.ndarray) else None
    if array is not None and array.dtype.kind in "iu" and not isinstance(array, np.ma.MaskedArray):
        clipped = np.clip(array.reshape(-1), -bound if array.dtype.kind == "i" else 0, bound).astype(np.int64)
    else:
        flat = list_items(array.reshape(-1).tolist() if array is not None else weights, [])
        clipped = np.array([parse_weight(each, bound) for each in flat], np.int64)
    if len(clipped) != size:
        raise ValueError("weights must be as many as items, got another number")
    return clipped


def parse_weight(weight: Any, bound: int) -> int:
    try:
        if isinstance(weight, int | np.integer) and not isinstance(weight, bool):
            return max(-bound, min(bound, int(weight)))
        if isinstance(weight, float | np.floating) and not np.isnan(weight):
            return int(max(-float(bound), min(float(bound), float(weight))))
    except Exception:
        return 0
    return 0
