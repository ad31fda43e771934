"""One worker thread for reads of rows, shared fairly by all clients.

    request > own queue of its client > worker > rest > next client

Encoding rows is work in Python, which the run's thread waits for. So the worker does one piece of work at a
time, whatever the number of requests. After each piece it rests for as long as that took, times
REST_FACTOR. Each client has at most one piece in the queue of the worker, so clients take turns.

Privacy
    The pace follows from the worker's own processor time, which is spent on published rows alone.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from anyio import CapacityLimiter, to_thread

REST_FACTOR = 3.0

Result = TypeVar("Result")


@dataclass
class ClientQueue:
    """The requests of one client, of which one is in the queue of the worker."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    size: int = 0


class ReadWorker:
    """Runs functions that read rows, in one thread. Belongs to one event loop."""

    def __init__(
        self,
        *,
        now: Callable[[], float] = time.monotonic,
        processor_time: Callable[[], float] = time.thread_time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._now, self._processor_time, self._sleep = now, processor_time, sleep
        self._queues: dict[str, ClientQueue] = {}
        self._idle, self._limiter = asyncio.Lock(), CapacityLimiter(1)
        self._next = 0.0  # when the rest is over

    async def run(self, client: str, work: Callable[[], Result]) -> Result:
        """Return the result of a function, which runs when its client's turn has come."""
        queue = self._queues.setdefault(client, ClientQueue())
        queue.size += 1
        try:
            async with queue.lock, self._idle:
                await self._sleep(max(0.0, self._next - self._now()))
                return await to_thread.run_sync(self._measure, work, limiter=self._limiter)
        finally:
            queue.size -= 1
            if not queue.size:
                del self._queues[client]

    def _measure(self, work: Callable[[], Result]) -> Result:
        begun = self._processor_time()
        try:
            return work()
        finally:
            self._next = self._now() + REST_FACTOR * (self._processor_time() - begun)
