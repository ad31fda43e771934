"""Sessions end: after their time, when they are closed, when their token is revoked."""

from pathlib import Path

import pytest

from streamgauge.server import sessions as module
from streamgauge.server.sessions import LASTS, Sessions
from streamgauge.server.tokens import Token, Tokens


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(folder: Path, name: str = "ann") -> tuple[Tokens, Sessions, Clock, Token]:
    tokens, clock = Tokens(folder), Clock()
    token = tokens.known(tokens.create(name, "reader"))
    assert token is not None
    return tokens, Sessions(tokens, now=clock), clock, token


def test_a_session_is_its_tokens_until_its_time_is_over(tmp_path: Path) -> None:
    _, sessions, clock, token = opened(tmp_path)
    secret = sessions.open(token)
    clock.now = LASTS - 1
    assert sessions.token(secret) == token
    clock.now = LASTS
    assert sessions.token(secret) is None
    assert len(sessions) == 0


def test_a_session_ends_with_its_token(tmp_path: Path) -> None:
    tokens, sessions, _, token = opened(tmp_path)
    secret = sessions.open(token)
    tokens.revoke("ann")
    assert sessions.token(secret) is None


def test_a_session_that_is_closed_is_over(tmp_path: Path) -> None:
    _, sessions, _, token = opened(tmp_path)
    secret, other = sessions.open(token), sessions.open(token)
    sessions.close(secret)
    sessions.close("never was")
    assert sessions.token(secret) is None
    assert sessions.token(other) == token


def test_memory_holds_no_session_id(tmp_path: Path) -> None:
    _, sessions, _, token = opened(tmp_path)
    assert sessions.open(token) not in repr(vars(sessions))


def test_too_many_sessions_of_one_token_end_its_own_oldest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_OF_ONE", 3)
    tokens, sessions, _, token = opened(tmp_path)
    other = tokens.known(tokens.create("bob", "reader"))
    assert other is not None
    first = sessions.open(other)
    own = [sessions.open(token) for _ in range(5)]
    assert [sessions.token(secret) is not None for secret in own] == [False, False, True, True, True]
    assert sessions.token(first) == other
