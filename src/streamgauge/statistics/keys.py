"""Keys as they come from events: text, whole numbers of 64 bits, bytes. Anything else is dropped.

Equal keys of one type are one key, whatever the column's type: True is 1 as in a column of whole numbers, for
else what a key is would depend on its neighbours in the column. Each item is read alone, and none can raise.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.statistics.columns import Column
from streamgauge.statistics.ranking import Key

LEAST, MOST = -(2**63), 2**64 - 1
Octets = npt.NDArray[np.uint8]


def plain_keys(values: Column) -> Column:
    """The keys as Python's own objects; None for what is no key.

    >>> plain_keys(np.array(["a", 2, True, 0.5, None, b"a"], object)).tolist()
    ['a', 2, 1, None, None, b'a']
    """
    keys = np.full(len(values), None, object)
    kind = values.dtype.kind
    if kind in "biuUS":
        keys[:] = values.astype(np.int64).tolist() if kind == "b" else values.tolist()
    elif kind in "OT":
        keys[:] = [_plain(item) for item in values.tolist()]
    return keys


def _plain(item: Any) -> Key | None:
    key = item.item() if isinstance(item, np.generic) else item
    if type(key) in (int, bool):
        return int(key) if LEAST <= key <= MOST else None
    return key if type(key) in (str, bytes) else None


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
