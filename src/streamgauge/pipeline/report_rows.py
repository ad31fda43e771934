"""Reports of some ticks: how often each code came. They are private already, and written as they are.

tick, how many codes | the codes | how often each      for each tick, one after the other
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.localdp.reports import Reports, packed
from streamgauge.noise import Ints

HEAD = Struct("<qQ")
EACH = 8  # bytes of a code, and of how often it came
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Counted:
    """Codes of one tick, each once, and how often they came."""

    codes: Words
    times: Words

    @classmethod
    def of(cls, codes: npt.NDArray[Any], times: npt.NDArray[Any]) -> "Counted":
        found, where = np.unique(codes, return_inverse=True)
        sums = np.zeros(len(found), np.int64)
        np.add.at(sums, where, times)
        return cls(found.astype(np.uint32), sums.astype(np.uint32))

    def __len__(self) -> int:
        return len(self.codes)

    def reports(self, size: int) -> Reports:
        """One by one, of so many bytes each."""
        return packed(np.repeat(self.codes, self.times), size)


ByTick = dict[int, Counted]


def by_tick(ticks: Ints, codes: Ints, times: Ints) -> ByTick:
    found = np.unique(ticks).tolist()
    return {tick: Counted.of(codes[ticks == tick], times[ticks == tick]) for tick in found}


def together(parts: Iterable[ByTick]) -> ByTick:
    """Parts of the same ticks, added up."""
    found: dict[int, list[Counted]] = {}
    for part in parts:
        for tick, counted in part.items():
            found.setdefault(tick, []).append(counted)
    return {tick: _added(each) for tick, each in found.items()}


def _added(parts: list[Counted]) -> Counted:
    if len(parts) == 1:
        return parts[0]
    return Counted.of(np.concatenate([p.codes for p in parts]), np.concatenate([p.times for p in parts]))


def size(part: Mapping[int, Counted]) -> int:
    """How many codes all ticks have."""
    return sum(map(len, part.values()))


def written(part: Mapping[int, Counted]) -> bytes:
    """As bytes."""
    pieces = []
    for tick, counted in part.items():
        pieces.append(HEAD.pack(tick, len(counted)))
        pieces += [each.astype("<u4").tobytes() for each in (counted.codes, counted.times)]
    return b"".join(pieces)


def read(data: bytes) -> ByTick:
    """What was written."""
    found, at = {}, 0
    while at < len(data):
        tick, count = HEAD.unpack_from(data, at)
        numbers = np.frombuffer(data, "<u4", 2 * count, at + HEAD.size)
        found[tick] = Counted(numbers[:count], numbers[count:])
        at += HEAD.size + EACH * count
    return found
