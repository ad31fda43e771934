"""Sessions end: after their time, when they are closed, when their token is revoked."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamgauge.server.http import auth as module
from streamgauge.server.http import auth as roles
from streamgauge.server.http.auth import COOKIE_NAME, SESSION_SECONDS, Sessions
from streamgauge.server.http.tokens import Token, Tokens
from streamgauge.server.routes import live
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


def test_a_session_is_its_tokens_until_its_time_is_over(tmp_path: Path) -> None:
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


def test_a_session_that_is_closed_is_over(tmp_path: Path) -> None:
    _, sessions, _, token = opened(tmp_path)
    secret, other = sessions.create(token), sessions.create(token)
    sessions.close(secret)
    sessions.close("never was")
    assert sessions.find_token(secret) is None
    assert sessions.find_token(other) == token


def test_memory_holds_no_session_id(tmp_path: Path) -> None:
    _, sessions, _, token = opened(tmp_path)
    assert sessions.create(token) not in repr(vars(sessions))


def test_too_many_sessions_of_one_token_end_its_own_oldest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOKEN_SESSIONS", 3)
    tokens, sessions, _, token = opened(tmp_path)
    other = tokens.find_by_secret(tokens.create("bob", "reader"))
    assert other is not None
    first = sessions.create(other)
    own = [sessions.create(token) for _ in range(5)]
    assert [sessions.find_token(secret) is not None for secret in own] == [False, False, True, True, True]
    assert sessions.find_token(first) == other


async def followed(house: House, client: Client, end: Callable[[], Any], seconds: float = 20) -> bool:
    """Whether a live stream ends when something is over."""
    limits = house.app.user_middleware[-1].kwargs["limits"]
    reply = asyncio.create_task(client.asked("GET", "/api/live"))
    while not limits.live_connections:
        await asyncio.sleep(0.001)
    end()
    await asyncio.wait([reply], timeout=seconds)
    house.runner.event_buffer.close()
    ended = reply.done()
    assert (await reply).status_code == 200
    return ended


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(live, "POLL_SECONDS", 0.01)
    return House(tmp_path)


def test_a_live_stream_ends_with_its_token(house: House) -> None:
    assert asyncio.run(followed(house, house.client("reader"), lambda: house.tokens.revoke("rita")))


def test_a_live_stream_ends_with_its_session(house: House) -> None:
    client = house.client()
    client.post("/api/session", json={"token": house.secrets["reader"]})
    sessions = house.app.user_middleware[-1].kwargs["sessions"]
    secret = str(client.cookies.get(COOKIE_NAME))
    assert asyncio.run(followed(house, client, lambda: sessions.close(secret)))


def test_a_live_stream_goes_on_when_somebody_elses_token_is_revoked(house: House) -> None:
    assert not asyncio.run(followed(house, house.client("reader"), lambda: house.tokens.revoke("ana"), 0.2))


def test_a_live_stream_that_outlives_its_token_is_caught(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken twin: nobody looks again."""
    honest = roles.to_person
    monkeypatch.setattr(roles, "to_person", lambda token, still: honest(token))
    assert not asyncio.run(followed(house, house.client("reader"), lambda: house.tokens.revoke("rita"), 0.2))
