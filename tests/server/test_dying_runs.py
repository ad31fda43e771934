"""Whatever the thread of a run dies of: it is failed for all to see, and nobody waits for it."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest

from streamgauge.runtime.resources import RunResources
from streamgauge.server import commands as turns
from streamgauge.server import runner as runners
from streamgauge.server.commands import CommandQueue
from streamgauge.server.runner import NotRunningError, Runner
from streamgauge.sources.http import InboxFullError
from tests.server.test_runner import asked
from tests.support.served import eventually, file_of, running, stepped


def boom(*told: Any, **more: Any) -> Any:
    raise OSError(24, "too many open files")


def over_the_budget(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> list[Future[None]]:
    """Two that cannot be charged together, whose turn comes when both wait."""
    monkeypatch.setattr(turns, "BATCH_INTERVAL_SECONDS", 10**9)
    found = [runner.submit_release(asked(runner.file, name, 0.375)) for name in ("a", "b")]
    monkeypatch.setattr(turns, "BATCH_INTERVAL_SECONDS", 0.0)
    return found


def died(folder: Path, monkeypatch: pytest.MonkeyPatch, dies: Callable[[], None]) -> list[Future[None]]:
    """What those are told who waited when the thread of the run died."""
    seen: list[str] = []
    with running(file_of(folder), stepped(1)) as runner:
        close = RunResources.close

        def closing(self: RunResources) -> None:
            seen.append(runner.state)
            close(self)

        monkeypatch.setattr(RunResources, "close", closing)
        dies()
        found = over_the_budget(runner, monkeypatch)
        eventually(lambda: not runner._thread.is_alive(), "the end of the thread")
        assert (runner.state, runner.error, seen) == ("failed", "OSError", ["failed"])
        with pytest.raises(NotRunningError):
            runner.add_release(asked(runner.file, "late"))
    return found


@pytest.mark.parametrize("where", ["what goes on without them", "whose turn is next"])
def test_who_waits_is_told_and_the_store_is_let_go_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def dies() -> None:
        monkeypatch.setattr(runners, "read_ledger_log", boom)
        monkeypatch.setattr(Runner, "_continue_after", boom)
        if where == "whose turn is next":
            monkeypatch.setattr(Runner, "_continue_after", lambda self, failure: None)
            monkeypatch.setattr(CommandQueue, "next_batch", boom)

    found = died(tmp_path, monkeypatch, dies)
    assert not wait(found, timeout=20).not_done
    assert all(isinstance(each.exception(), NotRunningError) for each in found)


def test_a_twin_that_abandons_nobody_leaves_them_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def dies() -> None:
        monkeypatch.setattr(runners, "read_ledger_log", boom)
        monkeypatch.setattr(Runner, "_continue_after", boom)
        monkeypatch.setattr(CommandQueue, "abandon", lambda self, failure: self.close())

    assert not any(each.done() for each in died(tmp_path, monkeypatch, dies))


def test_a_ledger_that_cannot_be_read_for_a_while_fails_what_is_asked_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(file_of(tmp_path), stepped(1)) as runner:
        with monkeypatch.context() as broken:
            broken.setattr(runners, "read_ledger_log", boom)
            found = over_the_budget(runner, monkeypatch)
            assert {type(each.exception(20)) for each in found} == {NotRunningError}
        assert runner.state == "running"
        assert runner.submit_release(asked(runner.file, "c")).result(20) is None


def test_a_sink_that_cannot_be_closed_fails_the_run_in_no_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(file_of(tmp_path), stepped(1)) as runner:
        monkeypatch.setattr(RunResources, "close_store", boom)
    assert (runner.state, runner.error) == ("failed", "OSError")


def test_a_run_that_is_ended_by_what_is_no_error_is_failed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As DuckDB's "Query interrupted" is: nobody sends events to a run that is no more."""

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    with running(file_of(tmp_path, source="http"), stepped(1)) as runner:
        monkeypatch.setattr(turns, "BATCH_INTERVAL_SECONDS", 0.0)
        monkeypatch.setattr(Runner, "_validate_commands", interrupted)
        found = runner.submit_release(asked(runner.file))
        assert isinstance(found.exception(20), NotRunningError)
        eventually(lambda: not runner._thread.is_alive(), "the end of the thread")
        assert (runner.state, runner.error) == ("failed", "RunInterruptedError")
        assert str(runner.failure) == "run must continue until it is stopped, got KeyboardInterrupt"
        with pytest.raises(InboxFullError, match="got some after its end"):
            runner.inbox.put("a batch", b"{}")  # type: ignore[union-attr]


def test_who_goes_away_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "BATCH_INTERVAL_SECONDS", 0.0)
    with running(file_of(tmp_path), stepped(1)) as runner:
        found = runner.submit_release(asked(runner.file))
        assert not found.cancel()
        assert found.result(20) is None
        assert runner.state == "running"
