"""Request heads: ambiguous ones are refused, for every split into packets."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event as Flag
from threading import Thread
from typing import Any

import h11
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from streamgauge.server.http.connections import HttpConnection, set_strict_buffer
from streamgauge.server.http.serving import open_listener, serve_app

HOST = b"Host: here\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
POST = b"POST / HTTP/1.1\r\n" + HOST

LOOSE = {
    "both lengths": POST + CHUNKED + b"Content-Length: 4\r\n\r\n0\r\n\r\n",
    "both lengths, the other order": POST + b"content-length: 4\r\nTRANSFER-ENCODING: chunked\r\n\r\n0\r\n\r\n",
    "chunks in 1.0": b"POST / HTTP/1.0\r\n" + HOST + CHUNKED + b"\r\n0\r\n\r\n",
    "line feeds": b"GET / HTTP/1.1\nHost: here\n\n",
    "one line feed": b"GET / HTTP/1.1\r\nX: a\nHost: here\r\n\r\n",
    "a line feed at the end": b"GET / HTTP/1.1\r\nHost: here\r\n\n",
    "a line feed and CR LF": b"GET / HTTP/1.1\r\nHost: here\n\r\n",
    "a line feed first": b"\nGET / HTTP/1.1\r\n" + HOST + b"\r\n",
    "a folded header": b"GET / HTTP/1.1\r\nX: a\r\n b\r\n" + HOST + b"\r\n",
    "a header folded by a tab": b"GET / HTTP/1.1\r\nX: a\r\n\tb\r\n" + HOST + b"\r\n",
    "a folded length": POST + b"Content-Length:\r\n 4\r\n\r\nabcd",
    "a folded trailer": POST + CHUNKED + b"\r\n0\r\nX: a\r\n b\r\n\r\n",
    "a line feed in a trailer": POST + CHUNKED + b"\r\n0\r\nX: a\n\r\n",
    "a line feed after a chunk's size": POST + CHUNKED + b"\r\n4\nabcd\r\n0\r\n\r\n",
    "a line feed in a chunk's extension": POST + CHUNKED + b"\r\n4;a\nb\r\nabcd\r\n0\r\n\r\n",
    "a chunk without its end": POST + CHUNKED + b"\r\n4\r\nabcdXX0\r\n\r\n",
    "a blank before the colon": POST + b"Content-Length : 4\r\n\r\nabcd",
    "two lengths": POST + b"Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
    "two hosts": b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
    "no host": b"GET / HTTP/1.1\r\n\r\n",
}
STRICT = {
    "a length": POST + b"Content-Length: 4\r\n\r\n\n \r\n",
    "chunks": POST + CHUNKED + b"\r\n4\r\n\n a\n\r\n0\r\n\r\n",
    "chunks with an extension and a trailer": POST + CHUNKED + b'\r\n4;a="b"\r\nabcd\r\n0\r\nX: y\r\n\r\n',
    "no body": b"GET / HTTP/1.1\r\n" + HOST + b"X:  a b\t \r\n\r\n",
    "1.0": b"GET / HTTP/1.0\r\n\r\n",
}


def read(connection: h11.Connection) -> list[bytes]:
    """Methods of all requests that are complete by now."""
    found = []
    while (event := connection.next_event()) not in (h11.NEED_DATA, h11.PAUSED):
        if isinstance(event, h11.Request):
            found.append(event.method)
        if isinstance(event, h11.ConnectionClosed):
            break
    return found


def feed(*packets: bytes) -> list[bytes]:
    connection = h11.Connection(h11.SERVER, 2**14)
    set_strict_buffer(connection)
    found = []
    for packet in packets:
        connection.receive_data(packet)
        found += read(connection)
    return found


def cuts(message: bytes) -> Iterator[list[bytes]]:
    """A message whole, cut once at every place, and byte by byte."""
    yield [message]
    yield from ([message[:place], message[place:]] for place in range(1, len(message)))
    yield [bytes([each]) for each in message]


@pytest.mark.parametrize("name", LOOSE)
def test_loose_message_is_refused_however_it_is_cut(name: str) -> None:
    for packets in cuts(LOOSE[name]):
        with pytest.raises(h11.RemoteProtocolError):
            feed(*packets)


@pytest.mark.parametrize("name", STRICT)
def test_strict_message_is_read_however_it_is_cut(name: str) -> None:
    """Bodies may have any bytes: line feeds and blanks among them."""
    method = STRICT[name].partition(b" ")[0]
    for packets in cuts(STRICT[name]):
        assert feed(*packets) == [method]


def test_receive_buffer_that_is_not_empty_is_refused() -> None:
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(b"GET")
    with pytest.raises(TypeError, match=r"^receive buffer must be h11's own and empty, got another$"):
        set_strict_buffer(connection)


async def echo(request: Request) -> Response:
    return PlainTextResponse(f"<{len(await request.body())}>")


async def begin(request: Request) -> Response:
    """Reply without having read the body."""
    return PlainTextResponse("<begun>")


@contextmanager
def serving(**settings: Any) -> Iterator[tuple[Any, list[str]]]:
    stop, said = Flag(), list[str]()
    routes = [Route("/", echo, methods=["GET", "POST"]), Route("/begin", begin, methods=["POST"])]
    with open_listener(port=0) as listener:
        settings |= {"on_stop": lambda: None, "log": said.append}
        thread = Thread(target=serve_app, args=(Starlette(routes=routes), listener, stop), kwargs=settings)
        thread.start()
        try:
            yield listener.getsockname(), said
        finally:
            stop.set()
            thread.join()


def replies(where: Any, *packets: bytes) -> bytes:
    """Return all bytes until the server closes the connection."""
    found = b""
    with socket.create_connection(where, timeout=30) as line:
        try:
            for packet in packets:
                line.sendall(packet)
            while part := line.recv(2**16):
                found += part
        except (ConnectionResetError, BrokenPipeError):
            pass
    return found


LAST = b"GET / HTTP/1.1\r\n" + HOST + b"Connection: close\r\n\r\n"


@pytest.mark.parametrize("name", ["both lengths", "line feeds", "a folded header", "chunks in 1.0"])
def test_loose_request_gets_400_and_nothing_after_it_is_read(name: str) -> None:
    """This also holds after another request on the same connection."""
    with serving() as (where, _):
        alone = replies(where, LOOSE[name] + LAST)
        assert (alone.count(b"HTTP/1.1 "), alone[:12]) == (1, b"HTTP/1.1 400")
        assert b'"code": "malformed_request"' in alone
        second = replies(where, STRICT["chunks"] + LOOSE[name] + LAST)
        assert (second.count(b"HTTP/1.1 200"), second.count(b"HTTP/1.1 400")) == (1, 1)


def test_request_hidden_behind_two_lengths_is_never_answered() -> None:
    """A proxy that uses Content-Length forwards one request, in which h11 alone would find two."""
    hidden = b"0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: here\r\n\r\n"
    head = POST + CHUNKED + b"Content-Length: %d\r\n\r\n" % len(hidden)
    with serving() as (where, _):
        found = replies(where, head + hidden)
    assert (found.count(b"HTTP/1.1 "), found[:12]) == (1, b"HTTP/1.1 400")


def test_requests_in_one_or_several_packets_are_all_answered() -> None:
    with serving() as (where, _):
        whole = replies(where, STRICT["a length"] + STRICT["chunks"] + LAST)
        split = replies(where, *(bytes([each]) for each in STRICT["a length"] + LAST))
    assert (whole.count(b"<4>"), whole.count(b"<0>"), split.count(b"<4>"), split.count(b"<0>")) == (2, 1, 1, 1)


def test_malformed_chunk_after_reply_started_ends_connection() -> None:
    """No second reply follows the first, and no exception reaches the log."""
    head = b"POST /begin HTTP/1.1\r\n" + HOST + CHUNKED + b"\r\n4\r\nabcd\r\n"
    with serving() as (where, said):
        with socket.create_connection(where, timeout=30) as line:
            line.sendall(head)
            found = b""
            while b"<begun>" not in found:
                found += line.recv(2**16)
            line.sendall(b"not a chunk\r\n")
            try:
                while part := line.recv(2**16):
                    found += part
            except ConnectionResetError:
                pass
        assert found.count(b"HTTP/1.1 ") == 1
    assert said == ["server: Invalid HTTP request received."]


def test_connection_sends_replies_without_delay() -> None:
    """The socket option TCP_NODELAY switches Nagle's algorithm off."""
    options: list[int] = []

    class Watched(HttpConnection):
        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            options.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    with serving(connection=Watched) as (where, _):
        assert replies(where, LAST).endswith(b"<0>")
    assert len(options) == 1
    assert options[0] != 0
