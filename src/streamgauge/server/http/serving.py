"""The server process: a listening socket, uvicorn in the main thread, an orderly shutdown, folded logs.

    signal > no new connections, live readers are disconnected > active replies, at most SHUTDOWN_SECONDS
           > the run stops after the current batch

**Privacy.** Messages of uvicorn and asyncio may contain data in tracebacks. The curator's log gets their text
with numeric arguments only, and the class of the exception.

**Folded logs.** Any client can cause log lines, so many lines of one kind become a few:

    server: Invalid HTTP request received.
    server: Invalid HTTP request received. (10 times today)
    server: Invalid HTTP request received. (100 times today)

A line is written for the 1st, 10th, 100th, ... occurrence of a kind in a day (UTC). The first line of a later
day has the count of the last one. So a client that sends malformed requests causes about ten lines a day. Lines
that differ in digits only are one kind. Texts are those of libraries and classes of exceptions, without data. A
count covers malformed or failed requests, not accepted events.
"""

import logging
import re
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import partial
from threading import Event as Flag
from typing import Any

import uvicorn
from starlette.applications import Starlette

from streamgauge.interfaces import ignore
from streamgauge.server.http.connections import (
    MAX_ACCEPTS,
    MAX_REQUEST_CONNECTIONS,
    ConnectionLimiter,
    HttpConnection,
    build_limiter,
)
from streamgauge.server.http.errors import Log
from streamgauge.server.http.limits import MAX_HEAD_BYTES
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning

MAX_KINDS = 50  # beyond them all are one kind
OTHER_KIND = "server: other messages"
DIGITS_PATTERN = re.compile(r"\d+")


class FoldedLog:
    """A log in front of another one, with a budget of lines for each kind and day.

    >>> lines: list[str] = []
    >>> folded = FoldedLog(lines.append, today=lambda: date(2026, 1, 5))
    >>> for _ in range(1234):
    ...     folded.write("server: Invalid HTTP request received.")
    >>> lines[-1], len(lines)
    ('server: Invalid HTTP request received. (1000 times today)', 4)
    """

    def __init__(self, log: Log, today: Callable[[], date] = lambda: datetime.now(UTC).date()) -> None:
        self.log, self._today = log, today
        self.counts: dict[str, tuple[date, int]] = {}  # of each kind: the last day, occurrences on it

    def write(self, text: str) -> None:
        """Count a line, and write it if its count is a power of ten."""
        kind, today = DIGITS_PATTERN.sub("#", text), self._today()
        if kind not in self.counts and len(self.counts) >= MAX_KINDS:
            kind = text = OTHER_KIND
        day, count = self.counts.get(kind, (today, 0))
        self.counts[kind] = (today, count + 1 if day == today else 1)
        if day != today:
            self.log(f"{text} ({count} times on {day})" if count > 1 else text)
        elif count == 0:
            self.log(text)
        elif is_power_of_ten(count + 1):
            self.log(f"{text} ({count + 1} times today)")


def is_power_of_ten(count: int) -> bool:
    """
    >>> [count for count in range(1, 1001) if is_power_of_ten(count)]
    [1, 10, 100, 1000]
    """
    return str(count).rstrip("0") == "1"


DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8765
SHUTDOWN_SECONDS = 5  # seconds that replies at work are given
KEEP_ALIVE_SECONDS = 5  # seconds
MAX_BACKLOG_CONNECTIONS = 1024
SWITCH_INTERVAL_SECONDS = 0.001
LOGGER_NAMES = ("uvicorn", "uvicorn.error", "asyncio")  # loggers


class PortUnavailableError(OSError):
    """An address that the server cannot listen on."""


def open_listener(host: str = DEFAULT_HOST, port: int = DEFAULT_PORT) -> socket.socket:
    """Return a listening socket; port 0 is any free port."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, where = found[0][0], found[0][4]
        return socket.create_server((str(where[0]), port), family=family, backlog=MAX_BACKLOG_CONNECTIONS)
    except OSError as error:
        why = (error.strerror or type(error).__name__).partition(" (")[0].lower()  # which the message has already
        raise PortUnavailableError(f"address must be free to listen on, got {host}:{port}: {why}") from None


def build_url(listener: socket.socket) -> str:
    """Return the address for a browser."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve_app(
    app: Starlette,
    listener: socket.socket,
    stop: Flag,
    *,
    on_stop: Callable[[], None],
    log: Log,
    on_poll: Callable[[], None] = ignore,
    proxies: Sequence[str] = (),
    max_connections: int = MAX_REQUEST_CONNECTIONS,
    limiter: ConnectionLimiter | None = None,
    connection: type[HttpConnection] = HttpConnection,
    tuning: Tuning = DEFAULT_TUNING,
) -> None:
    """Serve until `stop` is set, then call `on_stop` to disconnect live readers.

    `on_poll` is called ten times a second. The server trusts the client addresses that `proxies` send. At most
    `max_connections` are open, or fewer if the machine allows fewer, unless a `limiter` is given.
    """
    protocol: Any = partial(connection, limiter=limiter or build_limiter(max_connections, proxies), tuning=tuning)
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        backlog=MAX_ACCEPTS,
    )
    with capture_logs(FoldedLog(log).write), shorten_switch_interval():
        StoppableServer(config, stop, on_stop, on_poll).run([listener])


@contextmanager
def shorten_switch_interval() -> Iterator[None]:
    """Let the threads of the process change every SWITCH_SECONDS.

    The run gives up the interpreter at each call to the disk. With Python's own 5 ms it waits that long after
    each of them while the worker encodes rows.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class StoppableServer(uvicorn.Server):
    """A server that stops by a flag; the command handles signals."""

    def __init__(
        self, config: uvicorn.Config, stop: Flag, on_stop: Callable[[], None], on_poll: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.stop, self.on_stop, self.on_poll = stop, on_stop, on_poll

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Restore the long backlog, of which few connections are accepted at a time."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(MAX_BACKLOG_CONNECTIONS)

    async def on_tick(self, counter: int) -> bool:
        self.on_poll()
        return self.stop.is_set() or await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.on_stop()
        await super().shutdown(sockets)


class RedactingLogHandler(logging.Handler):
    """A log handler that writes numbers, but no other arguments and no exception text."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        said = format_record(record).splitlines()[0] if record.name != "asyncio" else "asyncio"
        self.log(f"server: {said}" if kind is None else f"server: {said}: {kind.__name__}")


def format_record(record: logging.LogRecord) -> str:
    """Return the message of a library, with its arguments if all of them are numbers."""
    numbers = isinstance(record.args, tuple) and all(isinstance(each, int) for each in record.args)
    return record.getMessage() if numbers else str(record.msg)


@contextmanager
def capture_logs(log: Log) -> Iterator[None]:
    """Write messages of the server's libraries to the curator's log only."""
    handler = RedactingLogHandler(log)
    loggers = [logging.getLogger(name) for name in LOGGER_NAMES]
    before = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.WARNING)  # also if another server in this process has set it
    try:
        yield
    finally:
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
            logger.setLevel(level)
