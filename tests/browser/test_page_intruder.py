"""The intruder panel of the page: a rehearsal with made-up people, in real Chromium."""

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.store.keys import create_key
from tests.support import page_servers
from tests.support.page_servers import chromium, looking, serving

RELEASE = {"name": "counts", "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/8"}
SERVER = {"anonymous": True, "publish_delay": "100ms", "show_intruder": True}


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("intruder")
    create_key(folder / "v.key")
    (folder / "v.jsonl").touch()
    stream = page_servers.STREAM | {"end": "2026-01-05T00:00:20Z"}
    file = parse_pipeline({"stream": stream, "server": SERVER, "release": [RELEASE]}, folder / "v.toml")
    with chromium() as browser, serving(file) as served, looking(browser, served.address) as found:
        found.locator("#state[data-state=ended]").wait_for()
        yield found


def test_the_intruder_panel_rehearses_and_stays_inside_the_promise(page):
    panel = page.locator("#intruder")
    panel.locator(".strip circle").first.wait_for()
    ordinary = panel.get_by_role("region", name="Ordinary memory", exact=True).inner_text()
    assert "100\u00a0%" in ordinary
    assert "this stream" in ordinary
    edges = panel.locator(".promised").evaluate(
        "(box) => [+box.getAttribute('x'), +box.getAttribute('x') + +box.getAttribute('width')]"
    )
    dots = panel.locator(".strip circle:not(.sure)").evaluate_all(
        "(dots) => dots.map((dot) => +dot.getAttribute('cx'))"
    )
    assert len(dots) == 200
    assert edges[0] <= min(dots) <= max(dots) <= edges[1]
    panel.locator(".strip circle").first.evaluate("(dot) => dot.id = 'old'")
    panel.get_by_role("button", name="Rehearse again").click()
    page.locator("#old").wait_for(state="detached")


def test_the_intruder_panel_rehearses_a_table_of_patients_as_well(page, tmp_path):
    panel = page.locator("#intruder")
    table = panel.get_by_role("button", name="A table of patients")
    table.click()
    panel.get_by_text("one of 300 patients").wait_for()
    assert panel.get_by_role("group", name="Seized memory").locator("[aria-pressed=true]").inner_text() == (
        "A table of patients"
    )
    assert table.evaluate("(button) => button === document.activeElement")
    assert "Robin's bit" in panel.get_by_role("region", name="Pan-private memory", exact=True).inner_text()
    assert "intruders would be certain" in panel.locator(".twice").inner_text()
    low, width = panel.locator(".promised").evaluate("(box) => [+box.getAttribute('x'), +box.getAttribute('width')]")
    dots = panel.locator(".strip circle:not(.sure)").evaluate_all(
        "(dots) => dots.map((dot) => +dot.getAttribute('cx'))"
    )
    assert low <= min(dots) <= max(dots) <= low + width
    panel.screenshot(path=tmp_path / "table.png")
