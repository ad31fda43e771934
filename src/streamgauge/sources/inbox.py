"""Events that are sent to the server: batches, each under a key that its sender chose.

    put -> waiting -> read -> a commit of the run: open ticks and keys together -> acknowledged
                                  |
                                  a death before it: whoever sent them has no acknowledgement, and sends again

A batch is a number of lines, cleaned by itself: a torn last line of one can never join the next.

Promise
    An acknowledged batch is counted, and none is counted twice, whatever dies when and however often a batch
    is sent. Proof: a batch is acknowledged after the commit that has its sums; its key is in the very same
    commit (`position`), and a batch whose key is known is not read. A key is forgotten when all ticks that
    its batch can have counted in are closed (`inbox_of`): sent again, its events are late. Where late events
    are carried, that is a day after. Who sends a batch again is told how many records were taken of it the
    first time (`Ticket.records`): those count, whatever would be taken of it by now.

**Privacy.** Keys and batches are secret, for the sender may have written anything into them. What is kept of
a key is a hash, that number and a time, sealed with the state, in a number that tells no more than a power of
two. Where strangers send, nobody may learn whether a batch was there before: it is read again as something
that counts for nothing (`instead`), waits for its own commit and needs the same room, as if it were new.

An inbox outlives the runs that read it: one that goes on from a commit gets again what was read after it.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile
from struct import Struct
from threading import Lock
from typing import Literal

from streamgauge.noise.entropy import system_key
from streamgauge.query.blocks import Block, Dropped
from streamgauge.query.durations import DAY
from streamgauge.query.formats import REPORTS
from streamgauge.query.settings import PipelineFile
from streamgauge.query.source_schema import SourceSchema
from streamgauge.sources.lines import BLOCK, MOST_DROPPED, Lines
from streamgauge.sources.opening import Opening

MOST_KEYS = 2**16  # that are remembered
SENDERS_KEYS = 2**14  # of reports: beyond them the oldest is forgotten
AGAIN = 600_000_000  # microseconds: how long after it was read a report may be sent again
FEWEST_KEYS = 2**10  # that a position has room for
DIGEST = 12  # bytes that stand for a key
COUNT, ENTRY = Struct("<8sQ"), Struct("<12sIq")  # an entry: the key, how many records, when it was read
MAGIC = b"SGINBOX1"

Fate = Literal["unknown", "waiting", "committed", "untracked"]


class InboxFull(Exception):  # noqa: N818 - refusals are named by what they say
    """Nothing of the batch was taken: it may be sent again later."""


class InboxClosed(InboxFull):
    """Nothing will be taken any more; of what was not acknowledged the fate is open."""

    def __init__(self) -> None:
        super().__init__("events must be sent while the run goes on, got some after its end")


class NotRead(InboxFull):
    """Nobody reads for now; nothing of the batch was or will be taken."""

    def __init__(self) -> None:
        super().__init__("events must be sent while a release goes on, got some while none does")


@dataclass
class Ticket:
    """What the sender of a batch waits for: `done` when the batch is on disk."""

    repeated: bool  # whether a batch of that key was there before
    records: int  # that were taken of it, then or now
    done: Future[None] = field(default_factory=Future)


@dataclass
class _Batch:
    key: bytes  # the hash of its key
    number: int
    lines: bytes = field(repr=False)
    records: int  # that were taken of it, as its sender counts
    tickets: list[Ticket]
    remembered: bool = True  # whether its key is, once it is committed
    entry: bytes = b""  # what is remembered of it, once it was read


class Inbox:
    """A live source that cannot be replayed. Batches are put into it by any thread, and read by one."""

    replayable = False
    header = None
    durable = True  # whether a batch is on disk once its sender is told

    def __init__(
        self, *, remembered: int, most_waiting: int, now: Callable[[], int], keys: int | None = None
    ) -> None:
        self._keys = keys  # how many are remembered at most: a new one takes the place of the oldest
        self._remembered, self._most_waiting, self._now = remembered, most_waiting, now
        self._lock = Lock()
        self._waiting: dict[bytes, _Batch] = {}  # exact: sent, not read
        self._read: dict[bytes, _Batch] = {}  # exact: read, not committed
        self._known: dict[bytes, bytes] = {}  # exact: hashes of keys that are committed, and their entries
        self._bytes = 0  # of batches that are not committed
        self._numbered = 0  # batches so far
        self._until = 0  # the last of them that this round of reading goes to
        self._offset = 0
        self._closed = False
        self._resting = False  # whether nobody reads for now

    def put(self, key: str | None, lines: bytes, *, records: int = 0, instead: bytes | None = None) -> Ticket:
        """Takes a batch of JSON lines, unless its key is known; raises InboxFull if there is no room.

        One without a key is never taken for another, nor remembered. Where something is to be read `instead`
        of a batch that is known, nobody can tell it from one that is new.
        """
        digest = unknown() if key is None else hashed(key)
        with self._lock:
            before = self._records(digest)
            ticket = Ticket(before is not None, records if before is None else before)
            if ticket.repeated and instead is not None:
                digest, key, lines = unknown(), None, instead
            if digest in self._known:
                ticket.done.set_result(None)
            elif self._closed:
                raise InboxClosed
            elif self._resting:
                raise NotRead
            elif under_way := self._under_way(digest):
                under_way.tickets.append(ticket)
            else:
                self._take(digest, lines, ticket, remembered=key is not None)
        return ticket

    def fate(self, key: str) -> Fate:
        """What has become of a batch, as far as is remembered."""
        with self._lock:
            return self._fate(hashed(key))

    def _records(self, digest: bytes) -> int | None:
        """How many were taken of a batch that is known or under way."""
        if entry := self._known.get(digest):
            return int(ENTRY.unpack(entry)[1])
        under_way = self._under_way(digest)
        return None if under_way is None else under_way.records

    def _under_way(self, digest: bytes) -> _Batch | None:
        return self._waiting.get(digest) or self._read.get(digest)

    def _fate(self, digest: bytes) -> Fate:
        if digest in self._known:
            return "committed"
        return "waiting" if self._under_way(digest) else "unknown"

    @property
    def batches(self) -> int:
        """How many were taken; those that were sent again are left out, unless nobody may know that."""
        return self._numbered

    @property
    def waiting_bytes(self) -> int:
        """The length of all batches that are not committed."""
        return self._bytes

    @property
    def caught_up(self) -> bool:
        """Whether all was read that was there when this round of reading began."""
        with self._lock:
            return self._at_end

    @property
    def pressing(self) -> bool:
        return bool(self._waiting)

    @property
    def ended(self) -> bool:
        return self._closed

    def read(self) -> Block | None:
        """Batches that wait, as many as one query should have: they are committed together or not at all."""
        with self._lock:
            if self._at_end:
                self._until = self._numbered
            batches = list(self._next())
            for batch in batches:
                batch.entry = ENTRY.pack(batch.key, batch.records, self._now())
                self._read[batch.key] = self._waiting.pop(batch.key)
        return self._block(batches) if batches else None

    def schemas(self) -> tuple[SourceSchema, ...]:
        """Return nothing: batches are JSON lines."""
        return ()

    def position(self) -> bytes:
        """The keys of all batches that were read, and a few of nothing."""
        with self._lock:
            entries = [*self._known.values(), *(batch.entry for batch in self._read.values())]
        room = max(FEWEST_KEYS, 1 << max(0, len(entries) - 1).bit_length())
        return (COUNT.pack(MAGIC, len(entries)) + b"".join(entries)).ljust(COUNT.size + room * ENTRY.size)

    def resume(self, position: bytes | None) -> None:
        """A run begins that has what was read up to a position, and nothing that was read after it."""
        with self._lock:
            self._known = {} if position is None else entries_of(position)
            again = {**self._read, **self._waiting}
            self._read = {}
            self._waiting = {key: batch for key, batch in again.items() if key not in self._known}
            self._until, self._resting = 0, False
            found = [batch for key, batch in again.items() if key in self._known]
            self._let_go(found)
        for ticket in [ticket for batch in found for ticket in batch.tickets]:
            ticket.repeated = True
            resolved(ticket)

    def committed(self, closed: int = 0) -> None:
        """All that was read is on disk, and all ticks that end by `closed`, in microseconds, are closed."""
        with self._lock:
            done = list(self._read.values())
            self._known |= {batch.key: batch.entry for batch in done if batch.remembered}
            self._read = {}
            self._let_go(done)
            self._forget(closed)
        for batch in done:
            for ticket in batch.tickets:
                resolved(ticket)

    def rest(self) -> None:
        """Nothing is taken or read until a run begins; whoever waits is told. What was read is committed."""
        with self._lock:
            self._resting = True
            left = list(self._waiting.values())
            self._let_go(left)
            self._waiting = {}
        for ticket in [ticket for batch in left for ticket in batch.tickets]:
            resolved(ticket, NotRead())

    def close(self) -> None:
        """Nothing more is taken or read; whoever waits is told. What was read may still be committed."""
        with self._lock:
            self._closed = True
            left = [*self._read.values(), *self._waiting.values()]
            tickets = [ticket for batch in left for ticket in batch.tickets]
            self._let_go(list(self._waiting.values()))
            self._waiting = {}
            for batch in left:
                batch.tickets = []
        for ticket in tickets:
            resolved(ticket, InboxClosed())

    @property
    def _at_end(self) -> bool:
        first = next(iter(self._waiting.values()), None)
        return first is None or first.number > self._until

    def _take(self, digest: bytes, lines: bytes, ticket: Ticket, *, remembered: bool) -> None:
        if len(self._known) + len(self._read) + len(self._waiting) >= MOST_KEYS:
            raise InboxFull(f"batches must be at most {MOST_KEYS:,} at a time, send fewer, larger ones")
        if self._bytes + len(lines) > self._most_waiting:
            raise InboxFull(f"events that wait must be at most {self._most_waiting:,} bytes, got more")
        self._numbered += 1
        self._bytes += len(lines)
        self._waiting[digest] = _Batch(digest, self._numbered, lines, ticket.records, [ticket], remembered)

    def _next(self) -> Iterator[_Batch]:
        length = 0
        for batch in self._waiting.values():
            length += len(batch.lines)
            if batch.number > self._until or (length > BLOCK and length > len(batch.lines)):
                return
            yield batch

    def _block(self, batches: Sequence[_Batch]) -> Block:
        begin, data, dropped = self._offset, [], list[Dropped]()
        opening = Opening("a batch", has_header=False)
        opening.read(b"", ended=True)
        for batch in batches:
            lines = Lines(opening, self._offset)
            for block in chain(lines.feed(batch.lines), lines.finish()):
                data.append(block.data)
                dropped += block.dropped[: MOST_DROPPED - len(dropped)]
            self._offset += len(batch.lines)
        return Block(b"".join(data), begin, tuple(dropped))

    def _let_go(self, batches: Sequence[_Batch]) -> None:
        self._bytes -= sum(len(batch.lines) for batch in batches)

    def _forget(self, closed: int) -> None:
        """The keys are in the order in which they were read."""
        entries = self._known.values()
        over = takewhile(lambda entry: ENTRY.unpack(entry)[2] + self._remembered < closed, entries)
        for key, _, _ in map(ENTRY.unpack, list(over)):
            del self._known[key]
        many = 0 if self._keys is None else max(0, len(self._known) - self._keys)
        for key in list(islice(self._known, many)):
            del self._known[key]


def inbox_of(file: PipelineFile, now: Callable[[], int]) -> Inbox:
    """The inbox of a stream: keys are remembered until no event of theirs can be counted.

    An event is counted in a tick that begins `earliness` after it was read, at the latest; clocks may
    disagree by a tick. Reports may come from anyone, and a report that is counted twice is no more than two
    reports: nobody's keys may keep others out, so only the newest are remembered.
    """
    stream = file.stream
    if stream.source == REPORTS:
        return Inbox(remembered=AGAIN, most_waiting=file.server.max_waiting, now=now, keys=SENDERS_KEYS)
    carried = DAY if stream.late == "carry" else 0
    remembered = stream.earliness + stream.tick + carried
    return Inbox(remembered=remembered, most_waiting=file.server.max_waiting, now=now)


def hashed(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()[:DIGEST]


def unknown() -> bytes:
    """What stands for a key that nobody has."""
    return system_key()[:DIGEST]


def entries_of(position: bytes) -> dict[bytes, bytes]:
    """What `position` was told; nothing of another source."""
    magic, count = COUNT.unpack_from(position)
    if magic != MAGIC:
        raise ValueError("position must be of an inbox, got another")
    entries = (position[at : at + ENTRY.size] for at in range(COUNT.size, len(position), ENTRY.size))
    return {entry[:DIGEST]: entry for _, entry in zip(range(count), entries, strict=False)}


def resolved(ticket: Ticket, failure: Exception | None = None) -> None:
    """Tells who waits, unless nobody does any more."""
    if ticket.done.set_running_or_notify_cancel():
        if failure is None:
            ticket.done.set_result(None)
        else:
            ticket.done.set_exception(failure)
