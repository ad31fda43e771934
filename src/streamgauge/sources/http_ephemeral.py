"""Inbox of a pan-private pipeline: events pass through, and nothing is stored.

    put -> waiting -> read, and answered: "durable": false

A batch waits until the run's next round reads it, and is dropped as it is read. There are no keys: a batch that is sent
again is counted again. If the run crashes, batches that were read since the end of the last tick are lost.

**Promise.** A batch is read or withdrawn, never both: one lock decides. A ticket that ends with an exception
belongs to a batch that was not read and never will be.

**Privacy.** A waiting batch is in transit, as in a socket: an intruder at that moment sees it. This module remembers
nothing of a batch that was read: no key, no number of batches or bytes, no position.
"""

from collections import deque
from collections.abc import Callable
from threading import Lock

from streamgauge.interfaces import StreamingSource
from streamgauge.records.blocks import Block
from streamgauge.sources.http import (
    CLOSED_MESSAGE,
    BatchStatus,
    InboxFullError,
    InboxPausedError,
    Ticket,
    resolve_ticket,
)
from streamgauge.sources.line_reader import BLOCK_BYTES, clean_batch


class EphemeralInbox(StreamingSource):
    """Live source without replay. Any thread puts batches in, one thread reads them."""

    replayable = False
    is_durable = False
    totals = None  # a number of batches would be a memory of them

    def __init__(self, *, max_waiting_bytes: int) -> None:
        self._max_waiting_bytes = max_waiting_bytes
        self._lock = Lock()
        self._waiting: deque[tuple[bytes, Ticket]] = deque()  # exact: sent, not read
        self._round_size = 0  # batches that waited at the start of this round of reading
        self._is_closed = False
        self.is_paused = False  # true if no run reads at present

    def put(self, key: str | None, lines: bytes, *, records: int = 0, substitute: bytes | None = None) -> Ticket:
        """Accept a batch of JSON lines and ignore its key.

        Raises:
            InboxFullError: There is no capacity.
        """
        ticket = Ticket(is_duplicate=False, records=0)
        with self._lock:
            if self._is_closed:
                raise InboxFullError(CLOSED_MESSAGE)
            if self.is_paused:
                raise InboxPausedError
            if sum(len(waiting) for waiting, _ in self._waiting) + len(lines) > self._max_waiting_bytes:
                raise InboxFullError(f"events that wait must be at most {self._max_waiting_bytes:,} bytes, got more")
            self._waiting.append((lines, ticket))
        return ticket

    def withdraw(self, ticket: Ticket) -> bool:
        """Remove a waiting batch. Return False if it was read or is being read."""
        with self._lock:
            for place, (_, waiting) in enumerate(self._waiting):
                if waiting is ticket:
                    del self._waiting[place]
                    self._round_size -= place < self._round_size
                    return True
        return False

    def find_status(self, key: str) -> BatchStatus:
        """Return `untracked`: no record of any batch exists."""
        return "untracked"

    @property
    def at_end(self) -> bool:
        """True if all batches present at the start of this round of reading were read."""
        return self._round_size == 0

    @property
    def has_waiters(self) -> bool:
        return bool(self._waiting)

    @property
    def is_exhausted(self) -> bool:
        return self._is_closed

    def read(self) -> Block | None:
        """Return waiting batches for one query, and resolve their tickets."""
        with self._lock:
            self._round_size = self._round_size or len(self._waiting)
            taken = self._next_batches()
            self._round_size -= len(taken)
        try:
            return build_block([lines for lines, _ in taken]) if taken else None
        finally:  # also after a failure: no sender may wait for ever
            for _, ticket in taken:
                resolve_ticket(ticket)

    def position(self) -> bytes:
        return b""

    def resume(self, position: bytes | None) -> None:
        """Continue with the waiting batches."""
        self._round_size, self.is_paused = 0, False

    def pause(self) -> None:
        """Accept and read nothing until a run begins; reject waiting senders."""
        self.is_paused = True
        self._reject_waiting(InboxPausedError)

    def close(self) -> None:
        """Accept and read nothing more; reject waiting senders."""
        self._is_closed = True
        self._reject_waiting(lambda: InboxFullError(CLOSED_MESSAGE))

    def _reject_waiting(self, build_error: Callable[[], InboxFullError]) -> None:
        with self._lock:
            self._round_size = 0
            left = [ticket for _, ticket in self._waiting]
            self._waiting.clear()
        for ticket in left:
            resolve_ticket(ticket, build_error())

    def _next_batches(self) -> list[tuple[bytes, Ticket]]:
        found: list[tuple[bytes, Ticket]] = []
        length = 0
        while len(found) < self._round_size and (not found or length + len(self._waiting[0][0]) <= BLOCK_BYTES):
            found.append(self._waiting.popleft())
            length += len(found[-1][0])
        return found


def build_block(batches: list[bytes]) -> Block:
    """Return the clean lines of batches, each cleaned by itself.

    The block has no trace of dropped records.
    """
    return Block(b"".join(clean_batch(batch).data for batch in batches), 0, ())
