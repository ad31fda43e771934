"""Counts of users in sorted arrays.

A user is a hash of two words, and a table has one count for each user.

    table      a few sorted runs: a large one, and later ones with the users that are new since then
    run        columns `high`, `low`, `counts`, `stages`, sorted by hash
    index      the first row of each range of `high`: a lookup then compares a handful of neighbours

Hashes are uniform, so ranges are even. Any other hashes cost time, and nothing else.

New users form a run. Runs are merged while the last one has more than a quarter of the users of the one before. So
each user is copied some four times for each power of four.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints

Words = npt.NDArray[np.uint64]
Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.uint32]
Stages = npt.NDArray[np.uint8]
RUN_RATIO = 4  # a run has at least as many times the users of the next one
RANGE_BITS = 3  # a range of the index has about as many users as this power of two, or half
WORD_BITS = 64
ABSENT = -1  # place of a user that a table lacks


class SortedRun:
    """Users in the order of their hashes, each with a count and a stage."""

    __slots__ = ("_shift", "_starts", "_width", "counts", "high", "low", "stages")

    def __init__(
        self, high: Words, low: Words, counts: Numbers, stages: Stages, range_sizes: Ints | None = None
    ) -> None:
        """Build the run, and its index if the sizes of the ranges are not given."""
        self.high, self.low, self.counts, self.stages = high, low, counts, stages
        bits = choose_range_bits(len(high))
        sizes = count_ranges(high, bits) if range_sizes is None else range_sizes
        self._shift = np.uint64(WORD_BITS - bits)
        self._starts = np.zeros(len(sizes) + 1, np.int64)
        np.cumsum(sizes, out=self._starts[1:])
        self._width = int(sizes.max(initial=0))

    def __len__(self) -> int:
        return len(self.high)

    def find_rows(self, high: Words, low: Words) -> Ints:
        """Return for each user the first row that is not below it."""
        ranges = (high >> self._shift).view(np.int64)
        ends = self._starts[ranges + 1]
        rows = _skip(self._starts[ranges], ends, self._width, lambda at: self.high.take(at, mode="clip") < high)
        equal = np.flatnonzero(self._has(rows, high) & (self.low.take(rows, mode="clip") < low))
        if len(equal):  # users with the same first word: practically never
            word, other = high[equal], low[equal]
            rows[equal] = _skip(
                rows[equal],
                ends[equal],
                self._width,
                lambda at: self._has(at, word) & (self.low.take(at, mode="clip") < other),
            )
        return rows

    def find(self, high: Words, low: Words) -> Ints:
        """Return the row of each user, or ABSENT."""
        rows = self.find_rows(high, low)
        return np.where(self._has(rows, high) & (self.low.take(rows, mode="clip") == low), rows, ABSENT)

    def merge(self, other: "SortedRun") -> "SortedRun":
        """Return the users of both; no user is in both."""
        rows = self.find_rows(other.high, other.low) + np.arange(len(other))
        mine = np.ones(len(self) + len(other), np.bool_)
        mine[rows] = False

        def merge_columns(one: npt.NDArray[Any], two: npt.NDArray[Any]) -> npt.NDArray[Any]:
            merged = np.empty(len(mine), one.dtype)
            merged[mine] = one
            merged[rows] = two
            return merged

        pairs = ((getattr(self, column), getattr(other, column)) for column in ("high", "low", "counts", "stages"))
        high, low, counts, stages = (merge_columns(one, two) for one, two in pairs)
        bits, sizes = choose_range_bits(len(mine)), None
        if len(self._starts) == (1 << bits) + 1:
            sizes = np.diff(self._starts) + count_ranges(other.high, bits)
        return SortedRun(high, low, counts, stages, sizes)

    def _has(self, rows: Ints, high: Words) -> Flags:
        """Return whether each row exists and has this first word."""
        equal: Flags = self.high.take(rows, mode="clip") == high
        return equal & (rows < len(self))


def choose_range_bits(users: int) -> int:
    """Return the first bits of a hash by which so many users are indexed."""
    return max(1, users.bit_length() - RANGE_BITS)


def count_ranges(high: Words, bits: int) -> Ints:
    """Return the number of users in each range of hashes that begin with the same bits."""
    return np.bincount((high >> np.uint64(WORD_BITS - bits)).view(np.int64), minlength=1 << bits)


def _skip(rows: Ints, ends: Ints, width: int, is_below: Callable[[Ints], Flags]) -> Ints:
    """Return the rows after those that are below, of at most `width` sorted rows from each row up to its end."""
    step = 1 << width.bit_length() >> 1
    while step:
        probes = rows + (step - 1)
        rows = rows + step * (is_below(probes) & (probes < ends))
        step >>= 1
    return rows


class UserCounts:
    """Table of a count and a stage for each user.

    A place identifies a user from `find` to the next `add` or `put`. Queries have each user once, in sorted order.
    """

    def __init__(self) -> None:
        self.runs: list[SortedRun] = []

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def find(self, high: Words, low: Words) -> Ints:
        """Return the place of each user, or ABSENT."""
        places = np.full(len(high), ABSENT, np.int64)
        waiting, begin = np.arange(len(high)), 0
        for run in self.runs:
            rows = run.find(high[waiting], low[waiting])
            present = rows >= 0
            places[waiting[present]] = rows[present] + begin
            waiting = waiting[~present]
            begin += len(run)
        return places

    def read(self, places: Ints) -> Ints:
        """Return the counts at some places, 0 for those that are absent."""
        counts, begin = np.zeros(len(places), np.int64), 0
        for run in self.runs:
            mine = np.flatnonzero((places >= begin) & (places < begin + len(run)))
            counts[mine] = run.counts[places[mine] - begin]
            begin += len(run)
        return counts

    def add(self, high: Words, low: Words, places: Ints, counts: Ints, stage: int) -> None:
        """Add to the counts of users at the places that `find` returned. Their stage becomes `stage`."""
        self.put(high, low, places, self.read(places) + counts, stage)

    def put(self, high: Words, low: Words, places: Ints, counts: Ints, stage: int) -> None:
        """Replace the counts of users at the places that `find` returned. Their stage becomes `stage`."""
        begin = 0
        for run in self.runs:
            mine = np.flatnonzero((places >= begin) & (places < begin + len(run)))
            rows = places[mine] - begin
            run.counts[rows], run.stages[rows] = counts[mine], stage
            begin += len(run)
        new = np.flatnonzero(places == ABSENT)
        if len(new):
            stages = np.full(len(new), stage, np.uint8)
            self.runs.append(SortedRun(high[new], low[new], counts[new].astype(np.uint32), stages))
        while len(self.runs) > 1 and RUN_RATIO * len(self.runs[-1]) > len(self.runs[-2]):
            last = self.runs.pop()
            self.runs[-1] = self.runs[-1].merge(last)

    def count(self, stage: int) -> int:
        """Return the number of users from a stage on."""
        return sum(int(np.count_nonzero(run.stages >= stage)) for run in self.runs)

    def limit_stages(self, stage: int) -> None:
        """Lower all later stages to this one."""
        for run in self.runs:
            np.minimum(run.stages, stage, out=run.stages)


def sort_users(high: Words, low: Words, numbers: Ints) -> Ints:
    """Return the order by user and number; equal ones stay in their order.

    One sort of words is several times faster than an indirect one. So a word combines the first bits of the hash,
    the number and the position. The result is checked: hashes that differ in later bits only need the slow order.
    """
    count = len(high)
    if count == 0:
        return np.zeros(0, np.int64)
    first = int(numbers.min())
    position_bits, number_bits = count.bit_length(), (int(numbers.max()) - first).bit_length()
    spare = position_bits + number_bits
    if spare <= WORD_BITS // 2:
        words = (high >> np.uint64(spare)) << np.uint64(spare)
        if number_bits:
            words |= (numbers - first).astype(np.uint64) << np.uint64(position_bits)
        words |= np.arange(count, dtype=np.uint64)
        words.sort()
        order = (words & np.uint64((1 << position_bits) - 1)).view(np.int64)
        if _is_sorted(high[order], low[order], numbers[order]):
            return order
    return np.lexsort((numbers, low, high))


def _is_sorted(high: Words, low: Words, numbers: Ints) -> bool:
    """Return whether rows never decrease."""
    equal = high[1:] == high[:-1]
    below = low[1:] > low[:-1]
    fine = (high[1:] > high[:-1]) | (equal & (below | ((low[1:] == low[:-1]) & (numbers[1:] >= numbers[:-1]))))
    return bool(fine.all())


def find_run_starts(*columns: npt.NDArray[np.generic]) -> Ints:
    """Return the starts of runs of equal rows."""
    differ = np.ones(len(columns[0]), np.bool_)
    if len(differ):
        differ[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(differ)
