"""Budgets with a delta in pipelines: pure releases add up, and Gaussian ones share the rest."""

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from streamgauge.privacy import Approx, Pure, Remainder, Zcdp
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import CommandRefusedError
from streamgauge.runtime.format import loss_text
from streamgauge.runtime.ledger.render import ledger_log_as_json
from streamgauge.runtime.ledger.shares import remaining_share
from tests.runtime.test_adhoc_releases import build_request, live, until
from tests.support.pipelines import COUNTS, one_a_second, pipeline, run, tables, write

BUDGET = Approx(1, 1e-6)
BOTH = {"epsilon": 1, "delta": 1e-6}
HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)
TOTAL = "SELECT COUNT(*) FROM v"


def counts(*epsilons: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": f"r{i}", "sql": COUNTS, "epsilon": e, **more} for i, e in enumerate(epsilons)]


def shared(share: str, name: str = "shared") -> dict[str, Any]:
    return {"name": name, "sql": TOTAL, "window": "each", "share": share}


def with_shares(folder: Path, *releases: dict[str, Any], **stream: Any) -> Any:
    """Return a pipeline with releases that cost exactly their declared loss."""
    made = tables(**{"budget": BOTH, **stream})
    made["release"] = [{"window": "each", **release} for release in releases]
    return pipeline(folder, made)


def test_one_release_of_a_quarter_is_planned(tmp_path: Path) -> None:
    plan = pipeline(tmp_path, tables(*counts("1/4"), budget=BOTH)).plan()
    assert plan.refusals == ()
    assert plan.spent[1] == Approx("1/4", 1e-6)
    assert plan.remaining[1] == Remainder(Fraction(3, 4), Approx("3/4", 1e-6).additive_loss.rho)
    assert "after   epsilon 0.25, delta 1e-06  epsilon 0.75 or rho 0.01422" in str(plan)
    after = plan.to_json()["ledger"]["after"]
    assert after["spent"] == {"epsilon": "1/4", "delta": "1/1000000"}
    assert after["remaining"]["epsilon"] == "3/4"
    assert Fraction(after["remaining"]["rho"]) == Approx("3/4", 1e-6).additive_loss.rho


@pytest.mark.parametrize("unit", ["event", {"w_event": 3}, {"user": "g", "max_events_per_tick": 1, "max_ticks": 3}])
def test_five_releases_that_add_up_to_the_budget_run(tmp_path: Path, unit: Any) -> None:
    write(tmp_path, one_a_second())
    made = pipeline(tmp_path, tables(*counts(*["1/5"] * 5), budget=BOTH, unit=unit))
    assert made.plan().refusals == ()
    run(made)
    ledger_log = made.ledger()
    assert ledger_log.ledger is not None
    assert (ledger_log.ledger.spent_loss(), ledger_log.ledger.remaining_epsilon()) == (BUDGET, Pure.zero())
    assert loss_text(ledger_log.ledger.remainder()) == "nothing"


def test_a_sixth_release_is_refused_in_epsilon(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(*counts(*["1/5"] * 6), budget=BOTH))
    (refused,) = made.plan().refusals
    assert refused == (
        "v.toml: release r5: charge must be at most what is left of epsilon 1, delta 1e-06, "
        "got epsilon 0.2 on top of epsilon 1, delta 1e-06"
    )


def test_shares_are_of_budget_after_epsilons(tmp_path: Path) -> None:
    pure = {"name": "pure", "sql": COUNTS, "epsilon": "1/2"}
    made = with_shares(tmp_path, pure, shared("1/4", "few"), shared("3/4", "most"))
    left = Approx("1/2", 1e-6).additive_loss
    assert [release.loss for release in made.file.releases[1:]] == [left.part("1/4"), left.part("3/4")]
    plan = made.plan()
    assert plan.refusals == ()
    assert plan.remaining[1].rho == 0


def test_shares_without_epsilons_are_of_the_whole_budget(tmp_path: Path) -> None:
    made = with_shares(tmp_path, shared("1/2"))
    assert made.file.releases[0].loss == BUDGET.part("1/2")


def test_shares_are_refused_if_epsilons_leave_nothing(tmp_path: Path) -> None:
    pure = {"name": "pure", "sql": COUNTS, "epsilon": 1}
    rule = "share must be left out where epsilons or deltas in the file leave nothing"
    for epsilon in (1, 2):
        with pytest.raises(ValueError, match=rule):
            with_shares(tmp_path, pure | {"epsilon": epsilon}, shared("1/2"))


def test_ledger_timeline_states_remaining_epsilon_and_rho(tmp_path: Path) -> None:
    made = live(tmp_path, {"name": "short", "sql": COUNTS, "epsilon": "1/4", "horizon": "50s"}, budget=BOTH)
    until(made, tmp_path, 3)
    texts = ledger_log_as_json(made.ledger(), made.file)
    first, later = texts["timeline"]
    assert (first["spent"], first["remaining"]["epsilon"]) == ({"epsilon": "1/4", "delta": "1/1000000"}, "3/4")
    assert (later["spent"], later["remaining"]["epsilon"]) == ({"epsilon": "0", "delta": "0"}, "1")
    assert texts["remaining"] == first["remaining"]
    assert Fraction(later["remaining"]["rho"]) == BUDGET.additive_loss.rho


def test_analyst_with_quarter_share_may_spend_quarter_of_epsilon(tmp_path: Path) -> None:
    made = live(tmp_path, {"name": "counts", "sql": COUNTS, "epsilon": "1/100"}, budget=BOTH)
    until(made, tmp_path, 3, adhoc_releases=(build_request(made, share=QUARTER, epsilon=0.25),))
    assert remaining_share(made.ledger(), "ana", QUARTER) == Remainder(Fraction(0), Fraction(0))
    more = build_request(made, share=QUARTER, name="more", epsilon=0.01)
    assert plan_adhoc(made.file, more).refusals == (
        "v.toml: the share of ana: charge must be at most what is left, nothing, got epsilon 0.01",
    )
    with pytest.raises(CommandRefusedError, match="charge must be at most what is left"):
        until(made, tmp_path, 6, at=3, adhoc_releases=(more,))


def test_pure_and_gaussian_releases_of_analyst_add_up(tmp_path: Path) -> None:
    made = live(tmp_path, {"name": "counts", "sql": COUNTS, "epsilon": "1/100"}, budget=BOTH)
    until(made, tmp_path, 3, adhoc_releases=(build_request(made, share=HALF, epsilon=0.25),))
    left = remaining_share(made.ledger(), "ana", HALF)
    assert left == Remainder(QUARTER, BUDGET.part("1/4").rho)
    body = {"name": "gaussian", "sql": COUNTS, "window": "each", "share": "1/4"}
    wanted = AdHocRelease(parse_adhoc_release(body, made.file.stream), "ana", HALF)
    assert plan_adhoc(made.file, wanted).remaining_share == Remainder(Fraction(0), Fraction(0))


def test_charge_inside_share_but_above_budget_is_refused(tmp_path: Path) -> None:
    made = live(tmp_path, {"name": "counts", "sql": COUNTS, "epsilon": "3/4"}, budget=BOTH)
    until(made, tmp_path, 3)
    wanted = build_request(made, share=HALF, epsilon=0.5)
    assert "on top of epsilon 0.75, delta 1e-06" in plan_adhoc(made.file, wanted).refusals[0]
    with pytest.raises(CommandRefusedError):
        until(made, tmp_path, 6, at=3, adhoc_releases=(wanted,))


def hints(made: Any) -> list[str]:
    return [hint for release in made.plan().releases for choice in release.choices for hint in choice.hints]


LONG = {"sql": TOTAL, "window": "running", "horizon": "36500d"}


LIVE = {"end": None, "mode": "streaming", "allowed_lateness": "5s", "allowed_earliness": "20s"}


def last_error(made: Any) -> float:
    return float(made.plan().releases[0].errors[-1].half_width)


def test_plan_suggests_rho_with_equal_cost_and_smaller_error(tmp_path: Path) -> None:
    made = with_shares(tmp_path, {"name": "all", "epsilon": 0.5, **LONG}, **LIVE)
    (hint,) = hints(made)
    other = with_shares(tmp_path, {"name": "all", "rho": 0.00664, **LONG}, **LIVE)
    times = last_error(other) / last_error(made)
    assert hint == f"rho = 0.00664 in place of epsilon spends no more and has {times:.2f} times the error"
    assert times < 0.8
    assert f"  {hint}" in str(made.plan())
    assert other.plan().spent[1].epsilon <= made.plan().spent[1].epsilon


def test_plan_suggests_rho_for_all_releases_together(tmp_path: Path) -> None:
    five = [{"name": f"all{i}", "epsilon": 0.2, **LONG} for i in range(5)]
    made = with_shares(tmp_path, *five, **LIVE)
    rhos = [{"name": f"all{i}", "rho": 0.00487, **LONG} for i in range(5)]
    other = with_shares(tmp_path, *rhos, **LIVE)
    times = last_error(other) / last_error(made)
    expected = f"rho = 0.00487, and the like for every epsilon here, spends no more and has {times:.2f} times"
    assert hints(made) == [f"{expected} the error"] * 5
    assert times < 0.45
    assert other.plan().spent[1].epsilon <= made.plan().spent[1].epsilon == 1


def test_releases_in_separate_ticks_get_no_shared_rho_hint(tmp_path: Path) -> None:
    """With a shared rho, each of two units could lose more than before."""
    made = live(tmp_path, {"name": "r0", "sql": TOTAL, "epsilon": "1/2", "horizon": "50s"}, budget=BOTH)
    until(made, tmp_path, 70)
    later = tables(
        {"name": "r0", "sql": TOTAL, "epsilon": "1/2", "horizon": "50s"},
        {"name": "all", "epsilon": "1/2", **LONG},
        live=True,
        budget=BOTH,
    )
    (hint,) = hints(pipeline(tmp_path, later))
    assert hint.startswith("rho = 0.00664 in place of epsilon spends no more")


def test_plan_of_ad_hoc_release_suggests_rho_too(tmp_path: Path) -> None:
    made = live(tmp_path, {"name": "counts", "sql": COUNTS, "epsilon": "1/100"}, budget=BOTH)
    body = {"name": "asked", "epsilon": 0.5, **LONG}
    found = plan_adhoc(made.file, AdHocRelease(parse_adhoc_release(body, made.file.stream), "ana", None))
    assert found.refusals == ()
    assert found.plan is not None
    (hint,) = found.plan.choices[0].hints
    assert hint.startswith("rho = 0.00664 in place of epsilon spends no more and has 0.")


@pytest.mark.parametrize(
    ("budget", "release"),
    [
        ({"epsilon": 1}, {"epsilon": 0.5}),
        ({"rho": 1}, {"epsilon": 0.5}),
        (BOTH, {"rho": 0.005}),
        (BOTH, {"epsilon": 0.5, "window": "each"}),
        (BOTH, {"epsilon": 0.5, "mechanism": "Pegasus", "window": "each"}),
    ],
)
def test_plan_suggests_no_rho_without_delta_or_gain(
    tmp_path: Path, budget: dict[str, Any], release: dict[str, Any]
) -> None:
    made = with_shares(tmp_path, {"name": "all", **LONG, **release}, budget=budget, **LIVE)
    assert made.plan().refusals == ()
    assert [hint for hint in hints(made) if "spends no more" in hint] == []


def test_remaining_budget_is_printed_as_alternatives() -> None:
    assert loss_text(Remainder(Fraction(3, 4), Fraction(1, 100))) == "epsilon 0.75 or rho 0.01"
    assert loss_text(Remainder(Fraction(0), Fraction(0))) == "nothing"
    assert Remainder(Fraction(1), Zcdp(1).rho).amount == 1
