"""Editing the file between runs: each rule, what a plan says of it, and what a run then does."""

import json
import shutil
from copy import deepcopy
from fractions import Fraction
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest
from pipelines import (
    COUNTS,
    Tables,
    as_they_happen,
    lines,
    one_a_second,
    pipeline,
    published,
    run,
    tables,
    ticks_of,
    world,
    write,
)

from streamgauge import Pipeline, Pure
from streamgauge.pipeline import as_charged
from streamgauge.pipeline.opening import RunRefused
from streamgauge.pipeline.store import Store
from streamgauge.pipeline.witness import RolledBack
from streamgauge.privacy import BudgetExceeded

EXACT = [[5.0, 5.0]] * 10  # one event a second, of two groups in turn, in ticks of ten seconds
USERS = {"user": "u", "max_events_per_tick": 1, "max_ticks": 5}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path, one_a_second())
    return tmp_path


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose usual file was run to its end."""
    folder = tmp_path_factory.mktemp("once")
    write(folder, one_a_second())
    write(folder, one_a_second(), "other.jsonl")
    run(pipeline(folder, tables()))
    return folder


@pytest.fixture
def ran(once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(once, tmp_path / "ran"))


def charged(folder: Path, made: Tables) -> Tables:
    """A file that was run to its end."""
    run(pipeline(folder, made))
    return deepcopy(made)


def refusal(folder: Path, made: Tables, **settings: Any) -> str:
    """What the run says; the plan says it too, and neither leaves a trace."""
    edited = pipeline(folder, made)
    before = edited.ledger().acts, (folder / "out.jsonl").read_bytes()
    with pytest.raises(RunRefused) as found:
        run(edited, **settings)
    assert (edited.ledger().acts, (folder / "out.jsonl").read_bytes()) == before
    assert all(reason in str(found.value) for reason in edited.plan().edits.refused)
    return str(found.value)


def live_until(folder: Path, made: Tables, second: float, **settings: Any) -> Pipeline:
    """Runs a live file up to a second after its start, everything being written as it happens."""
    clock = world(folder, as_they_happen(one_a_second(300)), at=settings.pop("at", 0))
    edited = pipeline(folder, made)
    stop = Flag()
    clock.acts[second] = stop.set
    run(edited, clock=clock, stop=stop, **settings)
    return edited


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("time", {"time": "when"}),
        ("time_format", {"time_format": "epoch ms"}),
        ("timezone", {"timezone": "Europe/Berlin"}),
        ("end, tick", {"tick": "5s", "end": "2026-01-05T00:00:50Z"}),
        ("start", {"start": "2026-01-04T23:59:50Z"}),
        ("unit", {"unit": {"w_event": 3}}),
        ("unit, user", {"unit": USERS}),
        ("columns.x", {"columns": {"g": {"values": ["a", "b"]}, "x": {"bounds": [0, 20]}}}),
        ("columns.y", {"columns": {**tables()["stream"]["columns"], "y": {"bounds": [0, 1]}}}),
        ("source", {"source": "other.jsonl"}),
    ],
)
def test_after_the_first_charge_the_stream_is_fixed(ran: Path, key: str, change: Tables) -> None:
    told = refusal(ran, tables(**change))
    for each in key.split(", "):
        assert each in told.split("got another ")[1]
    assert "a second budget" in told


@pytest.mark.parametrize("change", [{"late": "carry"}, {"lateness": "6s"}, {"earliness": "30s"}], ids=str)
def test_when_an_event_of_a_live_stream_is_too_late_or_too_early_is_fixed_too(
    tmp_path: Path, change: Tables
) -> None:
    live_until(tmp_path, tables(live=True), 30)
    told = refusal(tmp_path, tables(live=True) | {"stream": tables(live=True)["stream"] | change})
    assert f"got another {next(iter(change))}: put it back" in told
    same = tables(live=True) | {
        "stream": tables(live=True)["stream"] | {"late": "drop", "lateness": "5000ms"}
    }
    assert pipeline(tmp_path, same).plan().refused == ()


def test_the_same_stream_in_other_words_is_the_same(ran: Path) -> None:
    same = tables(tick="10000ms", start="2026-01-05T01:00:00+01:00", budget={"epsilon": "2/2"})
    assert pipeline(ran, same).plan().refused == ()
    assert str(run(pipeline(ran, same))) == "nothing was left to publish"


def test_before_the_first_charge_everything_may_change(folder: Path) -> None:
    with pytest.raises(BudgetExceeded):
        run(pipeline(folder, tables(budget={"epsilon": "1/4"})))
    run(pipeline(folder, tables(tick="20s", unit={"w_event": 2})))
    assert ticks_of(pipeline(folder, tables(tick="20s", unit={"w_event": 2}))) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("key", "change"),
    [
        ("loss", {"epsilon": "1/4"}),
        ("window", {"window": "running"}),
        ("window", {"window": "sliding 20s"}),
        ("sql", {"sql": "SELECT g, COUNT(*) FROM v WHERE x > 3 GROUP BY g"}),
        ("sql", {"sql": "SELECT g, COUNT(*) AS n FROM v GROUP BY g"}),
        ("horizon", {"horizon": "50s"}),
        ("mechanism", {"mechanism": "WindowSum"}),
        ("max_groups", {"max_groups": 2}),
    ],
)
def test_a_changed_release_is_refused(ran: Path, key: str, change: Tables) -> None:
    told = refusal(ran, tables({"name": "counts", "sql": COUNTS, **change}))
    assert f"release counts must stay as it was charged, got another {key}: give it a new name" in told


@pytest.mark.parametrize(
    "change",
    [
        {"sql": "select  g, count( * )\n  from v\n group   by g -- reformatted"},
        {"epsilon": 0.5},
        {"epsilon": None, "share": "1/2"},
        {"title": "Counts", "description": "of a and b", "expected": 20},
    ],
)
def test_the_same_release_in_other_words_goes_on(ran: Path, change: Tables) -> None:
    same = {"name": "counts", "sql": COUNTS, "epsilon": "1/2", **change}
    made = tables()
    made["release"] = [{"window": "each"} | {k: v for k, v in same.items() if v is not None}]
    plan = pipeline(ran, made).plan()
    assert (plan.edits.kept, plan.refused) == (("counts",), ())
    run(pipeline(ran, made))


def test_over_a_finished_file_a_new_release_starts_at_the_start_and_is_charged_for_it(ran: Path) -> None:
    made = tables()
    made["release"].append({"name": "sums", "sql": "SELECT SUM(x) FROM v", "epsilon": "1/2"})
    edited = pipeline(ran, made)
    plan = edited.plan()
    assert "sums is new, and starts at tick 1" in str(plan)
    assert (plan.spent[0], plan.spent[1], plan.left[1]) == (Pure("1/2"), Pure(1), Pure.nothing())
    report = run(edited, ticks=3)  # several commits, all of them behind what was published already
    assert report.ticks == {"sums": 10}
    assert (ticks_of(edited, "sums"), published(edited)) == (list(range(1, 11)), EXACT)
    assert edited.ledger().ledger.left() == Pure.nothing()
    assert str(run(edited)) == "nothing was left to publish"


def test_a_charge_beyond_the_budget_is_refused_before_anything_is_drawn_or_written(ran: Path) -> None:
    made = tables()
    made["release"].append({"name": "more", "sql": COUNTS, "epsilon": "3/4"})
    edited = pipeline(ran, made)
    before = edited.ledger().acts, (ran / "out.jsonl").read_bytes()
    assert edited.plan().refused == (
        "v.toml: release more: charge must be at most what is left of epsilon 1, "
        "got epsilon 0.75 on top of epsilon 0.5",
    )
    with pytest.raises(BudgetExceeded) as found:
        run(edited, step=lambda step: pytest.fail(step) if step in ("drawn", "read", "packed") else None)
    assert (found.value.asked, found.value.spent, found.value.allowed) == (Pure("3/4"), Pure("1/2"), Pure(1))
    assert (edited.ledger().acts, (ran / "out.jsonl").read_bytes()) == before


def test_on_a_live_stream_a_new_release_starts_at_the_next_unopened_tick(tmp_path: Path) -> None:
    """When tick 4 closed, at 45 s, there could be events of 65 s, in tick 7."""
    live_until(tmp_path, tables(live=True), 52)
    made = tables(live=True)
    made["release"].append({"name": "later", "sql": COUNTS, "window": "each", "epsilon": "1/2"})
    (first,) = [each.first for each in pipeline(tmp_path, made).plan().releases if each.name == "later"]
    assert first == 8
    edited = live_until(tmp_path, made, 120, at=52)
    assert ticks_of(edited) == list(range(1, 12))
    assert ticks_of(edited, "later") == list(range(first, 12))
    assert published(edited, "later") == [[5.0, 5.0]] * len(ticks_of(edited, "later"))
    (_, entry) = edited.ledger().entries.values()
    assert (entry.first, entry.last) == (first, None)


def test_a_removed_release_ends_and_event_level_budget_returns_for_later_ticks(tmp_path: Path) -> None:
    whole = {"name": "counts", "sql": COUNTS, "epsilon": 1}
    live_until(tmp_path, tables(whole, live=True), 52)
    made = tables({"name": "other", "sql": COUNTS, "epsilon": 1}, live=True)
    plan = pipeline(tmp_path, made).plan()
    assert plan.refused == ()
    assert "counts ends: its budget returns for later ticks" in str(plan)
    edited = live_until(tmp_path, made, 120, at=52)
    assert ticks_of(edited) == [1, 2, 3, 4]
    assert ticks_of(edited, "other")[0] == 8
    ledger = edited.ledger().ledger
    assert (ledger.spent(), ledger.left(5, 6)) == (Pure(1), Pure(1))


def test_user_level_budget_never_returns(tmp_path: Path) -> None:
    whole = {"name": "counts", "sql": COUNTS, "epsilon": 1}
    live_until(tmp_path, tables(whole, live=True, unit=USERS), 52)
    made = tables({"name": "other", "sql": COUNTS, "epsilon": "1/8"}, live=True, unit=USERS)
    plan = pipeline(tmp_path, made).plan()
    assert "counts ends: its budget does not return to anybody" in str(plan)
    assert "got epsilon 0.125 on top of epsilon 1" in plan.refused[0]
    with pytest.raises(BudgetExceeded):
        run(pipeline(tmp_path, made), clock=world(tmp_path, at=52))


def test_w_event_budget_returns_only_when_no_window_has_both(tmp_path: Path) -> None:
    """A release that ended after tick 4 and one that starts at 8 are in one window of 5, not of 2."""
    for w, fits in ((5, False), (2, True)):
        folder = tmp_path / str(w)
        folder.mkdir()
        unit = {"w_event": w}
        live_until(folder, tables({"name": "counts", "sql": COUNTS, "epsilon": 1}, live=True, unit=unit), 52)
        made = tables({"name": "other", "sql": COUNTS, "epsilon": 1}, live=True, unit=unit)
        assert (pipeline(folder, made).plan().refused == ()) is fits


def test_a_release_may_be_taken_out_before_it_published_anything(tmp_path: Path) -> None:
    """It began later than what others had published when they ended: nothing of it counts."""
    live_until(tmp_path, tables({"name": "one", "sql": COUNTS}, live=True), 52)
    live_until(tmp_path, tables({"name": "two", "sql": COUNTS}, live=True), 53, at=52)
    edited = live_until(
        tmp_path, tables({"name": "three", "sql": COUNTS, "epsilon": 1}, live=True), 100, at=53
    )
    entries = edited.ledger().entries
    assert entries["two"].charge.covers is None
    assert [entries[name].ended is None for name in ("one", "two", "three")] == [False, False, True]


def test_a_release_that_ended_cannot_come_back(folder: Path) -> None:
    charged(folder, tables())
    other = charged(folder, tables({"name": "other", "sql": COUNTS}))
    other["release"] += tables()["release"]
    told = refusal(folder, other)
    assert "release counts must have a name of its own, got that of one that has ended" in told


def test_a_new_sink_gets_the_whole_history_from_the_store(ran: Path) -> None:
    made = tables()
    made["sink"] += [{"to": "late.jsonl"}, {"to": "late.csv"}]
    assert str(run(pipeline(ran, made))) == "nothing was left to publish"
    assert lines(ran / "late.jsonl") == lines(ran / "out.jsonl")
    assert len((ran / "late.csv").read_text().splitlines()) == 1 + 20
    run(pipeline(ran, made))
    assert lines(ran / "late.jsonl") == lines(ran / "out.jsonl")


def test_a_sink_may_go_and_come_back_and_misses_nothing(ran: Path) -> None:
    made = tables()
    without = deepcopy(made)
    without["sink"] = []
    without["release"].append({"name": "sums", "sql": "SELECT SUM(x) FROM v", "epsilon": "1/4"})
    charged(ran, without)
    run(pipeline(ran, without | {"sink": made["sink"]}))
    assert {line["release"] for line in lines(ran / "out.jsonl")} == {"counts", "sums"}
    assert len(lines(ran / "out.jsonl")) == 20 + 10


def test_a_sink_of_a_release_that_is_over_sooner_than_others_is_no_trace_of_another_store(
    folder: Path,
) -> None:
    short = {"name": "short", "sql": COUNTS, "horizon": "30s"}
    sinks = [{"to": "out.jsonl"}, {"to": "short.jsonl", "releases": ["short"]}]
    made = tables(short, {"name": "counts", "sql": COUNTS}, sinks=sinks)
    charged(folder, made)
    assert str(run(pipeline(folder, made))) == "nothing was left to publish"
    assert {line["tick"] for line in lines(folder / "short.jsonl")} == {1, 2, 3}


def test_a_twin_whose_sinks_are_stamped_with_their_own_last_tick_takes_itself_for_another_store(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Store.trace_at
    monkeypatch.setattr(Store, "trace_at", lambda store, number: own(store, number)._replace(tick=3))
    short = {"name": "short", "sql": COUNTS, "horizon": "30s"}
    made = tables(short, {"name": "counts", "sql": COUNTS})
    charged(folder, made)
    with pytest.raises(RolledBack):
        run(pipeline(folder, made))


def test_raising_the_budget_is_an_act_of_its_own(ran: Path) -> None:
    raised = tables(
        {"name": "counts", "sql": COUNTS},
        {"name": "more", "sql": COUNTS, "epsilon": "3/2"},
        budget={"epsilon": 2},
    )
    plan = pipeline(ran, raised).plan()
    assert (plan.refused, plan.edits.budget) == ((), (Pure(1), Pure(2)))
    assert "the budget epsilon 1 becomes epsilon 2: run --change-budget records it" in str(plan)
    assert "budget must stay epsilon 1, got epsilon 2" in refusal(ran, raised)
    edited = pipeline(ran, raised)
    run(edited, change_budget=True)
    told = [act.body["loss"] for act in edited.ledger().acts if act.kind == "budget"]
    assert told == [{"epsilon": "1"}, {"epsilon": "2"}]
    assert edited.ledger().ledger.left() == Pure.nothing()
    assert published(edited, "more") == EXACT


def test_the_budget_may_be_lowered_to_what_is_spent_and_no_further(ran: Path) -> None:
    for amount, fits in ((Fraction(1, 2), True), (Fraction(1, 4), False)):
        edited = pipeline(ran, tables(budget={"epsilon": str(amount)}))
        assert bool(edited.plan().refused) is not fits
        if fits:
            run(edited, change_budget=True)
        else:
            before = edited.ledger().acts
            with pytest.raises(BudgetExceeded):
                run(edited, change_budget=True)
            assert edited.ledger().acts == before


def test_a_budget_in_another_currency_that_charges_do_not_have_is_refused_by_plan_and_run(
    folder: Path,
) -> None:
    gaussian = {"name": "counts", "sql": COUNTS, "epsilon": None, "rho": "1/8"}
    made = tables(budget={"rho": 1})
    made["release"] = [{k: v for k, v in gaussian.items() if v is not None} | {"window": "each"}]
    charged(folder, made)
    pure = tables({"name": "other", "sql": COUNTS})
    pure["release"] = [*made["release"]]
    pure["release"][0] = {"name": "counts", "sql": COUNTS, "epsilon": "1/2", "window": "each"}
    edited = pipeline(folder, pure)
    assert any("loss must be pure" in reason for reason in edited.plan().refused)
    with pytest.raises(ValueError, match="must"):
        run(edited, change_budget=True)


def test_a_share_is_of_the_budget_as_it_was_charged(folder: Path) -> None:
    half = {"name": "half", "sql": COUNTS, "window": "each", "share": "1/2"}
    charged(folder, tables() | {"release": [half]})
    raised = tables(budget={"epsilon": 4}) | {"release": [half, {**half, "name": "new"}]}
    edited = pipeline(folder, raised)
    assert [(each.name, each.loss) for each in edited.plan().releases] == [
        ("half", Pure("1/2")),
        ("new", Pure(2)),
    ]
    run(edited, change_budget=True)
    run(edited)
    ledger = edited.ledger()
    assert [(name, entry.loss) for name, entry in ledger.entries.items()] == [
        ("half", Pure("1/2")),
        ("new", Pure(2)),
    ]
    assert ledger.ledger.left() == Pure("3/2")


def test_a_twin_that_takes_a_share_of_the_new_budget_refuses_what_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {"name": "half", "sql": COUNTS, "window": "each", "share": "1/2"}
    charged(folder, tables() | {"release": [half]})
    monkeypatch.setattr(as_charged, "as_charged", lambda release, book: release)
    with pytest.raises(RunRefused, match="got another loss"):
        run(pipeline(folder, tables(budget={"epsilon": 4}) | {"release": [half]}), change_budget=True)


def test_another_share_is_another_release(folder: Path) -> None:
    half = {"name": "half", "sql": COUNTS, "window": "each", "share": "1/2"}
    charged(folder, tables() | {"release": [half]})
    assert "got another loss" in refusal(folder, tables() | {"release": [{**half, "share": "1/4"}]})


def test_a_finished_file_that_changed_is_refused_and_again_charges_it_again(ran: Path) -> None:
    made = tables()
    write(ran, one_a_second(50))
    assert "source must stay as it was charged, got a change: run --again charges it again" in refusal(
        ran, made
    )
    edited = pipeline(ran, made)
    report = run(edited, again=True)
    assert report.ticks == {"counts@2": 10}
    assert (published(edited), published(edited, "counts@2")) == (EXACT, EXACT[:5] + [[0.0, 0.0]] * 5)
    assert edited.ledger().ledger.left() == Pure.nothing()
    assert {line["release"] for line in lines(ran / "out.jsonl")} == {"counts", "counts@2"}
    assert str(run(edited)) == "nothing was left to publish"


def test_a_file_that_is_run_again_must_fit_the_budget_every_time(ran: Path) -> None:
    made = tables()
    for seconds in (50, 60):
        write(ran, one_a_second(seconds))
        edited = pipeline(ran, made)
        before = edited.ledger().acts
        if seconds == 50:
            run(edited, again=True)
            continue
        with pytest.raises(BudgetExceeded):
            run(edited, again=True)
        assert edited.ledger().acts == before
    raised = pipeline(ran, tables(budget={"epsilon": 2}))
    assert run(raised, again=True, change_budget=True).ticks == {"counts@3": 10}
    assert [entry.ended for entry in raised.ledger().entries.values()] == [10, 10, None]


def test_a_release_that_was_run_again_is_planned_as_it_goes_on(ran: Path) -> None:
    write(ran, one_a_second(50))
    run(pipeline(ran, tables()), again=True)
    assert pipeline(ran, tables()).plan().edits.kept == ("counts",)
    assert "got another sql" in refusal(ran, tables({"name": "counts", "sql": "SELECT COUNT(*) FROM v"}))


def with_sites(folder: Path, rows: str) -> Tables:
    (folder / "sites.csv").write_text(f"g,floor\n{rows}")
    sql = "SELECT sites.floor, COUNT(*) FROM v JOIN sites ON v.g = sites.g GROUP BY sites.floor"
    made = tables({"name": "floors", "sql": sql})
    made["lookup"] = {"sites": {"file": "sites.csv", "on": "g"}}
    return made


def test_a_table_that_a_release_reads_is_fixed_with_it(folder: Path) -> None:
    charged(folder, with_sites(folder, "a,1st\nb,2nd\n"))
    told = refusal(folder, with_sites(folder, "a,2nd\nb,1st\n"))
    assert "lookup sites must stay as it was charged, got another table: give it a new name" in told
    run(pipeline(folder, with_sites(folder, "a,1st\nb,2nd\n")))


def test_a_table_that_no_release_reads_is_free(folder: Path) -> None:
    def unread(rows: str) -> Tables:
        return with_sites(folder, rows) | {"release": tables()["release"]}

    charged(folder, unread("a,1st\nb,2nd\n"))
    run(pipeline(folder, unread("a,2nd\nb,1st\n")))


def test_a_plan_of_an_unchanged_file_has_no_changes(ran: Path) -> None:
    made = tables()
    plan = pipeline(ran, made).plan()
    assert "changes" not in str(plan)
    assert plan.as_json()["edits"] == {"new": [], "kept": ["counts"], "ended": [], "budget": None}


def test_a_live_stream_that_is_over_takes_no_new_release(tmp_path: Path) -> None:
    ended = {"live": True, "end": "2026-01-05T00:00:30Z"}
    live_until(tmp_path, tables(**ended), 60)
    made = tables({"name": "counts", "sql": COUNTS}, {"name": "late", "sql": COUNTS}, **ended)
    assert "release late must begin by tick 3, the last one" in pipeline(tmp_path, made).plan().refused[0]
    with pytest.raises(ValueError, match="must begin by tick 3"):
        run(pipeline(tmp_path, made), clock=world(tmp_path, at=60))


def test_every_act_is_json(folder: Path) -> None:
    made = charged(folder, tables() | {"release": [{"name": "h", "sql": COUNTS, "share": "1/3"}]})
    for act in pipeline(folder, made).ledger().acts:
        json.dumps(dict(act.body))
