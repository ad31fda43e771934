"""What no machine can keep is refused before it is charged, and the plan says so."""

import pytest
from pipelines import COUNTS, one_a_second, pipeline, published, run, tables, write

from streamgauge.pipeline import opening, room
from streamgauge.pipeline.opening import RunRefused

LONG = {"name": "counts", "sql": COUNTS, "window": "sliding 100000000s"}
SMALL = 10**6


def long_file(folder):
    return pipeline(folder, tables(LONG, live=True))


def test_releases_that_keep_more_than_the_machine_has_are_never_charged(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "machine_bytes", lambda: SMALL)
    made = long_file(tmp_path)
    with pytest.raises(RunRefused, match=r"at most 1\.0 MB, the memory of this machine, got 183"):
        run(made)
    assert not made.ledger().entries
    plan = made.plan()
    assert any("the memory of this machine" in reason for reason in plan.refused)
    assert plan.as_json()["keeps"] == plan.keeps > SMALL
    assert "memory\n  all releases keep 183" in str(plan)


def test_a_twin_that_does_not_look_charges_them(tmp_path, monkeypatch):
    monkeypatch.setattr(room, "machine_bytes", lambda: SMALL)
    monkeypatch.setattr(opening, "no_memory", lambda plans: None)
    made = pipeline(tmp_path, tables(LONG | {"window": "sliding 1000000s"}))
    write(tmp_path, one_a_second())
    run(made)
    assert set(made.ledger().entries) == {"counts"}


def test_what_was_charged_on_a_larger_machine_goes_on(tmp_path, monkeypatch):
    made = pipeline(tmp_path, tables())
    write(tmp_path, one_a_second())
    for there in (SMALL, 1):
        monkeypatch.setattr(room, "machine_bytes", lambda there=there: there)
        run(made)
        assert made.plan().refused == ()
    assert published(made) == [[5.0, 5.0]] * 10


def test_this_machine_has_some_memory(tmp_path):
    assert room.machine_bytes() > 2**28
    assert pipeline(tmp_path, tables()).plan().refused == ()
