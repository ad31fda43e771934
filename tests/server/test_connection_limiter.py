"""Connection limits: idle connections exclude no client and leave the run its descriptors."""

import resource
import socket
from contextlib import ExitStack, suppress
from threading import Event as Flag
from threading import Thread
from urllib.request import Request as Asked
from urllib.request import urlopen

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from streamgauge.server.http import connections as module
from streamgauge.server.http import serving
from streamgauge.server.http.auth import find_client_address
from streamgauge.server.http.connections import ConnectionLimiter, build_limiter, raise_descriptor_limit

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class Line:
    """A connection that records its eviction."""

    sent_away = False

    def evict(self) -> None:
        self.sent_away = True


def entered(limiter: ConnectionLimiter, host: str, count: int) -> list[Line]:
    """Open `count` waiting connections of a host and return those that were admitted."""
    found = []
    for line in (Line() for _ in range(count)):
        if limiter.admit(line, host):
            limiter.mark_waiting(line)
            found.append(line)
    return found


def test_new_connection_evicts_longest_waiting_of_its_address() -> None:
    limiter = ConnectionLimiter(max_connections=10, max_per_client=3)
    other = entered(limiter, "10.0.0.1", 1)
    lines = entered(limiter, "10.0.0.7", 5)
    assert [line.sent_away for line in lines] == [True, True, False, False, False]
    assert not other[0].sent_away
    assert len(limiter.open) == 4


def test_full_limiter_evicts_longest_waiting_of_all_addresses() -> None:
    limiter = ConnectionLimiter(max_connections=4, max_per_client=3)
    lines = [line for place in range(6) for line in entered(limiter, f"10.0.0.{place}", 1)]
    assert [line.sent_away for line in lines] == [True, True, False, False, False, False]


def test_active_requests_are_never_evicted_for_new_connections() -> None:
    limiter = ConnectionLimiter(max_connections=2, max_per_client=2)
    lines = entered(limiter, "10.0.0.7", 2)
    for line in lines:
        limiter.mark_active(line)
    assert entered(limiter, "10.0.0.7", 1) == entered(limiter, "10.0.0.8", 1) == []
    limiter.mark_waiting(lines[1])
    assert len(entered(limiter, "10.0.0.8", 1)) == 1
    assert [line.sent_away for line in lines] == [False, True]


def test_closed_connection_frees_its_place_and_is_forgotten() -> None:
    limiter = ConnectionLimiter(max_connections=2, max_per_client=2)
    for line in entered(limiter, "10.0.0.7", 2):
        limiter.remove(line)
        limiter.remove(line)
    assert len(limiter.open) == 0
    assert limiter.is_empty
    assert len(entered(limiter, "10.0.0.7", 2)) == 2


def test_ipv6_network_is_one_address_and_proxy_has_no_limit() -> None:
    limiter = ConnectionLimiter(max_connections=10, max_per_client=1, proxies=["127.0.0.1"])
    lines = entered(limiter, "2001:db8::1", 1) + entered(limiter, "2001:db8::2", 1)
    assert [line.sent_away for line in lines] == [True, False]
    assert not any(line.sent_away for line in entered(limiter, "127.0.0.1", 5))


@pytest.mark.parametrize("proxy", ["10.0.0.0/24", "10.0.0.7"])
def test_proxy_of_declared_range_has_no_limit_per_client(proxy: str) -> None:
    limiter = ConnectionLimiter(max_connections=10, max_per_client=1, proxies=[proxy])
    assert not any(line.sent_away for line in entered(limiter, "10.0.0.7", 5))
    others = entered(limiter, "10.0.1.7", 2)
    assert [line.sent_away for line in others] == [True, False]


@pytest.mark.parametrize(("proxy", "counted"), [("127.0.0.0/8", "203.0.113.7"), ("10.0.0.0/8", "127.0.0.1")])
def test_forwarded_address_counts_behind_declared_proxies_only(proxy: str, counted: str) -> None:
    async def who(request: Request) -> Response:
        return PlainTextResponse(find_client_address(request))

    stop, app = Flag(), Starlette(routes=[Route("/", who)])
    with serving.open_listener(port=0) as listener:
        details = {"on_stop": lambda: None, "log": lambda line: None, "proxies": [proxy]}
        thread = Thread(target=serving.serve_app, args=(app, listener, stop), kwargs=details)
        thread.start()
        request = Asked(serving.build_url(listener), headers={"X-Forwarded-For": "203.0.113.7"})
        with urlopen(request, timeout=20) as reply:
            assert reply.read().decode() == f"address {counted}"
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("limits", "files"),
    [((256, 4096), 4096), ((256, 256), 256), ((1024, resource.RLIM_INFINITY), module.MAX_DESCRIPTORS)],
)
def test_descriptor_limit_is_raised_and_some_are_reserved(limits: tuple[int, int], files: int) -> None:
    process = ProcessLimits(limits)
    assert raise_descriptor_limit(process) == files
    assert process.requested == ([] if files == limits[0] else [(files, limits[1])])
    limiter = build_limiter(10**6, limits=process)
    assert limiter.max_connections == max(files - module.RESERVED_DESCRIPTORS, files // 4)
    assert limiter.max_per_client <= limiter.max_connections // 2
    assert build_limiter(20, limits=process).max_connections == 20


class ProcessLimits:
    """Limits of a process. They record requested changes."""

    def __init__(self, limits: tuple[int, int]) -> None:
        self.limits, self.requested = limits, list[tuple[int, int]]()

    def getrlimit(self, kind: int, /) -> tuple[int, int]:
        assert kind == resource.RLIMIT_NOFILE
        return self.limits

    def setrlimit(self, kind: int, wanted: tuple[int, int], /) -> None:
        self.requested.append(wanted)


async def here(request: Request) -> Response:
    await request.body()
    return PlainTextResponse("here")


def most_open(limiter: ConnectionLimiter, begun: bytes = b"") -> int:
    """Return the number of open connections of a server with 100 incomplete requests and one whole one."""
    stop = Flag()
    app = Starlette(routes=[Route("/", here, methods=["GET", "POST"])])
    with serving.open_listener(port=0) as listener, ExitStack() as stack:
        details = {"on_stop": lambda: None, "log": lambda line: None, "limiter": limiter}
        thread = Thread(target=serving.serve_app, args=(app, listener, stop), kwargs=details)
        thread.start()
        where = listener.getsockname()
        for _ in range(100):
            idle = stack.enter_context(socket.create_connection(where, timeout=20))
            with suppress(OSError):
                idle.sendall(begun)
        line = stack.enter_context(socket.create_connection(where, timeout=20))
        line.sendall(GET)
        answer = b"".join(iter(lambda: line.recv(2**16), b""))
        found = len(limiter.open)
        stack.close()
        stop.set()
        thread.join()
    assert answer.endswith(b"here")
    return found


@pytest.mark.parametrize("begun", [b"", GET[:20], b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"])
def test_hundred_incomplete_requests_exclude_no_client(begun: bytes) -> None:
    assert most_open(ConnectionLimiter(8, 8), begun) <= 8


def test_limiter_without_a_limit_is_caught() -> None:
    assert most_open(ConnectionLimiter(10**6, 10**6)) > 8
