"""A rolled-back store would draw noise again for published ticks, so a run refuses it.

The rollback guard next to the key and the sinks show the rollback. A curator who continues with the old store must
accept the rollback explicitly, and pays for every tick that is drawn twice.
"""

import json
import shutil

import pytest

from streamgauge import Pure
from streamgauge.runtime.published import read_ledger_log
from tests.support.crash_readers import Watched, unbroken
from tests.support.crash_streams import KINDS

OLD, NEW = 4, 9  # the last ticks of the copy, and of the store that it replaced
REFUSED = f"RollbackError: store must know all that was published, got {OLD} as the last tick in "


@pytest.fixture(params=["brief", "brief live"])
def run(request):
    """A run that reached tick NEW, and then had its store replaced by a copy from tick OLD."""
    with Watched(request.param, noisy=True) as run:
        run.child(at=["sink_position_saved", OLD, "kill"])
        for name in ("c.streamgauge", *run.sinks):
            copy(run.folder / name, run.folder / f"{name}.old")
        run.child(at=["sink_position_saved", NEW - OLD, "kill"])
        assert run.tick == NEW
        put_back(run, "c.streamgauge")
        assert run.tick == OLD
        yield run


def copy(path, to):
    (shutil.copytree if path.is_dir() else shutil.copy)(path, to)


def put_back(run, name):
    path = run.folder / name
    if path.is_dir():
        shutil.rmtree(path)
    (run.folder / f"{name}.old").replace(path)


def refused(run):
    before = [run.published(sink) for sink in run.sinks]
    end = run.child()
    assert end.error.startswith(REFUSED)
    assert set(end.steps) <= {"store_settled"}
    assert [run.published(sink) for sink in run.sinks] == before


@pytest.mark.one_of_each
def test_guard_refuses_old_store_even_with_old_sink(run):
    put_back(run, "out.jsonl")
    refused(run)


def test_guard_knows_commits_that_are_published_after_restart():
    with Watched("brief", noisy=True) as run:
        run.child(at=["sink_position_saved", OLD, "kill"])
        for name in ("c.streamgauge", "out.jsonl"):
            copy(run.folder / name, run.folder / f"{name}.old")
        assert run.child(at=["store_committed", 1, "kill"]).killed
        assert run.child(at=["sink_written", 1, "kill"]).killed
        put_back(run, "c.streamgauge")
        put_back(run, "out.jsonl")
        refused(run)


@pytest.mark.one_of_each
@pytest.mark.parametrize("run", ["brief", "brief live", "brief parquet"], indirect=True)
def test_sink_refuses_old_store_even_without_guard(run):
    (run.folder / "c.key.guard").unlink()
    refused(run)


@pytest.mark.one_of_each
def test_undetectable_old_store_is_accepted_with_trust_store_option(run):
    (run.folder / "c.key.guard").unlink()
    put_back(run, "out.jsonl")
    run.forget()
    assert run.child().error.startswith("RollbackError: store must have its rollback guard")
    run.child(options={"trust_store": True})
    assert run.ledger() == [*unbroken(run.kind).ledger, ("trust_store", {})]
    assert len(run.published("out.jsonl")) == len(unbroken(run.kind).series)


@pytest.mark.one_of_each("step")
@pytest.mark.parametrize("step", ["store_committed", "noise_drawn", "sink_written"])
def test_accepted_rollback_charges_once_for_ticks_drawn_twice(run, step):
    refused(run)
    lost = traces(run)
    goes_on(run, at=[step, 1, "kill"])
    run.forget()
    run.finish()
    assert run.ledger() == [*unbroken(run.kind).ledger, *charged_again(lost)]
    assert losses(run) == ((Pure(4), Pure(2)) if run.kind == "brief" else (Pure(4), Pure(4)))
    assert len(run.published("out.jsonl")) == len(unbroken(run.kind).series)


@pytest.mark.one_of_each
def test_rollback_stays_refused_until_its_charge_is_committed(run):
    goes_on(run, at=["slot_written", 1, "kill"])
    refused(run)
    assert run.ledger() == unbroken(run.kind).ledger


def goes_on(run, **order):
    """Start the run with `accept_rollback`, which a curator must set explicitly."""
    run.forget()
    run.child(options={"accept_rollback": True}, **order)


def traces(run):
    """Return the traces of the rollback guard, which are those of the sink too."""
    (texts,) = json.loads((run.folder / "c.key.guard").read_text()).values()
    assert texts["tick"] == NEW
    return [[texts["tick"], texts["chain"]]]


def charged_again(lost):
    for release in ("each", "running"):
        yield "recharge", {"release": release, "loss": {"epsilon": "1"}, "first": 1, "last": NEW}
    yield "rollback", {"until_tick": NEW, "traces": lost}


def losses(run):
    """Return the loss of a unit in a tick that was drawn twice, and of a unit in a later tick."""
    ledger = read_ledger_log(KINDS[run.kind].pipeline(run.folder).file).ledger
    return ledger.spent_loss(1, NEW), ledger.spent_loss(NEW + 1, KINDS[run.kind].ticks)


@pytest.mark.slow
def test_release_unknown_to_old_store_is_charged_after_rollback():
    with Watched("brief", noisy=True) as run:
        run.child(at=["sink_position_saved", OLD, "kill"])
        copy(run.folder / "c.streamgauge", run.folder / "c.streamgauge.old")
        run.kind = "brief more"
        run.child(at=["sink_position_saved", 2, "kill"])  # the new release has begun at the first tick
        put_back(run, "c.streamgauge")
        goes_on(run)
        paid = {(kind, body.get("release"), body.get("last")) for kind, body in run.ledger()}
        assert paid >= {("recharge", "each", OLD), ("recharge", "running", OLD), ("lost_charge", "sliding", OLD)}
        assert len(run.published("out.jsonl")) == len(unbroken("brief more").series)


@pytest.mark.slow
def test_second_concurrent_run_is_refused_and_harms_nothing():
    with Watched("batch", noisy=True) as run:
        for after in (2, 20, 40):
            end = run.child(after=after, wait=0, beside=True)
            assert end.killed
            assert end.beside.error.startswith("AlreadyRunningError: folder must be used by one run at a time")
            assert not end.beside.steps
        run.finish()
        run.whole()
