"""Texts of the page about counts: bounds of users, thresholds of groups, and the intruder panel."""

import json
from contextlib import contextmanager

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.store.keys import create_key
from tests.support import page_servers
from tests.support.page_servers import PHONE, chromium, fetch_json, looking, serving

START = 1_767_571_200
USERS = {"user": "plane", "max_events_per_tick": 2, "max_ticks": 3}
COUNTS = {"name": "counts", "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/8"}
WORDS = {"name": "words", "sql": "SELECT w, COUNT(*) FROM v GROUP BY w", "epsilon": 1, "delta": 1e-6}
LEGEND = "#releases .bar > .hint"
HOLDS = "The line shows the released values; the band contains the truth 95 times in 100."


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@contextmanager
def page_of(browser, folder, release=COUNTS, server=None, look=None, **stream):
    """A page of an ended stream of four ticks."""
    create_key(folder / "v.key")
    events = [{"ts": START + s, "plane": f"p{s % 3}", "w": f"w{s % 5}"} for s in range(40)]
    (folder / "v.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    tables = {
        "stream": page_servers.STREAM | {"end": "2026-01-05T00:00:40Z"} | stream,
        "server": {"anonymous": True, "publish_delay": "100ms", **(server or {})},
        "release": [release],
    }
    file = parse_pipeline(tables, folder / "v.toml")
    with serving(file) as served, looking(browser, served.address, **(look or {})) as page:
        page.locator("#state[data-state=ended]").wait_for()
        page.locator(".card:not(.waiting)").first.wait_for()
        yield page, served


@pytest.mark.one_of_each
@pytest.mark.parametrize("look", [{}, PHONE], ids=["desktop", "phone"])
def test_legend_names_user_bounds_instead_of_claiming_the_truth(browser, tmp_path, look):
    with page_of(browser, tmp_path, unit=USERS, tick="10s", look=look) as (page, served):
        said = (
            "at most 2 events in 10s and 3 ticks of 10s for each plane; "
            "events beyond that are not counted, and the band does not include that"
        )
        page.locator(LEGEND, has_text="plane").wait_for()
        assert page.locator(LEGEND).inner_text() == f"The line shows the released values; it counts {said}."
        listed = fetch_json(served, "/api/releases")
        assert listed["stream"]["contributions"] == listed["releases"][0]["contributions"] == said
        page.screenshot(path=tmp_path / "users.png")


@pytest.mark.slow
def test_legend_claims_the_truth_if_no_event_is_dropped(browser, tmp_path):
    with page_of(browser, tmp_path) as (page, served):
        assert page.locator(LEGEND).inner_text() == HOLDS
        listed = fetch_json(served, "/api/releases")
        assert (listed["stream"]["contributions"], listed["releases"][0]["contributions"]) == (None, None)


@pytest.mark.slow
@pytest.mark.parametrize("look", [{}, PHONE], ids=["desktop", "phone"])
def test_release_without_groups_names_the_threshold_in_events(browser, tmp_path, look):
    columns, budget = {"w": {"max_groups": 10}}, {"epsilon": 20, "delta": 1e-5}
    with page_of(browser, tmp_path, WORDS, columns=columns, budget=budget, look=look) as (page, served):
        (listed,) = fetch_json(served, "/api/releases")["releases"]
        events = listed["threshold"]["events"]
        assert listed["threshold"]["tick"] == 4
        assert events > 8  # each word has 8 events
        page.locator(".empty", has_text="threshold").wait_for()
        text = f"a group appears once its noisy count reaches {events} events."
        assert page.locator(".empty").inner_text() == f"No group has passed the threshold yet: at tick 4, {text}"
        page.screenshot(path=tmp_path / "empty.png")


@pytest.mark.slow
@pytest.mark.parametrize(("server", "shown"), [({}, False), ({"show_intruder": True}, True)])
def test_intruder_panel_is_shown_if_the_file_sets_it(browser, tmp_path, server, shown):
    with page_of(browser, tmp_path, server=server) as (page, served):
        page.locator(LEGEND).wait_for()
        assert fetch_json(served, "/api/releases")["intruder"] is shown
        page.locator("#intruder-link").wait_for(state="visible" if shown else "hidden")
        page.locator("#intruder").wait_for(state="visible" if shown else "hidden")
        answer = page.evaluate("() => fetch('/api/releases').then(({status}) => status)")
        assert answer == 200
        if shown:
            page.locator("#intruder .strip circle").first.wait_for()
