"""Plans and releases state the bounds of counted user events, and a w-event plan its assumption."""

from pathlib import Path

import pytest

from streamgauge.runtime.adhoc.planning import plan_adhoc
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.plan.render import release_as_json
from tests.support.pipelines import COUNTS, one_a_second, pipeline, run, tables, write

USERS = {"user": "u", "max_events_per_tick": 1, "max_ticks": 3}
SAID = (
    "at most 1 event in 10s and 3 ticks of 10s for each u; "
    "events beyond that are not counted, and the band does not include that"
)
BELIEVED = "if a person has at most one event a tick, which is not checked"


def test_plan_states_bounds_of_counted_user_events(tmp_path: Path) -> None:
    plan = pipeline(tmp_path, tables(unit=USERS)).plan()
    assert f"\n  counts    {SAID}\n" in str(plan)
    assert SAID in plan._repr_html_()
    texts = plan.to_json()
    assert texts["unit"] == {
        "protects": "one user: at most 1 event a tick, in at most 3 ticks",
        "contributions": SAID,
        "renewal": None,
        "assumption": None,
    }
    assert [release["contributions"] for release in texts["releases"]] == [SAID]


def test_plan_of_ad_hoc_release_states_bounds_of_counted_events(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(unit=USERS))
    body = {"name": "more", "sql": COUNTS, "epsilon": "1/8", "window": "each"}
    found = plan_adhoc(made.file, AdHocRelease(parse_adhoc_release(body, made.file.stream), "ana")).plan
    assert found is not None
    assert release_as_json(found)["contributions"] == SAID


@pytest.mark.parametrize(("unit", "said"), [(USERS, SAID), ("event", "")], ids=["users", "events"])
def test_releases_state_bounds_of_counted_user_events(tmp_path: Path, unit: object, said: str) -> None:
    made = pipeline(tmp_path, tables(unit=unit))
    write(tmp_path, one_a_second())
    run(made)
    published = made.releases()
    assert published.shape.contributions == published[-1].shape.contributions == said
    shown = published._repr_html_()
    assert "with 95 % bounds" in shown
    assert shown.count("not counted") == bool(said)
    assert (f"counts {said}" in shown) is bool(said)


def test_w_event_plan_states_assumption_with_budget(tmp_path: Path) -> None:
    plan = pipeline(tmp_path, tables(unit={"w_event": 4})).plan()
    assert f"\n  budget    epsilon 1, {BELIEVED}\n" in str(plan)
    assert BELIEVED in plan._repr_html_()
    assert plan.to_json()["unit"]["assumption"] == BELIEVED
    events = pipeline(tmp_path, tables()).plan()
    assert "\n  budget    epsilon 1\n" in str(events)
    unit = {"protects": "one event", "contributions": None, "renewal": None, "assumption": None}
    assert events.to_json()["unit"] == unit
