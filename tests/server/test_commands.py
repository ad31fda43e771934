"""The queue of commands: order, size of a batch, replies; and the text that clients get of a failure."""

from pathlib import Path
from threading import Event as Flag
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.privacy import PrivacyError
from streamgauge.runtime.commands.queue import (
    MAX_BATCH_COMMANDS,
    MAX_BATCH_VALUES,
    AddRelease,
    AnnounceIntrusion,
    CatchingUpError,
    Command,
    CommandQueue,
    CommandRefusedError,
    CommandSchedule,
    EndRelease,
    NotRunningError,
    RunStoppingError,
)
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.runtime.session import RunRefusedError
from streamgauge.sinks import SinkError
from streamgauge.sources import SourceError
from tests.server.test_runner import requested
from tests.support.served import IMMEDIATE, PausedRunner, close, file_of, leave, running, stepped


def add(name: str) -> AddRelease:
    release: Any = name
    return AddRelease(release)


def build_queue(*commands: Command, now: int = 0) -> CommandQueue:
    """Return a queue without a delay, with some commands."""
    queue = CommandQueue(now=lambda: now)
    for command in commands:
        queue.submit(command)
    return queue


def test_closed_queue_rejects_waiting_and_later_commands() -> None:
    waiting = add("waiting")
    queue = build_queue(waiting)
    queue.close()
    assert isinstance(waiting.outcome.exception(timeout=0), RunStoppingError)
    assert (queue.pending_count, queue.take_due()) == (0, [])
    with pytest.raises(RunStoppingError):
        queue.submit(add("later"))


def test_queue_drops_rejected_commands_and_accepts_later_ones() -> None:
    waiting, later = add("waiting"), add("later")
    queue = build_queue(waiting)
    queue.reject_pending(CatchingUpError())
    assert isinstance(waiting.outcome.exception(timeout=0), CatchingUpError)
    queue.submit(later)
    assert queue.take_due() == [later]


def test_batch_has_ends_then_releases_then_intrusions() -> None:
    ends, adds, intrusion = [EndRelease(name) for name in "ab"], [add(name) for name in "xy"], AnnounceIntrusion(Path())
    queue = build_queue(intrusion, adds[0], ends[0], adds[1], ends[1])
    assert queue.take_due() == [*ends, *adds, intrusion]


def test_batch_has_all_ends_first_and_limited_others() -> None:
    adds = [add(str(number)) for number in range(2 * MAX_BATCH_COMMANDS)]
    ends = [EndRelease(str(number)) for number in range(3 * MAX_BATCH_COMMANDS)]
    queue = build_queue(*adds, *ends)
    batches = [queue.take_due() for _ in range(3)]
    assert [len(batch) for batch in batches] == [len(ends) + MAX_BATCH_COMMANDS, MAX_BATCH_COMMANDS, 0]
    assert [command for batch in batches for command in batch] == [*ends, *adds]


def test_batch_has_a_bounded_number_of_values() -> None:
    plans: Any = [SimpleNamespace(parts=[SimpleNamespace(value_count=MAX_BATCH_VALUES // n)]) for n in (1, 2, 2, 4, 1)]
    wide = [AddRelease(add("a").release, plan) for plan in plans]
    queue = build_queue(*wide)
    assert [queue.take_due() for _ in range(4)] == [wide[:1], wide[1:3], wide[3:4], wide[4:]]


def test_command_waits_for_its_time_and_excludes_later_ones() -> None:
    now = [3]
    queue = CommandQueue(CommandSchedule(0, 10), lambda: now[0])
    first, second = add("a"), add("b")
    queue.submit(first)
    now[0] = 9
    assert (queue.has_due(), queue.take_due()) == (False, [])
    now[0] = 13  # the round took longer than the interval
    queue.submit(second)
    assert queue.take_due() == [first]
    assert (queue.has_due(), queue.take_due()) == (False, [])
    now[0] = 22
    assert queue.take_due() == [second]


def test_commands_of_many_threads_are_dequeued_once_each() -> None:
    queue, commands = CommandQueue(now=lambda: 0), [add(str(number)) for number in range(200)]
    threads = [
        Thread(target=lambda part=part: [queue.submit(each) for each in part])
        for part in (commands[::2], commands[1::2])
    ]
    for thread in threads:
        thread.start()
    found: list[Command] = []
    while len(found) < len(commands):
        found += queue.take_due()
    for thread in threads:
        thread.join()
    assert set(found) == set(commands)
    assert len(found) == len(commands)


def test_due_ticks_are_limited_by_waiting_ends_alone() -> None:
    now = [3]
    queue = CommandQueue(CommandSchedule(0, 10), lambda: now[0])
    queue.submit(add("a"))
    assert queue.limit_due_tick(lambda: 99, lambda moment: moment, {"b"}) == 99
    queue.submit(EndRelease("unknown"))
    assert queue.limit_due_tick(lambda: 99, lambda moment: moment, {"b"}) == 99
    queue.submit(EndRelease("b"))
    assert queue.limit_due_tick(lambda: 99, lambda moment: moment, {"b"}) == 20  # the reply time
    assert queue.limit_due_tick(lambda: 7, lambda moment: moment, {"b"}) == 7
    now[0] = 12
    queue.take_due()
    assert queue.limit_due_tick(lambda: 99, lambda moment: moment, {"b"}) == 99


@pytest.mark.parametrize("act", ["submit", "close", "stop"])
def test_wait_ends_on_submit_close_or_stop(act: str) -> None:
    queue, stop, found = CommandQueue(now=lambda: 0), Flag(), list[bool]()
    thread = Thread(target=lambda: found.append(queue.wait(stop)))
    thread.start()
    {"submit": lambda: queue.submit(add("a")), "close": queue.close, "stop": stop.set}[act]()
    thread.join(20)
    assert found == [act == "submit"]


def test_client_cannot_cancel_a_command() -> None:
    command = add("a")
    assert not command.outcome.cancel()
    command.resolve()
    command.reject(RunStoppingError())
    assert command.outcome.result(0) is None


def start_with(failure: Exception) -> type[ReleaseRun]:
    """Return a class whose release "bad" cannot be built."""

    class FailingRun(ReleaseRun):
        @classmethod
        def start(cls, plan: Any, name: str, *arguments: Any) -> ReleaseRun:
            if name == "bad":
                raise failure
            return super().start(plan, name, *arguments)

    return FailingRun


@pytest.mark.parametrize(
    ("failure", "is_public"),
    [
        (PrivacyError("share"), True),
        (InvalidReleaseError("late"), True),
        (RunRefusedError("4711"), False),
        (ValueError("4711"), False),
        (SinkError("4711"), False),
        (SourceError("4711"), False),
        (MemoryError("4711"), False),
        (OSError("4711"), False),
    ],
)
def test_release_that_cannot_be_built_fails_alone_uncharged(
    tmp_path: Path, failure: Exception, is_public: bool
) -> None:
    """Clients get the text of refusals that follow from declarations, and of no other failure."""
    file, clock, failures = file_of(tmp_path), stepped(1), list[Exception]()
    settings: Any = {"tuning": IMMEDIATE, "components": {ReleaseRun: start_with(failure)}}
    with running(file, clock, kind=PausedRunner, on_failure=failures.append, **settings) as runner:
        with runner.pause_commands():
            before, bad, after = [
                runner.submit_release(requested(file, name, 0.125)) for name in ("before", "bad", "after")
            ]
        assert (before.result(20), after.result(20)) == (None, None)
        refusal = bad.exception(20)
        assert isinstance(refusal, CommandRefusedError if is_public else NotRunningError)
        assert (str(failure) in str(refusal)) == is_public
        assert failures == ([] if is_public else [failure])
        close(runner, clock, 1)
        leave(runner, clock, 20)
        assert set(runner.load_ledger().releases) == {"counts", "before", "after"}
        assert runner.state == "running"
