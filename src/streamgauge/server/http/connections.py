"""Connections: HTTP/1.1 with a bound on everything that a client can do slowly.

    the head of a request          `head_timeout_seconds` from the moment the server waits for it
    an unread body                 the same, after the reply
    a reply that stands still      `write_timeout_seconds`
    connections                    the capacity of `limiter`

Bodies that are read have a separate timeout (`bodies`). Input that is not HTTP gets our own error, as does
a head that another parser may read differently.

**Privacy.** The number, times and heads of batches are data. So nothing here counts requests: uvicorn's counter
stays 0, and task names have no number. An answered request is dropped with its head, while its connection stays
open.

**Limits.** RESERVED_DESCRIPTORS of the process are for the run, its readers and its logs; the rest are for
connections. At most `max_connections` are open, and `max_per_client` of one address. A client that opens
connections without a complete request blocks no other: above a limit, the connection that has waited longest
without a complete request is closed. A new connection is closed only if all others have an active request. A
trusted proxy may have all of them.

**Strict heads.** A proxy and this server must agree on the end of each request. Otherwise a client can hide a
second request inside the first (request smuggling). RFC 9112 allows recipients to repair some heads; this
server rejects them:

    bare line feeds                         a line ends with CR LF, nothing else
    folded headers                          a line that begins with a blank continues no other line
    Content-Length and Transfer-Encoding    one of them gives the length of a body
    Transfer-Encoding in HTTP/1.0           that version has no chunks

The same holds for trailers of chunked bodies. h11 rejects the rest: bad chunk sizes, blanks before a colon,
Content-Length headers that differ, encodings other than chunked, a missing or repeated Host.
"""

import asyncio
import json
import re
import resource
import socket
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Any, Literal, Protocol

import h11
from h11._receivebuffer import ReceiveBuffer
from uvicorn.protocols.http.h11_impl import H11Protocol

from streamgauge.server.http.limits import Networks, to_client_network
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning

RESERVED_DESCRIPTORS = 320  # descriptors: a reader of the store in each thread of the pool, a burst of AT_ONCE, the run
MAX_DESCRIPTORS = 2**16  # descriptors, also if the machine allows more
MAX_ACCEPTS = 64  # connections that are accepted before they are counted
MAX_REQUEST_CONNECTIONS = 1000  # connections in addition to those that wait for releases


class EvictableConnection(Protocol):
    """A connection that the limiter can close."""

    def evict(self) -> None: ...


class DescriptorLimits(Protocol):
    """Limits of the process, as the module `resource` has them."""

    def getrlimit(self, resource: int, /) -> tuple[int, int]: ...

    def setrlimit(self, resource: int, limits: tuple[int, int], /) -> None: ...


class ConnectionLimiter:
    """Open connections and their limits. Belongs to one event loop."""

    def __init__(self, max_connections: int, max_per_client: int, proxies: Collection[str] = ()) -> None:
        self.max_connections, self.max_per_client = max_connections, max_per_client
        self._proxies = Networks(proxies)
        self.open: dict[EvictableConnection, str] = {}
        self._counts: Counter[str] = Counter()
        self._waiting: dict[EvictableConnection, None] = {}  # without a whole request, the longest first
        self._waiting_by_client: dict[str, dict[EvictableConnection, None]] = {}

    @property
    def is_empty(self) -> bool:
        """True if no connection and no client is remembered."""
        return not any((self.open, self._counts, self._waiting, self._waiting_by_client))

    def admit(self, line: EvictableConnection, host: str) -> bool:
        """Return whether a new connection may stay; evict an older one if that frees a place."""
        address = to_client_network(host)
        if host not in self._proxies and self._counts[address] >= self.max_per_client:
            room = self._evict_longest(self._waiting_by_client.get(address, {}))
        else:
            room = len(self.open) < self.max_connections or self._evict_longest(self._waiting)
        if room:
            self.open[line] = address
            self._counts[address] += 1
        return room

    def mark_waiting(self, line: EvictableConnection) -> None:
        """Mark a connection that has no complete request."""
        if line in self.open and line not in self._waiting:
            self._waiting[line] = None
            self._waiting_by_client.setdefault(self.open[line], {})[line] = None

    def mark_active(self, line: EvictableConnection) -> None:
        """Mark a connection whose request is being answered."""
        if line in self._waiting:
            del self._waiting[line]
            own = self._waiting_by_client[self.open[line]]
            del own[line]
            if not own:
                del self._waiting_by_client[self.open[line]]

    def remove(self, line: EvictableConnection) -> None:
        self.mark_active(line)
        address = self.open.pop(line, None)
        if address is not None:
            self._counts[address] -= 1
            if not self._counts[address]:
                del self._counts[address]

    def _evict_longest(self, waiting: dict[EvictableConnection, None]) -> bool:
        """Close the connection that has waited longest; return whether there was one."""
        longest = next(iter(waiting), None)
        if longest is None:
            return False
        self.remove(longest)
        longest.evict()
        return True


def build_limiter(
    wanted: int, proxies: Collection[str] = (), *, limits: DescriptorLimits = resource
) -> ConnectionLimiter:
    """Return a limiter for the wanted number of connections, or fewer if the machine allows fewer."""
    files = raise_descriptor_limit(limits)
    most = min(wanted, max(files - RESERVED_DESCRIPTORS, files // 4))
    return ConnectionLimiter(most, max(1, most // 2), proxies)


def raise_descriptor_limit(limits: DescriptorLimits = resource) -> int:
    """Raise the limit of descriptors as far as allowed; return it."""
    soft, hard = limits.getrlimit(resource.RLIMIT_NOFILE)
    unbounded = resource.RLIM_INFINITY
    wanted = MAX_DESCRIPTORS if hard == unbounded else min(MAX_DESCRIPTORS, hard)
    if soft != unbounded and soft < wanted:
        with suppress(OSError, ValueError):
            limits.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    return MAX_DESCRIPTORS if soft == unbounded else soft


HEAD_END = b"\r\n\r\n"
LOOSE_LINE_PATTERN = re.compile(rb"(?<!\r)\n|\n[ \t]")  # a bare line feed, or a folded line
LENGTH_HEADER, ENCODING_HEADER = b"content-length", b"transfer-encoding"


class StrictBuffer(ReceiveBuffer):
    """The receive buffer of h11, which accepts strict line ends only."""

    def maybe_extract_lines(self) -> list[bytearray] | None:
        """Return the lines of the next head or trailer; None as long as it is not complete.

        Raises:
            h11.LocalProtocolError: The head is malformed. h11 reports it as the client's error.
        """
        if self._data[:2] == HEAD_END[:2]:
            self._extract(2)
            return []
        begin = self._multiple_lines_search
        end = self._data.find(HEAD_END, begin)
        if LOOSE_LINE_PATTERN.search(self._data, begin, len(self._data) if end < 0 else end + len(HEAD_END) - 1):
            raise h11.LocalProtocolError("lines must end with CR LF and not be folded")
        if end < 0:
            self._multiple_lines_search = max(0, len(self._data) - len(HEAD_END) + 1)
            return None
        lines = self._extract(end + len(HEAD_END))[: -len(HEAD_END)].split(b"\r\n")
        check_framing(lines)
        return lines


def check_framing(lines: list[bytearray]) -> None:
    """Reject a head that states the length of its body in two ways, or in one that its version lacks.

    >>> check_framing([bytearray(b"GET / HTTP/1.0"), bytearray(b"Host: a")])
    """
    names = {bytes(line.partition(b":")[0]).strip().lower() for line in lines[1:]}
    if ENCODING_HEADER in names and (LENGTH_HEADER in names or lines[0].endswith(b"HTTP/1.0")):
        raise h11.LocalProtocolError("the length of a body must be stated once")


def set_strict_buffer(connection: h11.Connection) -> None:
    """Replace the receive buffer of a connection that has read nothing yet."""
    if type(connection._receive_buffer) is not ReceiveBuffer or connection._receive_buffer:
        raise TypeError("receive buffer must be h11's own and empty, got another")
    connection._receive_buffer = StrictBuffer()


TASK_NAME = "task"
MALFORMED_REPLY = {"error": {"code": "malformed_request", "message": "request must be HTTP/1.1, got something else"}}


def create_unnumbered_task(loop: asyncio.AbstractEventLoop, work: Any, **settings: Any) -> asyncio.Task[Any]:
    """Return a task with a fixed name, since asyncio's default name counts all tasks."""
    name = settings.pop("name", None) or TASK_NAME
    return asyncio.Task(work, loop=loop, name=name, **settings)


def disable_nagle(transport: asyncio.BaseTransport) -> None:
    """Set TCP_NODELAY: else the body of a reply waits for the client's delayed acknowledgement of its head.

    asyncio sets it for sockets of protocol 6 only, and `socket.create_server` makes one of protocol 0.
    """
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class HttpConnection(H11Protocol):
    """uvicorn's protocol with timeouts and a connection limit, and without request counts."""

    def __init__(
        self, *args: Any, limiter: ConnectionLimiter | None = None, tuning: Tuning = DEFAULT_TUNING, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.tuning = tuning
        set_strict_buffer(self.conn)
        self.limiter = limiter or ConnectionLimiter(MAX_REQUEST_CONNECTIONS, MAX_REQUEST_CONNECTIONS)
        self._timers: dict[Literal["head", "write"], asyncio.TimerHandle] = {}

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        disable_nagle(transport)
        self.loop.set_task_factory(create_unnumbered_task)
        if self.limiter.admit(self, self.client[0] if self.client else ""):
            self._update_timers()
        else:
            self.evict()

    def evict(self) -> None:
        """Close the connection at once."""
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._update_timers()

    def on_response_complete(self) -> None:
        if self.conn.their_state is h11.DONE:
            self.scope, self.cycle, self.headers = None, None, []  # type: ignore[assignment]  # a complete request
        super().on_response_complete()
        self.server_state.total_requests = 0
        self._update_timers()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.limiter.remove(self)
        self._stop_timer("head")
        self._stop_timer("write")

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_timer("write", self.tuning.write_timeout_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer("write")

    def _update_timers(self) -> None:
        """Run the head timer while no request is active: its head is incomplete, or its reply is complete.

        For the limiter, a connection with an incomplete body is waiting, too.
        """
        between = self.conn.their_state is h11.IDLE or self.conn.our_state is h11.DONE
        if between or self.conn.their_state is h11.SEND_BODY:
            self.limiter.mark_waiting(self)
        else:
            self.limiter.mark_active(self)
        if between:
            self._start_timer("head", self.tuning.head_timeout_seconds)
        else:
            self._stop_timer("head")

    def send_400_response(self, msg: str) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # a reply has begun: no other can
            return
        body = json.dumps(MALFORMED_REPLY).encode()
        headers = [("content-type", "application/json"), ("connection", "close"), ("content-length", str(len(body)))]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()

    def _start_timer(self, name: Literal["head", "write"], seconds: float) -> None:
        """Abort the connection after so many seconds, unless the timer runs already."""
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, self.transport.abort)

    def _stop_timer(self, name: Literal["head", "write"]) -> None:
        if timer := self._timers.pop(name, None):
            timer.cancel()
