"""Serving: a listening socket, uvicorn in the main thread, and an end that leaves nobody hanging.

    a signal > no new connections, live readers are told and let go > replies at work, at most GRACE seconds
             > the run is stopped after the batch at hand

**Privacy.** Words of uvicorn and asyncio may carry data in tracebacks: the curator's log gets what they say
without their arguments, but for numbers, and the class of the exception.
"""

import logging
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Event as Flag
from typing import Any

import uvicorn
from starlette.applications import Starlette

from streamgauge.server.connections import Connection
from streamgauge.server.doors import AT_ONCE, BESIDES, doors_of
from streamgauge.server.errors import Log
from streamgauge.server.folded_log import FoldedLog
from streamgauge.server.limits import LARGEST_HEAD

HOST, PORT = "127.0.0.1", 8765
GRACE = 5  # seconds that replies at work are given
KEEP_ALIVE = 5  # seconds
BACKLOG = 1024
SWITCH_SECONDS = 0.001
LOUD = ("uvicorn", "uvicorn.error", "asyncio")  # loggers


class PortTaken(OSError):  # noqa: N818 - refusals are named by what they say
    """An address that cannot be listened on."""


def listening(host: str = HOST, port: int = PORT) -> socket.socket:
    """A socket that listens; port 0 is any that is free."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, where = found[0][0], found[0][4]
        return socket.create_server((str(where[0]), port), family=family, backlog=BACKLOG)
    except OSError as error:
        why = (error.strerror or type(error).__name__).partition(" (")[0].lower()  # which is told already
        raise PortTaken(f"address must be free to listen on, got {host}:{port}: {why}") from None


def address_of(listener: socket.socket) -> str:
    """Where a browser finds it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def unwatched() -> None:
    """Nobody looks."""


def serve(
    app: Starlette,
    listener: socket.socket,
    stop: Flag,
    *,
    ending: Callable[[], None],
    log: Log,
    glance: Callable[[], None] = unwatched,
    proxies: Sequence[str] = (),
    most: int = BESIDES,
) -> None:
    """Serves until `stop` is set. `ending` is called first then, to let live readers go.

    `glance` is called ten times a second meanwhile; `proxies` are believed when they say whom they ask for;
    `most` connections may be open, or as many as the machine allows.
    """
    connection: Any = partial(Connection, doors=doors_of(most, proxies))
    config = uvicorn.Config(
        app,
        http=connection,
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        server_header=False,
        date_header=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=GRACE,
        h11_max_incomplete_event_size=LARGEST_HEAD,
        backlog=AT_ONCE,
    )
    with heard(FoldedLog(log).line), short_switches():
        Stoppable(config, stop, ending, glance).run([listener])


@contextmanager
def short_switches() -> Iterator[None]:
    """Let the threads of the process change every SWITCH_SECONDS.

    The run gives up the interpreter at each call to the disk. With Python's own 5 ms it waits that long after
    each of them while the worker encodes rows.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class Stoppable(uvicorn.Server):
    """Listens to a flag, not to signals: these are the command's."""

    def __init__(
        self, config: uvicorn.Config, stop: Flag, ending: Callable[[], None], glance: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self.stop, self.ending, self.glance = stop, ending, glance

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """The queue in front is long again, though few of it are let in at once."""
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)

    async def on_tick(self, counter: int) -> bool:
        self.glance()
        return self.stop.is_set() or await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.ending()
        await super().shutdown(sockets)


class WithoutWords(logging.Handler):
    """Takes down what is said; of what it is said about only numbers, and not the text of an exception."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self.log = log

    def emit(self, record: logging.LogRecord) -> None:
        kind = record.exc_info[0] if record.exc_info else None
        said = words(record).splitlines()[0] if record.name != "asyncio" else "asyncio"
        self.log(f"server: {said}" if kind is None else f"server: {said}: {kind.__name__}")


def words(record: logging.LogRecord) -> str:
    """What a library says; with what it says it about if that is nothing but numbers."""
    numbers = isinstance(record.args, tuple) and all(isinstance(each, int) for each in record.args)
    return record.getMessage() if numbers else str(record.msg)


@contextmanager
def heard(log: Log) -> Iterator[None]:
    """What the server's libraries say goes to the curator's log, and nowhere else."""
    handler = WithoutWords(log)
    loggers = [logging.getLogger(name) for name in LOUD]
    before = [(logger.propagate, logger.level) for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.propagate = False
        logger.setLevel(logging.WARNING)  # whatever another server in this process has asked for
    try:
        yield
    finally:
        for logger, (propagate, level) in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.propagate = propagate
            logger.setLevel(level)
