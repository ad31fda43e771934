"""The page of releases with many groups: found by name, totals first, and too many to be sent live."""

import json

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.store.keys import create_key
from tests.support import page_servers
from tests.support.page_servers import chromium, looking, serving, traces

WARDS = [f"ward{ward:02}" for ward in range(30)]
CODES = [f"c{code:04}" for code in range(1001)]
STREAM = page_servers.STREAM | {
    "end": "2026-01-05T00:00:20Z",
    "unit": {"user": "who", "max_events_per_tick": 1, "max_ticks": 2},
    "budget": {"rho": 1},
    "columns": {"ward": {"values": WARDS}, "code": {"values": CODES}, "kind": {"values": ["a", "b"]}},
}
ASKED = {"wards": "ward", "codes": "code", "rolled": "ROLLUP(kind, ward)"}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    create_key(folder / "v.key")
    event = {"ts": 1_767_571_200, "ward": "ward29", "code": "c0777", "kind": "a", "who": "p"}
    (folder / "v.jsonl").write_text(json.dumps(event))
    releases = [
        {
            "name": name,
            "sql": f"SELECT {by.removeprefix('ROLLUP(').rstrip(')')}, COUNT(*) FROM v GROUP BY {by}",
            "rho": "1/8",
        }
        for name, by in ASKED.items()
    ]
    server = {"anonymous": True, "publish_delay": "100ms"}
    file = parse_pipeline({"stream": STREAM, "server": server, "release": releases}, folder / "v.toml")
    with chromium() as browser, serving(file) as served, looking(browser, served.address) as found:
        found.locator("#state[data-state=ended]").wait_for()
        yield found


def card(page, release):
    found = page.locator(f'[data-release="{release}"]')
    found.scroll_into_view_if_needed()
    return found


def names(page, release):
    return card(page, release).locator(".reading .name").all_inner_texts()


@pytest.mark.slow
def test_eight_groups_are_shown_and_others_found_by_name(page, tmp_path):
    wards = card(page, "wards")
    wards.get_by_text("8 of 30 groups shown").click()
    assert names(page, "wards") == WARDS[:8]
    wards.get_by_label("Find a group by name").fill("D29")
    wards.get_by_label("ward29").check()
    wards.get_by_text("9 of 30 groups shown").wait_for()
    assert names(page, "wards") == [*WARDS[:8], "ward29"]
    wards.get_by_role("button", name="ward00").click()
    wards.get_by_text("8 of 30 groups shown").wait_for()
    assert "ward00" not in names(page, "wards")
    page.screenshot(path=tmp_path / "groups.png", full_page=True)


def test_totals_come_first_with_their_group_names(page):
    card(page, "rolled").get_by_text("8 of 63 groups shown").wait_for()
    assert names(page, "rolled")[:4] == ["all", "a, all wards", "b, all wards", "a, ward00"]


def test_chosen_group_is_read_if_all_are_too_many(page):
    codes = card(page, "codes")
    codes.get_by_text("1,001 groups are too many for a chart").wait_for()
    codes.get_by_text("0 of 1,001 groups shown").click()
    codes.get_by_label("Find a group by name").fill("777")
    codes.get_by_label("c0777").check()
    codes.locator(".main-svg").first.wait_for()
    assert {trace["name"] for trace in traces(page, "codes")} >= {"c0777"}
    assert codes.get_by_role("link", name="codes as CSV").get_attribute("href").endswith("?format=csv")


def test_budget_of_users_shows_total_loss_until_stream_end(page):
    budget = page.locator("#budget")
    assert "The largest total loss of one user" in budget.inner_text()
    assert "\u03c1 0.375" in page.locator("#gauges").inner_text()
    assert budget.locator(".axis").inner_text().split() == ["tick", "1", "tick", "2"]
