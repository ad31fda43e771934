"""The page of releases with many groups: largest first, found by name, as bars if ranked, too many to be sent live."""

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
ASKED = {
    "wards": "SELECT ward, COUNT(*) FROM v GROUP BY ward",
    "codes": "SELECT code, COUNT(*) FROM v GROUP BY code",
    "rolled": "SELECT kind, ward, COUNT(*) FROM v GROUP BY ROLLUP(kind, ward)",
    "top": "SELECT ward, COUNT(*) FROM v GROUP BY ward ORDER BY COUNT(*) DESC LIMIT 5",
}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("groups")
    create_key(folder / "v.key")
    event = {"ts": 1_767_571_200, "ward": "ward29", "code": "c0777", "kind": "a", "who": "p"}
    (folder / "v.jsonl").write_text(json.dumps(event))
    releases = [{"name": name, "sql": sql, "rho": "1/8"} for name, sql in ASKED.items()]
    server = {"anonymous": True, "publish_delay": "100ms"}
    file = parse_pipeline({"stream": STREAM, "server": server, "release": releases}, folder / "v.toml")
    with chromium() as browser, serving(file) as served, looking(browser, served.address) as found:
        found.locator("#state[data-state=ended]").wait_for()
        found.reload()  # so that the groups are chosen by the last tick
        found.locator("#state[data-state=ended]").wait_for()
        yield found


def card(page, release):
    found = page.locator(f'[data-release="{release}"]')
    found.scroll_into_view_if_needed()
    return found


def names(page, release):
    return card(page, release).locator(".reading .name").all_inner_texts()


def newest(page, release):
    """Return the labels of the last tick and their values, largest first."""
    columns = page.evaluate(f"fetch('/api/releases/{release}?last=1&shape=columns').then((reply) => reply.json())")
    labels = [", ".join(map(str, place.values())) for place in columns["places"]]
    pairs = list(zip(labels, columns["measures"]["count"]["value"][0], strict=True))
    return sorted(pairs, key=lambda pair: -pair[1])


@pytest.mark.slow
def test_largest_groups_are_shown_and_others_found_by_name(page, tmp_path):
    wards, largest = card(page, "wards"), [name for name, _ in newest(page, "wards")]
    wards.get_by_text("8 of 30 groups shown").click()
    assert names(page, "wards") == largest[:8]
    assert wards.locator(".found li span:first-of-type").all_inner_texts() == largest
    wards.get_by_role("button", name="A to Z").click()
    assert wards.locator(".found li span:first-of-type").all_inner_texts() == WARDS
    wards.get_by_label("Find a group by name").fill(largest[-1].upper())
    wards.get_by_label(largest[-1], exact=True).check()
    wards.get_by_text("9 of 30 groups shown").wait_for()
    assert names(page, "wards")[-1] == largest[-1]
    wards.get_by_role("button", name=largest[0]).click()
    wards.get_by_text("8 of 30 groups shown").wait_for()
    assert largest[0] not in names(page, "wards")
    page.screenshot(path=tmp_path / "groups.png", full_page=True)


def test_ranked_groups_are_bars_with_error_bars(page):
    top = card(page, "top")
    top.locator(".main-svg").first.wait_for()
    (bars,) = top.locator(".plot").evaluate(
        "(plot) => plot.data.map(({type, orientation, x, y, error_x}) => ({type, orientation, x, y, error_x}))"
    )
    released = newest(page, "top")
    assert (bars["type"], bars["orientation"]) == ("bar", "h")
    assert bars["y"] == [f"{rank}. {name}" for rank, (name, _) in enumerate(released, 1)][::-1]
    assert bars["x"] == [value for _, value in released][::-1]
    assert min(bars["error_x"]["array"]) > 0
    assert top.locator(".annotation-text").all_text_contents()[0].count("±") == 1
    assert top.get_by_text("The error bars hold for all groups at once.").is_visible()
    top.get_by_role("button", name="Together").click()
    top.locator(".reading .name").first.wait_for()
    assert names(page, "top")[:5] == [name for name, _ in released]


def test_totals_come_first_with_their_group_names(page):
    card(page, "rolled").get_by_text("8 of 63 groups shown").wait_for()
    shown = names(page, "rolled")
    assert shown[0] == "all"
    assert sorted(shown[1:3]) == ["a, all wards", "b, all wards"]
    assert not any("all" in name for name in shown[3:])


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
    assert "\u03c1 0.5" in page.locator("#gauges").inner_text()
    assert budget.locator(".axis").inner_text().split() == ["tick", "1", "tick", "2"]
