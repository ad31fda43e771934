"""Connections: HTTP/1.1 with a bound on everything that a client can do slowly.

    the head of a request      HEAD_SECONDS from the first moment it is waited for
    a body that nobody reads   the same, after the reply
    a reply that nobody takes  TAKEN_SECONDS that it may stand still
    connections                as many as `doors` has room for

Bodies that are read have a time of their own (`bodies`). What is no HTTP at all gets our own error, and so
does a head that another parser may read differently (`strict_heads`).

**Privacy.** How many batches came is data, and when, and with which heads. So nothing here counts requests:
the server's own number of them is kept at 0, and names of tasks have none. A request that was answered is let
go with its head, though its connection stays open for another.
"""

import asyncio
import json
import socket
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamgauge.server.doors import BESIDES, Doors
from streamgauge.server.strict_heads import make_strict

HEAD_SECONDS = 10.0
TAKEN_SECONDS = 10.0
TASK = "task"
NO_HTTP = {"error": {"code": "malformed", "message": "request must be HTTP/1.1, got something else"}}


def unnumbered(loop: asyncio.AbstractEventLoop, work: Any, **settings: Any) -> asyncio.Task[Any]:
    """A task: without a name it would get a number, of all that there were."""
    name = settings.pop("name", None) or TASK
    return asyncio.Task(work, loop=loop, name=name, **settings)


def send_at_once(transport: asyncio.BaseTransport) -> None:
    """Set TCP_NODELAY: else the body of a reply waits for the client's delayed acknowledgement of its head.

    asyncio sets it for sockets of protocol 6 only, and `socket.create_server` makes one of protocol 0.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class Connection(H11Protocol):
    """uvicorn's own protocol, with clocks and a door, and no memory."""

    def __init__(self, *told: Any, doors: Doors | None = None, **settings: Any) -> None:
        super().__init__(*told, **settings)
        make_strict(self.conn)
        self.doors = doors or Doors(BESIDES, BESIDES)
        self._heads: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        send_at_once(transport)
        self.loop.set_task_factory(unnumbered)
        if self.doors.enter(self, self.client[0] if self.client else ""):
            self._watch()
        else:
            self.give_way()

    def give_way(self) -> None:
        """There is no room for it."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.DONE:
            self._forget()
        super().on_response_complete()
        self.server_state.total_requests = 0
        self._watch()

    def _forget(self) -> None:
        """Lets a request go that came whole, before the next one is begun."""
        self.scope, self.cycle, self.headers = None, None, []  # type: ignore[assignment]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.doors.leave(self)
        self._stop_heads()
        self._stop_taking()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._taking is None:
            self._taking = self.loop.call_later(TAKEN_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_taking()

    def _watch(self) -> None:
        """The clock runs while no request is at work: its head is not whole, or its reply is over.

        Who has not sent the whole of a body is waited for too, as far as doors are concerned.
        """
        between = self.conn.their_state is h11.IDLE or self.conn.our_state is h11.DONE
        if between or self.conn.their_state is h11.SEND_BODY:
            self.doors.waits(self)
        else:
            self.doors.works(self)
        if not between:
            self._stop_heads()
        elif self._heads is None:
            self._heads = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # a reply has begun: no other can
            return
        body = json.dumps(NO_HTTP).encode()
        headers = [
            ("content-type", "application/json"),
            ("connection", "close"),
            ("content-length", str(len(body))),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _stop_heads(self) -> None:
        if self._heads is not None:
            self._heads.cancel()
            self._heads = None

    def _stop_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
