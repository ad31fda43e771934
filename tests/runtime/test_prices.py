"""Prices: what each currency buys costs no more, fits into what is left, and is refused in its own words."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from streamgauge.plan.planner import ReleasePlan, plan_release, replan_release
from streamgauge.privacy import Approx, BudgetExceededError, Loss, Pure, Remainder, Zcdp
from streamgauge.runtime.adhoc.planning import find_rest, plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.format import exceeded_text
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.plan import prices
from streamgauge.runtime.plan.prices import Price, cut_digits, find_affordable, find_alternatives
from tests.support.pipelines import COUNTS, Tables, pipeline, tables

BOTH = {"epsilon": 1, "delta": 1e-6}
BUDGETS: dict[str, Tables] = {"pure": {"epsilon": 1}, "zcdp": {"rho": "1/20"}, "both": BOTH}
OTHERS: list[list[Loss]] = [[], [Zcdp("1/100")], [Pure("1/4")], [Pure("1/10")] * 5, [Zcdp("1/200"), Pure("1/9")]]


def build(folder: Path, budget: str, **cost: Any) -> tuple[Any, ReleasePlan]:
    release = {"name": "r", "sql": COUNTS, "window": "running", "epsilon": None, **cost}
    made = tables(budget=BUDGETS[budget])
    made["release"] = [{key: value for key, value in release.items() if value is not None}]
    file = pipeline(folder, made).file
    return file, plan_release(file, file.releases[0])


def charged_log(file: Any, plan: ReleasePlan, others: list[Loss], loss: Loss | None = None) -> LedgerLog:
    """The ledger after other charges and, at a loss, the release."""
    log = LedgerLog(file.stream.unit)
    log.declare_budget(file.stream.budget)
    for number, other in enumerate(others):
        log.require_ledger().charge(f"other {number}", other)
    if loss is not None:
        log.charge("r", replan_release(plan, loss), 1)
    return log


@pytest.mark.parametrize("others", OTHERS, ids=str)
@pytest.mark.parametrize(
    "cost", [{"epsilon": "1/10"}, {"epsilon": "1/4"}, {"rho": "1/1000"}, {"rho": "1/300"}], ids=str
)
def test_alternative_costs_no_more_on_the_ledger(tmp_path: Path, others: list[Loss], cost: Tables) -> None:
    file, plan = build(tmp_path, "both", **cost)
    log = charged_log(file, plan, others, plan.release.loss)
    (price,) = find_alternatives(plan, log)
    assert isinstance(price.loss, Zcdp if "epsilon" in cost else Pure)
    instead = charged_log(file, plan, others, price.loss)
    assert instead.require_ledger().spent_loss().amount <= log.require_ledger().spent_loss().amount
    assert price.errors[-1].half_width > 0


def test_twin_with_a_larger_rho_costs_more(tmp_path: Path) -> None:
    """A broken twin: twice the rho. The check above catches it."""
    file, plan = build(tmp_path, "both", epsilon="1/10")
    for others in OTHERS:
        log = charged_log(file, plan, others, plan.release.loss)
        (price,) = find_alternatives(plan, log)
        instead = charged_log(file, plan, others, Zcdp(2 * price.loss.amount))
        assert instead.require_ledger().spent_loss().amount > log.require_ledger().spent_loss().amount


def test_rho_and_epsilon_of_the_trial_have_one_price(tmp_path: Path) -> None:
    file, plan = build(tmp_path, "both", rho=0.0044)
    (price,) = find_alternatives(plan, charged_log(file, plan, [], plan.release.loss))
    assert price.loss == Pure("0.0938")
    assert str(price).startswith("epsilon 0.0938: count ± ")


def test_zcdp_budget_has_both_currencies_and_pure_one_none(tmp_path: Path) -> None:
    file, plan = build(tmp_path, "zcdp", rho="1/200")
    assert [price.loss for price in find_alternatives(plan, charged_log(file, plan, []))] == [Pure("1/10")]
    file, plan = build(tmp_path, "zcdp", epsilon="1/10")
    assert [price.loss for price in find_alternatives(plan, charged_log(file, plan, []))] == [Zcdp("1/200")]
    file, plan = build(tmp_path, "pure", epsilon="1/10")
    assert find_alternatives(plan, charged_log(file, plan, [])) == ()


@pytest.mark.parametrize("others", OTHERS, ids=str)
@pytest.mark.parametrize("budget", BUDGETS)
def test_affordable_losses_fit_and_hardly_more_does(tmp_path: Path, budget: str, others: list[Loss]) -> None:
    others = [Pure("1/7")] * bool(others) if budget == "pure" else others
    if budget == "zcdp":
        others = others[:1]
    file, plan = build(tmp_path, budget, epsilon="1/100")
    log = charged_log(file, plan, others)
    left = log.require_ledger().remainder(1, 10)
    found = find_affordable(plan, left)
    assert [type(price.loss) for price in found] == ([Pure] if budget == "pure" else [Zcdp, Pure])
    for price in found:
        charged_log(file, plan, others, price.loss)
        with pytest.raises(BudgetExceededError):
            charged_log(file, plan, others, type(price.loss)(price.loss.amount * Fraction(21, 20)))


def test_nothing_left_buys_nothing(tmp_path: Path) -> None:
    file, plan = build(tmp_path, "both", epsilon="1/10")
    assert find_affordable(plan, Remainder(Fraction(0), Fraction(0))) == ()
    assert find_rest(charged_log(file, plan, [Pure(1)]), plan, None, 1) == Remainder(Fraction(0), Fraction(0))


def test_affordable_losses_are_within_the_share_of_the_analyst(tmp_path: Path) -> None:
    file, _ = build(tmp_path, "both", epsilon="1/100")
    body = {"name": "mine", "sql": COUNTS, "window": "running", "epsilon": 0.9}
    request = AdHocRelease(parse_adhoc_release(body, file.stream), "ana", Fraction(1, 4))
    planned = plan_adhoc(file, request)
    assert "what is left, epsilon 0.25 or rho" in planned.refusals[0]
    assert [price.loss.amount for price in planned.affordable][1] == Fraction(1, 4)
    assert planned.affordable[0].loss.amount <= Approx(1, 1e-6).additive_loss.rho / 4
    for price in planned.affordable:
        cost = {"rho" if isinstance(price.loss, Zcdp) else "epsilon": str(price.loss.amount)}
        again = {"name": "mine", "sql": COUNTS, "window": "running", **cost}
        requested = AdHocRelease(parse_adhoc_release(again, file.stream), "ana", Fraction(1, 4))
        assert plan_adhoc(file, requested).refusals == ()


def test_plan_of_a_file_lists_alternatives_of_new_releases(tmp_path: Path) -> None:
    made = tables({"name": "r", "sql": COUNTS, "window": "running", "epsilon": "1/10"}, budget=BOTH)
    plan = pipeline(tmp_path, made).plan()
    (price,) = plan.releases[0].alternatives
    assert f"for no more, {price}" in str(plan)
    (found,) = plan.to_json()["releases"][0]["alternatives"]
    assert found["loss"] == {"rho": str(price.loss.amount)}
    assert found["errors"][-1]["half_width"] == price.errors[-1].half_width
    assert pipeline(tmp_path, tables()).plan().to_json()["releases"][0]["alternatives"] == []


@pytest.mark.parametrize(
    ("budget", "cost", "words"),
    [
        ("pure", {"epsilon": 2}, "got epsilon 2 on top of nothing"),
        ("both", {"share": "1/2"}, "as a share: 0.5 on top of 0.8212 of 1, so 0.1788 is left"),
        ("both", {"rho": "1/50"}, "in rho: 0.02 on top of 0.02 of 0.02436, so 0.004356 is left"),
        ("both", {"epsilon": "3/4"}, "is left for a release with an epsilon"),
        ("zcdp", {"epsilon": 1}, "epsilon 1 takes rho 0.5; epsilon 0.2449 is left for a release with an epsilon"),
        ("zcdp", {"share": 1}, "as a share: 1 on top of 0.4 of 1, so 0.6 is left"),
        ("zcdp", {"rho": 1}, "got rho 1 on top of rho 0.02"),
    ],
)
def test_refusals_have_the_words_of_the_request(tmp_path: Path, budget: str, cost: Tables, words: str) -> None:
    file, plan = build(tmp_path, budget, **cost)
    others: list[Loss] = [] if budget == "pure" else [Zcdp("1/50")]
    log = charged_log(file, plan, others)
    with pytest.raises(BudgetExceededError) as found:
        log.charge("r", plan, 1)
    assert words in exceeded_text(found.value)
    assert (found.value.requested, found.value.allowed) == (plan.release.loss, file.stream.budget)


def test_cut_amounts_never_cost_more() -> None:
    for amount in (Fraction(1, 3), Fraction(999999, 10**6), Fraction(44099, 10**7), Fraction(1, 7 * 10**9)):
        assert 0 < Fraction(cut_digits(amount)) <= amount


def test_price_without_known_errors_says_so(tmp_path: Path) -> None:
    _, plan = build(tmp_path, "both", epsilon="1/10", sql="SELECT AVG(x) FROM v", expected_events=1)
    (price,) = prices.predict_prices(plan, [Pure("1/10")])
    assert isinstance(price, Price)
    assert "not known before there are data" in str(price)
