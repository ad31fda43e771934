"""Real servers on loopback, and a real Chromium that reads them: for the tests of the page.

Every open page is watched: its console, its requests, violations of its policy, and each event of its live stream.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any
from urllib.request import urlopen

import pytest

from streamgauge.config.settings import PipelineFile
from streamgauge.runtime.options import Options
from streamgauge.server.app import build_app
from streamgauge.server.http.serving import build_url, open_listener, serve_app
from streamgauge.server.http.tokens import Tokens
from streamgauge.server.runner import Runner

CHROMIUM = shutil.which("chromium")
STREAM: dict[str, Any] = {
    "name": "v",
    "source": "v.jsonl",
    "mode": "batch",
    "time": "ts",
    "time_format": "epoch s",
    "tick": "10s",
    "start": "2026-01-05T00:00:00Z",
    "unit": "event",
    "budget": {"epsilon": 1},
    "key": "file:v.key",
}  # of the files that the page is tested with
PATIENCE = 180_000  # milliseconds: more than a loaded machine needs
RECORD = """
window.heard = []; window.forbidden = [];
document.addEventListener("securitypolicyviolation", (event) => forbidden.push(event.violatedDirective));
const add = EventSource.prototype.addEventListener;
EventSource.prototype.addEventListener = function (name, hear) {
  return add.call(this, name, (event) => {
    const told = name === "release" ? JSON.parse(event.data) : null;
    if (told) window.heard.push([event.lastEventId, told.release, told.tick]);
    hear(event);
  });
};
"""


@dataclass
class Serving:
    """A server at work in this process."""

    address: str
    runner: Runner
    tokens: Tokens
    stop: Flag

    def fed_by(self, extension: Any) -> AbstractContextManager[None]:
        """A demo at work."""
        found: AbstractContextManager[None] = extension.activate(self.address, self.runner, self.tokens, self.stop)
        return found


@contextmanager
def serving(file: PipelineFile, extension: Any = None, **options: Any) -> Iterator[Serving]:
    """Serve in a thread as `streamgauge serve` does; `extension` is the part that a demo adds."""
    runner, stop = Runner(file, Options(**options), demo=extension is not None), Flag()
    runner.start()
    tokens, listener = Tokens.from_pipeline(file), open_listener("127.0.0.1", 0)
    app = build_app(runner, tokens, file.server, extra_routes=extension.routes(runner) if extension else ())
    details = {"on_stop": runner.event_buffer.close, "log": lambda line: None}
    thread = Thread(target=serve_app, args=(app, listener, stop), kwargs=details)
    thread.start()
    try:
        yield Serving(build_url(listener), runner, tokens, stop)
    finally:
        stop.set()
        thread.join()
        runner.stop()
        tokens.close()
        listener.close()


def free_port() -> int:
    """A port that no system hands out by itself, so it is still free when it is used again."""
    for port in range(20_000 + os.getpid() % 10_000, 32_768):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("a port must be free, got none")


class Process:
    """`streamgauge serve` in a process of its own, which can be killed."""

    def __init__(self, file: Path, port: int) -> None:
        command = [sys.executable, "-m", "streamgauge", "serve", str(file), "--port", str(port), "--quiet"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.address = f"http://127.0.0.1:{port}"

    def wait(self) -> None:
        """Until it answers."""
        for _ in range(6000):
            try:
                urlopen(f"{self.address}/healthz", timeout=5).close()
                return
            except OSError:
                time.sleep(0.01)
        raise AssertionError("the server must answer, got nothing")

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass
class Watched:
    """Faults of a page: console messages, foreign requests, violations of its policy."""

    page: Any
    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    expected: tuple[str, ...] = ()  # words of errors that a test provokes

    def check(self) -> None:
        unexpected = [line for line in self.errors if not any(word in line for word in self.expected)]
        assert unexpected == []
        assert self.elsewhere == []
        assert self.page.evaluate("window.forbidden") == []


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; where there is none, the tests are left out."""
    if CHROMIUM is None:
        pytest.skip("chromium must be installed for tests of the page")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


PHONE = {"viewport": {"width": 360, "height": 780}, "has_touch": True, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1360, "height": 900}, "reduced_motion": "reduce"}  # endless animations cost a core


@contextmanager
def looking(
    browser: Any, address: str, path: str = "", *, expected: tuple[str, ...] = (), prepare: Any = None, **how: Any
) -> Iterator[Any]:
    """A page, watched; at the end it must have done nothing wrong."""
    context = browser.new_context(**(DESKTOP | how))
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    watched = Watched(page, expected=expected)
    page.on(
        "console", lambda details: watched.errors.append(details.text) if details.type in ("error", "warning") else None
    )
    page.on("pageerror", lambda error: watched.errors.append(str(error)))
    page.on(
        "request",
        lambda sent: None if sent.url.startswith((address, "data:", "blob:")) else watched.elsewhere.append(sent.url),
    )
    page.add_init_script(RECORD)
    if prepare:
        prepare(page)
    page.goto(address + path)
    try:
        yield page
        watched.check()
    finally:
        context.close()


def until(page: Any, holds: Callable[[], Any]) -> None:
    """Wait until a condition on a page or its server holds."""
    for _ in range(PATIENCE // 10):
        if holds():
            return
        page.wait_for_timeout(10)
    raise AssertionError("it must come to pass, got nothing of it")


def sign_in(page: Any, token: str) -> None:
    page.locator("#sign").click()
    page.get_by_label("Token").fill(token)
    page.keyboard.press("Enter")
    page.locator("#signing").wait_for(state="hidden")


def traces(page: Any, release: str) -> list[dict[str, Any]]:
    """Return the drawn traces of a release."""
    found: list[dict[str, Any]] = page.locator(f'[data-release="{release}"] .plot').evaluate(
        "(plot) => (plot.data ?? []).map(({name, fill, y}) => ({name, fill, last: y.at(-1)}))"
    )
    return found


def fetch_json(serving: Serving, path: str) -> Any:
    """Return the reply of a server to a request without a token."""
    with urlopen(f"{serving.address}{path}", timeout=20) as reply:
        return json.load(reply)


def shot(page: Any, folder: Path, name: str) -> None:
    """A picture of all of a page."""
    page.screenshot(path=folder / f"{name}.png", full_page=True)
