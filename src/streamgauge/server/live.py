"""GET /api/live: ticks as they leave, as server-sent events.

    id: 41.9f86d081
    event: release
    data: {"release":"fever","tick":37,...}

    release    one tick in the columns form                     ledger    a release was charged, or ended
    status     how the run is; first, and when it changes       reset     the last id is of another history

Promise
    Who comes back with the last id it saw (Last-Event-ID, or ?after=) gets every event after it, once:
    an id is a place in the history with the hash of that history, events are sent in the order of their
    places, and every message carries the place that was reached; what was filtered out counts as sent.

    One reader cannot hold others up: who does not take what it is sent for PATIENCE seconds, or falls
    MOST_BEHIND events behind meanwhile, is dropped, and may come back. What follows a place is encoded once
    for all.

    A stream ends with what let its reader in: within LOOK seconds after a token was revoked or a session is
    over.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Protocol

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from streamgauge.server.board import Board, Event, message
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.read_worker import ReadWorker
from streamgauge.server.roles import Person, address, always
from streamgauge.server.runner import Runner

BEAT = 15.0  # seconds of silence
LOOK = 2.0  # seconds after which it is looked whether a reader may go on
PATIENCE = 10.0
MOST_BEHIND = 1000  # events that leave while one is being taken
AT_ONCE = 64  # events of one write

Read = Callable[[Callable[[], list[Event]]], Awaitable[list[Event]]]  # runs a function that reads rows

_ID = re.compile(r"([0-9]{1,18})\.([0-9a-f]{8})")


class Limited(Protocol):
    """Who may have how many live connections."""

    def live(self, client: str) -> AbstractContextManager[None]: ...


class Dropped(Exception):  # noqa: N818 - named for what it is
    """A reader that is too slow."""


def routes(runner: Runner, limits: Limited, worker: ReadWorker | None = None) -> list[Route]:
    reads = worker or ReadWorker()

    async def live(request: Request) -> Response:
        names = frozenset(request.query_params.getlist("release"))
        known = {release.name for release in runner.file.releases}
        if names - known and names - known - await run_in_threadpool(runner.names):
            raise HttpRefusal(404, "not_found", "release must be one that was charged, got another")
        held = ExitStack()
        person: Person | None = request.scope.get("person")
        client = client_of(request, person)
        held.enter_context(limits.live(client))
        last = request.headers.get("last-event-id") or request.query_params.get("after") or ""
        still = always if person is None else person.still
        line = Line(runner.board, names, last, partial(reads.run, client))
        return LiveResponse(line, held, still)

    return [Route("/api/live", live, name="live")]


def client_of(request: Request, person: Person | None) -> str:
    """As whom somebody is counted: as who was let in at the door, or by address."""
    return str(address(request) if person is None else person.client)


class Line:
    """How far one reader is."""

    def __init__(self, board: Board, names: frozenset[str], last: str, read: Read) -> None:
        self.board, self.names, self.last, self.read = board, names, last, read
        self.place, self.id, self.acts, self.state = 0, "", 0, ""

    async def begin(self) -> bytes:
        """Where to begin: after the last id if it is known, else now."""
        sent, told = self.board.sent, _ID.fullmatch(self.last)
        self.place, self.id, self.acts = sent.place, sent.id, sent.acts
        if told is not None and await run_in_threadpool(self.board.knows, int(told[1]), told[2]):
            self.place, self.id = int(told[1]), self.last
            return b"retry: 1000\n\n"
        return b"retry: 1000\n\n" + (message("reset", {}, self.id) if self.last else b"")

    async def news(self) -> bytes:
        """What there is to send, at most a write's worth; nothing if all was sent."""
        told, sent, state = [], self.board.sent, self.board.state
        if self.place < sent.place:
            told += [event.data for event in await self._next() if self._wants(event)]
        if state != self.state:
            self.state = state
            told.append(message("status", {"state": state}, self.id))
        if sent.acts != self.acts:
            self.acts = sent.acts
            told.append(message("ledger", {"acts": sent.acts}, self.id))
        return b"".join(told)

    @property
    def behind(self) -> bool:
        return self.place < self.board.sent.place

    async def _next(self) -> list[Event]:
        events = self.board.kept(self.place, AT_ONCE)
        if events is None:
            events = await self.read(partial(self.board.stored, self.place, AT_ONCE))
        self.place, self.id = events[-1].place, events[-1].id
        return events

    def _wants(self, event: Event) -> bool:
        return not self.names or event.release in self.names


class LiveResponse(Response):
    """A reply that goes on until the reader leaves, is dropped or may read no more, or the server stops."""

    media_type = "text/event-stream"

    def __init__(self, line: Line, held: ExitStack, still: Callable[[], bool] = always) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self.line, self.held, self.still = line, held, still

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self.held:
            if scope["method"] == "HEAD":
                await self._start(send)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
                return
            talking = asyncio.ensure_future(self._talk(send))
            leaving = asyncio.ensure_future(_left(receive))
            try:
                await asyncio.wait([talking, leaving], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (talking, leaving):
                    task.cancel()
                ended = await asyncio.gather(talking, leaving, return_exceptions=True)
        if isinstance(ended[0], Exception) and not isinstance(ended[0], Dropped):
            raise ended[0]

    async def _start(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})

    async def _talk(self, send: Send) -> None:
        line, board, silent = self.line, self.line.board, 0.0
        await self._start(send)
        await self._send(send, await line.begin())
        while self.still():
            version, closed, look = board.version, board.closed, min(LOOK, BEAT)
            news = await line.news()
            if not news and silent >= BEAT:
                news = b": beat\n\n"
            if news:
                silent = 0.0
                await self._send(send, news)
            elif line.behind:
                continue
            elif closed:
                break
            elif not await board.after(version, look):
                silent += look
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send(self, send: Send, data: bytes) -> None:
        board = self.line.board
        before = board.sent.place
        try:
            async with asyncio.timeout(PATIENCE):
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except TimeoutError:
            raise Dropped from None
        if board.sent.place - before > MOST_BEHIND:
            raise Dropped


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
