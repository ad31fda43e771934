"""Commands that are applied together: one commit, ends first, and no command fails with another."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from streamgauge.interfaces import Engine
from streamgauge.runtime.commands.queue import MAX_BATCH_COMMANDS, Command, CommandQueue
from streamgauge.runtime.release_run import Batches
from streamgauge.server.runner import CommandRefusedError, NotRunningError, Runner
from streamgauge.store.reader import StoreReader
from tests.server.test_runner import requested
from tests.support.served import (
    IMMEDIATE,
    PausedRunner,
    ask,
    close,
    committed,
    eventually,
    file_of,
    leave,
    running,
    stepped,
    write,
)

running = partial(running, tuning=IMMEDIATE, kind=PausedRunner)


def test_ends_share_a_commit_with_repeated_and_refused_ones(tmp_path: Path) -> None:
    file, clock, steps = file_of(tmp_path), stepped(), list[str]()
    names = ["a", "b", "c", "d"]
    with running(file, clock, step=steps.append) as runner:
        for name in names:
            runner.submit_release(requested(file, name, 0.125)).result()
        runner.submit_end("a").result()
        steps.clear()
        with runner.pause_commands():
            ends = [runner.submit_end(name) for name in [*names, "b"]]
            refused = runner.submit_end("none")
        assert [each.result(20) for each in ends] == [None] * 5
        with pytest.raises(CommandRefusedError, match="must be one that is open"):
            refused.result(20)
        assert steps.count("commands_committed") == 1
        entries = [act.body["release"] for act in read(runner) if act.kind == "end"]
        assert sorted(entries) == names


def test_repeated_end_is_accepted_and_commits_nothing(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        runner.submit_release(requested(file)).result()
        runner.submit_end("more").result()
        before = read(runner)
        runner.submit_end("more").result()
        assert read(runner) == before


def test_budget_of_an_end_is_free_in_its_batch(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as runner:
        runner.submit_release(requested(file, "a", 0.5)).result()
        with runner.pause_commands():
            commands = [runner.submit_release(requested(file, "b", 0.5)), runner.submit_end("a")]
        assert [command.result(20) for command in commands] == [None, None]


class UnorderedQueue(CommandQueue):
    """A twin that applies commands in the order of their requests."""

    def take_due(self) -> list[Command]:
        return sorted(super().take_due(), key=lambda each: type(each).__name__)  # adds before ends


class UnorderedRunner(PausedRunner):
    queue_class = UnorderedQueue


def test_twin_that_ends_releases_last_has_no_budget_for_others(tmp_path: Path) -> None:
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock, kind=UnorderedRunner) as runner:
        runner.submit_release(requested(file, "a", 0.5)).result()
        with runner.pause_commands():
            added, ended = runner.submit_release(requested(file, "b", 0.5)), runner.submit_end("a")
        assert ended.result(20) is None
        assert isinstance(added.exception(20), CommandRefusedError)


class PickyBatches(Batches):
    """Batches whose engine rejects the release "bad"."""

    def open_engine(self) -> Engine:
        engine: Any = super().open_engine()
        change = engine.change_measures

        def change_measures(measures: Any) -> None:
            if any(name.startswith("bad/") for name in self.measures):
                raise OSError("secret")
            change(measures)

        engine.change_measures = change_measures
        return engine  # type: ignore[no-any-return]


def test_release_that_the_engine_rejects_fails_alone_uncharged(tmp_path: Path) -> None:
    write(tmp_path, 40)
    file, clock, failures = file_of(tmp_path), stepped(1), list[Exception]()
    with running(file, clock, components={Batches: PickyBatches}, on_failure=failures.append) as runner:
        runner.submit_release(requested(file, "old", 0.125)).result()
        with runner.pause_commands():
            ended = runner.submit_end("old")
            before, bad, after = [
                runner.submit_release(requested(file, name, 0.125)) for name in ("before", "bad", "after")
            ]
        assert [each.result(20) for each in (ended, before, after)] == [None] * 3
        with pytest.raises(NotRunningError, match=r"^the release could not be started$"):
            bad.result(20)
        assert {str(each) for each in failures} == {"secret"}
        for tick in (1, 2):
            close(runner, clock, tick)
        leave(runner, clock, 32)
        assert set(runner.load_ledger().releases) == {"counts", "old", "before", "after"}
        rows = ask(runner, "/api/releases/counts?group=g:a").json()["rows"]
        assert [row["count"]["value"] for row in rows] == [5.0, 5.0]


def find_ticks(folder: Path, most: int) -> list[int]:
    """Return the last closed tick at each batch, if a tick becomes due during each of them."""
    ticks: list[int] = []

    class SlowQueue(CommandQueue):
        def take_due(self) -> list[Command]:
            self.max_batch = most
            found = super().take_due()
            if found:
                ticks.append(committed(runner)[1])
                clock.to(10 * len(ticks) + 5)
            return found

    class SlowRunner(PausedRunner):
        queue_class = SlowQueue

    file, clock = file_of(folder), stepped()
    with running(file, clock, kind=SlowRunner) as runner:
        with runner.pause_commands():
            taken = [runner.submit_release(requested(file, "counts")) for _ in range(3 * MAX_BATCH_COMMANDS)]
        assert all(isinstance(each.exception(20), CommandRefusedError) for each in taken)
        eventually(lambda: committed(runner)[1] == len(ticks), "the last tick")
    return ticks


def test_tick_that_is_due_closes_before_the_next_batch(tmp_path: Path) -> None:
    assert find_ticks(tmp_path, MAX_BATCH_COMMANDS) == [0, 1, 2]


def test_twin_without_a_bound_applies_all_commands_before_a_tick(tmp_path: Path) -> None:
    assert find_ticks(tmp_path, 10**9) == [0]


def test_entries_of_a_late_commit_are_visible_after_their_time(tmp_path: Path) -> None:
    def slow(step: str) -> None:
        if step == "guard_written" and clock.time == 10**6 * 1_767_571_203:
            clock.to(9)

    file, clock = file_of(tmp_path), stepped()
    with running(file, clock, step=slow) as runner:
        clock.to(3)
        runner.submit_release(requested(file)).result()
        times = [act.time for act in read(runner) if act.body.get("release") == "more"]
        assert [(time - file.stream.start) // 10**6 for time in times] == [8]
        clock.to(11)
        assert "more" not in runner.load_ledger().releases
        clock.to(12)
        eventually(lambda: "more" in runner.load_ledger().releases)


def read(runner: Runner) -> Any:
    with StoreReader.open(runner.file.folder) as reader:
        return reader.ledger_entries()
