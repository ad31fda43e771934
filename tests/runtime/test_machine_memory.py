"""A release larger than the machine's memory is refused before it is charged, and the plan says so."""

import pytest

from streamgauge.runtime import session as opening
from streamgauge.runtime.plan import limits as room
from streamgauge.runtime.session import RunRefusedError
from tests.support.pipelines import COUNTS, one_a_second, pipeline, published, run, tables, write

LONG = {"name": "counts", "sql": COUNTS, "window": "sliding 100000000s"}
SMALL = 10**6


def set_machine_memory(monkeypatch, size):
    monkeypatch.setattr(room, "machine_bytes", lambda: size)


def long_file(folder):
    return pipeline(folder, tables(LONG, live=True))


def test_release_larger_than_machine_memory_is_never_charged(tmp_path, monkeypatch):
    set_machine_memory(monkeypatch, SMALL)
    made = long_file(tmp_path)
    with pytest.raises(RunRefusedError, match=r"at most 1\.0 MB, the memory of this machine, got 480"):
        run(made)
    assert not made.ledger().releases
    plan = made.plan()
    assert any("the memory of this machine" in reason for reason in plan.refusals)
    assert plan.to_json()["memory_bytes"] == plan.memory_bytes > SMALL
    assert "memory\n  all releases keep 480" in str(plan)


def test_twin_without_memory_check_charges_release(tmp_path, monkeypatch):
    set_machine_memory(monkeypatch, SMALL)
    monkeypatch.setattr(opening, "find_memory_refusal", lambda plans: None)
    made = pipeline(tmp_path, tables(LONG | {"window": "sliding 1000000s"}))
    write(tmp_path, one_a_second())
    run(made)
    assert set(made.ledger().releases) == {"counts"}


def test_release_charged_on_larger_machine_continues(tmp_path, monkeypatch):
    made = pipeline(tmp_path, tables())
    write(tmp_path, one_a_second())
    for size in (SMALL, 1):
        set_machine_memory(monkeypatch, size)
        run(made)
        assert made.plan().refusals == ()
    assert published(made) == [[5.0, 5.0]] * 10


def test_this_machine_has_some_memory(tmp_path):
    assert room.machine_bytes() > 2**28
    assert pipeline(tmp_path, tables()).plan().refusals == ()
