"""Bounds on users of a live source: events per open tick, and ticks. Secret.

Events are admitted in the order of arrival: a tick counts against `max_ticks` when its first event
is admitted. 16 bytes of a keyed hash identify a user. If contributions renew, each block of ticks is bounded by
itself: a user is then somebody else in every block, of 24 bytes, and is forgotten when the block's last tick is
closed. If ticks are the unit, all events have one user, and each tick is a block.

Privacy
    A user's events alone decide which of them survive. Neither the others nor how the
    source was cut into blocks matter (rows are processed in the order of the source).

    The store encrypts the saved state, but neither its size nor the time of writing. So all users
    are saved together, active or not, in rows of one size: a hash, the number of ticks used, and some
    open ticks. With `max_users` there are as many rows as so many users can need. Without it, or if there are
    more users than declared, the size reveals the number in powers of two only. It never shrinks, so where
    users are forgotten it reveals the largest number so far.

A source that cannot be replayed is saved more often than ticks close. Such a save has the users that changed since,
padded to a power of two.
"""

from collections.abc import Collection, Iterator, Mapping
from math import ceil
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.config.settings import Stream
from streamgauge.noise import Ints
from streamgauge.privacy import Tick, User

STATE_PREFIX = "users/"
CHANGED_PART = f"{STATE_PREFIX}changed"
MIN_SAVED_ROWS = 2**8  # rows that are saved
PART_ROWS = 2**18  # of one part
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.void]
SavedParts = dict[str, bytes | None]  # None if a part is deleted
Words = npt.NDArray[np.uint64]
HASH_BYTES = 16
BLOCK_STRUCT = Struct(">q")  # the number of a block, after the hash


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

    def __init__(self, stream: Stream, unit: User | Tick) -> None:
        self.unit, self.max_users = unit, 1 if isinstance(unit, Tick) else stream.max_users
        self._used_ticks: dict[bytes, int] = {}  # exact: ticks, by user
        self._open_events: dict[bytes, dict[int, int]] = {}  # exact: events, by user and tick
        self._changed_users: set[bytes] = set()  # exact: users that changed since all were saved
        self._parts: set[str] = set()  # names of the saved parts of all users
        self._min_rows = 0  # rows of the last save
        self._entry = build_entry_dtype(stream, unit)
        self._slots = int(self._entry["ticks"].shape[0])

    def admit_events(self, high: Words, low: Words, ticks: Ints) -> Flags:
        """Return whether each event is admitted.

        Hashes are two words, events are in the order of the source.
        """
        users = np.stack([high.astype(">u8"), low.astype(">u8")], axis=1)
        order = np.lexsort((ticks, low, high))  # stable: equal ones stay in the order of the source
        begins = find_run_starts(high[order], low[order], ticks[order])
        sizes = np.diff(np.append(begins, len(order)))
        room = np.zeros(len(begins), np.int64)
        for pair in np.argsort(order[begins]):
            at = order[begins[pair]]
            tick = int(ticks[at])
            room[pair] = self._admit(self._identify(users[at].tobytes(), tick), tick, int(sizes[pair]))
        admitted = np.zeros(len(order), np.bool_)
        admitted[order] = np.arange(len(order)) - np.repeat(begins, sizes) < np.repeat(room, sizes)
        return admitted

    def _identify(self, user: bytes, tick: int) -> bytes:
        """Return the bytes of a user in the block of a tick."""
        block = self.unit.block_ticks
        return user if block is None else user + BLOCK_STRUCT.pack((tick - 1) // block)

    def forget(self, tick: int) -> None:
        """Forget the events of users in ticks up to this closed one, and their used ticks if these have renewed."""
        self._forget_blocks(tick)
        for user in [user for user, ticks in self._open_events.items() if min(ticks) <= tick]:
            left = {other: count for other, count in self._open_events[user].items() if other > tick}
            if left:
                self._open_events[user] = left
            else:
                del self._open_events[user]

    def _forget_blocks(self, tick: int) -> None:
        """Forget users in blocks that end by a closed tick."""
        block = self.unit.block_ticks
        if block is None:
            return
        current = tick // block  # number of the block of the next tick
        over = [user for user in self._used_ticks if BLOCK_STRUCT.unpack(user[HASH_BYTES:])[0] < current]
        for user in over:
            del self._used_ticks[user]
            self._open_events.pop(user, None)
            self._changed_users.discard(user)

    def _count_rows(self, ticks: int) -> int:
        """Return the rows that a user can need if at most `ticks` ticks are open."""
        block, ticks = self.unit.block_ticks, max(1, ticks)
        blocks = 1 if block is None else 2 + (ticks - 2) // block  # that open ticks can lie in
        return blocks * ceil(min(self.unit.ticks_per_block, ticks) / self._slots)

    def save(self, ticks: int) -> SavedParts:
        """Return the parts of all users. At most `ticks` ticks are open."""
        self._changed_users = set()
        least = max(MIN_SAVED_ROWS, (self.max_users or 0) * self._count_rows(ticks), self._min_rows)
        rows = _pad_rows(self._rows(self._used_ticks), least)
        self._min_rows = len(rows) if self.unit.block_ticks is not None else 0
        begins = range(0, len(rows), PART_ROWS)
        parts = {f"{STATE_PREFIX}{begin // PART_ROWS}": rows[begin : begin + PART_ROWS].tobytes() for begin in begins}
        gone = dict.fromkeys(self._parts - parts.keys())
        self._parts = set(parts)
        return {**gone, **parts, **self.save_changed()}

    def save_changed(self) -> SavedParts:
        """Return the users that changed since all were saved."""
        return {CHANGED_PART: _pad_rows(self._rows(self._changed_users), MIN_SAVED_ROWS).tobytes()}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Restore saved parts; ignore other names."""
        self._parts = {name for name in state if name.startswith(STATE_PREFIX)} - {CHANGED_PART}
        if self.unit.block_ticks is not None:
            self._min_rows = sum(len(state[name]) for name in self._parts) // self._entry.itemsize
        for name in sorted(self._parts):
            self._restore_rows(state[name])
        self._changed_users = set(self._restore_rows(state.get(CHANGED_PART, b"")))

    def _admit(self, user: bytes, tick: int, events: int) -> int:
        """Return how many of a user's new events in a tick are admitted."""
        ticks = self._open_events.get(user, {})
        before = ticks.get(tick, 0)
        if not before and self._used_ticks.get(user, 0) >= self.unit.ticks_per_block:
            return 0
        more = min(events, self.unit.events - before)
        if more > 0:
            self._changed_users.add(user)
            self._open_events.setdefault(user, ticks)[tick] = before + more
            self._used_ticks[user] = self._used_ticks.get(user, 0) + (not before)
        return more

    def _rows(self, users: Collection[bytes]) -> Rows:
        """Return a row for each user; more if its open ticks exceed the slots of a row."""
        idle = [user for user in users if user not in self._open_events]
        rows = np.zeros(len(idle), self._entry)
        rows["user"] = np.frombuffer(b"".join(idle), self._entry["user"])
        rows["used"] = [self._used_ticks[user] for user in idle]
        active = [row for user in users if user in self._open_events for row in self._open_rows(user)]
        return np.concatenate([rows, np.array(active, self._entry)])

    def _open_rows(self, user: bytes) -> Iterator[tuple[Any, ...]]:
        ticks = list(self._open_events[user].items())
        ticks += [(0, 0)] * (-len(ticks) % self._slots)
        for begin in range(0, len(ticks), self._slots):
            part = ticks[begin : begin + self._slots]
            yield user, self._used_ticks[user], [tick for tick, _ in part], [count for _, count in part]

    def _restore_rows(self, packed: bytes) -> list[bytes]:
        """Replace the stored data of users by saved rows; return the users."""
        rows = np.frombuffer(packed, self._entry)
        rows = rows[rows["used"] > 0]
        users = [user.tobytes() for user in rows["user"]]
        self._used_ticks |= zip(users, rows["used"].tolist(), strict=True)
        for user in users:
            self._open_events.pop(user, None)
        for place in np.flatnonzero(rows["counts"].any(axis=1)):
            _, _, ticks, counts = rows[place]
            events = {int(tick): int(count) for tick, count in zip(ticks, counts, strict=True) if count}
            self._open_events.setdefault(users[place], {}).update(events)
        return users


def build_entry_dtype(stream: Stream, unit: User | Tick) -> np.dtype[np.void]:
    """Return the row type: a user, with slots for all ticks open in timely reading."""
    open_ticks = (stream.allowed_lateness + stream.allowed_earliness) // stream.tick + 2
    slots = max(1, min(open_ticks, unit.ticks_per_block, 64))
    size = HASH_BYTES + (0 if unit.block_ticks is None else BLOCK_STRUCT.size)
    fields = [("user", f"V{size}"), ("used", "<u4"), ("ticks", "<i8", (slots,)), ("counts", "<u4", (slots,))]
    return np.dtype(fields)


def find_run_starts(*columns: npt.NDArray[np.generic]) -> Ints:
    """Return the starts of runs of equal rows."""
    differ = np.ones(len(columns[0]), np.bool_)
    if len(differ):
        differ[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(differ)


def _pad_rows(rows: Rows, min_rows: int) -> Rows:
    """Pad with empty rows, up to `min_rows` or that times a power of two."""
    size = min_rows
    while size < len(rows):
        size *= 2
    return np.concatenate([rows, np.zeros(size - len(rows), rows.dtype)])
