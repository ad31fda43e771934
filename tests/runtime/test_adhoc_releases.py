"""Releases that analysts asked for: charged first, restored on every start, ended by people, not by edits."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.pipeline_file import PipelineFileError
from streamgauge.privacy import Pure
from streamgauge.runtime.adhoc import releases as asked_releases
from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, add_adhoc_releases, parse_adhoc_release
from streamgauge.runtime.commands.queue import AddRelease, CommandRefusedError, EndRelease
from streamgauge.runtime.ledger.render import ledger_log_as_json
from streamgauge.runtime.session import RunRefusedError, SessionBuilder
from tests.support.commands import run_until_applied
from tests.support.forked import forked, killed_at
from tests.support.pipelines import COUNTS, one_a_second, pipeline, published, run, tables, ticks_of, world, write

QUARTER = {"name": "asked", "sql": COUNTS, "window": "each", "epsilon": 0.25}
USUAL = {"name": "counts", "sql": COUNTS}


def build_request(made: Any, by: str = "ana", share: Fraction | None = None, **body: Any) -> AdHocRelease:
    return AdHocRelease(parse_adhoc_release(QUARTER | body, made.file.stream), by, share)


def finished(folder: Path, *releases: dict[str, Any], **stream: Any) -> Any:
    write(folder, one_a_second())
    return pipeline(folder, tables(*releases, **stream))


def live(folder: Path, *releases: dict[str, Any], **stream: Any) -> Any:
    return pipeline(folder, tables(*releases, live=True, **stream))


def until(made: Any, folder: Path, second: float, at: float = 0, **settings: Any) -> None:
    """Runs a live pipeline between two seconds."""
    clock, stop = world(folder, at=at), Flag()
    clock.acts[second] = stop.set
    run(made, clock=clock, stop=stop, **settings)


def acts(made: Any) -> list[tuple[str, Any]]:
    return [(act.kind, act.body) for act in made.ledger().ledger_entries]


def test_a_release_that_is_requested_for_is_charged_to_who_requested_and_runs(tmp_path):
    made = finished(tmp_path)
    run(made, adhoc_releases=(build_request(made, title="Asked", description="for a while"),))
    assert published(made, "asked") == published(made) == [[5.0, 5.0]] * 10
    (charge,) = [body for kind, body in acts(made) if kind == "charge" and body["release"] == "asked"]
    texts = {"requested_by": "ana", "title": "Asked", "description": "for a while", "loss": {"epsilon": "1/4"}}
    assert texts.items() <= charge.items()
    assert made.ledger().ledger.remaining_loss() == Pure("1/4")


def test_over_a_finished_file_it_has_all_ticks_whenever_it_is_requested_for(tmp_path):
    made = finished(tmp_path)
    run(made)
    run(made, adhoc_releases=(build_request(made),))
    assert published(made, "asked") == [[5.0, 5.0]] * 10


def test_over_a_live_stream_it_begins_at_the_next_tick_of_which_nothing_was_observed(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 17)
    until(made, tmp_path, 80, at=17, adhoc_releases=(build_request(made),))
    assert ticks_of(made) == [1, 2, 3, 4, 5, 6, 7]
    assert ticks_of(made, "asked") == [5, 6, 7]  # events of tick 4 may have come, 20 seconds early


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"window": "sliding 30s", "mechanism": "auto"},
        {"window": "running", "mechanism": {"name": "Kary", "branching": 3}, "max_groups": 7},
        {"epsilon": None, "share": "1/3", "horizon": "60s"},
        {"sql": "SELECT AVG(x) AS mean FROM v WHERE g = 'a'", "title": "T", "description": "two\nlines"},
    ],
)
def test_what_is_restored_is_what_was_requested_for(tmp_path, body):
    made = finished(tmp_path)
    body = {key: value for key, value in (QUARTER | body).items() if value is not None}
    wanted = AdHocRelease(parse_adhoc_release(body, made.file.stream), "ana")
    run(made, adhoc_releases=(wanted,))
    found = add_adhoc_releases(made.file, made.ledger()).releases[-1]
    spelled = replace(wanted.attributed_release, sql=found.sql)
    assert found == spelled
    assert made.plan().refusals == ()
    run(made)


def test_it_goes_on_at_every_start_and_no_edit_of_the_file_ends_it(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 20, adhoc_releases=(build_request(made),))
    other = live(tmp_path, {"name": "other", "sql": COUNTS, "epsilon": "1/8"})
    until(other, tmp_path, 60, at=20)
    ended = [body["release"] for kind, body in acts(other) if kind == "end"]
    assert ended == ["counts"]
    assert ticks_of(other, "asked")[-1] == 5
    assert [release.name for release in other.plan().releases] == ["other", "asked"]
    assert other.plan().releases[1].requested_by == "ana"


class ForgetfulBuilder(SessionBuilder):
    """A broken twin: it restores no ad hoc release."""

    def _add_adhoc_releases(self, file):
        return file


def test_a_start_that_does_not_restore_would_end_it(tmp_path):
    """The broken twin of the test before."""
    made = live(tmp_path)
    until(made, tmp_path, 20, adhoc_releases=(build_request(made),))
    until(made, tmp_path, 40, at=20, components={SessionBuilder: ForgetfulBuilder})
    assert [body["release"] for kind, body in acts(made) if kind == "end"] == ["asked"]


def test_it_ends_when_somebody_ends_it_and_its_budget_returns(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 20, adhoc_releases=(build_request(made, epsilon=0.5),))
    until(made, tmp_path, 40, at=20, end_releases=("asked",))
    assert made.ledger().ledger.remaining_loss(first=10) == Pure("1/2")
    until(made, tmp_path, 60, at=40, adhoc_releases=(build_request(made, name="next", epsilon=0.5),))
    assert list(made.ledger().open_releases()) == ["counts", "next"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"end_releases": ("counts",)}, "release counts must be a requested one, got one of the file"),
        ({"end_releases": ("nothing",)}, "release nothing must be one that is open, got none of that name"),
        ({"ask": {"name": "Counts"}}, "release Counts must have a name of its own, got one that is taken"),
        ({"ask": {"name": "ASKED"}}, "release ASKED must have a name of its own, got one that is taken"),
        ({"ask": {"name": "gone"}}, "release gone must have a name of its own, got one that is taken"),
    ],
)
def test_what_cannot_be_requested_for_or_ended_is_refused_without_a_trace(tmp_path, settings, words):
    made = live(tmp_path)
    until(
        made,
        tmp_path,
        3,
        adhoc_releases=(build_request(made, epsilon=0.1), build_request(made, name="gone", epsilon=0.1)),
    )
    until(made, tmp_path, 6, at=3, end_releases=("gone",))
    before = acts(made)
    if "ask" in settings:
        settings = {"adhoc_releases": (build_request(made, epsilon=0.1, **settings["ask"]),)}
    with pytest.raises((CommandRefusedError, InvalidReleaseError), match=words):
        until(made, tmp_path, 9, at=6, **settings)
    assert acts(made) == before


@pytest.mark.parametrize("name", ["asked", "Asked"])
def test_a_file_that_takes_the_name_of_one_that_was_requested_for_is_refused(tmp_path, name):
    made = live(tmp_path)
    until(made, tmp_path, 3, adhoc_releases=(build_request(made),))
    edited = live(tmp_path, USUAL, {"name": name, "sql": COUNTS, "epsilon": "1/4"})
    words = f"release {name} must have a name of its own, got that of a requested one"
    assert any(words in each for each in edited.plan().refusals)
    with pytest.raises(RunRefusedError, match=words):
        until(edited, tmp_path, 6, at=3)


def test_beyond_the_budget_it_is_refused_without_a_trace(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 3)
    before = acts(made)
    with pytest.raises(CommandRefusedError):
        until(made, tmp_path, 6, at=3, adhoc_releases=(build_request(made, epsilon=0.75),))
    assert acts(made) == before
    until(made, tmp_path, 20, at=3)


def test_sql_that_cannot_be_answered_is_refused_without_a_trace(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 3)
    before = acts(made)
    with pytest.raises(CommandRefusedError, match="release asked"):
        until(made, tmp_path, 6, at=3, adhoc_releases=(build_request(made, sql="SELECT secret FROM other"),))
    assert acts(made) == before


def test_sql_of_a_file_is_refused_before_there_is_a_store(tmp_path):
    made = live(tmp_path, {"name": "other", "sql": "SELECT secret FROM other"})
    with pytest.raises(ValueError, match="release other"):
        until(made, tmp_path, 3)
    assert not made.file.folder.exists()


BEFORE_COMMIT = ("commands_judged", "commit_begun", "rows_written", "slot_written")
AFTER_COMMIT = ("transaction_committed", "store_committed", "guard_written", "commands_committed")


def kill_in_commands(step: str) -> Callable[[str], None]:
    """Return a hook that kills the process at a step of the commit of commands."""
    is_applying = False

    def hook(name: str) -> None:
        nonlocal is_applying
        is_applying = is_applying or name == "commands_judged"
        if is_applying:
            killed_at(step)(name)

    return hook


@pytest.mark.parametrize("step", BEFORE_COMMIT + AFTER_COMMIT)
def test_a_run_killed_while_it_charges_has_charged_everything_or_nothing(tmp_path, step):
    made = finished(tmp_path)
    run(made)
    wanted = (build_request(made),)
    assert forked(lambda: run(made, adhoc_releases=wanted, step=kill_in_commands(step))) == -9
    charged = "asked" in made.ledger().releases
    assert charged is (step in AFTER_COMMIT)
    run(made, adhoc_releases=() if charged else wanted)
    assert published(made, "asked") == [[5.0, 5.0]] * 10
    assert made.ledger().ledger.remaining_loss() == Pure("1/4")


@pytest.mark.parametrize("step", BEFORE_COMMIT + AFTER_COMMIT)
def test_a_live_run_killed_while_it_charges_continues_with_its_commands(tmp_path, step):
    """Both commands of a batch are committed, or none. The next run has exactly the committed releases."""
    made = live(tmp_path)
    until(made, tmp_path, 17)
    both = [AddRelease(build_request(made, name=name, epsilon="1/8")) for name in ("one", "two")]
    act = partial(run_until_applied, made, *both, clock=world(tmp_path, at=17), step=kill_in_commands(step))
    assert forked(act) == -9
    added = {"one", "two"} if step in AFTER_COMMIT else set()
    assert set(made.ledger().releases) == {"counts", *added}
    until(made, tmp_path, 80, at=17)
    assert ticks_of(made) == [1, 2, 3, 4, 5, 6, 7]
    assert set(made.ledger().releases) == {"counts", *added}
    assert all(ticks_of(made, name) == [5, 6, 7] for name in added)


@pytest.mark.parametrize("step", BEFORE_COMMIT + AFTER_COMMIT)
def test_a_run_killed_while_it_ends_a_release_ended_it_or_not(tmp_path, step):
    made = live(tmp_path)
    until(made, tmp_path, 80, adhoc_releases=(build_request(made, epsilon="1/2"),))
    before = ticks_of(made, "asked")
    act = partial(
        run_until_applied, made, EndRelease("asked"), clock=world(tmp_path, at=80), step=kill_in_commands(step)
    )
    assert forked(act) == -9
    is_ended = step in AFTER_COMMIT
    assert (made.ledger().releases["asked"].end_tick is not None) is is_ended
    until(made, tmp_path, 120, at=80)
    assert ticks_of(made)[-1] == 11
    assert ticks_of(made, "asked") == (before if is_ended else [*range(before[0], 12)])
    assert made.ledger().ledger.remaining_loss(first=20) == (Pure("1/2") if is_ended else Pure.zero())


def test_sinks_get_the_releases_of_the_file_alone(tmp_path):
    made = finished(tmp_path)
    run(made, adhoc_releases=(build_request(made),))
    texts = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert {each["release"] for each in texts} == {"counts"}
    run(made)
    assert len(texts) == len((tmp_path / "out.jsonl").read_text().splitlines())


def test_a_source_that_changed_is_charged_again_to_who_requested(tmp_path):
    made = finished(tmp_path, budget={"epsilon": 3})
    run(made, adhoc_releases=(build_request(made),))
    write(tmp_path, one_a_second(90))
    run(made, recharge_source=True)
    assert published(made, "asked@2")[-1] == [0, 0]
    assert made.ledger().releases["asked@2"].requested_by == "ana"
    assert run(made).ticks == {}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"window": "sometimes"}, "release.asked.window must be"),
        ({"rho": 1}, "release.asked must be given exactly one of epsilon, rho and share, got epsilon and rho"),
        ({"name": "a b"}, "release.name must be a name of letters"),
        ({"epsilom": 1}, r"unknown key release.asked.epsilom \(did you mean epsilon\?\)"),
        ({"epsilon": True}, "release.asked.epsilon must be a number"),
        ({"sql": None}, "release.asked.sql must be a SELECT statement, got nothing"),
        ({"delta": 1e-9}, "release.asked.delta must be left out unless the budget has a delta"),
    ],
)
def test_what_is_requested_for_in_json_has_the_rules_and_words_of_the_file(tmp_path, body, words):
    with pytest.raises(PipelineFileError, match=words):
        build_request(live(tmp_path), **body)


@pytest.mark.parametrize("body", [[], "text", None, 7, {1: 2}])
def test_what_is_no_table_is_refused(tmp_path, body):
    with pytest.raises(PipelineFileError, match="release must be a table"):
        parse_adhoc_release(body, live(tmp_path).file.stream)


def test_a_plan_tells_cost_and_error_and_charges_nothing(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 17)
    before = acts(made)
    found = plan_adhoc(made.file, build_request(made), None)
    assert found.refusals == ()
    assert found.plan is not None
    assert (found.plan.name, found.plan.first, found.plan.loss, found.plan.requested_by) == (
        "asked",
        5,
        Pure("1/4"),
        "ana",
    )
    assert found.plan.errors
    assert (found.remaining_budget, found.remaining_share) == (Pure("1/4"), None)
    assert acts(made) == before
    until(made, tmp_path, 20, at=17, adhoc_releases=(build_request(made),))
    assert made.ledger().releases["asked"].first == found.plan.first


def test_a_plan_tells_why_it_would_be_refused_and_touches_no_source(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 3, adhoc_releases=(build_request(made),))
    (tmp_path / "v.jsonl").unlink()
    (accepted,) = plan_adhoc(made.file, build_request(made)).refusals
    assert "a name of its own" in accepted
    (dear,) = plan_adhoc(made.file, build_request(made, name="dear", epsilon=2)).refusals
    rule = "v.toml: release dear: charge must be at most what is left of epsilon 1"
    assert dear == f"{rule}, got epsilon 2 on top of epsilon 0.75"
    unknown = plan_adhoc(made.file, build_request(made, name="sql", sql="SELECT MAX(secret) FROM v"))
    assert unknown.plan is None
    assert len(unknown.refusals) == 1
    assert unknown.remaining_budget == Pure("1/4")


def test_a_plan_before_the_first_run_is_against_the_budget_of_the_file(tmp_path):
    found = plan_adhoc(live(tmp_path).file, build_request(live(tmp_path)))
    assert (found.refusals, found.remaining_budget) == ((), Pure("3/4"))


def test_the_ledger_tells_who_requested_and_when_the_budget_comes_back(tmp_path):
    made = live(tmp_path)
    until(made, tmp_path, 20, adhoc_releases=(build_request(made, horizon="50s"),))
    texts = ledger_log_as_json(made.ledger(), made.file)
    assert texts["requested_by"] == {"asked": "ana"}
    first = made.ledger().releases["asked"].first
    assert texts["timeline"] == [
        {"first_tick": 1, "last_tick": first - 1, "spent": {"epsilon": "1/2"}, "remaining": {"epsilon": "1/2"}},
        {"first_tick": first, "last_tick": first + 4, "spent": {"epsilon": "3/4"}, "remaining": {"epsilon": "1/4"}},
        {"first_tick": first + 5, "last_tick": None, "spent": {"epsilon": "1/2"}, "remaining": {"epsilon": "1/2"}},
    ]
    assert json.loads(json.dumps(texts)) == texts
    assert ledger_log_as_json(live(tmp_path / "none").ledger(), made.file)["timeline"] == []


def test_an_requested_release_is_known_by_its_pinned_block_alone(tmp_path):
    """Its fields are those of the canonical text, and the restoring of each is tested above."""
    made = finished(tmp_path)
    run(made, adhoc_releases=(build_request(made),))
    ledger_log = made.ledger()
    text = asked_releases.find_pinned_blocks(ledger_log)["release.asked"]
    assert set(json.loads(text)) == {
        *("sql", "window", "horizon", "mechanism", "max_groups", "loss", "settings", "delta")
    }
