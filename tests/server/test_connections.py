"""Connections: a slow client is disconnected, in whichever direction it is slow."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.server import ServerState

from streamgauge.server.http.connections import HttpConnection
from streamgauge.server.http.serving import PortUnavailableError, build_url, capture_logs, open_listener, serve_app
from streamgauge.server.tuning import Tuning

GET = b"GET / HTTP/1.1\r\nHost: here\r\n"
LONG = 64 * 2**20


async def short(request: Request) -> Response:
    return PlainTextResponse("here")


async def long(request: Request) -> Response:
    return Response(bytes(LONG))


HASTY = Tuning(head_timeout_seconds=0.1, write_timeout_seconds=0.1)


@contextmanager
def serving(*routes: Route, tuning: Tuning = HASTY, **settings: Any) -> Iterator[tuple[Any, list[str]]]:
    """Serve routes on loopback until the end of the block."""
    stop, said, ended = Flag(), list[str](), list[bool]()
    app = Starlette(routes=[Route("/", short, methods=["GET", "POST"]), Route("/long", long), *routes])
    with open_listener(port=0) as listener:
        where = listener.getsockname()
        settings |= {"on_stop": lambda: ended.append(True), "log": said.append, "tuning": tuning}
        thread = Thread(target=serve_app, args=(app, listener, stop), kwargs=settings)
        thread.start()
        try:
            yield where, said
        finally:
            stop.set()
            thread.join()
    assert ended == [True]


def everything(line: socket.socket) -> bytes:
    """Return all bytes until the server closes the connection."""
    found = b""
    try:
        while part := line.recv(2**16):
            found += part
    except ConnectionResetError:
        pass
    return found


class HastyAfterReply(HttpConnection):
    """A connection with a short timeout from its first reply on, so that the reply itself is never late."""

    def on_response_complete(self) -> None:
        self.tuning = HASTY
        super().on_response_complete()


PATIENT: dict[str, Any] = {"tuning": Tuning(head_timeout_seconds=30.0), "connection": HastyAfterReply}


@pytest.mark.parametrize("begun", [b"", b"G", GET, GET + b"X-Slow: "])
def test_head_that_is_incomplete_at_timeout_ends_connection(begun: bytes) -> None:
    with serving() as (where, _), socket.create_connection(where, timeout=30) as line:
        line.sendall(begun)
        assert everything(line) == b""


def test_second_head_has_its_own_time() -> None:
    with serving(**PATIENT) as (where, _), socket.create_connection(where, timeout=30) as line:
        line.sendall(GET + b"\r\n" + GET)
        assert everything(line).endswith(b"here")


def test_unread_body_ends_the_connection() -> None:
    with serving(**PATIENT) as (where, _), socket.create_connection(where, timeout=30) as line:
        line.sendall(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\nabc")
        assert everything(line).endswith(b"here")


def test_reply_that_is_not_read_ends_the_connection() -> None:
    ended = Flag()

    class Watched(HttpConnection):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            ended.set()

    with serving(connection=Watched) as (where, _), socket.socket() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.settimeout(30)
        line.connect(where)
        line.sendall(b"GET /long HTTP/1.1\r\nHost: here\r\n\r\n")
        assert ended.wait(30)
        assert len(everything(line)) < LONG


class Hand:
    """An event loop and a transport for tests. It stores timers and never runs them."""

    def __init__(self) -> None:
        self.clocks: list[Hand] = []
        self.after, self.cancelled, self.closed = 0.0, False, False

    def call_later(self, after: float, call: Any) -> "Hand":
        clock = Hand()
        clock.after = after
        self.clocks.append(clock)
        return clock

    def cancel(self) -> None:
        self.cancelled = True

    def create_task(self, work: Any) -> "Hand":
        work.close()
        return Hand()

    def running(self) -> int:
        return sum(not clock.cancelled for clock in self.clocks)

    def __getattr__(self, name: str) -> Any:
        return lambda *details: None


def test_timers_run_for_incomplete_heads_and_blocked_writes_only() -> None:
    loop = Hand()
    config = uvicorn.Config(short, log_config=None, lifespan="off")
    config.load()
    line = HttpConnection(config, ServerState(), {}, _loop=loop)  # type: ignore[arg-type]
    line.connection_made(Hand())  # type: ignore[arg-type]
    assert loop.running() == 1
    line.data_received(GET)
    line.data_received(b"X-Slow: ")
    assert (loop.running(), len(loop.clocks)) == (1, 1)
    line.data_received(b"no\r\n\r\n")
    assert loop.running() == 0
    line.pause_writing()
    line.pause_writing()
    assert loop.running() == 1
    line.resume_writing()
    assert loop.running() == 0


def test_unhandled_exception_is_logged_without_its_message(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", "uvicorn.error")  # as another server of the same process may have done

    async def broken(request: Request) -> Response:
        raise ValueError("patient 4711")

    with serving(Route("/broken", broken)) as (where, said), socket.create_connection(where, timeout=30) as line:
        line.sendall(b"GET /broken HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n")
        assert b"4711" not in everything(line)
    assert said == ["server: Exception in ASGI application: ValueError"]


def test_asyncio_error_is_logged_without_its_message(capsys: pytest.CaptureFixture[str]) -> None:
    async def leaking() -> None:
        context = {"message": "patient 4711", "exception": ValueError("patient 4711")}
        asyncio.get_running_loop().call_exception_handler(context)

    said: list[str] = []
    with capture_logs(said.append):
        asyncio.run(leaking())
    assert said == ["server: asyncio: ValueError"]
    assert capsys.readouterr().err == ""


def test_port_in_use_is_refused_with_its_address() -> None:
    with open_listener(port=0) as first:
        port = first.getsockname()[1]
        assert build_url(first) == f"http://127.0.0.1:{port}"
        rule = f"address must be free to listen on, got 127.0.0.1:{port}: address already in use"
        with pytest.raises(PortUnavailableError, match=f"^{rule}$"):
            open_listener(port=port)


def test_unknown_host_is_refused_with_its_name() -> None:
    with pytest.raises(PortUnavailableError, match=r"address must be free to listen on, got no\.such\.host\.invalid:0"):
        open_listener("no.such.host.invalid", 0)
