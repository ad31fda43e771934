"""Releases with Gaussian noise that looks ahead: planned, charged, restored and refused by the accounting they need."""

from fractions import Fraction
from pathlib import Path
from shutil import copytree, rmtree
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest

from streamgauge.plan.planner import plan_release
from streamgauge.privacy import Approx, BudgetExceededError, IntegerZcdp, Zcdp
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.ledger.log import LedgerLog, loss_as_json, parse_loss
from streamgauge.runtime.plan.gaussian_hints import find_gaussian_hints
from streamgauge.runtime.published import read_ledger_log
from streamgauge.store.rollback_guard import RecordedCharge
from tests.runtime.test_pan_private_runs import PRIVATE, RUNNING, lines, sending
from tests.support.pipelines import Tables, event, pipeline, published, run, tables, world, write

BUDGET = Approx(1, Fraction(1, 10**6))
DELTA: Tables = {**PRIVATE, "budget": {"epsilon": 1, "delta": 1e-6}}
WHOLE: Tables = {**RUNNING, "epsilon": None, "share": 1}


def build(folder: Path, *releases: Tables, name: str = "v.toml", **stream: Any) -> Any:
    made = tables(*releases, **{**DELTA, **stream})
    made["release"] = [{key: value for key, value in each.items() if value is not None} for each in made["release"]]
    return pipeline(folder, made, name)


def choose_counter(made: Any, place: int = 0) -> Any:
    return plan_release(made.file, made.file.releases[place]).parts[0].statistic.counter


def test_pan_private_file_with_a_delta_takes_two_parts(tmp_path: Path) -> None:
    made = build(tmp_path, WHOLE)
    plan = made.plan()
    assert not plan.refusals
    counter = choose_counter(made)
    assert type(counter).__name__ == "TwoPart"
    assert counter.charged_loss == plan.releases[0].loss == BUDGET.integer_order_loss
    assert plan.spent[1] is not None
    assert plan.spent[1].epsilon <= BUDGET.epsilon
    others = [
        choose_counter(build(tmp_path, WHOLE | {"mechanism": name}, name="n.toml")) for name in ("Hybrid", "SimpleII")
    ]
    assert counter.rmse(2**16) < 0.75 * min(each.rmse(2**16) for each in others)
    assert "rho 0.02436 at integer orders" in str(plan)


def test_charge_names_integer_orders_and_survives_restarts(tmp_path: Path) -> None:
    made = build(tmp_path, WHOLE)
    for until, second in ((14, 1), (34, 21)):
        clock, inbox, stop = sending(tmp_path, until)
        clock.acts[second] = lambda s=second, i=inbox: i.put(f"{s}", lines(event(s), event(s, "b")))
        run(made, clock=clock, source=inbox, stop=stop)
    assert published(made)[0] == [1, 1]
    (charge,) = [act.body for act in made.ledger().ledger_entries if act.kind == "charge"]
    assert charge["loss"] == {"rho": str(BUDGET.integer_order_loss.rho), "orders": "integer"}
    ledger = read_ledger_log(made.file).require_ledger()
    assert ledger.spent_loss() <= BUDGET
    assert ledger.remaining_loss().amount == 0
    assert not made.plan().refusals
    assert made.plan().edits.continued_releases == ("counts",)


def test_sum_of_shares_fits_beside_releases_of_all_orders(tmp_path: Path) -> None:
    half = {**WHOLE, "share": "1/2"}
    made = build(tmp_path, half, half | {"name": "each", "window": "each"})
    plan = made.plan()
    assert not plan.refusals
    assert [type(each.loss) for each in plan.releases] == [IntegerZcdp, Zcdp]
    assert made.file.releases[0].loss == Zcdp(BUDGET.integer_order_loss.rho / 2)


@pytest.mark.parametrize("name", ["TwoPart", "Hybrid", "Kary", "SimpleII"])
def test_pan_private_file_may_name_its_counters(tmp_path: Path, name: str) -> None:
    for cost in ({"epsilon": "1/2"}, {"epsilon": None, "rho": "1/100"}):
        made = build(tmp_path, {**RUNNING, "horizon": "655360s", "mechanism": name, **cost})
        assert not made.plan().refusals
        assert type(choose_counter(made)).__name__ == name


def test_rho_budget_never_takes_noise_that_looks_ahead(tmp_path: Path) -> None:
    rho = {"budget": {"rho": "1/2"}}
    made = build(tmp_path, WHOLE, **rho)
    assert type(choose_counter(made)).__name__ != "TwoPart"
    (refusal,) = build(tmp_path, WHOLE | {"mechanism": "TwoPart"}, **rho).plan().refusals
    assert "cost of TwoPart must be given as epsilon, got a share of a budget that is kept in rho" in refusal
    ordinary = {"pan_private": None, "allowed_lateness": "5s"}
    (refusal,) = build(tmp_path, WHOLE | {"mechanism": "TwoPart"}, **ordinary).plan().refusals
    assert "cost of TwoPart must be given as epsilon" in refusal


def test_budget_without_its_delta_refuses_a_charge_at_integer_orders(tmp_path: Path) -> None:
    log = LedgerLog.read((), build(tmp_path, WHOLE).file.stream.unit)
    log.declare_budget(BUDGET)
    made = build(tmp_path, WHOLE)
    log.charge("counts", plan_release(made.file, made.file.releases[0]), 1)
    again = LedgerLog.read(log.ledger_entries, log.unit)
    assert again.releases["counts"].loss == BUDGET.integer_order_loss
    assert again.releases["counts"].declared_loss == Zcdp(BUDGET.integer_order_loss.rho)
    with pytest.raises(ValueError, match="must be one of all orders under a budget of Zcdp"):
        log.declare_budget(Zcdp(1))


def test_repeated_charges_keep_their_orders(tmp_path: Path) -> None:
    made, loss = build(tmp_path, {**WHOLE, "share": "1/3"}), IntegerZcdp("1/200")
    assert parse_loss(loss_as_json(loss) or {}) == loss
    recorded = RecordedCharge("1/0", "counts", loss_as_json(loss) or {}, 1, 9)
    assert parse_loss(RecordedCharge.from_json({"id": "1/0", **recorded.to_json()}).loss) == loss
    with pytest.raises(ValueError, match="orders must be integer"):
        parse_loss({"rho": "1", "orders": "odd"})
    log = LedgerLog.read((), made.file.stream.unit)
    log.declare_budget(BUDGET)
    log.charge("counts", plan_release(made.file, made.file.releases[0]), 1)
    before = log.require_ledger().spent_loss().epsilon
    log.recharge("counts", 5)
    log.enter_lost_charge(recorded)
    assert [charge.timeline.needs_integer_orders for charge in log.require_ledger().entries] == [True] * 3
    assert log.require_ledger().spent_loss().epsilon > before
    with pytest.raises(BudgetExceededError):
        log.recharge("counts", 9), log.recharge("counts", 9)


def test_analysts_request_noise_that_looks_ahead_from_their_share(tmp_path: Path) -> None:
    made = build(tmp_path, {**WHOLE, "share": "1/4"})
    body = {"name": "more", "sql": "SELECT COUNT(*) FROM v", "share": "1/2"}
    requested = AdHocRelease(parse_adhoc_release(body, made.file.stream), "ana", Fraction(3, 4))
    found = plan_adhoc(made.file, requested)
    assert not found.refusals
    assert found.plan is not None
    assert found.plan.loss == IntegerZcdp(BUDGET.integer_order_loss.rho / 2)
    assert found.plan.choices[0].mechanism.startswith("TwoPart")


def test_hints_of_rhos_are_affordable_at_integer_orders(tmp_path: Path) -> None:
    made = build(tmp_path, RUNNING | {"epsilon": "1/2"}, RUNNING | {"name": "b", "epsilon": "1/2"})
    plans = [plan_release(made.file, each) for each in made.file.releases]
    log = LedgerLog.read((), made.file.stream.unit)
    log.declare_budget(BUDGET)
    for plan in plans:
        log.charge(plan.name, plan, 1)
    hints = find_gaussian_hints(plans, log)
    assert set(hints) == {"counts", "b"}
    rho = Fraction(hints["b"].split()[2].rstrip(","))
    again = build(tmp_path, *({**RUNNING, "name": name, "epsilon": None, "rho": str(rho)} for name in "ab"))
    assert not again.plan().refusals


@pytest.mark.parametrize("name", ["BridgeTree", "EndlessBridge", "PastBridge", "SubtractiveTree", "WindowBridge"])
def test_ordinary_file_may_name_bridges_and_runs_them(tmp_path: Path, name: str) -> None:
    window = "sliding 20s" if name == "WindowBridge" else "running"
    made = pipeline(tmp_path, tables({"name": "counts", "sql": "SELECT COUNT(*) FROM v", "window": window}))
    release = {"name": "counts", "sql": "SELECT COUNT(*) FROM v", "window": window, "mechanism": name}
    made = pipeline(tmp_path, tables(release))
    write(tmp_path, [event(second) for second in (1, 2, 11, 35)])
    assert not made.plan().refusals
    assert type(choose_counter(made)).__name__ == name
    made.run(noise=None)
    sums = np.array([2, 3, 1, 1, 1, 0, 0, 0, 0, 0] if window != "running" else [2, 3, 3, 4, 4, 4, 4, 4, 4, 4])
    errors = np.array(published(made))[:, 0] - sums
    assert 0 < np.abs(errors).max() < 40 * made.releases("counts")[-1].stddev[0][0]


def test_past_bridge_continues_after_a_stop_but_not_from_copies(tmp_path: Path) -> None:
    release = {"name": "counts", "sql": "SELECT COUNT(*) FROM v", "window": "running", "mechanism": "PastBridge"}
    made, clock = pipeline(tmp_path, tables(release, live=True)), world(tmp_path)
    write(tmp_path, [event(second) for second in (1, 2, 11)])
    stop = Flag()
    clock.acts[36] = stop.set
    run(made, clock=clock, stop=stop)
    assert published(made) == [[2], [3], [3]]
    copytree(tmp_path / "v.streamgauge", tmp_path / "old")
    stop.clear()
    clock.acts[56] = stop.set
    run(made, clock=clock, stop=stop)
    assert published(made) == [[2], [3], [3], [3], [3]]
    rmtree(tmp_path / "v.streamgauge")
    copytree(tmp_path / "old", tmp_path / "v.streamgauge")
    with pytest.raises(
        ValueError, match=r"release counts must end before a rollback is accepted: PastBridge must draw"
    ):
        run(made, clock=clock, stop=stop, accept_rollback=True)
