"""Bounds on users of a live source: how often each was in open ticks, and in how many ticks at all. Secret.

Events are admitted in the order in which they arrive: a tick counts against `max_ticks` when its first event
is admitted. Users are known by 16 bytes of a keyed hash.

Privacy
    Which of a user's events survive is decided by that user's events alone: neither the others nor how the
    source was cut into blocks matter (rows are taken in the order of the source).

    What is saved is encrypted by the store, but neither how much it is nor when it was written. So all users
    are saved together, whoever was active, in rows of one size: a hash, the number of ticks used, and some
    open ticks. With `max_users` there are as many rows as so many users can need; without it, or if there are
    more users than were declared, that is told in powers of two and no closer.

A source that cannot be replayed is saved more often than ticks close: those who changed since, to a power of
two.
"""

from collections.abc import Collection, Iterator, Mapping
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.privacy import User
from streamgauge.query.settings import Stream

PREFIX = "users/"
CHANGED = f"{PREFIX}changed"
EARLIER = "bounds/"  # as parts were called when there was one for each prefix of a hash
FEWEST = 2**8  # rows that are saved
TOGETHER = 2**18  # rows of a part
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.void]
Saved = dict[str, bytes | None]  # None where a part is no more
Words = npt.NDArray[np.uint64]


class NoBounds:
    """Where the unit is no user, nobody is remembered."""

    def forget(self, tick: int) -> None:
        """Nothing was remembered."""

    def saved(self, ticks: int) -> Saved:
        return {}

    def changed(self) -> Saved:
        return {}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Nothing is."""


class UserBounds:
    """What is remembered of users."""

    def __init__(self, stream: Stream, unit: User) -> None:
        self.unit, self.max_users = unit, stream.max_users
        self._used: dict[bytes, int] = {}  # exact: ticks, by user
        self._open: dict[bytes, dict[int, int]] = {}  # exact: events, by user and tick
        self._changed: set[bytes] = set()  # exact: users, since all were saved
        self._parts: set[str] = set()  # names of what was saved of all
        self._entry = entry(stream, unit)
        self._slots = int(self._entry["ticks"].shape[0])

    def admitted(self, high: Words, low: Words, ticks: Ints) -> Flags:
        """Whether each event is admitted; hashes come as two words, events in the order of the source."""
        users = np.stack([high.astype(">u8"), low.astype(">u8")], axis=1)
        order = np.lexsort((ticks, low, high))  # stable: equal ones stay in the order of the source
        begins = beginnings(high[order], low[order], ticks[order])
        sizes = np.diff(np.append(begins, len(order)))
        room = np.zeros(len(begins), np.int64)
        for pair in np.argsort(order[begins]):
            at = order[begins[pair]]
            room[pair] = self._admit(users[at].tobytes(), int(ticks[at]), int(sizes[pair]))
        admitted = np.zeros(len(order), np.bool_)
        admitted[order] = np.arange(len(order)) - np.repeat(begins, sizes) < np.repeat(room, sizes)
        return admitted

    def forget(self, tick: int) -> None:
        """Ticks up to this one are closed: who was in them is forgotten, in how many ticks is not."""
        for user in [user for user, ticks in self._open.items() if min(ticks) <= tick]:
            left = {other: count for other, count in self._open[user].items() if other > tick}
            if left:
                self._open[user] = left
            else:
                del self._open[user]

    def saved(self, ticks: int) -> Saved:
        """Everything; at most `ticks` ticks are open."""
        self._changed = set()
        rows = _with_room(self._rows(self._used), self._room(ticks))
        begins = range(0, len(rows), TOGETHER)
        parts = {f"{PREFIX}{begin // TOGETHER}": rows[begin : begin + TOGETHER].tobytes() for begin in begins}
        gone = dict.fromkeys(self._parts - parts.keys())
        self._parts = set(parts)
        return {**gone, **parts, **self.changed()}

    def changed(self) -> Saved:
        """Those who changed since everything was saved."""
        return {CHANGED: _with_room(self._rows(self._changed), FEWEST).tobytes()}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Takes back what was saved; other names are left alone."""
        self._parts = {name for name in state if name.startswith((PREFIX, EARLIER))} - {CHANGED}
        for name in sorted(self._parts):
            self._take_back(state[name])
        self._changed = set(self._take_back(state.get(CHANGED, b"")))

    def _admit(self, user: bytes, tick: int, events: int) -> int:
        """How many of a user's new events in a tick are admitted."""
        ticks = self._open.get(user, {})
        seen = ticks.get(tick, 0)
        if not seen and self._used.get(user, 0) >= self.unit.max_ticks:
            return 0
        more = min(events, self.unit.max_events_per_tick - seen)
        if more > 0:
            self._changed.add(user)
            self._open.setdefault(user, ticks)[tick] = seen + more
            self._used[user] = self._used.get(user, 0) + (not seen)
        return more

    def _room(self, ticks: int) -> int:
        """Rows that all users can need while so many ticks are open."""
        each = ceil(min(self.unit.max_ticks, max(1, ticks)) / self._slots)
        return max(FEWEST, (self.max_users or 0) * each)

    def _rows(self, users: Collection[bytes]) -> Rows:
        """A row for each user; more for one with more open ticks than a row has slots for."""
        idle = [user for user in users if user not in self._open]
        rows = np.zeros(len(idle), self._entry)
        rows["user"] = np.frombuffer(b"".join(idle), "V16")
        rows["used"] = [self._used[user] for user in idle]
        active = [row for user in users if user in self._open for row in self._open_rows(user)]
        return np.concatenate([rows, np.array(active, self._entry)])

    def _open_rows(self, user: bytes) -> Iterator[tuple[Any, ...]]:
        ticks = list(self._open[user].items())
        ticks += [(0, 0)] * (-len(ticks) % self._slots)
        for begin in range(0, len(ticks), self._slots):
            part = ticks[begin : begin + self._slots]
            yield user, self._used[user], [tick for tick, _ in part], [count for _, count in part]

    def _take_back(self, packed: bytes) -> list[bytes]:
        """Puts users in the place of what was known of them; returns who they are."""
        rows = np.frombuffer(packed, self._entry)
        rows = rows[rows["used"] > 0]
        users = [user.tobytes() for user in rows["user"]]
        self._used |= zip(users, rows["used"].tolist(), strict=True)
        for user in users:
            self._open.pop(user, None)
        for place in np.flatnonzero(rows["counts"].any(axis=1)):
            _, _, ticks, counts = rows[place]
            seen = {int(tick): int(count) for tick, count in zip(ticks, counts, strict=True) if count}
            self._open.setdefault(users[place], {}).update(seen)
        return users


def entry(stream: Stream, unit: User) -> np.dtype[np.void]:
    """A user, with room for all ticks that are open when the source is read in time."""
    slots = max(1, min((stream.lateness + stream.earliness) // stream.tick + 2, unit.max_ticks, 64))
    fields = [("user", "V16"), ("used", "<u4"), ("ticks", "<i8", (slots,)), ("counts", "<u4", (slots,))]
    return np.dtype(fields)


def beginnings(*columns: npt.NDArray[np.generic]) -> Ints:
    """Where runs of equal rows begin."""
    differ = np.ones(len(columns[0]), np.bool_)
    if len(differ):
        differ[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(differ)


def _with_room(rows: Rows, room: int) -> Rows:
    """With rows of nobody, up to what there is room for, or that times a power of two."""
    size = room
    while size < len(rows):
        size *= 2
    return np.concatenate([rows, np.zeros(size - len(rows), rows.dtype)])
