"""A batch that is refused is gone with its answer, however large it was: nothing waits for the collector."""

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
from streamgauge.server.routes import events
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


def held(encoding: str, patience: int = 20_000) -> int:
    """By how many a batch is held, once it was refused and the thread that read it has let go."""
    body = bytes(bytearray(SENT[encoding]))
    head = {b"content-type": b"application/json", b"content-encoding": encoding.encode()}
    request = Request({"type": "http", "headers": [*head.items()]})
    runner: Any = SimpleNamespace(file=FILE)
    limits: Any = SimpleNamespace(max_body_bytes=10**7)
    doors = events.EventRoutes(runner, limits, SimpleNamespace())  # type: ignore[arg-type]

    async def refused() -> int:
        before = sys.getrefcount(body)
        with suppress(HttpError):
            await doors._parse_lines(request, body)
            raise AssertionError("it must be refused")
        for _ in range(patience):
            if sys.getrefcount(body) == before:
                break
            await asyncio.sleep(0.001)
        return sys.getrefcount(body) - before

    return asyncio.run(refused())


@every_way
def test_nothing_holds_a_batch_that_was_refused(encoding: str) -> None:
    assert held(encoding) == 0


@every_way
def test_a_refusal_that_is_raised_in_a_thread_holds_it(monkeypatch: pytest.MonkeyPatch, encoding: str) -> None:
    async def raising(made: Callable[[], Any]) -> Any:
        def raised() -> Any:
            found = made()
            if isinstance(found, Exception):
                raise found
            return found

        return await run_in_threadpool(raised)

    monkeypatch.setattr(events, "run_in_threadpool", raising)
    assert held(encoding, patience=20) > 0
