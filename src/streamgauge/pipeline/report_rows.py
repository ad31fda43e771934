"""Reports of some ticks: which came, and how often. They are private already, and written as they are.

    "SGT1", bytes of a report (4) | for each tick, one after the other: tick, how many | reports | how often

Few bytes are a code: each is there once, with how often it came. Longer ones are vectors of bits, which
hardly ever come twice: they are kept as they come.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.continual.saved import BadSave
from streamgauge.localdp.reports import Reports, packed, unpacked
from streamgauge.noise import Ints

VERSION = b"SGT1"
HEAD = Struct("<4sI")
TICK = Struct("<qQ")
CODE = 4  # bytes, at most, of what is counted
OFTEN = 4  # bytes of how often
BESIDE = np.uint64(8 * OFTEN)  # bits: a code and how often it came are sorted as one number
AT_ONCE = 2**24  # bytes of reports, one by one
LARGE = 2**26  # bytes of a part that others are not added to, and that it is cut at
OTHER = (
    "reports in the store must be as this version writes them, got others: go on with the one that wrote them"
)
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class Counted:
    """Reports of one tick, and how often each of them came."""

    rows: Reports
    times: Words

    @classmethod
    def of(cls, rows: Reports, times: npt.NDArray[Any]) -> "Counted":
        if rows.shape[1] > CODE or not len(rows):
            return cls(rows, times.astype(np.uint32))
        pairs = np.sort(unpacked(rows).astype(np.uint64) << BESIDE | times.astype(np.uint64))
        codes = pairs >> BESIDE
        begins = np.flatnonzero(np.diff(codes, prepend=~codes[:1]))
        sums = np.add.reduceat(pairs.astype(np.uint32), begins, dtype=np.uint32)
        return cls(packed(codes[begins], rows.shape[1]), sums)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.times.nbytes

    def reports(self) -> Iterator[Reports]:
        """One by one, some at a time."""
        each, step = np.repeat(np.arange(len(self)), self.times), AT_ONCE // self.rows.shape[1]
        return (self.rows[each[at : at + step]] for at in range(0, len(each), step))

    def cut(self, most: int) -> Iterator["Counted"]:
        """In parts of so many bytes, or of one report."""
        step = max(most // (self.rows.shape[1] + OFTEN), 1)
        places = range(0, len(self), step)
        return (Counted(self.rows[at : at + step], self.times[at : at + step]) for at in places)


ByTick = dict[int, Counted]


def by_tick(ticks: Ints, rows: Reports, times: Ints) -> ByTick:
    found = np.unique(ticks).tolist()
    return {tick: Counted.of(rows[ticks == tick], times[ticks == tick]) for tick in found}


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
    return Counted.of(np.concatenate([p.rows for p in parts]), np.concatenate([p.times for p in parts]))


def size(part: Mapping[int, Counted]) -> int:
    """How many bytes all ticks have."""
    return sum(counted.nbytes for counted in part.values())


def pieces(part: ByTick, most: int) -> Iterator[ByTick]:
    """The same in parts of so many bytes at most: a store takes none that is much larger."""
    piece: ByTick = {}
    for tick, counted in part.items():
        for some in counted.cut(most):
            if piece and (tick in piece or size(piece) + some.nbytes > most):
                yield piece
                piece = {}
            piece[tick] = some
    if piece:
        yield piece


def written(part: Mapping[int, Counted]) -> bytes:
    """As bytes."""
    pieces = [HEAD.pack(VERSION, next((each.rows.shape[1] for each in part.values()), 1))]
    for tick, counted in part.items():
        pieces += [TICK.pack(tick, len(counted)), counted.rows.tobytes()]
        pieces.append(counted.times.astype("<u4").tobytes())
    return b"".join(pieces)


def read(data: bytes) -> ByTick:
    """What was written; BadSave if another version wrote it."""
    found, at = {}, HEAD.size
    version, each = HEAD.unpack_from(data) if len(data) >= at else (b"", 0)
    if version != VERSION or each == 0:
        raise BadSave(OTHER)
    while at < len(data):
        tick, count = TICK.unpack_from(data, at)
        rows = np.frombuffer(data, np.uint8, count * each, at + TICK.size).reshape(count, each)
        at += TICK.size + count * (each + OFTEN)
        found[tick] = Counted(rows, np.frombuffer(data, "<u4", count, at - OFTEN * count))
    return found
