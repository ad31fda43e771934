"""Intrusions into a history that an older store copy has replaced are charged and recorded."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamgauge.panprivate import LimitExceededError
from streamgauge.runtime.intrusion.count import IntrusionCount
from streamgauge.runtime.intrusion.intrude import intrude
from streamgauge.store.backup import backup
from streamgauge.store.errors import RollbackError
from tests.runtime.test_announced_intrusions import DENSITY, counts, run, users
from tests.support.codes import has_code


def list_output(made: Any, kind: str) -> list[dict[str, Any]]:
    return [dict(act.body) for act in made.ledger().ledger_entries if act.kind == kind]


def put_back(made: Any, copy: Path) -> None:
    shutil.rmtree(made.file.folder)
    shutil.copytree(copy, made.file.folder)


def spent(made: Any) -> float:
    return float(made.ledger().ledger.spent_loss().epsilon)


@pytest.mark.parametrize("make", [users, counts])
def test_rollback_of_intruded_first_tick_is_charged_again(tmp_path: Path, make: Callable[..., Any]) -> None:
    made = make(tmp_path)
    run(made, 0, 3)
    paid = spent(made)
    backup(made.file.folder, tmp_path / "copy")
    intrude(made.file, tmp_path / "one")
    put_back(made, tmp_path / "copy")
    run(made, 3, 6, accept_rollback=True)
    assert spent(made) == 2 * paid
    (again,), (back,) = list_output(made, "recharge"), list_output(made, "rollback")
    assert (again["first"], again["last"], back["until_tick"]) == (1, 1, 1)
    assert intrude(made.file, tmp_path / "two").number == 2
    assert made.plan().intrusions.total == 2


def test_intrusions_stay_recorded_after_repeated_rollbacks(tmp_path: Path) -> None:
    made = users(tmp_path, 1, {**DENSITY, "epsilon": 6})
    run(made, 0, 3)
    backup(made.file.folder, tmp_path / "copy")
    for number in (1, 2, 3):
        assert intrude(made.file, tmp_path / f"{number}").number == number
        put_back(made, tmp_path / "copy")
        run(made, 3 * number, 3 * number + 2, accept_rollback=True)
    assert spent(made) == 24
    assert made.plan().intrusions.to_json() == {"total": 3, "remaining": 1}


def test_release_of_lost_history_is_entered_with_its_intrusions(tmp_path: Path) -> None:
    made = users(tmp_path, 1, DENSITY)
    run(made, 0, 3)
    intrude(made.file, tmp_path / "one")
    shutil.rmtree(made.file.folder)
    with pytest.raises(RollbackError, check=has_code("store_replaced")):
        run(made, 3, 6)
    run(made, 3, 6, accept_rollback=True)
    (lost,) = list_output(made, "lost_charge")
    assert (lost["release"], lost["first"], lost["last"], len(lost["intrusions"])) == ("here", 1, 1, 1)
    assert made.plan().intrusions.to_json() == {"total": 1, "remaining": 1}


def test_store_without_output_may_be_replaced_in_first_tick(tmp_path: Path) -> None:
    made = users(tmp_path)
    run(made, 0, 3)
    shutil.rmtree(made.file.folder)
    run(made, 3, 6)
    assert list_output(made, "lost_charge") == []


def test_finished_table_does_not_limit_remaining_intrusions(tmp_path: Path) -> None:
    made = users(tmp_path, 1, {**DENSITY, "horizon": "10s"})
    run(made, 0, 3)
    intrude(made.file, tmp_path / "one")
    with pytest.raises(LimitExceededError, check=has_code("intrusions_exhausted")):
        intrude(made.file, tmp_path / "two")
    left = [IntrusionCount.from_ledger_log(made.ledger(), made.file.stream, tick).remaining for tick in (0, 1)]
    assert left == [0, 1]
