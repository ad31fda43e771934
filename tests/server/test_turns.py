"""Turns: who waits shares one, each has its while, and a failure is told by declarations alone."""

from contextlib import suppress
from threading import Thread
from typing import Any

import pytest
from served import eventually

from streamgauge.pipeline.asked_releases import AskRefused
from streamgauge.pipeline.book import TooLate
from streamgauge.pipeline.opening import RunRefused
from streamgauge.pipeline.shares import ShareExceeded
from streamgauge.server import turns
from streamgauge.server.turns import NotRunning, Refused, Turns, Wish
from streamgauge.sinks import ForeignSink
from streamgauge.sources import SourceError


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns follow each other after a round."""
    monkeypatch.setattr(turns, "PACE", 0.0)


def test_all_who_wait_share_a_turn_and_try_alone_if_it_fails() -> None:
    found = Turns()
    first = found.at_hand
    found.opened(first)
    wishes = [Wish(ended=(name,)) for name in "abc"]
    threads = [Thread(target=waited, args=[found, wish]) for wish in wishes]
    for thread in threads:
        thread.start()
    eventually(lambda: len(found._asked) == 3)
    assert first.interrupted
    shared = found.next(idle=False)
    assert shared is not None
    assert sorted(shared.ended) == ["a", "b", "c"]
    found.over(shared, AskRefused("one of them"))
    for _ in wishes:
        rest, alone = found.next(idle=False), None
        assert rest is not None
        assert rest.wishes == ()  # after a failure the run goes on for a while
        found.opened(rest)
        assert rest.interrupted
        found.over(rest, None)
        alone = found.next(idle=False)
        assert alone is not None
        assert len(alone.wishes) == 1
        found.over(alone, AskRefused("this one"))
    for thread, wish in zip(threads, wishes, strict=True):
        thread.join()
        assert str(wish.done.exception()) == "this one"


def waited(found: Turns, wish: Wish) -> None:
    with suppress(Refused):
        found.ask(wish)


def test_a_turn_has_its_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(turns, "PACE", 1.0)
    monkeypatch.setattr(turns, "monotonic", lambda: now[0])
    found = Turns()
    found.opened(found.at_hand)
    found.at_hand.due.set()
    assert not found.at_hand.interrupted
    now[0] = 1.0
    assert found.at_hand.interrupted


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (AskRefused("name"), True),
        (TooLate("late"), True),
        (ShareExceeded("share"), True),
        (RunRefused("source must stay as it was charged, got a change"), False),
        (ForeignSink("sink"), False),
        (SourceError("source"), False),
        (ValueError("value"), False),
        (MemoryError("memory"), False),
    ],
)
def test_refusals_that_follow_from_declarations_are_told_and_no_others(failure: Any, told: bool) -> None:
    found = turns.refusal_of(failure)
    assert isinstance(found, Refused if told else NotRunning)
    assert (str(failure) in str(found)) == told
