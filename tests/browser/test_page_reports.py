"""Requests for a stream of reports and plain columns in real Chromium, and reads from another site."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.releases.release import format_utc_time
from streamgauge.store.keys import create_key
from tests.support.page_servers import chromium, looking, serving, sign_in
from tests.support.polls import COLUMN

FREE = "SELECT emoji, COUNT(*) FROM emoji GROUP BY emoji"
PRICED = [
    "SELECT age, COUNT(*) FROM emoji GROUP BY age",
    "SELECT COUNT(*) FROM emoji WHERE age = 'emoji'",
    "SELECT age, COUNT(*) FROM emoji GROUP BY age -- emoji",
    "SELECT age, /* of emoji */ COUNT(*) FROM emoji GROUP BY age",
    "SELECT emoji.age, COUNT(*) AS emoji FROM emoji GROUP BY emoji.age",
]
SECOND = 10**6


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A poll. Its stream and one plain value have the name of its column of reports."""
    folder = tmp_path_factory.mktemp("mixed")
    create_key(folder / "poll.key")
    tables = {
        "stream": {
            "name": "emoji",
            "source": "reports",
            "allow_reports_from": "anyone",
            "tick": "1s",
            "start": format_utc_time(time.time_ns() // 1000 // SECOND * SECOND),
            "unit": "report",
            "budget": {"epsilon": 6},
            "key": "file:poll.key",
            "columns": {
                "emoji": {**COLUMN, "on_repeat": "repeat", "reports_per_user": 1},
                "age": {"values": ["young", "old", "emoji"]},
            },
        },
        "release": [{"name": "favourites", "sql": FREE, "window": "each"}],
        "server": {"rate": 1000, "publish_delay": "250ms", "anonymous": True},
    }
    with serving(parse_pipeline(tables, folder / "poll.toml")) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def page(served, browser):
    token = served.tokens.create("ana", "analyst", Fraction(1, 2))
    with looking(browser, served.address) as found:
        sign_in(found, token)
        found.locator("#ask-form").wait_for()
        yield found


def requested(page: Any, sql: str) -> tuple[bool, str]:
    """Return whether the price field is visible, and the text of the plan."""
    page.locator("textarea[name=sql]").fill(sql)
    shown = page.locator("input[name=loss]").is_visible()
    with page.expect_response("**/api/plan"):
        page.get_by_role("button", name="See cost and error").click()
    page.locator(".answer:not([data-stale=true]) > *").first.wait_for()
    return shown, page.locator(".answer").inner_text()


@pytest.mark.one_of_each
@pytest.mark.parametrize("sql", PRICED)
def test_column_name_in_other_parts_of_sql_keeps_the_price(page, sql):
    shown, details = requested(page, sql)
    assert shown
    assert "Refused" not in details


def test_release_of_reports_costs_nothing_and_names_first_tick(page, served):
    shown, details = requested(page, FREE)
    assert not shown
    assert "nothing more: devices spend the loss of emoji" in details
    page.get_by_role("button", name="Request it").click()
    granted = page.locator(".answer .granted")
    granted.wait_for()
    first = next(entry.first for name, entry in served.runner.load_ledger().releases.items() if name == "my_release")
    assert granted.inner_text().startswith(f"my_release costs nothing and starts with tick {first}.")


class Elsewhere(BaseHTTPRequestHandler):
    """A page of another site."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>another site</title>")

    def log_message(self, *details: Any) -> None:
        """Write nothing."""


@contextmanager
def another_site() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://localhost:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


READS = """async (server) => {
  const read = async (path, how) => {
    try { return (await fetch(server + path, how)).status; } catch { return "refused"; }
  };
  const { releases } = await (await fetch(server + "/api/releases")).json();
  const live = await new Promise((done) => {
    const source = new EventSource(server + "/api/live");
    source.addEventListener("release", (event) => { source.close(); done(JSON.parse(event.data).release); });
    source.onerror = () => done("refused");
  });
  return {
    names: releases.map(({ name }) => name), live,
    client: typeof (await import(server + "/client.js")).parseMechanism,
    read: await Promise.all([releases[0].href, "/api/ledger", "/api/ledger/entries"].map((path) => read(path))),
    refused: await Promise.all([
      read("/api/releases", { credentials: "include" }),
      read("/api/releases", { headers: { Authorization: "Bearer x" } }),
      read("/api/session"), read("/healthz"),
      read("/api/releases", { method: "POST", body: "{}", headers: { "Content-Type": "application/json" } }),
    ]),
  };
}"""


def test_other_site_reads_public_data_and_nothing_else(served, browser):
    with another_site() as site:
        page = browser.new_page()
        page.goto(site)
        found = page.evaluate(READS, served.address)
        page.close()
    assert "favourites" in found["names"]
    assert found["live"] in found["names"]
    assert (found["client"], found["read"], found["refused"]) == ("function", [200] * 3, ["refused"] * 5)
