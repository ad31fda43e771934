"""Who shares a turn: nobody is held up by an end that is over already, nor by one that is refused."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamgauge.server.commands import CommandBatch, CommandQueue
from streamgauge.server.runner import CommandRefusedError, Runner
from streamgauge.store.reader import StoreReader
from tests.server.test_runner import requested
from tests.support.served import IMMEDIATE, PausedRunner, file_of, running, stepped

running = partial(running, tuning=IMMEDIATE, kind=PausedRunner)


def openings(folder: Path, kind: type[PausedRunner] = PausedRunner) -> list[int]:
    """How many share each turn, where an end is asked for again beside others, before readers see it."""
    file, clock, found = file_of(folder), stepped(), list[int]()
    names = ["a", "b", "c", "d"]

    class Queue(CommandQueue):
        def mark_opened(self, batch: CommandBatch) -> None:
            found.append(len(batch.commands))
            super().mark_opened(batch)

    class Counted(kind):  # type: ignore[misc, valid-type]
        command_queue = Queue

    with running(file, clock, kind=Counted) as at_work:
        for name in names:
            at_work.add_release(requested(file, name, 0.125))
        at_work.end_release("a")
        found.clear()
        with at_work.pause_commands():
            commands = [at_work.submit_end(name) for name in names]
            refused = at_work.submit_end("none")
        assert [command.result(20) for command in commands] == [None] * 4
        with pytest.raises(CommandRefusedError, match="must be one that is open"):
            refused.result(20)
        return [count for count in found if count]


def test_end_that_is_done_or_refused_splits_no_batch(tmp_path: Path) -> None:
    assert openings(tmp_path) == [3]


def test_twin_that_validates_nothing_splits_the_batch(tmp_path: Path) -> None:
    class Unvalidated(PausedRunner):
        def _validate_commands(self, batch: CommandBatch) -> None:
            pass

    with pytest.raises(CommandRefusedError):
        openings(tmp_path, Unvalidated)


def test_budget_of_an_end_is_free_in_its_batch(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as at_work:
        at_work.add_release(requested(file, "a", 0.5))
        with at_work.pause_commands():
            commands = [at_work.submit_release(requested(file, "b", 0.5)), at_work.submit_end("a")]
        assert [command.result(20) for command in commands] == [None, None]


def test_acts_that_leave_later_than_was_foreseen_are_shown_with_when_they_left(tmp_path: Path) -> None:
    def slow(step: str) -> None:
        if step == "guard_written" and clock.time == 10**6 * 1_767_571_203:
            clock.to(9)

    file, clock = file_of(tmp_path), stepped()
    with running(file, clock, step=slow) as at_work:
        clock.to(3)
        at_work.add_release(requested(file))
        (leaves,) = set(at_work.delayed_entries.values())
        assert (leaves - file.stream.start) // 10**6 == 12  # the turn began at 3, and 8 had passed
        acts = {act.time for place, act in enumerate(read(at_work)) if place in at_work.delayed_entries}
        assert {(time - file.stream.start) // 10**6 for time in acts} == {8}


def read(at_work: Runner) -> Any:
    with StoreReader.open(at_work.file.folder) as reader:
        return reader.ledger_entries()
