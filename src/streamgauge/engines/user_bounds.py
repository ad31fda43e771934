"""Bounds on users of a live source: how often each was in open ticks, and in how many ticks at all. Secret.

Events are admitted in the order in which they arrive: a tick counts against `max_ticks` when its first event
is admitted. Users are known by 16 bytes of a keyed hash, and kept in 4,096 buckets by its first 12 bits.

Privacy
    Which of a user's events survive is decided by that user's events alone: neither the others nor how the
    source was cut into blocks matter (rows are taken in the order of the source).

Saved, a bucket is an array of fixed entries: a hash, the number of ticks used, and the open ticks. With
`max_users` all buckets are padded to the same size, with room for SPREADS standard deviations more than
their even share; a bucket that overflows nevertheless is padded to twice that size, and so on, which its size
then tells. Without `max_users` sizes tell how many users there are. What the store keeps is encrypted; that a
bucket was written at all tells that one of its users was active.
"""

from collections.abc import Mapping
from math import ceil, sqrt

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.privacy import User
from streamgauge.query.settings import Stream

BUCKETS = 4096
SPREADS = 8
PREFIX = "bounds/"
Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]


class NoBounds:
    """Where the unit is no user, nobody is remembered."""

    def forget(self, tick: int) -> None:
        """Nothing was remembered."""

    def saved(self) -> dict[str, bytes]:
        return {}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Nothing is."""


class UserBounds:
    """What is remembered of users."""

    def __init__(self, stream: Stream, unit: User) -> None:
        self.unit = unit
        self._used: list[dict[bytes, int]] = [{} for _ in range(BUCKETS)]  # exact: ticks, by user
        self._open: list[dict[bytes, dict[int, int]]] = [{} for _ in range(BUCKETS)]  # exact: events, by tick
        self._changed: set[int] = set()
        self._entry = entry(stream, unit)
        self._padded = padded(stream.max_users)

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
        for bucket, users in enumerate(self._open):
            for user in [user for user, ticks in users.items() if min(ticks) <= tick]:
                self._changed.add(bucket)
                left = {other: count for other, count in users[user].items() if other > tick}
                if left:
                    users[user] = left
                else:
                    del users[user]

    def saved(self) -> dict[str, bytes]:
        """The buckets that changed since they were saved last."""
        changed, self._changed = sorted(self._changed), set()
        return {f"{PREFIX}{bucket:03x}": self._pack(bucket) for bucket in changed}

    def restore(self, state: Mapping[str, bytes]) -> None:
        """Takes back what was saved; other names are left alone."""
        for name, packed in state.items():
            if name.startswith(PREFIX):
                self._unpack(int(name.removeprefix(PREFIX), 16), packed)

    def _admit(self, user: bytes, tick: int, events: int) -> int:
        """How many of a user's new events in a tick are admitted."""
        bucket = int.from_bytes(user[:2], "big") >> 4
        used, ticks = self._used[bucket], self._open[bucket].get(user, {})
        seen = ticks.get(tick, 0)
        if not seen and used.get(user, 0) >= self.unit.max_ticks:
            return 0
        more = min(events, self.unit.max_events_per_tick - seen)
        if more > 0:
            self._changed.add(bucket)
            self._open[bucket].setdefault(user, ticks)[tick] = seen + more
            used[user] = used.get(user, 0) + (not seen)
        return more

    def _pack(self, bucket: int) -> bytes:
        slots = self._entry["ticks"].shape[0]
        rows = []
        for user, used in self._used[bucket].items():
            ticks = list(self._open[bucket].get(user, {}).items())
            for begin in range(0, max(1, len(ticks)), slots):
                part = ticks[begin : begin + slots]
                part += [(0, 0)] * (slots - len(part))
                rows.append((user, used, [tick for tick, _ in part], [count for _, count in part]))
        return _with_room(np.array(rows, self._entry), self._padded).tobytes()

    def _unpack(self, bucket: int, packed: bytes) -> None:
        self._used[bucket], self._open[bucket] = {}, {}
        for user, used, ticks, counts in np.frombuffer(packed, self._entry):
            if not used:
                continue
            who = user.tobytes()
            self._used[bucket][who] = int(used)
            seen = {int(tick): int(count) for tick, count in zip(ticks, counts, strict=True) if count}
            if seen:
                self._open[bucket].setdefault(who, {}).update(seen)


def entry(stream: Stream, unit: User) -> np.dtype[np.void]:
    """A user, with room for all ticks that are open when the source is read in time."""
    slots = max(1, min((stream.lateness + stream.earliness) // stream.tick + 2, unit.max_ticks, 64))
    fields = [("user", "V16"), ("used", "<u4"), ("ticks", "<i8", (slots,)), ("counts", "<u4", (slots,))]
    return np.dtype(fields)


def padded(max_users: int | None) -> int:
    """Entries that a bucket has room for, or 0 if it is not padded."""
    if max_users is None:
        return 0
    share = max_users / BUCKETS
    return ceil(share + SPREADS * sqrt(share)) + SPREADS


def beginnings(*columns: npt.NDArray[np.generic]) -> Ints:
    """Where runs of equal rows begin."""
    differ = np.ones(len(columns[0]), np.bool_)
    if len(differ):
        differ[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(differ)


def _with_room(rows: npt.NDArray[np.void], room: int) -> npt.NDArray[np.void]:
    if not room:
        return rows
    size = room
    while size < len(rows):
        size *= 2
    return np.concatenate([rows, np.zeros(size - len(rows), rows.dtype)])
