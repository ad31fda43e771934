"""Sessions end: after their time, when they are closed, when their token is revoked."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from streamgauge.server.http.auth import COOKIE_NAME, SESSION_SECONDS, Sessions, is_always_allowed
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.read_worker import ReadWorker
from streamgauge.server.http.tokens import Token, Tokens
from streamgauge.server.routes.live import LiveRoutes
from streamgauge.server.tuning import Tuning
from tests.support.people import Client, House


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(folder: Path, name: str = "ann") -> tuple[Tokens, Sessions, Clock, Token]:
    tokens, clock = Tokens(folder), Clock()
    token = tokens.find_by_secret(tokens.create(name, "reader"))
    assert token is not None
    return tokens, Sessions(tokens, now=clock), clock, token


def test_session_has_its_token_until_it_expires(tmp_path: Path) -> None:
    _, sessions, clock, token = opened(tmp_path)
    secret = sessions.create(token)
    clock.now = SESSION_SECONDS - 1
    assert sessions.find_token(secret) == token
    clock.now = SESSION_SECONDS
    assert sessions.find_token(secret) is None
    assert len(sessions) == 0


def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    tokens, sessions, _, token = opened(tmp_path)
    secret = sessions.create(token)
    tokens.revoke("ann")
    assert sessions.find_token(secret) is None


def test_closed_session_has_no_token(tmp_path: Path) -> None:
    _, sessions, _, token = opened(tmp_path)
    secret, other = sessions.create(token), sessions.create(token)
    sessions.close(secret)
    sessions.close("never was")
    assert sessions.find_token(secret) is None
    assert sessions.find_token(other) == token


def test_memory_holds_no_session_id(tmp_path: Path) -> None:
    _, sessions, _, token = opened(tmp_path)
    assert sessions.create(token) not in repr(vars(sessions))


def test_too_many_sessions_of_one_token_end_its_own_oldest(tmp_path: Path) -> None:
    tokens, _, _, token = opened(tmp_path)
    sessions = Sessions(tokens, max_per_token=3)
    other = tokens.find_by_secret(tokens.create("bob", "reader"))
    assert other is not None
    first = sessions.create(other)
    own = [sessions.create(token) for _ in range(5)]
    assert [sessions.find_token(secret) is not None for secret in own] == [False, False, True, True, True]
    assert sessions.find_token(first) == other


async def followed(house: House, client: Client, end: Callable[[], Any], seconds: float = 20) -> bool:
    """Return whether a live stream ends after `end` is called."""
    reply = asyncio.create_task(client.send("GET", "/api/live"))
    while not house.limits.live_connections:
        await asyncio.sleep(0.001)
    end()
    await asyncio.wait([reply], timeout=seconds)
    house.runner.event_buffer.close()
    ended = reply.done()
    assert (await reply).status_code == 200
    return ended


POLLING = Tuning(rights_poll_seconds=0.01)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, tuning=POLLING)


def test_a_live_stream_ends_with_its_token(house: House) -> None:
    assert asyncio.run(followed(house, house.client("reader"), lambda: house.tokens.revoke("rita")))


def test_a_live_stream_ends_with_its_session(house: House) -> None:
    client = house.client()
    client.post("/api/session", json={"token": house.secrets["reader"]})
    secret = str(client.cookies.get(COOKIE_NAME))
    assert asyncio.run(followed(house, client, lambda: house.sessions.close(secret)))


def test_live_stream_continues_when_another_token_is_revoked(house: House) -> None:
    assert not asyncio.run(followed(house, house.client("reader"), lambda: house.tokens.revoke("ana"), 0.2))


class CarelessLive(LiveRoutes):
    """A broken twin that checks the rights of a reader once."""

    async def stream_events(self, request: Request) -> Response:
        person = request.scope["person"]
        request.scope["person"] = replace(person, is_allowed=is_always_allowed)
        return await super().stream_events(request)


def test_live_stream_that_outlives_its_token_is_caught(tmp_path: Path) -> None:
    def routes(runner: Any, limits: Limits) -> list[Route]:
        return CarelessLive(runner, limits, ReadWorker()).routes()

    house = House(tmp_path, tuning=POLLING, extra=routes)
    assert not asyncio.run(followed(house, house.client("reader"), lambda: house.tokens.revoke("rita"), 0.2))
