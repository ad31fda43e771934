"""One worker thread for reads of rows, shared fairly by all clients.

    request > own queue of its client > lane of pages or of downloads > worker > rest

Encoding rows is work in Python, which the run's thread waits for. So the worker does one piece of work at a
time, for any number of requests. After each piece it rests for as long as that took, times REST_FACTOR,
but at most MAX_REST_SECONDS. Each client has at most one piece in each lane, so clients take turns. The lanes
take turns too: a page waits for at most one block of a download, for any number of downloads.

A client that sends requests faster than the worker reads them is refused new ones when MAX_WAITING are in its
queue. Without that bound the queue would grow without end, since requests stay in it after a disconnect.

Privacy
    The pace follows from the worker's own processor time, which is spent on published rows alone.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from anyio import CapacityLimiter, to_thread

from streamgauge.server.http.errors import build_retry_error

REST_FACTOR = 3.0
MAX_REST_SECONDS = 1.0  # also if a piece was long: all clients wait for it
MAX_WAITING_READS = 64  # reads of one client in one lane

Lane = Literal["pages", "downloads"]

Result = TypeVar("Result")


@dataclass
class ClientQueue:
    """The requests of one client for one lane, of which one is in the lane."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    size: int = 0


class ReadWorker:
    """A thread that runs functions that read rows. Belongs to one event loop."""

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.monotonic,
        processor_time: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._now, self._processor_time, self._sleep = now, processor_time, sleep
        self.queues: dict[tuple[Lane, str], ClientQueue] = {}  # each exists as long as one of its reads waits or runs
        self._lanes = {"pages": asyncio.Lock(), "downloads": asyncio.Lock()}
        self._idle, self._limiter = asyncio.Lock(), CapacityLimiter(1)
        self._rest_end = 0.0  # when the rest is over

    async def run(self, client: str, work: Callable[[], Result], lane: Lane = "pages") -> Result:
        """Return the result of a function, which runs when its client's turn has come."""
        queue = self.queues.setdefault((lane, client), ClientQueue())
        queue.size += 1
        try:
            async with queue.lock, self._lanes[lane], self._idle:
                await self._sleep(max(0.0, self._rest_end - self._now()))
                return await to_thread.run_sync(self._run_measured, work, limiter=self._limiter)
        finally:
            queue.size -= 1
            if not queue.size:
                del self.queues[lane, client]

    def check_queue(self, client: str, lane: Lane) -> None:
        """Refuse a new request if too many reads of its client wait already."""
        queue = self.queues.get((lane, client))
        if queue is not None and queue.size >= MAX_WAITING_READS:
            rule = f"reads that wait must be at most {MAX_WAITING_READS} of one client, got one more"
            raise build_retry_error("reads", rule, status=429, seconds=5)

    def _run_measured(self, work: Callable[[], Result]) -> Result:
        begun = self._processor_time()
        try:
            return work()
        finally:
            rest = REST_FACTOR * (self._processor_time() - begun)
            self._rest_end = self._now() + min(rest, MAX_REST_SECONDS)
