"""Whatever the thread of a run dies of: it is failed for all to see, and nobody waits for it."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import pytest
from served import eventually, file_of, running, stepped
from test_runner import asked

from streamgauge.pipeline.holding import Holding
from streamgauge.server import runner as runners
from streamgauge.server import turns
from streamgauge.server.runner import NotRunning, Runner
from streamgauge.server.turns import Turns
from streamgauge.sources.inbox import InboxClosed


def boom(*told: Any, **more: Any) -> Any:
    raise OSError(24, "too many open files")


def over_the_budget(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> list[Future[None]]:
    """Two that cannot be charged together, whose turn comes when both wait."""
    monkeypatch.setattr(turns, "PACE", 10**9)
    found = [runner.asking(asked(runner.file, name, 0.375)) for name in ("a", "b")]
    monkeypatch.setattr(turns, "PACE", 0.0)
    return found


def died(folder: Path, monkeypatch: pytest.MonkeyPatch, dies: Callable[[], None]) -> list[Future[None]]:
    """What those are told who waited when the thread of the run died."""
    seen: list[str] = []
    with running(file_of(folder), stepped(1)) as runner:
        close = Holding.close

        def closing(self: Holding) -> None:
            seen.append(runner.state)
            close(self)

        monkeypatch.setattr(Holding, "close", closing)
        dies()
        found = over_the_budget(runner, monkeypatch)
        eventually(lambda: not runner._thread.is_alive(), "the end of the thread")
        assert (runner.state, runner.error, seen) == ("failed", "OSError", ["failed"])
        with pytest.raises(NotRunning):
            runner.ask(asked(runner.file, "late"))
    return found


@pytest.mark.parametrize("where", ["what goes on without them", "whose turn is next"])
def test_who_waits_is_told_and_the_store_is_let_go_after_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def dies() -> None:
        monkeypatch.setattr(runners, "read_book", boom)
        monkeypatch.setattr(Runner, "_go_on_after", boom)
        if where == "whose turn is next":
            monkeypatch.setattr(Runner, "_go_on_after", lambda self, failure: None)
            monkeypatch.setattr(Turns, "next", boom)

    found = died(tmp_path, monkeypatch, dies)
    assert not wait(found, timeout=20).not_done
    assert all(isinstance(each.exception(), NotRunning) for each in found)


def test_a_twin_that_abandons_nobody_leaves_them_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies() -> None:
        monkeypatch.setattr(runners, "read_book", boom)
        monkeypatch.setattr(Runner, "_go_on_after", boom)
        monkeypatch.setattr(Turns, "abandon", lambda self, failure: self.close())

    assert not any(each.done() for each in died(tmp_path, monkeypatch, dies))


def test_a_ledger_that_cannot_be_read_for_a_while_fails_what_is_asked_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(file_of(tmp_path), stepped(1)) as runner:
        with monkeypatch.context() as broken:
            broken.setattr(runners, "read_book", boom)
            found = over_the_budget(runner, monkeypatch)
            assert {type(each.exception(20)) for each in found} == {NotRunning}
        assert runner.state == "running"
        assert runner.asking(asked(runner.file, "c")).result(20) is None


def test_a_sink_that_cannot_be_closed_fails_the_run_in_no_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(file_of(tmp_path), stepped(1)) as runner:
        monkeypatch.setattr(Holding, "let_go", boom)
    assert (runner.state, runner.error) == ("failed", "OSError")


def test_a_run_that_is_ended_by_what_is_no_error_is_failed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As DuckDB's "Query interrupted" is: nobody sends events to a run that is no more."""

    def interrupted(*given: Any) -> None:
        raise KeyboardInterrupt

    with running(file_of(tmp_path, source="http"), stepped(1)) as runner:
        monkeypatch.setattr(turns, "PACE", 0.0)
        monkeypatch.setattr(Runner, "_judge", interrupted)
        found = runner.asking(asked(runner.file))
        assert isinstance(found.exception(20), NotRunning)
        eventually(lambda: not runner._thread.is_alive(), "the end of the thread")
        assert (runner.state, runner.error) == ("failed", "Interrupted")
        assert str(runner.failure) == "run must go on until it is stopped, got KeyboardInterrupt"
        with pytest.raises(InboxClosed):
            runner.inbox.put("a batch", b"{}")  # type: ignore[union-attr]


def test_who_goes_away_takes_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PACE", 0.0)
    with running(file_of(tmp_path), stepped(1)) as runner:
        found = runner.asking(asked(runner.file))
        assert not found.cancel()
        assert found.result(20) is None
        assert runner.state == "running"
