"""The page of the poll, used by a visitor who picks, sends and loses replies."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from streamgauge.cli.demo.live import TICK_MICROSECONDS
from streamgauge.cli.demo.poll import build_sketch
from streamgauge.cli.demo.poll_live import PollDemo, write_poll
from streamgauge.config.pipeline_file import read_pipeline
from streamgauge.localdp.wire import unpack_message
from streamgauge.store.keys import create_key
from tests.support.page_servers import Serving, serving

FIRST, SAME, AGAIN = "Send a private report", "Send the same report", "Send it again"
COUNTED = (
    "The report may have arrived. If you send the same bytes again in less than nine minutes, they usually count once."
)
FAILED = ("Failed to load resource",)  # what a browser says of requests that a test lets fail
TICKS = "() => /^Tick [0-9]/.test(document.getElementById('crowd-when').textContent)"
SOURCES = """
window.sources = [];
const Source = EventSource;
window.EventSource = class extends Source {
  constructor(...told) {
    super(...told);
    sources.push(this);
    this.addEventListener("open", () => this.dispatchEvent(new MessageEvent("reset")));
  }
};
"""  # every stream that a page opens; each tells twice that it is open


@contextmanager
def polling(folder: Path) -> Iterator[Serving]:
    """The poll, without a crowd."""
    create_key(folder / "emoji.key")
    start = time.time_ns() // 1000 // TICK_MICROSECONDS * TICK_MICROSECONDS
    file = read_pipeline(write_poll(folder, start, None))
    with serving(file, PollDemo(file)) as found:
        yield found


def pick(page: Any, name: str, button: str = FIRST) -> None:
    page.get_by_label(name, exact=True).check()
    page.get_by_role("button", name=button).click()


def take(page: Any, name: str, button: str = FIRST) -> tuple[str, str]:
    """Picks, and sends what the server takes; returns the report and its key."""
    with page.expect_response("**/api/reports") as answered:
        pick(page, name, button)
    assert answered.value.ok
    page.locator(".path").get_by_text(f"{name}: stays here").wait_for()
    page.locator("#refused").wait_for(state="hidden")
    assert page.get_by_role("button", name="Sent: nothing more to send").is_disabled()
    return sent_in(answered.value.request)


def sent_in(request: Any) -> tuple[str, str]:
    (report,) = unpack_message(build_sketch(), request.post_data_buffer)
    return report.tobytes().hex(" "), request.headers["batch-key"]


def lose(page: Any, name: str, *, arrives: bool) -> tuple[str, str]:
    """Pick and send, and lose the reply, whether the report arrived or not."""
    sent: list[Any] = []

    def lost(route: Any) -> None:
        sent.append(route.request)
        if arrives:
            assert route.fetch().ok
        route.abort()

    page.route("**/api/reports", lost)
    pick(page, name)
    page.locator("#refused").wait_for()
    page.unroute("**/api/reports")
    return sent_in(sent[0])


def texts(page: Any, *names: str) -> list[str]:
    return [page.locator(f"#{name}").inner_text() for name in names]
