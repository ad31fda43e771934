"""GET /api/live: ticks as they are published, as server-sent events.

    id: 41.9f86d081
    event: release
    data: {"release":"fever","tick":37,...}

    release    one tick in the columns form                     ledger    a release was charged or ended
    status     state of the run; first, and when it changes     reset     the last id is of another history

**Promise.** A client that reconnects with its last id (Last-Event-ID, or ?last_event_id=) gets every later event
once. An id is a position in the history with the hash of that history. Events are sent in the order of their
positions, and every message has the current position; filtered events count as sent.

One reader cannot block others. A reader that accepts nothing for `send_timeout_seconds`, or falls
`max_lag_events` events behind, is disconnected, and may reconnect. Each event is encoded once for all readers.

A stream ends at most `rights_poll_seconds` after its token is revoked or its session ends.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import partial

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from streamgauge.server.http.auth import Person, find_client_address, is_always_allowed
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.read_worker import ReadWorker
from streamgauge.server.publishing.feed import EventBuffer, ReleaseEvent, encode_sse
from streamgauge.server.routes.downloads import wait_disconnect
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import Tuning

RunRead = Callable[[Callable[[], list[ReleaseEvent]]], Awaitable[list[ReleaseEvent]]]  # runs a function that reads rows

_EVENT_ID_PATTERN = re.compile(r"([0-9]{1,18})\.([0-9a-f]{8})")


class SlowReaderError(Exception):
    """A reader that is too slow."""


def identify_client(request: Request) -> str:
    """Return the key of a client's limits: its token, or its address."""
    person: Person | None = request.scope.get("person")
    return find_client_address(request) if person is None else person.client


class Subscriber:
    """Position of one live reader."""

    def __init__(
        self, event_buffer: EventBuffer, names: frozenset[str], last_id: str, read: RunRead, tuning: Tuning
    ) -> None:
        self.event_buffer, self.names, self.last_id, self.read = event_buffer, names, last_id, read
        self.tuning = tuning
        self.row_number, self.id, self.entry_count, self.state = 0, "", 0, ""

    async def encode_start(self) -> bytes:
        """Return the first bytes; start after the last id if it is known, else now."""
        sent, last = self.event_buffer.streamed, _EVENT_ID_PATTERN.fullmatch(self.last_id)
        self.row_number, self.id, self.entry_count = sent.row_number, sent.id, sent.entry_count
        if last is not None and await run_in_threadpool(self.event_buffer.is_known_id, int(last[1]), last[2]):
            self.row_number, self.id = int(last[1]), self.last_id
            return b"retry: 1000\n\n"
        return b"retry: 1000\n\n" + (encode_sse("reset", {}, self.id) if self.last_id else b"")

    async def encode_updates(self) -> bytes:
        """Return new events, at most one write of them; empty if there are none."""
        messages, sent, state = [], self.event_buffer.streamed, self.event_buffer.state
        if self.row_number < sent.row_number:
            messages += [event.data for event in await self._read_events() if self._matches(event)]
        if state != self.state:
            self.state = state
            messages.append(encode_sse("status", {"state": state}, self.id))
        if sent.entry_count != self.entry_count:
            self.entry_count = sent.entry_count
            messages.append(encode_sse("ledger", {"entries": sent.entry_count}, self.id))
        return b"".join(messages)

    @property
    def is_behind(self) -> bool:
        return self.row_number < self.event_buffer.streamed.row_number

    async def _read_events(self) -> list[ReleaseEvent]:
        count = self.tuning.max_write_events
        events = self.event_buffer.find_buffered(self.row_number, count)
        if events is None:
            events = await self.read(partial(self.event_buffer.read_stored, self.row_number, count))
        self.row_number, self.id = events[-1].row_number, events[-1].id
        return events

    def _matches(self, event: ReleaseEvent) -> bool:
        return not self.names or event.release in self.names


class LiveRoutes:
    """Route of live readers."""

    subscriber = Subscriber

    def __init__(self, runner: Runner, limits: Limits, worker: ReadWorker, tuning: Tuning | None = None) -> None:
        self.runner, self.limits, self.worker, self.tuning = runner, limits, worker, tuning or runner.tuning

    def routes(self) -> list[Route]:
        return [Route("/api/live", self.stream_events, name="live")]

    async def stream_events(self, request: Request) -> Response:
        """GET /api/live"""
        names = frozenset(request.query_params.getlist("release"))
        unknown = names - {release.name for release in self.runner.file.releases}
        if unknown and unknown - await run_in_threadpool(self.runner.list_names):
            raise HttpError(404, "not_found", "release must be one that was charged, got another")
        slot, client = ExitStack(), identify_client(request)
        slot.enter_context(self.limits.admit_live(client))
        last = request.headers.get("last-event-id") or request.query_params.get("last_event_id") or ""
        person: Person | None = request.scope.get("person")
        is_allowed = is_always_allowed if person is None else person.is_allowed
        read = partial(self.worker.run, client)
        return LiveResponse(self.subscriber(self.runner.event_buffer, names, last, read, self.tuning), slot, is_allowed)


class LiveResponse(Response):
    """A reply that lasts until the reader disconnects, is evicted or loses its right, or the server stops."""

    media_type = "text/event-stream"

    def __init__(
        self, subscriber: Subscriber, slot: ExitStack, is_allowed: Callable[[], bool] = is_always_allowed
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.subscriber, self.slot, self.is_allowed = subscriber, slot, is_allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.slot:
            if scope["method"] == "HEAD":
                await self._start(send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            streaming = asyncio.ensure_future(self._stream(send))
            disconnected = asyncio.ensure_future(wait_disconnect(receive))
            try:
                await asyncio.wait([streaming, disconnected], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (streaming, disconnected):
                    task.cancel()
                ended = await asyncio.gather(streaming, disconnected, return_exceptions=True)
        if isinstance(ended[0], Exception) and not isinstance(ended[0], SlowReaderError):
            raise ended[0]

    async def _start(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

    async def _stream(self, send: Send) -> None:
        subscriber, events, silent = self.subscriber, self.subscriber.event_buffer, 0.0
        heartbeat = subscriber.tuning.heartbeat_seconds
        interval = min(subscriber.tuning.rights_poll_seconds, heartbeat)
        await self._start(send)
        await self._send(send, await subscriber.encode_start())
        while self.is_allowed():
            version, closed = events.version, events.is_closed
            news = await subscriber.encode_updates()
            if not news and silent >= heartbeat:
                news = b": beat\n\n"
            if news:
                silent = 0.0
                await self._send(send, news)
            elif subscriber.is_behind:
                continue
            elif closed:
                break
            elif not await events.wait_newer(version, interval):
                silent += interval
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, data: bytes) -> None:
        events, tuning = self.subscriber.event_buffer, self.subscriber.tuning
        before = events.streamed.row_number
        try:
            async with asyncio.timeout(tuning.send_timeout_seconds):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            raise SlowReaderError from None
        if events.streamed.row_number - before > tuning.max_lag_events:
            raise SlowReaderError
