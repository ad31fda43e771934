"""Inbox of events that clients post in batches, each under a key of their choice.

    put -> waiting -> read -> a commit of the run: open ticks and keys together -> acknowledged
                                  |
                                  a crash before it: the sender has no acknowledgement, and sends again

A batch is a number of lines, cleaned by itself: a torn last line of one batch can never join the next.

Promise
    An acknowledged batch is counted, and no batch is counted twice, however often the run crashes or a batch is sent.
    Proof: a batch is acknowledged after the commit that has its sums. The same commit contains its key
    (`position`), and a batch with a known key is not read. A key is forgotten when all ticks are closed in which its
    batch can have counted (`build_inbox`): if it is sent again, its events are late. If late events are carried, the
    key is forgotten a day later. The sender of a repeated batch gets the number of records that were accepted the
    first time (`Ticket.records`). Those count, also if fewer would be accepted now.

**Privacy.** Keys and batches are secret, because the sender may have written anything into them. The position has a
hash of each key, the number of its records and a time. It is encrypted with the state and padded to a power of two.
If strangers send, no sender may learn whether a batch was sent before. Then a repeated batch is replaced by lines
that count for nothing (`substitute`). It waits for its own commit and needs the same capacity, as if it were new.

An inbox outlives the runs that read it. A run that resumes from a commit reads again the batches read after it.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice, takewhile
from struct import Struct
from threading import Lock
from typing import Literal, Protocol

from streamgauge.config.rules import DAY
from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import StreamingSource
from streamgauge.noise.entropy import read_system_key
from streamgauge.records.blocks import Block, DroppedRecord
from streamgauge.sources.line_reader import BLOCK_BYTES, MAX_DROPPED_RECORDS, clean_batch

MAX_KEYS = 2**16  # remembered keys
MAX_REPORT_KEYS = 2**14  # remembered keys of reports: beyond them the oldest is forgotten
RESEND_MICROSECONDS = 600_000_000  # how long after it was read a report may be sent again
MIN_KEY_SLOTS = 2**10  # minimum capacity of a position
DIGEST_BYTES = 12  # bytes of the hash of a key
COUNT_STRUCT, ENTRY_STRUCT = (Struct("<8sQ"), Struct("<12sIq"))  # an entry: key hash, records, time of reading
MAGIC = b"SGINBOX1"

BatchStatus = Literal["unknown", "waiting", "committed", "untracked"]


CLOSED_MESSAGE = "events must be sent while the run goes on, got some after its end"


class InboxFullError(Exception):
    """The batch was not accepted: the inbox is full, or closed. The client may send it again later.

    Once the inbox is closed, unacknowledged batches may or may not be counted.
    """


class InboxPausedError(InboxFullError):
    """No run reads at present. The batch was not and will not be accepted."""

    def __init__(self) -> None:
        super().__init__("events must be sent while a release goes on, got some while none does")


@dataclass
class Ticket:
    """Ticket that the sender of a batch waits for. `done` when the batch is durable."""

    is_duplicate: bool  # true if a batch of that key was accepted before
    records: int  # records accepted from the batch, then or now
    done: Future[None] = field(default_factory=Future)


class EventInbox(StreamingSource, Protocol):
    """Source that accepts batches of events from any thread."""

    @property
    def is_durable(self) -> bool:
        """True if a completed ticket means that the batch is durable."""
        ...

    @property
    def totals(self) -> tuple[int, int] | None:
        """Accepted batches and uncommitted bytes; None if nothing is counted."""
        ...

    def put(self, key: str | None, lines: bytes, *, records: int = 0, substitute: bytes | None = None) -> Ticket:
        """Accept a batch of JSON lines; raise InboxFullError if there is no capacity."""
        ...

    def withdraw(self, ticket: Ticket) -> bool:
        """Remove a batch that waits. Return whether it was removed."""
        ...

    def find_status(self, key: str) -> BatchStatus: ...


@dataclass
class _Batch:
    key: bytes  # the hash of its key
    number: int
    lines: bytes = field(repr=False)
    records: int  # accepted records, as the sender counts
    tickets: list[Ticket]
    is_remembered: bool = True  # true if the key is remembered after the commit
    entry: bytes = b""  # entry of the position, once the batch was read


class Inbox(StreamingSource):
    """Live source without replay. Any thread puts batches in, one thread reads them."""

    replayable = False
    is_durable = True  # true: a batch is durable when its sender is notified

    max_batches = MAX_KEYS
    min_key_slots = MIN_KEY_SLOTS
    max_dropped_records = MAX_DROPPED_RECORDS

    def __init__(
        self, *, key_ttl: int, max_waiting_bytes: int, now: Callable[[], int], max_keys: int | None = None
    ) -> None:
        self._max_keys = max_keys  # maximum of remembered keys: a new one replaces the oldest
        self._key_ttl, self._max_waiting_bytes, self._now = key_ttl, max_waiting_bytes, now
        self._lock = Lock()
        self._waiting: dict[bytes, _Batch] = {}  # exact: sent, not read
        self._uncommitted: dict[bytes, _Batch] = {}  # exact: read, not committed
        self._committed_keys: dict[bytes, bytes] = {}  # exact: hashes of committed keys, and their entries
        self._pending_bytes = 0  # bytes of batches that are not committed
        self._batch_count = 0  # batches accepted so far
        self._round_end = 0  # number of the last batch of this round of reading
        self._offset = 0
        self._is_closed = False
        self.is_paused = False  # true if no run reads at present

    def put(self, key: str | None, lines: bytes, *, records: int = 0, substitute: bytes | None = None) -> Ticket:
        """Accept a batch of JSON lines, unless its key is known.

        A batch without a key is never identified with another, nor remembered. If `substitute` replaces a known batch,
        the sender cannot distinguish it from a new one.

        Raises:
            InboxFullError: There is no capacity.
        """
        digest = draw_key_digest() if key is None else hash_key(key)
        with self._lock:
            before = self._find_records(digest)
            ticket = Ticket(before is not None, records if before is None else before)
            if ticket.is_duplicate and substitute is not None:
                digest, key, lines = draw_key_digest(), None, substitute
            if digest in self._committed_keys:
                ticket.done.set_result(None)
            elif self._is_closed:
                raise InboxFullError(CLOSED_MESSAGE)
            elif self.is_paused:
                raise InboxPausedError
            elif under_way := self._find_pending(digest):
                under_way.tickets.append(ticket)
            else:
                self._enqueue(digest, lines, ticket, is_remembered=key is not None)
        return ticket

    def withdraw(self, ticket: Ticket) -> bool:
        """Return False: several senders may wait for a batch with a key."""
        return False

    def find_status(self, key: str) -> BatchStatus:
        """Return the status of a batch, as far as its key is remembered."""
        digest = hash_key(key)
        with self._lock:
            if digest in self._committed_keys:
                return "committed"
            return "waiting" if self._find_pending(digest) else "unknown"

    def _find_records(self, digest: bytes) -> int | None:
        """Return how many records of a known or pending batch were accepted, or None."""
        if entry := self._committed_keys.get(digest):
            return int(ENTRY_STRUCT.unpack(entry)[1])
        under_way = self._find_pending(digest)
        return None if under_way is None else under_way.records

    def _find_pending(self, digest: bytes) -> _Batch | None:
        return self._waiting.get(digest) or self._uncommitted.get(digest)

    @property
    def totals(self) -> tuple[int, int]:
        return self._batch_count, self._pending_bytes

    @property
    def at_end(self) -> bool:
        """True if all batches present at the start of this round of reading were read."""
        with self._lock:
            return self._at_end

    @property
    def has_waiters(self) -> bool:
        return bool(self._waiting)

    @property
    def is_exhausted(self) -> bool:
        return self._is_closed

    def read(self) -> Block | None:
        """Return waiting batches, as many as one query should have.

        They are committed together or not at all.
        """
        with self._lock:
            if self._at_end:
                self._round_end = self._batch_count
            batches = list(self._next_batches())
            for batch in batches:
                batch.entry = ENTRY_STRUCT.pack(batch.key, batch.records, self._now())
                self._uncommitted[batch.key] = self._waiting.pop(batch.key)
        return self._build_block(batches) if batches else None

    def position(self) -> bytes:
        """Return the keys of all batches that were read, padded with a few random digests."""
        with self._lock:
            entries = [*self._committed_keys.values(), *(batch.entry for batch in self._uncommitted.values())]
        room = max(self.min_key_slots, 1 << max(0, len(entries) - 1).bit_length())
        return (COUNT_STRUCT.pack(MAGIC, len(entries)) + b"".join(entries)).ljust(
            COUNT_STRUCT.size + room * ENTRY_STRUCT.size
        )

    def resume(self, position: bytes | None) -> None:
        """Start a run whose state includes exactly the batches up to a position."""
        with self._lock:
            self._committed_keys = {} if position is None else parse_entries(position)
            again = {**self._uncommitted, **self._waiting}
            self._uncommitted = {}
            self._waiting = {key: batch for key, batch in again.items() if key not in self._committed_keys}
            self._round_end, self.is_paused = 0, False
            found = [batch for key, batch in again.items() if key in self._committed_keys]
            self._release_bytes(found)
        for ticket in [ticket for batch in found for ticket in batch.tickets]:
            ticket.is_duplicate = True
            resolve_ticket(ticket)

    def commit(self, closed_until: int = 0) -> None:
        """Acknowledge all read batches, and forget keys by the closed ticks.

        All ticks that end by `closed_until`, in microseconds, are closed.
        """
        with self._lock:
            done = list(self._uncommitted.values())
            self._committed_keys |= {batch.key: batch.entry for batch in done if batch.is_remembered}
            self._uncommitted = {}
            self._release_bytes(done)
            self._forget_keys(closed_until)
        for batch in done:
            for ticket in batch.tickets:
                resolve_ticket(ticket)

    def pause(self) -> None:
        """Accept and read nothing until a run begins; reject waiting senders.

        Batches that were read are committed.
        """
        with self._lock:
            self.is_paused = True
            left = list(self._waiting.values())
            self._release_bytes(left)
            self._waiting = {}
        for ticket in [ticket for batch in left for ticket in batch.tickets]:
            resolve_ticket(ticket, InboxPausedError())

    def close(self) -> None:
        """Accept and read nothing more; reject waiting senders.

        Batches that were read may still be committed.
        """
        with self._lock:
            self._is_closed = True
            left = [*self._uncommitted.values(), *self._waiting.values()]
            tickets = [ticket for batch in left for ticket in batch.tickets]
            self._release_bytes(list(self._waiting.values()))
            self._waiting = {}
            for batch in left:
                batch.tickets = []
        for ticket in tickets:
            resolve_ticket(ticket, InboxFullError(CLOSED_MESSAGE))

    @property
    def _at_end(self) -> bool:
        first = next(iter(self._waiting.values()), None)
        return first is None or first.number > self._round_end

    def _enqueue(self, digest: bytes, lines: bytes, ticket: Ticket, *, is_remembered: bool) -> None:
        if len(self._committed_keys) + len(self._uncommitted) + len(self._waiting) >= self.max_batches:
            raise InboxFullError(f"batches must be at most {self.max_batches:,} at a time, send fewer, larger ones")
        if self._pending_bytes + len(lines) > self._max_waiting_bytes:
            raise InboxFullError(f"events that wait must be at most {self._max_waiting_bytes:,} bytes, got more")
        self._batch_count += 1
        self._pending_bytes += len(lines)
        self._waiting[digest] = _Batch(digest, self._batch_count, lines, ticket.records, [ticket], is_remembered)

    def _next_batches(self) -> Iterator[_Batch]:
        length = 0
        for batch in self._waiting.values():
            length += len(batch.lines)
            if batch.number > self._round_end or (length > BLOCK_BYTES and length > len(batch.lines)):
                return
            yield batch

    def _build_block(self, batches: Sequence[_Batch]) -> Block:
        begin, data, dropped = self._offset, [], list[DroppedRecord]()
        for batch in batches:
            block = clean_batch(batch.lines, self._offset)
            data.append(block.data)
            dropped += block.dropped_records[: self.max_dropped_records - len(dropped)]
            self._offset += len(batch.lines)
        return Block(b"".join(data), begin, tuple(dropped))

    def _release_bytes(self, batches: Sequence[_Batch]) -> None:
        self._pending_bytes -= sum(len(batch.lines) for batch in batches)

    def _forget_keys(self, closed: int) -> None:
        """Forget the keys of batches that can no longer be counted, oldest first.

        The keys are in the order in which they were read.
        """
        entries = self._committed_keys.values()
        over = takewhile(lambda entry: ENTRY_STRUCT.unpack(entry)[2] + self._key_ttl < closed, entries)
        for key, _, _ in map(ENTRY_STRUCT.unpack, list(over)):
            del self._committed_keys[key]
        many = 0 if self._max_keys is None else max(0, len(self._committed_keys) - self._max_keys)
        for key in list(islice(self._committed_keys, many)):
            del self._committed_keys[key]


def build_inbox(file: PipelineFile, now: Callable[[], int]) -> Inbox:
    """Return the inbox of a stream.

    The inbox remembers a key until no event of its batch can be counted. An event is counted in a tick that begins
    `allowed_earliness` after it was read, at the latest. Clocks may disagree by a tick. Reports may come from
    anyone, and a report that is counted twice is no more than two reports. One sender's keys must not displace
    others, so only the newest are remembered.
    """
    stream, max_waiting_bytes = file.stream, file.server.max_buffer
    if stream.has_reports:
        return Inbox(
            key_ttl=RESEND_MICROSECONDS, max_waiting_bytes=max_waiting_bytes, now=now, max_keys=MAX_REPORT_KEYS
        )
    carried = DAY if stream.late == "next_tick" else 0
    remembered = stream.allowed_earliness + stream.tick + carried
    return Inbox(key_ttl=remembered, max_waiting_bytes=max_waiting_bytes, now=now)


def hash_key(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()[:DIGEST_BYTES]


def draw_key_digest() -> bytes:
    """Draw a random digest that belongs to no key."""
    return read_system_key()[:DIGEST_BYTES]


def parse_entries(position: bytes) -> dict[bytes, bytes]:
    """Return the entries of a position; reject a position of another source."""
    magic, count = COUNT_STRUCT.unpack_from(position)
    if magic != MAGIC:
        raise ValueError("position must be of an inbox, got another")
    entries = (
        position[at : at + ENTRY_STRUCT.size] for at in range(COUNT_STRUCT.size, len(position), ENTRY_STRUCT.size)
    )
    return {entry[:DIGEST_BYTES]: entry for _, entry in zip(range(count), entries, strict=False)}


def resolve_ticket(ticket: Ticket, error: Exception | None = None) -> None:
    """Resolve the ticket of a batch, unless its sender has stopped waiting."""
    if ticket.done.set_running_or_notify_cancel():
        if error is None:
            ticket.done.set_result(None)
        else:
            ticket.done.set_exception(error)
