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
from streamgauge.server.turns import NotRunning, Refused, Stops, Turn, Turns, Wish
from streamgauge.sinks import ForeignSink
from streamgauge.sources import SourceError


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turns follow each other after a round."""
    monkeypatch.setattr(turns, "PACE", 0.0)


def asks(name: str) -> Wish:
    asked: Any = name
    return Wish(asked=(asked,))


def shared(*wishes: Wish) -> tuple[Turns, Turn]:
    """A turn that these share."""
    found = Turns()
    found.opened(found.at_hand)
    for wish in wishes:
        found.ask(wish)
    found.over(found.at_hand, None)
    turn = found.next(idle=False)
    assert turn is not None
    assert turn.wishes == wishes
    return found, turn


def test_who_waits_is_told_when_nobody_gets_a_turn_any_more_and_the_run_goes_on() -> None:
    waits, later = asks("waits"), asks("later")
    found = Turns()
    found.opened(found.at_hand)
    found.ask(waits)
    found.refuse()
    assert isinstance(waits.done.exception(timeout=0), Stops)
    with pytest.raises(Stops):
        found.ask(later)
    assert not found.at_hand.stop.is_set()


def test_a_turn_that_fails_while_the_server_stops_is_shared_by_nobody_alone() -> None:
    wishes = asks("a"), asks("b")
    found, turn = shared(*wishes)
    found.refuse()
    found.over(turn, SourceError("gone"))
    assert all(isinstance(wish.done.exception(timeout=0), NotRunning) for wish in wishes)


def after_a_rest(found: Turns) -> Turn:
    """The turn after the one in which the run goes on as it was."""
    rest = found.next(idle=False)
    assert rest is not None
    assert rest.wishes == ()
    found.opened(rest)
    assert rest.interrupted
    found.over(rest, None)
    turn = found.next(idle=False)
    assert turn is not None
    return turn


def test_who_is_judged_is_told_at_once_and_the_turn_is_of_the_others() -> None:
    refused, done, left = asks("a"), Wish(ended=("b",)), Wish(ended=("c",))
    found, turn = shared(refused, done, left)
    found.judged(turn, [("taken",), None, ()])
    assert turn.wishes == (left,)
    assert isinstance(refused.done.exception(0), Refused)
    assert done.done.result(0) is None
    assert not left.done.done()


def test_ends_share_a_turn_however_many_fail_beside_them() -> None:
    """Ticks wait for ends: so these wait for nobody who asks for something."""
    ends, alone = [Wish(ended=(name,)) for name in "abcdef"], [asks("x"), asks("y")]
    found, turn = shared(alone[0], *ends, alone[1])
    found.over(turn, OSError())
    late = Wish(ended=("late",))
    found.ask(late)
    turn = after_a_rest(found)
    assert turn.wishes == (*ends, late)
    found.over(turn, OSError())
    assert all(isinstance(wish.done.exception(0), NotRunning) for wish in (*ends, late))
    for wish in alone:
        turn = after_a_rest(found)
        assert turn.wishes == (wish,)
        found.over(turn, OSError())


def test_who_asks_waits_for_the_clock_and_no_later_one_is_taken_in_before() -> None:
    now = [3]
    found = Turns(lambda: now[0], lambda asked: -(-asked // 10) * 10)
    found.opened(found.at_hand)
    first, second = asks("a"), asks("b")
    found.ask(first)
    now[0] = 9
    assert not found.at_hand.interrupted
    now[0] = 12  # the round at hand took longer than the clock
    found.ask(second)
    assert found.at_hand.interrupted
    turn = found.next(idle=False)
    assert turn is not None
    assert turn.wishes == (first,)
    found.opened(turn)
    assert not turn.interrupted
    now[0] = 20
    assert turn.interrupted


def test_all_who_wait_share_a_turn_and_try_alone_if_it_fails() -> None:
    found = Turns()
    first = found.at_hand
    found.opened(first)
    wishes = [asks(name) for name in "abc"]
    threads = [Thread(target=waited, args=[found, wish]) for wish in wishes]
    for thread in threads:
        thread.start()
    eventually(lambda: len(found._asked) == 3)
    assert first.interrupted
    together = found.next(idle=False)
    assert together is not None
    assert len(together.asked) == 3
    found.over(together, AskRefused("one of them"))
    for _ in wishes:
        alone = after_a_rest(found)
        assert len(alone.wishes) == 1
        found.over(alone, AskRefused("this one"))
    for thread, wish in zip(threads, wishes, strict=True):
        thread.join()
        assert str(wish.done.exception()) == "this one"


def waited(found: Turns, wish: Wish) -> None:
    with suppress(Refused):
        found.ask(wish)


def test_a_run_goes_on_for_a_while_after_a_turn_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(turns, "PACE", 1.0)
    monkeypatch.setattr(turns, "monotonic", lambda: now[0])
    found, turn = shared(asks("a"))
    found.over(turn, OSError())
    found.ask(asks("b"))
    rest = found.next(idle=False)
    assert rest is not None
    found.opened(rest)
    assert not rest.interrupted
    now[0] = 1.0
    assert rest.interrupted


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
