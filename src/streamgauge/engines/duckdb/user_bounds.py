"""Bounds on users of a live source: events per open tick, and ticks. Secret.

Events are admitted in the order of arrival: a tick counts against `max_ticks` when its first event is admitted. 16
bytes of a keyed hash identify a user. If contributions renew, each block of ticks has its own table, which is dropped
when the last tick of the block is closed. If ticks are the unit, all events have one user, and each tick is a block.

Privacy
    A user's events alone decide which of them survive. Neither the others nor how the
    source was cut into blocks matter (rows are processed in the order of the source).

    The store encrypts the saved state, but neither its size nor the time of writing.

    base       the ticks that each user has used
    recent     users that changed since the base
    changed    users that changed since `recent`
    open       events by user and open tick

    With `max_users` all users are written whenever a tick closes, active or not. There are as many rows as so many
    users can need, so the sizes reveal nothing up to that number. Beyond it they reveal powers of two.

    Without `max_users` each size is a power of two. A closed tick writes `changed` and `open`. It writes `recent`
    instead of `changed` if that is not much larger, and the base likewise. Only the written sizes decide. So the disk
    reveals, in powers of two, the number of users, of those that changed since the last base and since the last
    `recent`, and of visits in open ticks. The base never shrinks. If users are forgotten, it reveals the largest
    number so far. The clock alone decides when blocks of ticks expire. The next closed tick then writes a base
    without them.

A source that cannot be replayed is saved more often than ticks close. Such a save writes `changed` and `open`.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from streamgauge.config.settings import Stream
from streamgauge.engines.duckdb.user_counts import Flags, UserCounts, Words, find_run_starts, sort_users
from streamgauge.noise import Ints
from streamgauge.privacy import Tick, User

STATE_PREFIX = "users/"
BASE, RECENT, CHANGED = 0, 1, 2  # stages: the last group that has the user's current count
GROUPS = ("base", "recent", "changed")  # of saved parts, by stage
OPEN_GROUP = "open"
MIN_SAVED_ROWS = 2**8  # rows of a group
GROUP_RATIO = 16  # a group is written again unless it is more than so many times as large as the next one
USED_ROW = np.dtype([("high", "<u8"), ("low", "<u8"), ("count", "<u4")])
NUMBERED_ROW = np.dtype([*USED_ROW.descr, ("number", "<i8")])  # the number of a block or of an open tick
Rows = npt.NDArray[np.void]
SavedParts = dict[str, bytes | None]  # None if a part is deleted
Tables = dict[int, UserCounts]


class NoBounds:
    """Empty memory, for units that are not users."""

    def forget(self, tick: int) -> None:
        """Do nothing: nothing is stored."""

    def save(self, ticks: int) -> SavedParts:
        return {}

    def save_changed(self) -> SavedParts:
        return {}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Do nothing: nothing is stored."""


class UserBounds:
    """Memory of users whose contributions are bounded."""

    PART_ROWS: ClassVar[int] = 2**18  # of one saved part

    def __init__(self, stream: Stream, unit: User | Tick) -> None:
        self.unit, self.max_users = unit, 1 if isinstance(unit, Tick) else stream.max_users
        self._used_ticks: Tables = {}  # exact: ticks of each user, by block
        self._open_events: Tables = {}  # exact: events of each user, by open tick
        self._parts: dict[str, int] = {}  # number of saved parts of each group
        self._saved_rows: dict[str, int] = {}  # rows of each group when it was last written
        self._base_block: int | None = None  # the first block that the base has; None: unknown
        self._current_block = 0  # the block of the next tick to close
        self._used_row = USED_ROW if unit.block_ticks is None else NUMBERED_ROW

    def admit_events(self, high: Words, low: Words, ticks: Ints) -> Flags:
        """Return whether each event is admitted.

        Hashes are two words, events are in the order of the source.
        """
        order = sort_users(high, low, ticks)
        high, low, ticks = high[order], low[order], ticks[order]
        begins = find_run_starts(high, low, ticks)
        sizes = np.diff(np.append(begins, len(order)))
        room = self._admit_visits(high[begins], low[begins], ticks[begins], order[begins], sizes)
        admitted = np.zeros(len(order), np.bool_)
        admitted[order] = np.arange(len(order)) - np.repeat(begins, sizes) < np.repeat(room, sizes)
        return admitted

    def _admit_visits(self, high: Words, low: Words, ticks: Ints, arrivals: Ints, events: Ints) -> Ints:
        """Return how many of a user's new events in a tick are admitted.

        Users and ticks are in sorted order, each pair once. `arrivals` are the positions of their first events.
        """
        places, before = np.empty(len(ticks), np.int64), np.empty(len(ticks), np.int64)
        by_tick = list(_group_rows(ticks))
        for tick, rows in by_tick:
            table = self._open_events.setdefault(tick, UserCounts())
            places[rows] = table.find(high[rows], low[rows])
            before[rows] = table.read(places[rows])
        room = np.minimum(events, self.unit.events - before)
        new = np.flatnonzero(before == 0)
        room[new] *= self._use_ticks(high[new], low[new], ticks[new], arrivals[new])
        for tick, rows in by_tick:
            more = rows[room[rows] > 0]
            self._open_events[tick].add(high[more], low[more], places[more], room[more], CHANGED)
        return room

    def _use_ticks(self, high: Words, low: Words, ticks: Ints, arrivals: Ints) -> Flags:
        """Return whether each first visit of a user in a tick is allowed, and count those that are."""
        blocks = np.zeros_like(ticks) if self.unit.block_ticks is None else (ticks - 1) // self.unit.block_ticks
        begins = find_run_starts(high, low, blocks)
        sizes = np.diff(np.append(begins, len(ticks)))
        ranks = _rank_arrivals(begins, sizes, arrivals)
        high, low, allowed = high[begins], low[begins], np.zeros(len(ticks), np.bool_)
        for block, users in _group_rows(blocks[begins]):
            table = self._used_ticks.setdefault(block, UserCounts())
            places = table.find(high[users], low[users])
            used = table.read(places)
            more = np.minimum(sizes[users], np.maximum(0, self.unit.ticks_per_block - used))
            limits = np.zeros(len(begins), np.int64)
            limits[users] = more
            allowed |= ranks < np.repeat(limits, sizes)
            chosen = more > 0
            table.add(high[users][chosen], low[users][chosen], places[chosen], more[chosen], CHANGED)
        return allowed

    def forget(self, tick: int) -> None:
        """Forget the events of users in ticks up to this closed one, and their used ticks if these have renewed."""
        self._open_events = {other: table for other, table in self._open_events.items() if other > tick}
        if self.unit.block_ticks is not None:
            self._current_block = tick // self.unit.block_ticks
            current = self._used_ticks.items()
            self._used_ticks = {block: table for block, table in current if block >= self._current_block}

    def save(self, ticks: int) -> SavedParts:
        """Return the parts to write when a tick closes. At most `ticks` ticks are open."""
        stage = self._choose_stage()
        least = self._saved_rows.get(GROUPS[BASE], 0) if self.unit.block_ticks is not None else 0
        least = max(least, (self.max_users or 0) * self._count_blocks(ticks)) if stage == BASE else 0
        saved = self._write(GROUPS[stage], self._collect_users(stage), least)
        for later in GROUPS[stage + 1 :]:
            saved |= self._write(later, np.zeros(0, self._used_row))
        for table in self._used_ticks.values():
            table.limit_stages(stage)
        if stage == BASE:
            self._base_block = self._current_block
        pairs = min(max(1, ticks), self._count_blocks(ticks) * self.unit.ticks_per_block)
        return saved | self._write(OPEN_GROUP, self._collect_events(), (self.max_users or 0) * pairs)

    def save_changed(self) -> SavedParts:
        """Return the parts to write between two closed ticks."""
        least = self._saved_rows.get(OPEN_GROUP, 0) if self.max_users else 0
        changed = self._write(GROUPS[CHANGED], self._collect_users(CHANGED))
        return changed | self._write(OPEN_GROUP, self._collect_events(), least)

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Restore saved parts; ignore other names."""
        self._used_ticks, self._open_events = {}, {}
        for stage, group in enumerate(GROUPS):
            rows = self._read(group, state, self._used_row)
            numbers = rows["number"] if self.unit.block_ticks is not None else np.zeros(len(rows), np.int64)
            _put_rows(self._used_ticks, rows, numbers, stage)
        rows = self._read(OPEN_GROUP, state, NUMBERED_ROW)
        _put_rows(self._open_events, rows, rows["number"], BASE)

    def _choose_stage(self) -> int:
        """Return the first group that the next closed tick writes, by public facts and sizes alone."""
        if self.max_users is not None or GROUPS[BASE] not in self._saved_rows:
            return BASE
        if self.unit.block_ticks is not None and self._base_block != self._current_block:
            return BASE
        for stage in (CHANGED, RECENT):
            users = sum(table.count(stage) for table in self._used_ticks.values())
            if GROUP_RATIO * _pad_size(users) < self._saved_rows.get(GROUPS[stage - 1], 0):
                return stage
        return BASE

    def _count_blocks(self, ticks: int) -> int:
        """Return the blocks that at most `ticks` open ticks can lie in."""
        return 1 if self.unit.block_ticks is None else 2 + (max(1, ticks) - 2) // self.unit.block_ticks

    def _collect_users(self, stage: int) -> Rows:
        """Return a row for each user from a stage on."""
        return _collect_rows(self._used_ticks, self._used_row, stage)

    def _collect_events(self) -> Rows:
        """Return a row for each user and open tick."""
        return _collect_rows(self._open_events, NUMBERED_ROW, BASE)

    def _write(self, group: str, rows: Rows, least: int = 0) -> SavedParts:
        """Return the padded parts of a group, and None for parts that it had before."""
        padded = np.zeros(_pad_size(len(rows), least), rows.dtype)
        padded[: len(rows)] = rows
        cuts = range(0, len(padded), self.PART_ROWS)
        names = [f"{STATE_PREFIX}{group}/{number}" for number in range(max(len(cuts), self._parts.get(group, 0)))]
        parts: SavedParts = dict.fromkeys(names)
        parts |= {name: padded[cut : cut + self.PART_ROWS].tobytes() for name, cut in zip(names, cuts, strict=False)}
        self._parts[group], self._saved_rows[group] = len(cuts), len(padded)
        return parts

    def _read(self, group: str, state: Mapping[str, bytes], entry: np.dtype[np.void]) -> Rows:
        """Return the rows of a group, without padding."""
        packed: list[Rows] = []
        while (name := f"{STATE_PREFIX}{group}/{len(packed)}") in state:
            packed.append(np.frombuffer(state[name], entry))
        if not packed:
            return np.zeros(0, entry)
        rows = np.concatenate(packed)
        self._parts[group], self._saved_rows[group] = len(packed), len(rows)
        return rows[rows["count"] > 0]


def _group_rows(numbers: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each number and the rows that have it."""
    if len(numbers) and numbers.min() == numbers.max():
        yield int(numbers[0]), np.arange(len(numbers))
        return
    for number in np.unique(numbers).tolist():
        yield number, np.flatnonzero(numbers == number)


def _rank_arrivals(begins: Ints, sizes: Ints, arrivals: Ints) -> Ints:
    """Return the rank of each arrival in its run of rows."""
    ranks = np.zeros(len(arrivals), np.int64)
    if len(begins) < len(arrivals):
        runs = np.repeat(np.arange(len(begins)), sizes)
        rows = np.flatnonzero(sizes[runs] > 1)
        order = np.lexsort((arrivals[rows], runs[rows]))
        ranks[rows[order]] = rows - begins[runs[rows]]
    return ranks


def _collect_rows(tables: Tables, entry: np.dtype[np.void], stage: int) -> Rows:
    """Return the rows of all tables from a stage on, by number and then run by run."""
    found = [np.zeros(0, entry)]
    for number, table in sorted(tables.items()):
        for run in table.runs:
            chosen = slice(None) if stage == BASE else np.flatnonzero(run.stages >= stage)
            rows = np.zeros(len(run.counts[chosen]), entry)
            rows["high"], rows["low"], rows["count"] = run.high[chosen], run.low[chosen], run.counts[chosen]
            if "number" in (entry.names or ()):
                rows["number"] = number
            found.append(rows)
    return np.concatenate(found)


def _put_rows(tables: Tables, rows: Rows, numbers: Ints, stage: int) -> None:
    """Put saved rows into tables."""
    for number, chosen in _group_rows(numbers):
        high, low = rows["high"][chosen], rows["low"][chosen]
        order = sort_users(high, low, np.zeros(len(high), np.int64))
        high, low, table = high[order], low[order], tables.setdefault(number, UserCounts())
        table.put(high, low, table.find(high, low), rows["count"][chosen][order].astype(np.int64), stage)


def _pad_size(rows: int, least: int = 0) -> int:
    """Return the larger of MIN_SAVED_ROWS and `least`, or that times a power of two."""
    size = max(MIN_SAVED_ROWS, least)
    while size < rows:
        size *= 2
    return size
