"""A server is killed and restarted on the same port: the page continues without gap or repeat."""

import json
import time
from datetime import UTC, datetime
from urllib.request import urlopen

import pytest

from streamgauge.store.keys import create_key
from tests.support.page_servers import Process, chromium, free_port, looking

FILE = """
[stream]
name = "v"
source = "http"
time = "ts"
tick = "250ms"
start = "{start}"
unit = "event"
budget = {{ epsilon = 1 }}
key = "file:v.key"

[server]
anonymous = true
publish_delay = "250ms"

[[release]]
name = "counts"
sql = "SELECT COUNT(*) FROM v"
window = "each"
epsilon = 0.5
"""


@pytest.fixture(scope="module")
def browser():
    with chromium() as found:
        yield found


@pytest.fixture
def served(tmp_path):
    create_key(tmp_path / "v.key")
    start = datetime.fromtimestamp(int(time.time()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    (tmp_path / "v.toml").write_text(FILE.format(start=start))
    running = []

    def start_one(port):
        running.append(Process(tmp_path / "v.toml", port))
        running[-1].wait()
        return running[-1]

    yield start_one
    for each in running:
        if each.process.poll() is None:
            each.kill()


def forgetful(page):
    """Install a broken twin: a page that does not send its last event id."""

    def altered(route):
        reply = route.fetch()
        body = reply.text()
        assert "this.last = event.lastEventId" in body
        route.fulfill(response=reply, body=body.replace("this.last = event.lastEventId", "this.last = ''"))

    page.route("**/page/live.js", altered)


def faithful(page):
    """Leave the page unchanged."""


def events_over_a_restart(browser, served, prepare, folder):
    """Return (id, release, tick) of each live event of a page across a restart, and its drawn ticks."""
    port = free_port()
    first = served(port)
    with looking(browser, first.address, prepare=prepare, expected=("ERR_", "Failed to load")) as page:
        page.wait_for_function("() => window.heard.length >= 3")
        first.kill()
        page.locator("#banner-text", has_text="The connection is lost").wait_for()
        page.screenshot(path=folder / "disconnected.png")
        page.route("**/api/live*", refuse)
        before, last = page.evaluate("[window.heard.length, window.heard.at(-1)[2]]")
        wait_for_tick(served(port).address, last + 4)
        page.unroute("**/api/live*", refuse)
        page.wait_for_function("(before) => window.heard.length >= before + 4", arg=before)
        page.locator("#state[data-state=running]").wait_for()
        page.locator("#banner").wait_for(state="hidden")
        return page.evaluate("window.heard"), ticks_drawn(page)


def refuse(route):
    """Abort a request of the page, so that it misses events."""
    route.abort()


def wait_for_tick(address, tick):
    for _ in range(2000):
        with urlopen(f"{address}/api/releases", timeout=20) as reply:
            if json.load(reply)["published_until"]["tick"] >= tick:
                return
        time.sleep(0.05)
    raise AssertionError(f"tick {tick} must leave, got none so late")


def ticks_drawn(page):
    page.get_by_text("Numbers as a table").click()
    page.locator(".numbers tbody tr").first.wait_for()
    return [int(text) for text in page.locator(".numbers tbody th").all_inner_texts()][::-1]


def is_whole(received):
    ticks = [tick for _, _, tick in received]
    return ticks == list(range(ticks[0], ticks[0] + len(ticks))) and len({each[0] for each in received}) == len(
        received
    )


@pytest.mark.slow
def test_page_continues_after_a_kill_without_gap_or_repeat(browser, served, tmp_path):
    received, drawn = events_over_a_restart(browser, served, faithful, tmp_path)
    assert is_whole(received)
    assert drawn == list(range(drawn[0], drawn[0] + len(drawn)))


def test_twin_without_last_event_id_has_a_gap(browser, served, tmp_path):
    """The stream of the twin has a gap. The chart has none, because the page reads history again."""
    received, drawn = events_over_a_restart(browser, served, forgetful, tmp_path)
    assert not is_whole(received)
    assert drawn == list(range(drawn[0], drawn[0] + len(drawn)))
