"""After its last tick a pan-private release is permanently removed from memory and disk."""

from pathlib import Path
from typing import Any

import pytest

from streamgauge.panprivate import LimitExceededError
from streamgauge.runtime.intrusion import intrude as intruding
from streamgauge.runtime.intrusion.intrude import IntrusionError, intrude
from streamgauge.runtime.ledger.log import ChargedRelease
from streamgauge.runtime.live.run import LiveRun
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.runtime.session import SessionBuilder
from streamgauge.store.backup import backup
from tests.runtime.test_announced_intrusions import DENSITY, HEAVY, run, state_of, users
from tests.runtime.test_lost_intrusions import list_output, put_back
from tests.runtime.test_pan_private_memory import Moments, looked_at
from tests.support.codes import has_code
from tests.support.crash_readers import in_memory

SHORT = {**DENSITY, "horizon": "10s"}  # a tick
BOTH = ["run/here/0", "run/often/0"]
tmp_path = pytest.fixture(in_memory, name="tmp_path")


def tables_in(run: LiveRun) -> list[str]:
    return [each.name for each in run.session.runs if each.runs]


def remembered(made: Any) -> list[str]:
    return sorted(name for name in state_of(made) if name.startswith("run/"))


class EndlessRun(ReleaseRun):
    """A broken twin: a finished release is saved and stays in memory."""

    @property
    def is_finished(self) -> bool:
        return False


ENDLESS: dict[type, type] = {ReleaseRun: EndlessRun}


@pytest.mark.parametrize("earlier", [False, True], ids=["forgotten", "remembered"])
def test_finished_table_is_neither_in_memory_nor_on_disk(tmp_path: Path, earlier: bool) -> None:
    """The broken twin retains the table, and the search finds it."""
    made, components = users(tmp_path, 0, SHORT, HEAVY), ENDLESS if earlier else {}
    when = Moments(sent=2, looked=13, stopped=14)
    observed, _ = looked_at(tmp_path, tables_in, made, when=when, components=components)
    assert observed == (["here", "often"] if earlier else ["often"])
    assert remembered(made) == (BOTH if earlier else BOTH[1:])


def test_finished_release_is_neither_restarted_nor_recharged_after_rollback(tmp_path: Path) -> None:
    made = users(tmp_path, 0, {**SHORT, "epsilon": 6}, {**HEAVY, "epsilon": 6})
    run(made, 0, 12)
    backup(made.file.folder, tmp_path / "copy")
    run(made, 12, 22)
    assert [[each.tick for each in made.releases(name)] for name in ("here", "often")] == [[1], [1, 2]]
    put_back(made, tmp_path / "copy")
    (tmp_path / "v.key.guard").unlink()
    run(made, 22, 23, accept_rollback=True)
    assert [act["release"] for act in list_output(made, "recharge")] == ["often"]


class RestartingBuilder(SessionBuilder):
    """A broken twin: it starts releases again that have published all their ticks."""

    def _find_running(self) -> dict[str, ChargedRelease]:
        return self.ledger_log.open_releases()


def test_twin_that_restarts_finished_release_is_caught(tmp_path: Path) -> None:
    made = users(tmp_path, 0, SHORT, HEAVY)
    run(made, 0, 12)
    with pytest.raises(ValueError, match="ticks must follow each other, got 2 where 1 is next"):
        run(made, 12, 22, components={SessionBuilder: RestartingBuilder})


def used_up(folder: Path) -> Any:
    """Use the reserve of a table, publish its last estimate, and begin another table.

    The store still has the state of both.
    """
    short = users(folder, 1, SHORT)
    run(short, 0, 3)
    intrude(short.file, folder / "one")
    made = users(folder, 1, SHORT, HEAVY)
    run(made, 3, 13, components=ENDLESS)
    assert remembered(made) == BOTH
    return made


def test_finished_table_allows_intrusion_and_is_not_exported(tmp_path: Path) -> None:
    made = used_up(tmp_path)
    observed = intrude(made.file, tmp_path / "two").manifest
    assert [each["release"] for each in observed["releases"]] == ["often"]
    assert remembered(made) == BOTH[1:]
    assert made.plan().intrusions.to_json() == {"total": 2, "remaining": 0}


def test_twin_that_counts_finished_table_refuses_intrusion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = used_up(tmp_path)
    monkeypatch.setattr(intruding, "has_later_ticks", lambda entry, tick: True)
    with pytest.raises(LimitExceededError, check=has_code("intrusions_exhausted")):
        intrude(made.file, tmp_path / "two")


def test_intrusion_without_active_release_is_refused(tmp_path: Path) -> None:
    made = users(tmp_path, 1, SHORT)
    run(made, 0, 12)
    assert set(state_of(made)) == {"secret", "clean_shutdown"}
    with pytest.raises(IntrusionError, match="must have an active release for an intrusion, got none"):
        intrude(made.file, tmp_path / "over")
    assert not (tmp_path / "over").exists()
    run(made, 12, 14)
    assert [each.tick for each in made.releases("here")] == [1], "it is over, and may be run all the same"
