"""Keys as they come from events: text, whole numbers of 64 bits, bytes. Anything else is dropped.

Equal keys are one key, whatever the column's type (see `streamgauge.statistics.columns`). Each item is read
alone, and none can raise.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.statistics.columns import Column, plain
from streamgauge.statistics.ranking import Key

LEAST, MOST = -(2**63), 2**64 - 1
Octets = npt.NDArray[np.uint8]


def plain_keys(values: Column) -> Column:
    """The keys as Python's own objects; None for what is no key.

    >>> plain_keys(np.array(["a", 2, True, 3.0, 0.5, None, b"a"], object)).tolist()
    ['a', 2, 1, 3, None, None, b'a']
    """
    keys = np.full(len(values), None, object)
    if values.dtype.kind in "iuUS":
        keys[:] = values.tolist()
    elif values.dtype.kind in "bfO":
        keys[:] = [_key(item) for item in values.tolist()]
    return keys


def _key(item: Any) -> Key | None:
    key = plain(item)
    if type(key) is int:
        return key if LEAST <= key <= MOST else None
    return key if type(key) is str or type(key) is bytes else None


def written(key: Key) -> bytes:
    """A key as bytes, another for every key."""
    if isinstance(key, str):
        return b"s" + key.encode("utf-8", "surrogatepass")
    return b"b" + key if isinstance(key, bytes) else b"i%d" % key


def read(data: bytes) -> Key:
    """The key that was written.

    >>> [read(written(key)) for key in ("a", -7, b"a")]
    ['a', -7, b'a']
    """
    kind, rest = data[:1], data[1:]
    if kind == b"s":
        return rest.decode("utf-8", "surrogatepass")
    return rest if kind == b"b" else int(rest)


def joined(keys: list[Key]) -> tuple[Octets, Ints]:
    """Many keys as octets, and how many each has."""
    parts = [written(key) for key in keys]
    return np.frombuffer(b"".join(parts), np.uint8), np.fromiter(map(len, parts), np.int64, len(parts))


def parted(octets: Octets, lengths: Ints) -> list[Key]:
    data, ends = octets.tobytes(), np.cumsum(lengths).tolist()
    return [read(data[end - size : end]) for end, size in zip(ends, lengths.tolist(), strict=True)]
