"""A pan-private store that is rolled back to an earlier moment of the same tick: refused, or charged."""

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
    """Run until three hundred events are read, and fail."""

    def fail(name: str) -> None:
        if name == "block_read":
            raise Fault(name)

    with pytest.raises(Fault):
        run(made, begin, begin + 3, step=fail)


def stopped(made: Any, begin: float) -> None:
    run(made, begin, begin + 3)


Life = Callable[[Any, float], None]
LIVES = [
    pytest.param(stopped, stopped, id="copied after a stop, stopped again"),
    pytest.param(stopped, lost, id="copied after a stop, failed later"),
    pytest.param(lost, stopped, id="copied after a failure, stopped later"),
]


def copied_between(folder: Path, before: Life, after: Life) -> Any:
    """Return a pipeline with its store rolled back to a moment between two runs of its first tick."""
    made = counts(folder)
    stopped(made, 0)
    before(made, 3)
    assert (CLEAN_SHUTDOWN_PART in state_of(made)) == (before is stopped)
    backup(made.file.folder, folder / "copy")
    after(made, 6)
    put_back(made, folder / "copy")
    return made


@pytest.mark.parametrize(("before", "after"), LIVES)
def test_copy_of_same_tick_is_refused_after_any_later_run(tmp_path: Path, before: Life, after: Life) -> None:
    made = copied_between(tmp_path, before, after)
    with pytest.raises(RollbackError, match=r"got 0 as the last tick in .* and a trace of another tick 0"):
        stopped(made, 9)


def test_accepted_copy_of_same_tick_charges_open_tick_again(tmp_path: Path) -> None:
    made = copied_between(tmp_path, stopped, lost)
    paid = spent(made)
    run(made, 9, 12, accept_rollback=True)
    (again,) = list_output(made, "recharge")
    assert (again["first"], again["last"], spent(made)) == (1, 1, 2 * paid)
    stopped(made, 12)


def test_store_of_failed_run_is_newest_and_continues(tmp_path: Path) -> None:
    made = counts(tmp_path)
    stopped(made, 0)
    lost(made, 3)
    stopped(made, 6)


def test_twin_that_stops_without_guard_entry_accepts_old_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = Publisher.commit

    def unseen(self: Publisher, *, entered: bool = False, **what: Any) -> None:
        commit(self, **what)

    monkeypatch.setattr(Publisher, "commit", unseen)
    stopped(copied_between(tmp_path, stopped, lost), 9)
