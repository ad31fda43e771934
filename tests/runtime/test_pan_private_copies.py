"""A copy of a pan-private store that is put back within a tick: refused, or paid for."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamgauge.runtime.live.state import CLEAN_SHUTDOWN_PART
from streamgauge.runtime.publisher import Publisher
from streamgauge.store.backup import backup
from streamgauge.store.errors import RollbackError
from tests.runtime.test_announced_intrusions import counts, run, state_of
from tests.runtime.test_lost_intrusions import list_output, put_back, spent
from tests.support.crash_readers import in_memory
from tests.support.forked import Fault

tmp_path = pytest.fixture(in_memory, name="tmp_path")


def lost(made: Any, begin: float) -> None:
    """A run that reads three hundred events, and is no more."""

    def fail(name: str) -> None:
        if name == "block_read":
            raise Fault(name)

    with pytest.raises(Fault):
        run(made, begin, begin + 3, step=fail)


def stopped(made: Any, begin: float) -> None:
    run(made, begin, begin + 3)


Life = Callable[[Any, float], None]
LIVES = [
    pytest.param(stopped, stopped, id="copied when it was set down, set down again"),
    pytest.param(stopped, lost, id="copied when it was set down, lost later"),
    pytest.param(lost, stopped, id="copied when it was lost, set down later"),
]


def copied_between(folder: Path, before: Life, after: Life) -> Any:
    """A store as it was between two runs of one tick, the first, in the place of what it became."""
    made = counts(folder)
    stopped(made, 0)
    before(made, 3)
    assert (CLEAN_SHUTDOWN_PART in state_of(made)) == (before is stopped)
    backup(made.file.folder, folder / "copy")
    after(made, 6)
    put_back(made, folder / "copy")
    return made


@pytest.mark.parametrize(("before", "after"), LIVES)
def test_a_copy_of_the_same_tick_is_refused_however_the_run_after_it_ended(
    tmp_path: Path, before: Life, after: Life
) -> None:
    made = copied_between(tmp_path, before, after)
    with pytest.raises(RollbackError, match=r"got 0 as the last tick in .* and a trace of another tick 0"):
        stopped(made, 9)


def test_who_goes_on_from_a_copy_of_the_same_tick_pays_for_the_tick_that_is_open(tmp_path: Path) -> None:
    made = copied_between(tmp_path, stopped, lost)
    paid = spent(made)
    run(made, 9, 12, accept_rollback=True)
    (again,) = list_output(made, "recharge")
    assert (again["first"], again["last"], spent(made)) == (1, 1, 2 * paid)
    stopped(made, 12)


def test_a_store_that_was_lost_is_the_newest_itself(tmp_path: Path) -> None:
    made = counts(tmp_path)
    stopped(made, 0)
    lost(made, 3)
    stopped(made, 6)


def test_a_run_that_is_set_down_without_a_guard_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Publisher.commit

    def unseen(self: Publisher, *, entered: bool = False, **what: Any) -> None:
        commit(self, **what)

    monkeypatch.setattr(Publisher, "commit", unseen)
    stopped(copied_between(tmp_path, stopped, lost), 9)
