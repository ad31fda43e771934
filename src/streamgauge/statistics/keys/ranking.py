"""Rankings of keys by noisy count, with intervals valid after selection.

Keys of events are text, whole numbers of 64 bits, or bytes. Anything else is dropped.
Equal keys are one key, for any type of the column (see `streamgauge.statistics.events`). Each item is read
alone, and none can raise.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints, NoiseSum
from streamgauge.statistics.estimate import Floats, check_confidence
from streamgauge.statistics.events import Column, to_plain

Key = str | int | bool | bytes
PRINTED_CONFIDENCE = 0.95  # of the intervals that are printed


@dataclass(frozen=True, eq=False)
class Ranking:
    """Keys of each group, largest noisy count first, at one tick.

    The largest of many noisy counts tend to be those whose noise was high. The intervals allow for
    it: with the chosen confidence they cover all keys of a group at once, listed or not, if there are at
    most `candidate_count` of them. That is the number of declared keys. If keys are discovered, their number is
    secret, and `candidate_count` is the assumption of the claim.
    """

    keys: tuple[tuple[Key, ...], ...]  # of each group
    counts: tuple[Floats, ...]  # of each group, in the order of its keys
    stddev: float  # standard error of each count, had the key been named beforehand
    candidate_count: int
    noise: NoiseSum = field(repr=False)

    def half_width(self, confidence: float = PRINTED_CONFIDENCE) -> float:
        """Return the error of any count of a group, with `confidence` for all its keys."""
        return self.noise.simultaneous_half_width(confidence, self.candidate_count)

    def interval(self, confidence: float = PRINTED_CONFIDENCE) -> tuple[tuple[Floats, Floats], ...]:
        """Return lower and upper bounds for each group, in the order of its keys."""
        check_confidence(confidence)
        half = self.half_width(confidence)
        return tuple((counts - half, counts + half) for counts in self.counts)

    def __str__(self) -> str:
        half = self.half_width()
        lines = [] if len(self.keys) == 1 else ["group  key: count"]
        for group, (keys, counts) in enumerate(zip(self.keys, self.counts, strict=True)):
            shown = "" if len(self.keys) == 1 else f"{group:>5}  "
            lines += [f"{shown}{key!r}: {n:.6g} +- {half:.4g}" for key, n in zip(keys, counts, strict=True)]
        return "\n".join(lines) or "no keys"


def key_order(key: Key) -> tuple[int, Key]:
    """Return a sort key: whole numbers first, then text, then bytes.

    Every mixture of keys has this order.
    """
    return (str, bytes).index(type(key)) + 1 if type(key) in (str, bytes) else 0, key


def find_largest(counts: Floats, keys: list[Key], k: int) -> list[int]:
    """Return the indices of the k largest counts, with ties in the order of keys.

    >>> find_largest(np.array([1.0, 3.0, 3.0]), ["c", "b", "a"], 2)
    [2, 1]
    """
    least = np.partition(counts, -k)[-k] if len(counts) > k else -np.inf
    places = [int(place) for place in np.flatnonzero(counts >= least)]
    return sorted(places, key=lambda place: (-counts[place], key_order(keys[place])))[:k]


MIN_INTEGER_KEY, MAX_INTEGER_KEY = -(2**63), 2**64 - 1
Octets = npt.NDArray[np.uint8]


def to_plain_keys(values: Column) -> Column:
    """Return the keys as Python objects; None for an item that is not a key.

    >>> to_plain_keys(np.array(["a", 2, True, 3.0, 0.5, None, b"a"], object)).tolist()
    ['a', 2, 1, 3, None, None, b'a']
    """
    keys = np.full(len(values), None, object)
    if values.dtype.kind in "iuUS":
        keys[:] = values.tolist()
    elif values.dtype.kind in "bfO":
        keys[:] = [_to_key(item) for item in values.tolist()]
    return keys


def _to_key(item: Any) -> Key | None:
    key = to_plain(item)
    if type(key) is int:
        return key if MIN_INTEGER_KEY <= key <= MAX_INTEGER_KEY else None
    return key if type(key) is str or type(key) is bytes else None


def key_to_bytes(key: Key) -> bytes:
    """Return a key as bytes, distinct for every key."""
    if isinstance(key, str):
        return b"s" + key.encode("utf-8", "surrogatepass")
    return b"b" + key if isinstance(key, bytes) else b"i%d" % key


def key_from_bytes(data: bytes) -> Key:
    """Return the key that `key_to_bytes` wrote.

    >>> [key_from_bytes(key_to_bytes(key)) for key in ("a", -7, b"a")]
    ['a', -7, b'a']
    """
    kind, rest = data[:1], data[1:]
    if kind == b"s":
        return rest.decode("utf-8", "surrogatepass")
    return rest if kind == b"b" else int(rest)


def join_keys(keys: list[Key]) -> tuple[Octets, Ints]:
    """Return the bytes of many keys, and the length of each."""
    parts = [key_to_bytes(key) for key in keys]
    return np.frombuffer(b"".join(parts), np.uint8), np.fromiter(map(len, parts), np.int64, len(parts))


def split_keys(octets: Octets, lengths: Ints) -> list[Key]:
    data, ends = octets.tobytes(), np.cumsum(lengths).tolist()
    return [key_from_bytes(data[end - size : end]) for end, size in zip(ends, lengths.tolist(), strict=True)]
