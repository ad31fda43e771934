"""Failures of the run's thread: its state is then "failed", and no command waits for it."""

from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any, NoReturn

import pytest

from streamgauge.runtime.commands.queue import Command, CommandQueue
from streamgauge.server.runner import NotRunningError
from streamgauge.sources.http import InboxFullError
from streamgauge.store.store import Store
from tests.server.test_runner import requested
from tests.support.served import IMMEDIATE, PausedRunner, eventually, file_of, running, stepped


def boom() -> NoReturn:
    raise OSError(24, "too many open files")


def fail_commit(step: str) -> None:
    """Fail after the judgement of commands, before their commit."""
    if step == "commands_judged":
        boom()


def fail_after_commit(step: str) -> None:
    if step == "commands_committed":
        boom()


class DyingQueue(CommandQueue):
    """A queue that fails after its first batch of commands."""

    has_taken = False

    def take_due(self) -> list[Command]:
        if self.has_taken:
            boom()
        found = super().take_due()
        self.has_taken = bool(found)
        return found


class DyingRunner(PausedRunner):
    queue_class = DyingQueue


class ForgetfulQueue(CommandQueue):
    """A twin that does not reject the commands of a failed run."""

    def close(self) -> None:
        self._is_closed = True


class ForgetfulRunner(PausedRunner):
    queue_class = ForgetfulQueue


def submit_to_dying(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: type[PausedRunner], **settings: Any
) -> list[Future[None]]:
    """Return the outcomes of two commands of different times, after the thread of the run died of the first."""
    states: list[tuple[str, int]] = []
    close_store = Store.close

    def watch_close(store: Store) -> None:
        states.append((runner.state, runner.command_queue.pending_count))
        close_store(store)

    monkeypatch.setattr(Store, "close", watch_close)
    file, clock = file_of(folder), stepped(1)
    with running(file, clock, kind=kind, tuning=IMMEDIATE, **settings) as runner:
        runner.command_queue.max_batch = 1
        with runner.pause_commands():
            found = [runner.submit_release(requested(file, "a"))]
            clock.to(2)
            found.append(runner.submit_release(requested(file, "b")))
        eventually(lambda: not runner.is_alive, "the end of the thread")
        waiting = sum(not each.done() for each in found)
        assert (runner.state, runner.error, states) == ("failed", "OSError", [("failed", waiting)])
        with pytest.raises(NotRunningError):
            runner.submit_release(requested(file, "late")).result()
    return found


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(PausedRunner, {"step": fail_commit}), (PausedRunner, {"step": fail_after_commit}), (DyingRunner, {})],
    ids=["before the commit", "after the commit", "between rounds"],
)
def test_commands_are_rejected_before_the_store_is_released(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[PausedRunner], settings: dict[str, Any]
) -> None:
    first, second = submit_to_dying(tmp_path, monkeypatch, kind, **settings)
    assert not wait([first, second], timeout=20).not_done
    assert isinstance(second.exception(), NotRunningError)
    assert isinstance(first.exception(), NotRunningError if settings else type(None))


def test_twin_that_rejects_no_command_leaves_them_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = submit_to_dying(tmp_path, monkeypatch, ForgetfulRunner, step=fail_commit)
    assert (first.done(), second.done()) == (True, False)


def test_store_that_cannot_be_closed_fails_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    close_store = Store.close

    def fail_to_close(store: Store) -> None:
        close_store(store)
        boom()

    monkeypatch.setattr(Store, "close", fail_to_close)
    with running(file_of(tmp_path), stepped(1)) as runner:
        assert runner.state == "running"
    assert (runner.state, runner.error) == ("failed", "OSError")


def interrupt(step: str) -> None:
    """End the run by something that is no error, such as DuckDB's "Query interrupted"."""
    if step == "commands_judged":
        raise KeyboardInterrupt


def test_interrupted_run_has_failed_and_accepts_no_events(tmp_path: Path) -> None:
    file = file_of(tmp_path, source="http")
    with running(file, stepped(1), step=interrupt, tuning=IMMEDIATE) as runner:
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


def test_stopped_run_rejects_waiting_commands(tmp_path: Path) -> None:
    with running(file_of(tmp_path), stepped(1)) as runner:
        found = runner.submit_release(requested(runner.file))  # waits for the next multiple of the delay
        assert not found.done()
    assert isinstance(found.exception(0), NotRunningError)
