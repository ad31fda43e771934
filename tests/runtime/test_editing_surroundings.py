"""Edits around the releases between runs: sinks, the budget, the source and public tables."""

from copy import deepcopy
from fractions import Fraction
from pathlib import Path

import pytest

from streamgauge import Pure
from streamgauge.privacy import BudgetExceededError
from streamgauge.runtime import edits as as_charged
from streamgauge.runtime.session import RunRefusedError
from streamgauge.store.errors import RollbackError
from streamgauge.store.store import Store
from tests.support import edited
from tests.support.codes import has_code
from tests.support.edited import EXACT, charged, refusal
from tests.support.pipelines import COUNTS, Tables, lines, one_a_second, pipeline, published, run, tables, write

folder, once, ran = edited.folder, edited.once, edited.ran


def test_a_new_sink_gets_the_whole_history_from_the_store(ran: Path) -> None:
    made = tables()
    made["sink"] += [{"to": "late.jsonl"}, {"to": "late.csv"}]
    assert str(run(pipeline(ran, made))) == "nothing was left to publish"
    assert lines(ran / "late.jsonl") == lines(ran / "out.jsonl")
    assert len((ran / "late.csv").read_text().splitlines()) == 1 + 20
    run(pipeline(ran, made))
    assert lines(ran / "late.jsonl") == lines(ran / "out.jsonl")


def test_sink_removed_and_added_again_misses_nothing(ran: Path) -> None:
    made = tables()
    without = deepcopy(made)
    without["sink"] = []
    without["release"].append({"name": "sums", "sql": "SELECT SUM(x) FROM v", "epsilon": "1/4"})
    charged(ran, without)
    run(pipeline(ran, without | {"sink": made["sink"]}))
    assert {line["release"] for line in lines(ran / "out.jsonl")} == {"counts", "sums"}
    assert len(lines(ran / "out.jsonl")) == 20 + 10


def test_sink_of_earlier_ended_release_causes_no_rollback_error(folder: Path) -> None:
    short = {"name": "short", "sql": COUNTS, "horizon": "30s"}
    sinks = [{"to": "out.jsonl"}, {"to": "short.jsonl", "releases": ["short"]}]
    made = tables(short, {"name": "counts", "sql": COUNTS}, sinks=sinks)
    charged(folder, made)
    assert str(run(pipeline(folder, made))) == "nothing was left to publish"
    assert {line["tick"] for line in lines(folder / "short.jsonl")} == {1, 2, 3}


def test_twin_with_own_last_tick_in_stamps_reports_rollback(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = Store.trace_at
    monkeypatch.setattr(Store, "trace_at", lambda store, number: own(store, number)._replace(tick=3))
    short = {"name": "short", "sql": COUNTS, "horizon": "30s"}
    made = tables(short, {"name": "counts", "sql": COUNTS})
    charged(folder, made)
    with pytest.raises(RollbackError, check=has_code("rollback")):
        run(pipeline(folder, made))


def test_raised_budget_needs_option_and_ledger_entry(ran: Path) -> None:
    raised = tables(
        {"name": "counts", "sql": COUNTS}, {"name": "more", "sql": COUNTS, "epsilon": "3/2"}, budget={"epsilon": 2}
    )
    plan = pipeline(ran, raised).plan()
    assert (plan.refusals, plan.edits.budget) == ((), (Pure(1), Pure(2)))
    assert "the budget epsilon 1 becomes epsilon 2: run --change-budget records it" in str(plan)
    assert "budget must stay epsilon 1, got epsilon 2" in refusal(ran, raised)
    edited = pipeline(ran, raised)
    run(edited, change_budget=True)
    texts = [act.body["loss"] for act in edited.ledger().ledger_entries if act.kind == "budget"]
    assert texts == [{"epsilon": "1"}, {"epsilon": "2"}]
    assert edited.ledger().ledger.remaining_loss() == Pure.zero()
    assert published(edited, "more") == EXACT


def test_budget_can_be_lowered_to_spent_loss_only(ran: Path) -> None:
    for amount, fits in ((Fraction(1, 2), True), (Fraction(1, 4), False)):
        edited = pipeline(ran, tables(budget={"epsilon": str(amount)}))
        assert bool(edited.plan().refusals) is not fits
        if fits:
            run(edited, change_budget=True)
        else:
            before = edited.ledger().ledger_entries
            with pytest.raises(BudgetExceededError):
                run(edited, change_budget=True)
            assert edited.ledger().ledger_entries == before


def test_budget_in_unsuitable_currency_is_refused_by_plan_and_run(folder: Path) -> None:
    gaussian = {"name": "counts", "sql": COUNTS, "epsilon": None, "rho": "1/8"}
    made = tables(budget={"rho": 1})
    made["release"] = [{k: v for k, v in gaussian.items() if v is not None} | {"window": "each"}]
    charged(folder, made)
    pure = tables({"name": "other", "sql": COUNTS})
    pure["release"] = [*made["release"]]
    pure["release"][0] = {"name": "counts", "sql": COUNTS, "epsilon": "1/2", "window": "each"}
    edited = pipeline(folder, pure)
    assert any("loss must be pure" in reason for reason in edited.plan().refusals)
    with pytest.raises(ValueError, match="must"):
        run(edited, change_budget=True)


def test_share_is_of_budget_at_its_charge(folder: Path) -> None:
    half = {"name": "half", "sql": COUNTS, "window": "each", "share": "1/2"}
    charged(folder, tables() | {"release": [half]})
    raised = tables(budget={"epsilon": 4}) | {"release": [half, {**half, "name": "new"}]}
    edited = pipeline(folder, raised)
    assert [(each.name, each.loss) for each in edited.plan().releases] == [("half", Pure("1/2")), ("new", Pure(2))]
    run(edited, change_budget=True)
    run(edited)
    ledger = edited.ledger()
    assert [(name, entry.loss) for name, entry in ledger.releases.items()] == [("half", Pure("1/2")), ("new", Pure(2))]
    assert ledger.ledger.remaining_loss() == Pure("3/2")


def test_twin_that_recomputes_share_from_new_budget_refuses_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = {"name": "half", "sql": COUNTS, "window": "each", "share": "1/2"}
    charged(folder, tables() | {"release": [half]})
    monkeypatch.setattr(as_charged, "restore_charged_loss", lambda release, book: release)
    with pytest.raises(RunRefusedError, match="got another loss"):
        run(pipeline(folder, tables(budget={"epsilon": 4}) | {"release": [half]}), change_budget=True)


def test_changed_share_is_refused(folder: Path) -> None:
    half = {"name": "half", "sql": COUNTS, "window": "each", "share": "1/2"}
    charged(folder, tables() | {"release": [half]})
    assert "got another loss" in refusal(folder, tables() | {"release": [{**half, "share": "1/4"}]})


def test_changed_batch_source_is_refused_unless_recharged(ran: Path) -> None:
    made = tables()
    write(ran, one_a_second(50))
    assert "source must stay as it was charged, got a change: run --recharge-source charges it again" in refusal(
        ran, made
    )
    edited = pipeline(ran, made)
    report = run(edited, recharge_source=True)
    assert report.ticks == {"counts@2": 10}
    assert (published(edited), published(edited, "counts@2")) == (EXACT, EXACT[:5] + [[0.0, 0.0]] * 5)
    assert edited.ledger().ledger.remaining_loss() == Pure.zero()
    assert {line["release"] for line in lines(ran / "out.jsonl")} == {"counts", "counts@2"}
    assert str(run(edited)) == "nothing was left to publish"


def test_every_recharge_of_source_must_fit_budget(ran: Path) -> None:
    made = tables()
    for seconds in (50, 60):
        write(ran, one_a_second(seconds))
        edited = pipeline(ran, made)
        before = edited.ledger().ledger_entries
        if seconds == 50:
            run(edited, recharge_source=True)
            continue
        with pytest.raises(BudgetExceededError):
            run(edited, recharge_source=True)
        assert edited.ledger().ledger_entries == before
    raised = pipeline(ran, tables(budget={"epsilon": 2}))
    assert run(raised, recharge_source=True, change_budget=True).ticks == {"counts@3": 10}
    assert [entry.end_tick for entry in raised.ledger().releases.values()] == [10, 10, None]


def test_recharged_release_is_planned_as_continued(ran: Path) -> None:
    write(ran, one_a_second(50))
    run(pipeline(ran, tables()), recharge_source=True)
    assert pipeline(ran, tables()).plan().edits.continued_releases == ("counts",)
    assert "got another sql" in refusal(ran, tables({"name": "counts", "sql": "SELECT COUNT(*) FROM v"}))


def with_sites(folder: Path, rows: str) -> Tables:
    (folder / "sites.csv").write_text(f"g,floor\n{rows}")
    sql = "SELECT sites.floor, COUNT(*) FROM v JOIN sites ON v.g = sites.g GROUP BY sites.floor"
    made = tables({"name": "floors", "sql": sql})
    made["lookup"] = {"sites": {"file": "sites.csv", "on": "g"}}
    return made


def test_lookup_table_of_charged_release_is_fixed(folder: Path) -> None:
    charged(folder, with_sites(folder, "a,1st\nb,2nd\n"))
    texts = refusal(folder, with_sites(folder, "a,2nd\nb,1st\n"))
    assert "lookup sites must stay as it was charged, got another table: give it a new name" in texts
    run(pipeline(folder, with_sites(folder, "a,1st\nb,2nd\n")))


def test_lookup_table_without_release_may_change(folder: Path) -> None:
    def unread(rows: str) -> Tables:
        return with_sites(folder, rows) | {"release": tables()["release"]}

    charged(folder, unread("a,1st\nb,2nd\n"))
    run(pipeline(folder, unread("a,2nd\nb,1st\n")))
