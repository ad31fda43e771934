"""The page in unusual states: no ticks yet, no token, an ended stream, a failure, a lost server."""

import json
from fractions import Fraction

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.store.keys import create_key
from tests.support import page_servers
from tests.support.page_servers import chromium, looking, serving, sign_in

STREAM = page_servers.STREAM | {
    "end": "2026-01-05T00:05:00Z",
    "columns": {"g": {"values": ["a", "<img src=x onerror=alert(1)>"]}},
}
COUNTS = {"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g", "window": "running", "epsilon": "1/2"}
LATER = {"source": "http", "mode": "streaming", "start": "2126-01-05T00:00:00Z", "end": "2126-01-06T00:00:00Z"}


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


def file_in(folder, *, anonymous=True, **stream):
    create_key(folder / "v.key")
    events = [{"ts": 1_767_571_200 + second, "g": "a"} for second in range(300)]
    (folder / "v.jsonl").write_text("".join(f"{json.dumps(each)}\n" for each in events))
    tables = {
        "stream": STREAM | stream,
        "server": {"anonymous": anonymous, "publish_delay": "100ms"},
        "release": [COUNTS],
    }
    return parse_pipeline(tables, folder / "v.toml")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A server with an ended stream, which requires tokens."""
    with serving(file_in(tmp_path_factory.mktemp("finished"), anonymous=False)) as server:
        yield server


@pytest.fixture(scope="module")
def reader(finished):
    return finished.tokens.create("rita", "reader")


def state(page):
    return page.locator("#state").get_attribute("data-state")


def test_page_without_token_shows_only_the_gate(browser, finished, tmp_path):
    with looking(browser, finished.address, expected=("401",)) as page:
        page.get_by_role("heading", name="Sign in to read").wait_for()
        for section in ("releases", "budget", "ask", "intruder"):
            assert not page.locator(f"#{section}").is_visible()
        assert page.locator(".card:not(.waiting)").count() == 0
        page.locator("#gate-sign").click()
        assert not page.locator("#signing-refused").is_visible()
        page.get_by_label("Token").fill("sg_reader_" + "x" * 43)
        page.keyboard.press("Enter")
        page.get_by_text("The token is unknown or was revoked.").wait_for()
        page.screenshot(path=tmp_path / "token refused.png")
        page.keyboard.press("Escape")
        page.wait_for_function("() => document.getElementById('token').value === ''")


def test_token_opens_the_page_and_signing_out_closes_it(browser, finished, reader):
    with looking(browser, finished.address, expected=("401",)) as page:
        page.locator("#gate").wait_for()
        sign_in(page, reader)
        page.locator('[data-release="counts"] .main-svg').first.wait_for()
        page.wait_for_function("() => document.getElementById('token').value === ''")
        stored = "document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage)"
        assert reader not in page.evaluate(stored)
        assert page.evaluate("document.cookie") == ""
        page.get_by_text("Your token can only read").wait_for()
        page.get_by_role("button", name="Separate").click()
        page.wait_for_function("() => document.querySelectorAll('.subplot').length === 2")
        assert page.locator("main img").count() == 0
        assert "<img" in page.locator(".reading").nth(1).inner_text()
        page.locator("#sign").click()
        page.locator("#gate").wait_for()
        assert page.locator(".card:not(.waiting)").count() == 0


@pytest.mark.slow
def test_page_of_ended_stream_shows_charts_and_request_form(browser, finished, tmp_path):
    token = finished.tokens.create("otto", "analyst", Fraction(1, 2))
    with looking(browser, finished.address, expected=("401",)) as page:
        page.locator("#gate").wait_for()
        sign_in(page, token)
        page.locator("#banner-text", has_text="The stream has ended").wait_for()
        assert state(page) == "ended"
        page.locator('[data-release="counts"] .main-svg').first.wait_for()
        assert not page.locator("#truth-switch").is_visible()
        page.locator("#ask-form").wait_for()
        page.screenshot(path=tmp_path / "ended.png", full_page=True)


@pytest.mark.slow
def test_ended_session_shows_gate_and_keeps_the_written_query(browser, finished):
    token = finished.tokens.create("petra", "analyst", Fraction(1, 4))
    with looking(browser, finished.address, expected=("401",)) as page:
        page.locator("#gate").wait_for()
        sign_in(page, token)
        page.get_by_label("SQL").fill("SELECT COUNT(*) FROM v WHERE g = 'a'")
        page.context.clear_cookies()
        page.get_by_role("button", name="See cost and error").click()
        page.locator("#banner-text", has_text="Your session has ended. Sign in again").wait_for()
        page.locator("#gate").wait_for()
        assert page.locator(".card:not(.waiting)").count() == 0
        sign_in(page, token)
        page.locator("#ask-form").wait_for()
        page.locator("#banner-text", has_text="The stream has ended").wait_for()
        assert page.get_by_label("SQL").input_value() == "SELECT COUNT(*) FROM v WHERE g = 'a'"


@pytest.mark.slow
def test_revoked_token_ends_live_stream_and_shows_gate(browser, finished):
    token = finished.tokens.create("ruth", "reader")
    with looking(browser, finished.address, expected=("401", "ERR_")) as page:
        page.locator("#gate").wait_for()
        sign_in(page, token)
        page.locator('[data-release="counts"] .main-svg').first.wait_for()
        finished.tokens.revoke("ruth")
        page.locator("#gate").wait_for()
        assert state(page) == "closed"


def test_failed_first_load_is_shown_and_can_be_retried(browser, finished, reader, tmp_path):
    def fail(route):
        route.fulfill(status=500, json={"error": {"code": "broken", "message": "the server has failed"}})

    with looking(browser, finished.address, expected=("401", "500")) as page:
        page.locator("#gate").wait_for()
        page.route("**/api/releases", fail)
        sign_in(page, reader)
        page.get_by_text("The releases could not be loaded: the server has failed").wait_for()
        assert (state(page), page.locator(".waiting").count()) == ("unloaded", 0)
        page.screenshot(path=tmp_path / "not loaded.png")
        page.unroute("**/api/releases", fail)
        page.get_by_role("button", name="Retry").click()
        page.locator('[data-release="counts"] .main-svg').first.wait_for()
        page.locator("#state[data-state=ended]").wait_for()


@pytest.mark.slow
def test_page_shows_wait_for_first_tick_and_failure(browser, tmp_path):
    """One server for both: its stream starts in a hundred years, and then its run fails."""
    with serving(file_in(tmp_path, **LATER)) as server, looking(browser, server.address) as page:
        page.get_by_text("Starts at 2126-01-05 00:00 UTC").wait_for()
        page.locator("#state[data-state=running]").wait_for()
        page.screenshot(path=tmp_path / "empty.png", full_page=True)
        server.runner.event_buffer.set_state("failed")
        page.locator("#banner-text", has_text="The run has failed").wait_for()
        assert state(page) == "failed"
        page.screenshot(path=tmp_path / "failed.png")
        server.runner.event_buffer.set_state("running")
        page.locator("#banner").wait_for(state="hidden")


@pytest.mark.slow
def test_loading_page_shows_placeholders_for_charts(browser, tmp_path):
    with serving(file_in(tmp_path, **LATER)) as server:
        blocked = []

        def keep(route):
            blocked.append(route)

        def hold(page):
            page.route("**/api/releases", keep)

        with looking(browser, server.address, prepare=hold) as page:
            page.wait_for_function("() => document.querySelector('#cards').getAttribute('aria-busy') === 'true'")
            assert page.locator(".waiting").count() == 2
            assert "Loading" in page.locator("#state").inner_text()
            page.screenshot(path=tmp_path / "loading.png")
            page.wait_for_function("() => performance.getEntries().some(({name}) => name.endsWith('/api/ledger'))")
            for route in blocked:
                route.continue_()
            page.get_by_text("Starts at 2126").wait_for()
            assert page.locator(".waiting").count() == 0


@pytest.mark.slow
def test_lost_server_is_shown_with_a_reconnect_button(browser, tmp_path):
    details = {"expected": ("ERR_", "Failed to load")}
    with serving(file_in(tmp_path, **LATER)) as server, looking(browser, server.address, **details) as page:
        page.get_by_text("Starts at 2126").wait_for()
        server.stop.set()
        page.locator("#banner-text", has_text="The connection is lost").wait_for()
        assert page.get_by_role("button", name="Reconnect").is_visible()
        assert "connection is lost" in page.locator("#announcer").inner_text()
