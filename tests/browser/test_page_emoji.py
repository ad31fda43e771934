"""The poll in real Chromium: a pick stays on the device, a report leaves it, and the crowd is counted."""

import re
import time
import tomllib
from pathlib import Path

import pytest

from streamgauge.cli.demo.live import TICK_MICROSECONDS
from streamgauge.cli.demo.poll import EMOJI_NAMES, build_sketch
from streamgauge.cli.demo.poll_live import PollDemo, build_page_routes, write_poll
from streamgauge.config.pipeline_file import read_pipeline
from streamgauge.localdp.wire import unpack_message
from streamgauge.server.routes.static import load_page_files
from streamgauge.store.keys import create_key
from tests.support.page_scripts import BEYOND, CONTRAST
from tests.support.page_servers import PHONE, chromium, looking, serving, shot
from tests.support.poll_memory import KEPT

ROWS = """() => [...document.querySelectorAll('#rows tr')].every(
  (row) => row.querySelector('td.n').textContent && row.querySelector('.n.of-truth').textContent)"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The poll with a simulated crowd."""
    folder = tmp_path_factory.mktemp("poll")
    create_key(folder / "emoji.key")
    start = time.time_ns() // 1000 // TICK_MICROSECONDS * TICK_MICROSECONDS
    file = read_pipeline(write_poll(folder, start, None))
    extension = PollDemo(file)
    with (
        chromium() as browser,
        serving(file, extension) as server,
        server.fed_by(extension),
        looking(browser, server.address, "/emoji", color_scheme="light") as found,
    ):
        yield found


def test_the_poll_and_the_client_are_in_the_package():
    project = tomllib.loads(Path(__file__).parents[2].joinpath("pyproject.toml").read_text())
    shipped = project["tool"]["setuptools"]["package-data"]["streamgauge"]
    assert {"cli/demo/poll_page/*", "localdp/client.js"} <= set(shipped)


def send(page, name):
    """Pick and send. Return the posted report and the report that the page shows."""
    page.get_by_label(name, exact=True).check()
    with page.expect_response("**/api/reports") as answered:
        page.get_by_role("button", name="Send a private report").click()
    assert answered.value.ok
    page.locator(".path").get_by_text(f"{name}: stays here").wait_for()
    (report,) = unpack_message(build_sketch(), answered.value.request.post_data_buffer)
    return report.tobytes(), page.locator("#bytes").inner_text()


def test_poll_has_no_inline_script_and_every_emoji_picture():
    files = load_page_files("streamgauge.cli.demo", "poll_page")
    page = files["index.html"].body.decode()
    assert re.findall(r"<script(?![^>]*\ssrc=)|\son[a-z]+=|\sstyle=", page) == []
    named = dict(re.findall(r'"([^"\x00-\x7f]+)": "([a-z]+)"', files["signs.js"].body.decode()))
    assert named == EMOJI_NAMES
    assert set(re.findall(r'<symbol id="([a-z]+)"', page)) == set(EMOJI_NAMES.values())
    assert {route.path for route in build_page_routes()} > {"/emoji", "/emoji/client.js", "/emoji/signs.js"}
    for file in files.values():
        assert not re.search(rb"//(?!www\.w3\.org)[a-z]+\.", file.body)


def test_pick_is_sent_as_one_report_and_never_again(page):
    sent = []
    page.on("request", lambda request: sent.append(request) if request.method == "POST" else None)
    report, shown = send(page, "fire")
    assert report.hex(" ") == shown
    details = page.locator(".chances li .n").all_inner_texts()
    assert set(details) <= {"88\u00a0%", "12\u00a0%"}
    assert len(details) == len(EMOJI_NAMES)
    done = page.get_by_role("button", name="Sent: nothing more to send")
    done.wait_for()
    page.get_by_label("cat", exact=True).check()
    assert done.is_disabled()
    page.locator("#poll").evaluate("(form) => form.requestSubmit()")
    page.locator("#status").get_by_text("Sent before, so not sent again.").wait_for()
    assert len(sent) == 1
    assert re.fullmatch("[0-9a-f]{32}", sent[0].headers["batch-key"])
    assert page.locator("#bytes").inner_text() == shown
    assert "there is nothing more to send" in page.locator("#cost").inner_text()


def test_estimates_and_truth_update_without_reload(page, tmp_path):
    page.get_by_label("Show the truth").check()
    page.wait_for_function(ROWS)
    first = page.locator("#rows .n").first.inner_text()
    page.wait_for_function("(first) => document.querySelector('#rows .n').textContent !== first", arg=first)
    page.get_by_role("button", name="Last minute").click()
    page.locator("#windows [aria-pressed=true]", has_text="Last minute").wait_for()
    shot(page, tmp_path, "poll")


def test_poll_has_contrast_in_both_themes_and_fits_a_phone(page, tmp_path):
    page.mouse.move(5, 5)
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        assert page.evaluate(CONTRAST) == []
    page.set_viewport_size(PHONE["viewport"])
    assert page.evaluate(BEYOND) == 0
    shot(page, tmp_path, "phone-dark")


def test_device_remembers_its_report_until_it_is_replaced(page):
    page.reload()
    page.locator("#cost").get_by_text("has reported: there is nothing more").wait_for()
    page.get_by_role("button", name="Become another device").click()
    page.locator("#cost").get_by_text("drawn once").wait_for()
    assert page.evaluate(KEPT) == {"favourite emoji: devices before": "1"}
    assert page.locator("#signs input").first.evaluate("(input) => input === document.activeElement")
