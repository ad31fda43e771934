"""Memory of answered requests: empty, even if the connection stays open."""

import asyncio
import gc
from typing import Any
from urllib.request import urlopen

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import RequestResponseCycle
from uvicorn.server import ServerState

from streamgauge.server.http.connections import HttpConnection
from tests.server.test_connections import Hand, serving, short

POST = b"POST /api/events HTTP/1.1\r\nHost: here\r\nIdempotency-Key: patient-4711\r\nContent-Length: 2\r\n\r\n"


def begun(*sent: bytes) -> tuple[HttpConnection, ServerState, Hand]:
    loop, state = Hand(), ServerState()
    config = uvicorn.Config(short, log_config=None, lifespan="off")
    config.load()
    line = HttpConnection(config, state, {}, _loop=loop)  # type: ignore[arg-type]
    line.connection_made(Hand())  # type: ignore[arg-type]
    for each in sent:
        line.data_received(each)
    return line, state, loop


def answer(cycle: RequestResponseCycle) -> None:
    async def reply() -> None:
        await cycle.send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await cycle.send({"type": "http.response.body", "body": b"", "more_body": False})

    asyncio.run(reply())


def blocked(line: HttpConnection) -> str:
    """Return all state of a connection as text."""
    return repr([line.scope, line.headers, line.cycle and line.cycle.scope, gc.get_referents(line.conn)])


def test_answered_post_leaves_no_head_and_no_count() -> None:
    line, state, _ = begun(POST, b"{}")
    assert "patient-4711" in blocked(line)
    answer(line.cycle)
    assert "patient-4711" not in blocked(line)
    assert (line.scope, line.cycle, state.total_requests) == (None, None, 0)
    line.data_received(POST + b"{}")
    answer(line.cycle)
    assert state.total_requests == 0
    line.connection_lost(None)


def test_pipelined_second_post_is_started_after_first_reply() -> None:
    line, _, _ = begun(POST + b"{}" + POST + b"{}")
    first = line.cycle
    answer(first)
    assert line.cycle is not None
    assert line.cycle is not first
    answer(line.cycle)
    assert line.cycle is None


def test_next_post_succeeds_after_late_body_of_answered_one() -> None:
    line, _, _ = begun(POST)
    answer(line.cycle)
    line.data_received(b"{}" + POST + b"{}")
    assert line.scope["path"] == "/api/events"
    answer(line.cycle)
    assert line.cycle is None


def test_tasks_are_not_numbered() -> None:
    async def named(request: Request) -> Response:
        inner: Any = asyncio.ensure_future(asyncio.sleep(0))
        await inner
        return PlainTextResponse(f"{asyncio.current_task().get_name()} {inner.get_name()}")  # type: ignore[union-attr]

    with serving(Route("/named", named)) as (where, _):
        for _ in range(2):
            with urlopen(f"http://{where[0]}:{where[1]}/named") as reply:
                assert reply.read() == b"task task"
