"""Edits of streams and releases between runs: each rule, in the plan and in the next run."""

import json
from pathlib import Path

import pytest

from streamgauge import Pure
from streamgauge.privacy import BudgetExceededError
from tests.support import edited
from tests.support.edited import EXACT, USERS, charged, live_until, refusal
from tests.support.pipelines import COUNTS, Tables, pipeline, published, run, tables, ticks_of, world

folder, once, ran = edited.folder, edited.once, edited.ran


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
        ("columns.g", {"columns": {**tables()["stream"]["columns"], "g": {"values": ["a", "b", "c"]}}}),
        ("source", {"source": "other.jsonl"}),
    ],
)
def test_after_the_first_charge_the_stream_is_fixed(ran: Path, key: str, change: Tables) -> None:
    texts = refusal(ran, tables(**change))
    for each in key.split(", "):
        assert each in texts.split("got another ")[1]
    assert "a second budget" in texts


@pytest.mark.parametrize(
    "change", [{"late": "next_tick"}, {"allowed_lateness": "6s"}, {"allowed_earliness": "30s"}], ids=str
)
def test_lateness_rules_of_live_stream_are_fixed_after_charge(tmp_path: Path, change: Tables) -> None:
    live_until(tmp_path, tables(live=True), 30)
    texts = refusal(tmp_path, tables(live=True) | {"stream": tables(live=True)["stream"] | change})
    assert f"got another {next(iter(change))}: put it back" in texts
    same = tables(live=True) | {"stream": tables(live=True)["stream"] | {"late": "drop", "allowed_lateness": "5000ms"}}
    assert pipeline(tmp_path, same).plan().refusals == ()


def test_same_stream_in_other_spelling_is_accepted(ran: Path) -> None:
    same = tables(tick="10000ms", start="2026-01-05T01:00:00+01:00", budget={"epsilon": "2/2"})
    assert pipeline(ran, same).plan().refusals == ()
    assert str(run(pipeline(ran, same))) == "nothing was left to publish"


def test_before_the_first_charge_everything_may_change(folder: Path) -> None:
    with pytest.raises(BudgetExceededError):
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
    texts = refusal(ran, tables({"name": "counts", "sql": COUNTS, **change}))
    assert f"release counts must stay as it was charged, got another {key}: give it a new name" in texts


@pytest.mark.parametrize(
    "change",
    [
        {"sql": "select  g, count( * )\n  from v\n group   by g -- reformatted"},
        {"epsilon": 0.5},
        {"epsilon": None, "share": "1/2"},
        {"title": "Counts", "description": "of a and b", "expected_events": 20},
    ],
)
def test_same_release_in_other_spelling_continues(ran: Path, change: Tables) -> None:
    same = {"name": "counts", "sql": COUNTS, "epsilon": "1/2", **change}
    made = tables()
    made["release"] = [{"window": "each"} | {k: v for k, v in same.items() if v is not None}]
    plan = pipeline(ran, made).plan()
    assert (plan.edits.continued_releases, plan.refusals) == (("counts",), ())
    run(pipeline(ran, made))


def test_new_release_on_finished_file_is_charged_from_first_tick(ran: Path) -> None:
    made = tables()
    made["release"].append({"name": "sums", "sql": "SELECT SUM(x) FROM v", "epsilon": "1/2"})
    edited = pipeline(ran, made)
    plan = edited.plan()
    assert "sums is new, and starts at tick 1" in str(plan)
    assert (plan.spent[0], plan.spent[1], plan.remaining[1]) == (Pure("1/2"), Pure(1), Pure.zero())
    report = run(edited, max_batch_ticks=3)  # several commits, all before the last published tick
    assert report.ticks == {"sums": 10}
    assert (ticks_of(edited, "sums"), published(edited)) == (list(range(1, 11)), EXACT)
    assert edited.ledger().ledger.remaining_loss() == Pure.zero()
    assert str(run(edited)) == "nothing was left to publish"


def test_charge_above_budget_is_refused_before_any_draw_or_write(ran: Path) -> None:
    made = tables()
    made["release"].append({"name": "more", "sql": COUNTS, "epsilon": "3/4"})
    edited = pipeline(ran, made)
    before = edited.ledger().ledger_entries, (ran / "out.jsonl").read_bytes()
    assert edited.plan().refusals == (
        "v.toml: release more: charge must be at most what is left of epsilon 1, "
        "got epsilon 0.75 on top of epsilon 0.5",
    )
    with pytest.raises(BudgetExceededError) as found:
        run(
            edited,
            step=lambda step: pytest.fail(step) if step in ("noise_drawn", "block_read", "releases_packed") else None,
        )
    assert (found.value.requested, found.value.spent, found.value.allowed) == (Pure("3/4"), Pure("1/2"), Pure(1))
    assert (edited.ledger().ledger_entries, (ran / "out.jsonl").read_bytes()) == before


def test_new_release_on_live_stream_starts_at_unopened_tick(tmp_path: Path) -> None:
    """Tick 4 closed at 45 s, so there could be events of 65 s, in tick 7."""
    live_until(tmp_path, tables(live=True), 52)
    made = tables(live=True)
    made["release"].append({"name": "later", "sql": COUNTS, "window": "each", "epsilon": "1/2"})
    (first,) = [each.first for each in pipeline(tmp_path, made).plan().releases if each.name == "later"]
    assert first == 8
    edited = live_until(tmp_path, made, 120, at=52)
    assert ticks_of(edited) == list(range(1, 12))
    assert ticks_of(edited, "later") == list(range(first, 12))
    assert published(edited, "later") == [[5.0, 5.0]] * len(ticks_of(edited, "later"))
    (_, entry) = edited.ledger().releases.values()
    assert (entry.first, entry.last) == (first, None)


def test_removed_release_returns_event_level_budget_for_later_ticks(tmp_path: Path) -> None:
    whole = {"name": "counts", "sql": COUNTS, "epsilon": 1}
    live_until(tmp_path, tables(whole, live=True), 52)
    made = tables({"name": "other", "sql": COUNTS, "epsilon": 1}, live=True)
    plan = pipeline(tmp_path, made).plan()
    assert plan.refusals == ()
    assert "counts ends: its budget returns for later ticks" in str(plan)
    edited = live_until(tmp_path, made, 120, at=52)
    assert ticks_of(edited) == [1, 2, 3, 4]
    assert ticks_of(edited, "other")[0] == 8
    ledger = edited.ledger().ledger
    assert (ledger.spent_loss(), ledger.remaining_loss(5, 6)) == (Pure(1), Pure(1))


def test_user_level_budget_never_returns(tmp_path: Path) -> None:
    whole = {"name": "counts", "sql": COUNTS, "epsilon": 1}
    live_until(tmp_path, tables(whole, live=True, unit=USERS), 52)
    made = tables({"name": "other", "sql": COUNTS, "epsilon": "1/8"}, live=True, unit=USERS)
    plan = pipeline(tmp_path, made).plan()
    assert "counts ends: its budget does not return to anybody" in str(plan)
    assert "got epsilon 0.125 on top of epsilon 1" in plan.refusals[0]
    with pytest.raises(BudgetExceededError):
        run(pipeline(tmp_path, made), clock=world(tmp_path, at=52))


def test_w_event_budget_returns_only_when_no_window_has_both(tmp_path: Path) -> None:
    """A release that ended after tick 4 and one that starts at 8 are in one window of 5, not of 2."""
    for w, fits in ((5, False), (2, True)):
        folder = tmp_path / str(w)
        folder.mkdir()
        unit = {"w_event": w}
        live_until(folder, tables({"name": "counts", "sql": COUNTS, "epsilon": 1}, live=True, unit=unit), 52)
        made = tables({"name": "other", "sql": COUNTS, "epsilon": 1}, live=True, unit=unit)
        assert (pipeline(folder, made).plan().refusals == ()) is fits


def test_release_can_be_removed_before_its_first_tick(tmp_path: Path) -> None:
    """The release ends before its first tick, so its charge does not count."""
    live_until(tmp_path, tables({"name": "one", "sql": COUNTS}, live=True), 52)
    live_until(tmp_path, tables({"name": "two", "sql": COUNTS}, live=True), 53, at=52)
    edited = live_until(tmp_path, tables({"name": "three", "sql": COUNTS, "epsilon": 1}, live=True), 100, at=53)
    entries = edited.ledger().releases
    assert entries["two"].charge.active_timeline is None
    assert [entries[name].end_tick is None for name in ("one", "two", "three")] == [False, False, True]


def test_name_of_ended_release_cannot_be_used_again(folder: Path) -> None:
    charged(folder, tables())
    other = charged(folder, tables({"name": "other", "sql": COUNTS}))
    other["release"] += tables()["release"]
    texts = refusal(folder, other)
    assert "release counts must have a name of its own, got that of one that has ended" in texts


def test_a_plan_of_an_unchanged_file_has_no_changes(ran: Path) -> None:
    made = tables()
    plan = pipeline(ran, made).plan()
    assert "changes" not in str(plan)
    assert plan.to_json()["edits"] == {
        "new_releases": [],
        "continued_releases": ["counts"],
        "ended_releases": [],
        "new_columns": [],
        "changed_columns": [],
        "removed_columns": [],
        "budget": None,
    }


def test_ended_live_stream_refuses_new_release(tmp_path: Path) -> None:
    ended = {"live": True, "end": "2026-01-05T00:00:30Z"}
    live_until(tmp_path, tables(**ended), 60)
    made = tables({"name": "counts", "sql": COUNTS}, {"name": "late", "sql": COUNTS}, **ended)
    assert "release late must begin by tick 3, the last one" in pipeline(tmp_path, made).plan().refusals[0]
    with pytest.raises(ValueError, match="must begin by tick 3"):
        run(pipeline(tmp_path, made), clock=world(tmp_path, at=60))


def test_every_ledger_entry_is_json(folder: Path) -> None:
    made = charged(folder, tables() | {"release": [{"name": "h", "sql": COUNTS, "share": "1/3"}]})
    for act in pipeline(folder, made).ledger().ledger_entries:
        json.dumps(dict(act.body))
