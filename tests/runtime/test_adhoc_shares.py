"""Analyst shares of the budget, enforced when a release is planned and when it starts."""

from fractions import Fraction

import pytest

from streamgauge.privacy import Pure
from streamgauge.runtime.adhoc import planning
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import CommandRefusedError
from streamgauge.runtime.ledger.shares import remaining_share
from tests.runtime.test_adhoc_releases import acts, build_request, live, until
from tests.support.pipelines import pipeline, tables

HALF, FEW = Fraction(1, 2), Fraction(1, 10)
WIDE = {"budget": {"epsilon": 2}}
USUAL = {"name": "counts", "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/100"}


def test_each_analyst_has_share_of_whole_budget(tmp_path):
    made = live(tmp_path, **WIDE)
    until(made, tmp_path, 3, adhoc_releases=(build_request(made, share=HALF, epsilon=0.75),))
    until(made, tmp_path, 6, at=3, adhoc_releases=(build_request(made, "bob", share=HALF, name="bobs", epsilon=0.5),))
    ledger_log = made.ledger()
    assert remaining_share(ledger_log, "ana", HALF) == Pure("1/4")
    assert remaining_share(ledger_log, "bob", HALF) == Pure("1/2")
    assert remaining_share(ledger_log, "eve", HALF) == Pure(1)
    assert remaining_share(ledger_log, "ana", None) is None


def test_charge_above_share_is_refused_despite_free_budget(tmp_path):
    made = live(tmp_path, **WIDE)
    until(made, tmp_path, 3, adhoc_releases=(build_request(made, share=FEW, epsilon=0.2),))
    before = acts(made)
    more = build_request(made, share=FEW, name="more", epsilon=0.01)
    found = plan_adhoc(made.file, more, FEW)
    assert found.refusals == (
        "v.toml: the share of ana: charge must be at most what is left of epsilon 0.2, "
        "got epsilon 0.01 on top of epsilon 0.2",
    )
    with pytest.raises(CommandRefusedError) as refusal:
        until(made, tmp_path, 6, at=3, adhoc_releases=(more,))
    assert refusal.value.reasons == found.refusals
    assert acts(made) == before


def test_twin_that_trusts_plan_overspends_share(tmp_path, monkeypatch):
    """The broken twin: two requests that were planned at once are charged one after the other."""
    made = live(tmp_path, **WIDE)
    both = [build_request(made, share=HALF, name=name, epsilon=0.75) for name in ("one", "two")]
    until(made, tmp_path, 1)
    assert all(plan_adhoc(made.file, each).refusals == () for each in both)
    until(made, tmp_path, 3, at=1, adhoc_releases=(both[0],))
    with pytest.raises(CommandRefusedError):
        until(made, tmp_path, 5, at=3, adhoc_releases=(both[1],))
    monkeypatch.setattr(planning, "check_share", lambda *what: None)
    until(made, tmp_path, 6, at=5, adhoc_releases=(both[1],))
    assert remaining_share(made.ledger(), "ana", HALF) == Pure.zero()


def test_ended_release_returns_its_charge_to_share(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 3, adhoc_releases=(build_request(made, share=HALF, epsilon=0.5),))
    until(made, tmp_path, 6, at=3, end_releases=("asked",))
    assert remaining_share(made.ledger(), "ana", HALF, first=50) == Pure("1/2")
    until(made, tmp_path, 9, at=6, adhoc_releases=(build_request(made, share=HALF, name="next", epsilon=0.5),))


def test_reduced_share_ends_no_release_and_allows_none(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 3, adhoc_releases=(build_request(made, share=HALF, epsilon=0.5),))
    assert remaining_share(made.ledger(), "ana", FEW) == Pure.zero()
    until(made, tmp_path, 6, at=3)
    assert "asked" in made.ledger().open_releases()


def test_remaining_share_before_first_charge_is_none(tmp_path):
    assert remaining_share(live(tmp_path).ledger(), "ana", HALF) is None


def test_half_share_of_analyst_equals_half_of_release_under_delta(tmp_path):
    made = live(tmp_path, USUAL, budget={"epsilon": 1, "delta": 1e-6})
    half = {"name": "half", "sql": "SELECT COUNT(*) FROM v", "window": "each", "share": "1/2"}
    wanted = AdHocRelease(parse_adhoc_release(half, made.file.stream), "ana", HALF)
    until(made, tmp_path, 3, adhoc_releases=(wanted,))
    assert remaining_share(made.ledger(), "ana", HALF).amount == 0


def test_share_of_analyst_also_limits_delta(tmp_path):
    columns = {"g": {"max_groups": 10}}
    budget = {"epsilon": 8, "delta": 1e-5}
    made = pipeline(tmp_path, tables(USUAL, live=True, budget=budget, columns=columns))
    found = {"sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "epsilon": 0.05}
    assert plan_adhoc(made.file, build_request(made, share=HALF, delta=4e-6, **found)).refusals == ()
    (dear,) = plan_adhoc(made.file, build_request(made, share=HALF, delta=6e-6, **found)).refusals
    assert dear == "v.toml: the share of ana: delta must be at most 5e-06 in all, got 6e-06"
