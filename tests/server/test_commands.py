"""Turns: who waits shares one, each has its while, and a failure is told by declarations alone."""

from contextlib import suppress
from threading import Thread
from typing import Any

import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.privacy import PrivacyError
from streamgauge.runtime.session import RunRefusedError
from streamgauge.server import commands as turns
from streamgauge.server.commands import (
    Command,
    CommandBatch,
    CommandQueue,
    CommandRefusedError,
    NotRunningError,
    RunStoppingError,
)
from streamgauge.server.tuning import Tuning
from streamgauge.sinks import SinkError
from streamgauge.sources import SourceError
from tests.support.served import IMMEDIATE, eventually


def asks(name: str) -> Command:
    requested: Any = name
    return Command(releases=(requested,))


def shared(*commands: Command, found: CommandQueue | None = None) -> tuple[CommandQueue, CommandBatch]:
    """A turn that these share."""
    found = found or CommandQueue(tuning=IMMEDIATE)
    found.mark_opened(found.current)
    for command in commands:
        found.submit(command)
    found.finish_batch(found.current, None)
    batch = found.next_batch(idle=False)
    assert batch is not None
    assert batch.commands == commands
    return found, batch


def test_who_waits_is_shown_when_no_one_gets_a_batch_any_more_and_the_run_goes_on() -> None:
    waits, later = asks("waits"), asks("later")
    found = CommandQueue(tuning=IMMEDIATE)
    found.mark_opened(found.current)
    found.submit(waits)
    found.reject_new()
    assert isinstance(waits.outcome.exception(timeout=0), RunStoppingError)
    with pytest.raises(RunStoppingError):
        found.submit(later)
    assert not found.current.stop.is_set()


def test_a_batch_that_fails_while_the_server_stops_is_shared_by_no_one_alone() -> None:
    commands = asks("a"), asks("b")
    found, batch = shared(*commands)
    found.reject_new()
    found.finish_batch(batch, SourceError("gone"))
    assert all(isinstance(command.outcome.exception(timeout=0), NotRunningError) for command in commands)


def after_a_rest(found: CommandQueue) -> CommandBatch:
    """The turn after the one in which the run goes on as it was."""
    rest = found.next_batch(idle=False)
    assert rest is not None
    assert rest.commands == ()
    found.mark_opened(rest)
    assert rest.is_interrupted
    found.finish_batch(rest, None)
    batch = found.next_batch(idle=False)
    assert batch is not None
    return batch


def test_who_is_judged_is_shown_at_once_and_the_batch_is_of_the_others() -> None:
    refused, done, left = asks("a"), Command(end_names=("b",)), Command(end_names=("c",))
    found, batch = shared(refused, done, left)
    found.apply_refusals(batch, [("taken",), None, ()])
    assert batch.commands == (left,)
    assert isinstance(refused.outcome.exception(0), CommandRefusedError)
    assert done.outcome.result(0) is None
    assert not left.outcome.done()


def test_ends_share_a_batch_however_many_fail_next_to_them() -> None:
    """Ticks wait for ends: so these wait for nobody who asks for something."""
    ends, alone = [Command(end_names=(name,)) for name in "abcdef"], [asks("x"), asks("y")]
    found, batch = shared(alone[0], *ends, alone[1])
    found.finish_batch(batch, OSError())
    late = Command(end_names=("late",))
    found.submit(late)
    batch = after_a_rest(found)
    assert batch.commands == (*ends, late)
    found.finish_batch(batch, OSError())
    assert all(isinstance(command.outcome.exception(0), NotRunningError) for command in (*ends, late))
    for command in alone:
        batch = after_a_rest(found)
        assert batch.commands == (command,)
        found.finish_batch(batch, OSError())


def test_who_asks_waits_for_the_clock_and_no_later_one_is_accepted_in_before() -> None:
    now = [3]
    found = CommandQueue(lambda: now[0], lambda requested: -(-requested // 10) * 10, IMMEDIATE)
    found.mark_opened(found.current)
    first, second = asks("a"), asks("b")
    found.submit(first)
    now[0] = 9
    assert not found.current.is_interrupted
    now[0] = 12  # the round at hand took longer than the clock
    found.submit(second)
    assert found.current.is_interrupted
    batch = found.next_batch(idle=False)
    assert batch is not None
    assert batch.commands == (first,)
    found.mark_opened(batch)
    assert not batch.is_interrupted
    now[0] = 20
    assert batch.is_interrupted


def test_all_who_wait_share_a_batch_and_try_alone_if_it_fails() -> None:
    found = CommandQueue(tuning=IMMEDIATE)
    first = found.current
    found.mark_opened(first)
    commands = [asks(name) for name in "abc"]
    threads = [Thread(target=waited, args=[found, command]) for command in commands]
    for thread in threads:
        thread.start()
    eventually(lambda: found.pending_count == 3)
    assert first.is_interrupted
    together = found.next_batch(idle=False)
    assert together is not None
    assert len(together.releases) == 3
    found.finish_batch(together, InvalidReleaseError("one of them"))
    for _ in commands:
        alone = after_a_rest(found)
        assert len(alone.commands) == 1
        found.finish_batch(alone, InvalidReleaseError("this one"))
    for thread, command in zip(threads, commands, strict=True):
        thread.join()
        assert str(command.outcome.exception()) == "this one"


def waited(found: CommandQueue, command: Command) -> None:
    with suppress(CommandRefusedError):
        found.submit(command)


def test_a_run_goes_on_for_a_while_after_a_batch_that_failed() -> None:
    now = [0.0]
    paced = CommandQueue(tuning=Tuning(batch_interval_seconds=1.0), steady=lambda: now[0])
    found, batch = shared(asks("a"), found=paced)
    found.finish_batch(batch, OSError())
    found.submit(asks("b"))
    rest = found.next_batch(idle=False)
    assert rest is not None
    found.mark_opened(rest)
    assert not rest.is_interrupted
    now[0] = 1.0
    assert rest.is_interrupted


@pytest.mark.parametrize(
    ("failure", "details"),
    [
        (InvalidReleaseError("name"), True),
        (InvalidReleaseError("late"), True),
        (PrivacyError("share"), True),
        (RunRefusedError("source must stay as it was charged, got a change"), False),
        (SinkError("sink"), False),
        (SourceError("source"), False),
        (ValueError("value"), False),
        (MemoryError("memory"), False),
    ],
)
def test_refusals_that_follow_from_declarations_are_shown_and_no_others(failure: Any, details: bool) -> None:
    found = turns.to_public_error(failure)
    assert isinstance(found, CommandRefusedError if details else NotRunningError)
    assert (str(failure) in str(found)) == details
