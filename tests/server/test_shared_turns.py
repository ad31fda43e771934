"""Who shares a turn: nobody is held up by an end that is over already, nor by one that is refused."""

from pathlib import Path
from typing import Any

import pytest
from served import file_of, running, stepped
from test_runner import asked

from streamgauge.pipeline.reader import Reader
from streamgauge.server import turns
from streamgauge.server.runner import Refused, Runner
from streamgauge.server.turns import Turns


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PACE", 0.0)


def openings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many share each turn, where an end is asked for again beside others, before readers see it."""
    file, clock, found = file_of(folder), stepped(), list[int]()
    names = ["a", "b", "c", "d"]
    with running(file, clock) as at_work:
        for name in names:
            at_work.ask(asked(file, name, 0.125))
        at_work.end("a")
        opened = Turns.opened
        monkeypatch.setattr(Turns, "opened", lambda s, t: (found.append(len(t.wishes)), opened(s, t)))
        with monkeypatch.context() as held:
            held.setattr(turns.Due, "left", lambda self: 1.0)
            wishes = [at_work.ending(name) for name in names]
            refused = at_work.ending("none")
        assert [wish.result(20) for wish in wishes] == [None] * 4
        with pytest.raises(Refused, match="must be one that is open"):
            refused.result(20)
        return [count for count in found if count]


def test_an_end_that_is_over_or_refused_splits_no_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert openings(tmp_path, monkeypatch) == [3]


def test_a_twin_that_judges_nobody_splits_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Runner, "_judge", lambda self, turn: None)
    with pytest.raises(Refused):
        openings(tmp_path, monkeypatch)


def test_budget_that_an_end_gives_back_is_there_for_who_shares_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, clock = file_of(tmp_path), stepped()
    with running(file, clock) as at_work:
        at_work.ask(asked(file, "a", 0.5))
        with monkeypatch.context() as held:
            held.setattr(turns.Due, "left", lambda self: 1.0)
            wishes = [at_work.asking(asked(file, "b", 0.5)), at_work.ending("a")]
        assert [wish.result(20) for wish in wishes] == [None, None]


def test_acts_that_leave_later_than_was_foreseen_are_told_with_when_they_left(tmp_path: Path) -> None:
    def slow(step: str) -> None:
        if step == "witnessed" and clock.time == 10**6 * 1_767_571_203:
            clock.to(9)

    file, clock = file_of(tmp_path), stepped()
    with running(file, clock, step=slow) as at_work:
        clock.to(3)
        at_work.ask(asked(file))
        (leaves,) = set(at_work.late.values())
        assert (leaves - file.stream.start) // 10**6 == 12  # the turn began at 3, and 8 had passed
        acts = {act.time for place, act in enumerate(read(at_work)) if place in at_work.late}
        assert {(time - file.stream.start) // 10**6 for time in acts} == {8}


def read(at_work: Runner) -> Any:
    with Reader.at(at_work.file.folder) as reader:
        return reader.acts()
