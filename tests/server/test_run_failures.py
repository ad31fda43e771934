"""Deaths of the thread of a run: its state is then "failed", and no command waits for it."""

from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

from streamgauge.runtime.resources import RunResources
from streamgauge.server.commands import CommandBatch, CommandQueue
from streamgauge.server.runner import NotRunningError
from streamgauge.sources.http import InboxFullError
from tests.server.test_runner import requested
from tests.support.served import IMMEDIATE, PausedRunner, eventually, file_of, running, stepped


def boom() -> NoReturn:
    raise OSError(24, "too many open files")


class BrokenRunner(PausedRunner):
    """A run that cannot read its ledger while it is broken."""

    is_broken = False

    def _validate_commands(self, batch: CommandBatch) -> None:
        if self.is_broken and batch.commands:
            boom()
        super()._validate_commands(batch)


class DyingRunner(BrokenRunner):
    """A run that dies of a failed batch."""

    def _continue_after(self, failure: Exception) -> None:
        boom()


class DyingQueue(CommandQueue):
    """A queue that fails after a failed batch."""

    is_broken = False

    def finish_batch(self, batch: CommandBatch, failure: Exception | None) -> None:
        super().finish_batch(batch, failure)
        self.is_broken = self.is_broken or failure is not None

    def next_batch(self, *, idle: bool) -> CommandBatch | None:
        if self.is_broken:
            boom()
        return super().next_batch(idle=idle)


class DyingBetweenBatches(BrokenRunner):
    command_queue = DyingQueue


class ForgetfulQueue(CommandQueue):
    """A twin that does not reject the commands of a dead run."""

    def abandon(self, failure: Exception | None) -> None:
        self.close()


class ForgetfulRunner(DyingRunner):
    command_queue = ForgetfulQueue


def submit_two(runner: PausedRunner) -> list[Future[None]]:
    """Submit two releases that cannot be charged together, in one batch."""
    with runner.pause_commands():
        return [runner.submit_release(requested(runner.file, name, 0.375)) for name in ("a", "b")]


def submit_to_dying(folder: Path, kind: type[BrokenRunner]) -> list[Future[None]]:
    """Return the outcomes of commands that waited when the thread of the run died."""
    states: list[str] = []

    class WatchedResources(RunResources):
        def close(self) -> None:
            states.append(runner.state)
            super().close()

    class WatchedRunner(kind):  # type: ignore[misc, valid-type]
        run_resources = WatchedResources

    with running(file_of(folder), stepped(1), kind=WatchedRunner, tuning=IMMEDIATE) as runner:
        runner.is_broken = True
        found = submit_two(runner)
        eventually(lambda: not runner.is_alive, "the end of the thread")
        assert (runner.state, runner.error, states) == ("failed", "OSError", ["failed"])
        with pytest.raises(NotRunningError):
            runner.add_release(requested(runner.file, "late"))
    return found


@pytest.mark.parametrize("kind", [DyingRunner, DyingBetweenBatches])
def test_commands_are_rejected_before_the_store_is_released(tmp_path: Path, kind: type[BrokenRunner]) -> None:
    found = submit_to_dying(tmp_path, kind)
    assert not wait(found, timeout=20).not_done
    assert all(isinstance(each.exception(), NotRunningError) for each in found)


def test_twin_that_abandons_no_command_leaves_them_waiting(tmp_path: Path) -> None:
    assert not any(each.done() for each in submit_to_dying(tmp_path, ForgetfulRunner))


def test_ledger_that_cannot_be_read_fails_commands_and_not_the_run(tmp_path: Path) -> None:
    with running(file_of(tmp_path), stepped(1), kind=BrokenRunner, tuning=IMMEDIATE) as runner:
        runner.is_broken = True
        found = submit_two(runner)
        assert {type(each.exception(20)) for each in found} == {NotRunningError}
        runner.is_broken = False
        assert runner.state == "running"
        assert runner.submit_release(requested(runner.file, "c")).result(20) is None


def test_sink_that_cannot_be_closed_fails_the_run(tmp_path: Path) -> None:
    class UnclosableResources(RunResources):
        def close_store(self) -> None:
            boom()

    class UnclosableRunner(PausedRunner):
        run_resources = UnclosableResources

    with running(file_of(tmp_path), stepped(1), kind=UnclosableRunner) as runner:
        assert runner.state == "running"
    assert (runner.state, runner.error) == ("failed", "OSError")


class InterruptedRunner(PausedRunner):
    """A run that is ended by something that is no error, such as DuckDB's "Query interrupted"."""

    def _validate_commands(self, batch: Any) -> None:
        if batch.commands:
            raise KeyboardInterrupt


def test_interrupted_run_has_failed_and_accepts_no_events(tmp_path: Path) -> None:
    file = file_of(tmp_path, source="http")
    with running(file, stepped(1), kind=InterruptedRunner, tuning=IMMEDIATE) as runner:
        found = runner.submit_release(requested(runner.file))
        assert isinstance(found.exception(20), NotRunningError)
        eventually(lambda: not runner.is_alive, "the end of the thread")
        assert (runner.state, runner.error) == ("failed", "RunInterruptedError")
        assert str(runner.failure) == "run must continue until it is stopped, got KeyboardInterrupt"
        with pytest.raises(InboxFullError, match="got some after its end"):
            runner.inbox.put("a batch", b"{}")  # type: ignore[union-attr]


def test_client_that_disconnects_withdraws_no_command(tmp_path: Path) -> None:
    with running(file_of(tmp_path), stepped(1), tuning=IMMEDIATE) as runner:
        found = runner.submit_release(requested(runner.file))
        assert not found.cancel()
        assert found.result(20) is None
        assert runner.state == "running"
