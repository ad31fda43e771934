"""Events that are sent to the server of a pan-private pipeline: they pass through, and nothing is kept.

    put -> waiting -> read, and answered: "durable": false

A batch waits until the run's next round reads it; it is let go as it is read. There are no keys: a batch that
is sent again is counted again. What was read since the last tick's end is lost if the run dies.

**Promise.** A batch is read or withdrawn, never both: one lock decides. A ticket that ends with an exception
is of a batch that was not read and never will be.

**Privacy.** What waits is on its way, as in a socket: who looks then sees it. Nothing here remembers what was
read: no key, no number of batches or bytes, no position.
"""

from collections import deque
from itertools import chain
from threading import Lock

from streamgauge.query.blocks import Block
from streamgauge.query.source_schema import SourceSchema
from streamgauge.sources.inbox import Fate, InboxClosed, InboxFull, NotRead, Ticket, resolved
from streamgauge.sources.lines import BLOCK, Lines
from streamgauge.sources.opening import Opening


class PassingInbox:
    """A live source that cannot be replayed. Batches are put into it by any thread, and read by one."""

    replayable = False
    header = None
    durable = False

    def __init__(self, *, most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._lock = Lock()
        self._waiting: deque[tuple[bytes, Ticket]] = deque()  # exact: sent, not read
        self._round = 0  # how many of those that wait were there when this round of reading began
        self._closed = False
        self._resting = False  # whether nobody reads for now

    def put(self, key: str, lines: bytes) -> Ticket:
        """Takes a batch of JSON lines, whatever its key; raises InboxFull if there is no room."""
        ticket = Ticket(repeated=False, records=0)
        with self._lock:
            if self._closed:
                raise InboxClosed
            if self._resting:
                raise NotRead
            if self._bytes + len(lines) > self._most_waiting:
                raise InboxFull(f"events that wait must be at most {self._most_waiting:,} bytes, got more")
            self._waiting.append((lines, ticket))
        return ticket

    def withdraw(self, ticket: Ticket) -> bool:
        """Remove a batch that waits. Return whether it was removed: else it was read, or is being read."""
        with self._lock:
            for place, (_, waiting) in enumerate(self._waiting):
                if waiting is ticket:
                    del self._waiting[place]
                    self._round -= place < self._round
                    return True
        return False

    def fate(self, key: str) -> Fate:
        """Return `untracked`: no record of any batch exists."""
        return "untracked"

    @property
    def caught_up(self) -> bool:
        """Whether all was read that was there when this round of reading began."""
        return self._round == 0

    @property
    def pressing(self) -> bool:
        return bool(self._waiting)

    @property
    def ended(self) -> bool:
        return self._closed

    def read(self) -> Block | None:
        """Batches that wait, as many as one query should have; their senders are told."""
        with self._lock:
            self._round = self._round or len(self._waiting)
            taken = self._next()
            self._round -= len(taken)
        try:
            return block_of([lines for lines, _ in taken]) if taken else None
        finally:  # also if it fails: no sender may wait for ever
            for _, ticket in taken:
                resolved(ticket)

    def schemas(self) -> tuple[SourceSchema, ...]:
        """Return nothing: batches are JSON lines."""
        return ()

    def position(self) -> bytes:
        return b""

    def resume(self, position: bytes | None) -> None:
        """Goes on with what waits."""
        self._round, self._resting = 0, False

    def committed(self, closed: int = 0) -> None:
        """Nobody was promised anything."""

    def rest(self) -> None:
        """Nothing is taken or read until a run begins; whoever waits is told."""
        self._resting = True
        self._turn_away(NotRead)

    def close(self) -> None:
        """Nothing more is taken or read; whoever waits is told."""
        self._closed = True
        self._turn_away(InboxClosed)

    def _turn_away(self, why: type[InboxClosed] | type[NotRead]) -> None:
        with self._lock:
            self._round = 0
            left = [ticket for _, ticket in self._waiting]
            self._waiting.clear()
        for ticket in left:
            resolved(ticket, why())

    @property
    def _bytes(self) -> int:
        return sum(len(lines) for lines, _ in self._waiting)

    def _next(self) -> list[tuple[bytes, Ticket]]:
        found: list[tuple[bytes, Ticket]] = []
        length = 0
        while len(found) < self._round and (not found or length + len(self._waiting[0][0]) <= BLOCK):
            found.append(self._waiting.popleft())
            length += len(found[-1][0])
        return found


def block_of(batches: list[bytes]) -> Block:
    """Clean lines of batches, each by itself; what is dropped is not looked at again."""
    opening = Opening("a batch", has_header=False)
    opening.read(b"", ended=True)
    data = []
    for batch in batches:
        lines = Lines(opening)
        data += [block.data for block in chain(lines.feed(batch), lines.finish())]
    return Block(b"".join(data), 0, ())
