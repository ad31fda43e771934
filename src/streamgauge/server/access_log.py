"""The access log: a line for each request, in a file of its own that the curator alone can read.

    2026-01-05T00:00:00Z ana GET /api/releases/fever 200 3 ms

**Promise.** A line has no query string, no header and no body; a path is cut short and cannot begin a line of
its own. The file is not curator.log: who asks often must not be able to push the curator's counters out. With
pan_private = true no line tells that events came, or when. Who sends a report, or asks how to make one, has
no name and no address.
"""

import time
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streamgauge.query.toml_keys import one_line
from streamgauge.server.errors import Log

LONGEST = 200  # characters of a path
EVENTS = "/api/events"
REPORTS = "/api/reports"
COLLECTION = "/api/collection"
CLIENT = "/client.js"
OF_DEVICES = (REPORTS, COLLECTION, CLIENT)  # roads whose travellers are not written down
CUT_OFF = 499  # what is told of a request that got no answer

Counted = Callable[[str, str, int, float], None]  # method, route, status, seconds


class AccessLog:
    """Writes down and counts what was answered."""

    def __init__(self, app: ASGIApp, log: Log, counted: Counted, forgets: bool = False) -> None:
        self.app, self.log, self.counted = app, log, counted
        self.forgets = forgets  # whether nothing is written of requests that bring events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, begun = CUT_OFF, time.perf_counter()

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            seconds = time.perf_counter() - begun
            if not (self.forgets and scope["path"].startswith(EVENTS)):
                self.log(line_of(scope, status, seconds))
            self.counted(scope["method"], route_of(scope), status, seconds)


def line_of(scope: Scope, status: int, seconds: float) -> str:
    """
    >>> line_of({"client": ("10.0.0.7", 1), "method": "GET", "path": "/a" + chr(10)}, 404, 0.0031)
    '10.0.0.7 GET /a\\\\u000a 404 3 ms'
    """
    person = scope.get("person")
    name = person.name if person is not None and person.name else (scope["client"] or ("-",))[0]
    name = "-" if scope["path"].rstrip("/") in OF_DEVICES else name
    who, path = one_line(name[:LONGEST]), one_line(scope["path"][:LONGEST])
    return f"{who} {scope['method']} {path} {status} {seconds * 1000:.0f} ms"


def route_of(scope: Scope) -> str:
    """The path as it was declared, so that there are as many as there are routes."""
    route = scope.get("route")
    return str(getattr(route, "path_format", "none"))
