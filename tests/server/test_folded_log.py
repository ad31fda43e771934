"""Folded lines: clients without a token cannot flood the curator's log."""

import socket
from datetime import date
from pathlib import Path
from threading import Event as Flag
from threading import Thread

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from streamgauge.cli.runs.monitor import CuratorLog
from streamgauge.server.http.serving import MAX_KINDS, OTHER_KIND, FoldedLog, open_listener, serve_app

MALFORMED = "server: Invalid HTTP request received."


async def here(request: Request) -> Response:
    return PlainTextResponse("here")


class Days:
    """A calendar whose day a test sets."""

    day = date(2026, 1, 5)

    def __call__(self) -> date:
        return self.day


def test_ten_thousand_lines_become_five() -> None:
    lines: list[str] = []
    folded = FoldedLog(lines.append, Days())
    for _ in range(10_000):
        folded.write(MALFORMED)
    assert lines == [MALFORMED, *(f"{MALFORMED} ({10**power} times today)" for power in range(1, 5))]


def test_first_line_of_a_day_has_previous_days_count() -> None:
    lines, days = list[str](), Days()
    folded = FoldedLog(lines.append, days)
    for _ in range(37):
        folded.write(MALFORMED)
    folded.write("server: once")
    days.day = date(2026, 1, 8)
    del lines[:]
    for _ in range(2):
        folded.write(MALFORMED)
        folded.write("server: once")
    assert lines == [f"{MALFORMED} (37 times on 2026-01-05)", "server: once"]


def test_number_of_kinds_is_bounded() -> None:
    lines: list[str] = []
    folded = FoldedLog(lines.append, Days())
    for number in range(200):
        folded.write(f"server: task {number}")
    for number in range(5000):
        folded.write("server: " + "x" * number)
    assert lines[:3] == ["server: task 0", "server: task 9 (10 times today)", "server: task 99 (100 times today)"]
    assert len(folded.counts) == MAX_KINDS + 1
    assert lines[-4:] == [OTHER_KIND, *(f"{OTHER_KIND} ({10**power} times today)" for power in range(1, 4))]


@pytest.mark.parametrize(
    ("request_bytes", "first"),
    [
        (b"\x16\x03\x01\x02\x00", MALFORMED),  # TLS on a port without it
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", MALFORMED),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n",
            "server: Unsupported upgrade request.",
        ),
    ],
)
def test_requests_without_a_token_leave_earlier_lines_of_the_log(
    tmp_path: Path, request_bytes: bytes, first: str
) -> None:
    """The log holds two files of 4 kB; 300 lines of their own would be five times as long."""
    log, stop = CuratorLog(tmp_path, max_bytes=2**11), Flag()
    log.write("tick 512 of 2160, 20311 records, dropped: late 2")
    app = Starlette(routes=[Route("/", here)])
    with open_listener(port=0) as listener:
        settings = {"on_stop": lambda: None, "log": log.write}
        thread = Thread(target=serve_app, args=(app, listener, stop), kwargs=settings)
        thread.start()
        try:
            for _ in range(300):
                with socket.create_connection(listener.getsockname(), timeout=30) as line:
                    line.sendall(request_bytes)
                    while line.recv(2**16):
                        pass
        finally:
            stop.set()
            thread.join()
    lines = [line.partition(" ")[2] for line in log.path.read_text().splitlines()]
    assert lines[:2] == ["tick 512 of 2160, 20311 records, dropped: late 2", first]
    assert f"{first} (100 times today)" in lines
    assert len(lines) <= 7
