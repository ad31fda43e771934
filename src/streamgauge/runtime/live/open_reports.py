"""Open ticks of a column of reports, which are private already.

Sums of secret events are rewritten completely on every change, to hide their number. The number of reports is
public, so only new reports are written, in a separate part. A new part absorbs the part before it if that is at
most twice as large. So the number of parts, and of writes per report, is logarithmic in the number of reports. Parts
are cut at MAX_PART_BYTES, and absorbed up to half of it only. The reasons: a store accepts at most 10^9 bytes in one
value, and a commit should not be much longer than its new reports.

A part has the reports of some ticks, each with its count:

    "SGT1", bytes of a report (4) | for each tick, one after the other: tick, number of reports | reports | counts

Reports of up to MAX_CODE_BYTES are codes: each is stored once, with its count. Longer reports are bit vectors, which
hardly ever occur twice: they are stored as they arrive.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.localdp.report_bytes import Reports, pack_codes, unpack_codes
from streamgauge.noise import Ints
from streamgauge.plan.measure import Tally

VERSION = b"SGT1"
HEADER_STRUCT = Struct("<4sI")
TICK_STRUCT = Struct("<qQ")
MAX_CODE_BYTES = 4  # longest report that is counted
COUNT_BYTES = 4  # size of a count
COUNT_BITS = np.uint64(8 * COUNT_BYTES)  # a code and its count are sorted as one number
MAX_BATCH_BYTES = 2**24  # of reports, each repeated by its count
MAX_PART_BYTES = 2**26  # a part is cut at this size
OTHER_VERSION_TEXT = (
    "reports in the store must be as this version writes them, got others: go on with the one that wrote them"
)
Array = npt.NDArray[Any]
ReportCounts = npt.NDArray[np.uint32]


@dataclass(frozen=True, eq=False)
class CountedReports:
    """Reports of one tick, and the count of each."""

    rows: Reports
    times: ReportCounts

    @classmethod
    def from_rows(cls, rows: Reports, times: npt.NDArray[Any]) -> "CountedReports":
        if rows.shape[1] > MAX_CODE_BYTES or not len(rows):
            return cls(rows, times.astype(np.uint32))
        pairs = np.sort(unpack_codes(rows).astype(np.uint64) << COUNT_BITS | times.astype(np.uint64))
        codes = pairs >> COUNT_BITS
        begins = np.flatnonzero(np.diff(codes, prepend=~codes[:1]))
        sums = np.add.reduceat(pairs.astype(np.uint32), begins, dtype=np.uint32)
        return cls(pack_codes(codes[begins], rows.shape[1]), sums)

    @classmethod
    def merge(cls, parts: "Sequence[CountedReports]") -> "CountedReports":
        """Return the sum of parts."""
        return cls.from_rows(
            np.concatenate([each.rows for each in parts]), np.concatenate([each.times for each in parts])
        )

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def nbytes(self) -> int:
        return self.rows.nbytes + self.times.nbytes

    def reports(self, max_bytes: int = MAX_BATCH_BYTES) -> Iterator[Reports]:
        """Yield the reports, each repeated by its count, in batches."""
        each, step = np.repeat(np.arange(len(self)), self.times), max_bytes // self.rows.shape[1]
        return (self.rows[each[at : at + step]] for at in range(0, len(each), step))

    def split(self, most: int) -> Iterator["CountedReports"]:
        """Yield parts of at most `most` bytes, or of one report."""
        step = max(most // (self.rows.shape[1] + COUNT_BYTES), 1)
        places = range(0, len(self), step)
        return (CountedReports(self.rows[at : at + step], self.times[at : at + step]) for at in places)


ReportsByTick = dict[int, CountedReports]


def group_by_tick(ticks: Ints, rows: Reports, times: Ints) -> ReportsByTick:
    found = np.unique(ticks).tolist()
    return {tick: CountedReports.from_rows(rows[ticks == tick], times[ticks == tick]) for tick in found}


def merge_parts(parts: Iterable[ReportsByTick]) -> ReportsByTick:
    """Return the sum of parts, by tick."""
    found: dict[int, list[CountedReports]] = {}
    for part in parts:
        for tick, counted in part.items():
            found.setdefault(tick, []).append(counted)
    return {tick: each[0] if len(each) == 1 else CountedReports.merge(each) for tick, each in found.items()}


def count_bytes(part: Mapping[int, CountedReports]) -> int:
    """Return the bytes of all ticks."""
    return sum(counted.nbytes for counted in part.values())


def split_part(part: ReportsByTick, most: int) -> Iterator[ReportsByTick]:
    """Yield pieces of at most `most` bytes: a store accepts none that is much larger."""
    piece: ReportsByTick = {}
    for tick, counted in part.items():
        for some in counted.split(most):
            if piece and (tick in piece or count_bytes(piece) + some.nbytes > most):
                yield piece
                piece = {}
            piece[tick] = some
    if piece:
        yield piece


def encode_part(part: Mapping[int, CountedReports]) -> bytes:
    """Return a part as bytes."""
    pieces = [HEADER_STRUCT.pack(VERSION, next((each.rows.shape[1] for each in part.values()), 1))]
    for tick, counted in part.items():
        pieces += [TICK_STRUCT.pack(tick, len(counted)), counted.rows.tobytes()]
        pieces.append(counted.times.astype("<u4").tobytes())
    return b"".join(pieces)


def decode_part(data: bytes) -> ReportsByTick:
    """Return the part of these bytes.

    Raises:
        InvalidSaveError: if another version wrote it.
    """
    found, at = {}, HEADER_STRUCT.size
    version, each = HEADER_STRUCT.unpack_from(data) if len(data) >= at else (b"", 0)
    if version != VERSION or each == 0:
        raise InvalidSaveError(OTHER_VERSION_TEXT)
    while at < len(data):
        tick, count = TICK_STRUCT.unpack_from(data, at)
        rows = np.frombuffer(data, np.uint8, count * each, at + TICK_STRUCT.size).reshape(count, each)
        at += TICK_STRUCT.size + count * (each + COUNT_BYTES)
        found[tick] = CountedReports(rows, np.frombuffer(data, "<u4", count, at - COUNT_BYTES * count))
    return found


class OpenReports:
    """Reports by tick, in the parts in which they are written."""

    def __init__(self, max_part_bytes: int | None = None) -> None:
        self._max_part_bytes = max_part_bytes or MAX_PART_BYTES
        self._parts: dict[int, ReportsByTick] = {}  # noisy: the parts of the last commit, newest last
        self._pending_parts: list[ReportsByTick] = []  # noisy: reports since the last commit
        self._removed_parts: list[int] = []

    def add(self, tally: Tally) -> None:
        if tally.reports is not None and len(tally.reports):
            self._pending_parts.append(group_by_tick(tally.ticks, tally.reports, tally.sums[0]))

    def close(self, last: int) -> Tally:
        """Return and remove all ticks up to `last`."""
        whole = merge_parts([*self._parts.values(), *self._pending_parts])
        left = {tick: counted for tick, counted in whole.items() if tick > last}
        self._removed_parts += self._parts
        self._parts, self._pending_parts = {}, [left] if left else []
        return _build_report_tally({tick: counted for tick, counted in whole.items() if tick <= last})

    def save_changes(self) -> dict[str, bytes | None]:
        """Return the new parts for the next commit; None for removed ones."""
        gone, self._removed_parts = self._removed_parts, []
        number = max([-1, *self._parts, *gone]) + 1
        if self._pending_parts:
            part = merge_parts(self._pending_parts)
            while self._parts and count_bytes(self._parts[max(self._parts)]) <= min(
                2 * count_bytes(part), self._max_part_bytes // 2
            ):
                before = max(self._parts)
                part, gone = merge_parts([self._parts.pop(before), part]), [*gone, before]
            self._parts |= dict(enumerate(split_part(part, self._max_part_bytes), number))
            self._pending_parts = []
        new = {str(mine): encode_part(part) for mine, part in self._parts.items() if mine >= number}
        return {**dict.fromkeys(map(str, gone)), **new}

    def restore_parts(self, parts: Mapping[str, bytes]) -> None:
        """Restore the parts of the last commit."""
        self._parts = {number: decode_part(parts[str(number)]) for number in sorted(map(int, parts))}

    def save_arrays(self, ticks: int) -> dict[str, Array]:
        """Return nothing: all state is in the parts."""
        return {}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Do nothing: all state is in the parts."""


def _build_report_tally(part: ReportsByTick) -> Tally:
    counts = [len(counted) for counted in part.values()]
    ticks = np.repeat(np.array(list(part), np.int64), counts)
    none, each = np.zeros(len(ticks), np.int64), list(part.values())
    times = np.concatenate([np.zeros(0, np.uint32), *(counted.times for counted in each)]).astype(np.int64)
    rows = np.concatenate([counted.rows for counted in each]) if each else None
    return Tally(ticks, none, none, times[None], reports=rows)
