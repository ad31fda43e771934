"""client.js in a browser that is killed: a report is on disk before the page gets it."""

import os
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import streamgauge as sg
from streamgauge.localdp import wire
from tests.support.browser_client import host, opened
from tests.support.page_servers import CHROMIUM

SETTINGS = wire.to_settings(sg.localdp.HadamardCountMeanSketch(sg.Pure(2), hashes=2**16, width=2**14))
REPORTED = """const device = new client.Device(client.parseMechanism(given), {maxReports: 1});
const {spent} = await device.status();
const said = await device.report('a').then(({report}) => hex(report), (error) => refusal(error));
return [spent, said];"""


@contextmanager
def browser_of(profile: Path):
    """Start a browser in a separate process group, which can be killed as a whole."""
    from playwright.sync_api import sync_playwright

    details = profile / "DevToolsActivePort"
    details.unlink(missing_ok=True)
    recipient = [f"--user-data-dir={profile}", "--remote-debugging-port=0", "--no-first-run"]
    command = [CHROMIUM, "--headless=new", "--no-sandbox", *recipient, "about:blank"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, start_new_session=True, **quiet)
    try:
        while not (details.exists() and details.read_text().count("\n")):
            assert process.poll() is None
            time.sleep(0.02)
        with sync_playwright() as playwright:
            port = details.read_text().split()[0]
            found = playwright.chromium.connect_over_cdp(f"http://127.0.0.1:{port}")
            yield found.contexts[0], process
    finally:
        killed(process)


def killed(process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_killed_browser_remembers_the_report_it_returned(tmp_path):
    if CHROMIUM is None:
        pytest.skip("chromium must be installed for tests of the page")
    said = []
    for _ in range(2):
        with browser_of(tmp_path) as (tabs, process):
            host(tabs)
            said.append(opened(tabs)(REPORTED, SETTINGS))
            killed(process)
    (before, report), after = said
    assert (before, len(report)) == ("0", 8)
    assert after == ["2", "report_limit"]
