"""Refused batches are freed with the reply, without the garbage collector."""

import asyncio
import gc
import gzip
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from streamgauge.server.http.errors import HttpError
from streamgauge.server.routes.events import EventRoutes
from tests.support.people import clinic

FILE = clinic(Path("/nowhere"))
LARGE = b'[{"note": "patient-4711"},' * 4000
SENT = {"": LARGE, "gzip": gzip.compress(LARGE)[:-9]}
every_way = pytest.mark.parametrize("encoding", SENT, ids=["large", "packed"])


@pytest.fixture(autouse=True)
def nothing_collected() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def blocked(encoding: str, patience: int = 20_000, kind: type[EventRoutes] = EventRoutes) -> int:
    """Return the number of references to a batch after its refusal and the end of its parser."""
    body = bytes(bytearray(SENT[encoding]))
    head = {b"content-type": b"application/json", b"content-encoding": encoding.encode()}
    request = Request({"type": "http", "headers": [*head.items()]})
    runner: Any = SimpleNamespace(file=FILE)
    limits: Any = SimpleNamespace(max_body_bytes=10**7)
    routes = kind(runner, limits, SimpleNamespace())  # type: ignore[arg-type]

    async def refused() -> int:
        before = sys.getrefcount(body)
        with suppress(HttpError):
            await routes.parse_lines(request, body)
            raise AssertionError("it must be refused")
        for _ in range(patience):
            if sys.getrefcount(body) == before:
                break
            await asyncio.sleep(0.001)
        return sys.getrefcount(body) - before

    return asyncio.run(refused())


@every_way
def test_refused_batch_has_no_references(encoding: str) -> None:
    assert blocked(encoding) == 0


class RaisingRoutes(EventRoutes):
    """A broken twin that raises a refusal in the thread, so its frames keep the batch."""

    async def run_parser(self, parse: Callable[[], Any]) -> Any:
        def parse_and_raise() -> Any:
            found = parse()
            if isinstance(found, Exception):
                raise found
            return found

        return await run_in_threadpool(parse_and_raise)


@every_way
def test_twin_that_raises_in_a_thread_keeps_the_batch(encoding: str) -> None:
    assert blocked(encoding, patience=20, kind=RaisingRoutes) > 0
