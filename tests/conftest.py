"""Law modules share their catalogue by plain import; property tests repeat themselves exactly.

A run says what it left out; where CI=true nothing may be.
"""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

for room in ("laws", "localdp", "panprivate"):
    sys.path.insert(0, str(Path(__file__).parent / room))
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # workers share the cores: more threads wait in circles
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Tests are collected without looking for garbage, of which there is little among so many of them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = len(terminalreporter.stats.get("skipped", []))
    terminalreporter.write_line(f"left out: {left_out or 'nothing'}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    left_out = reporter is not None and reporter.stats.get("skipped")
    if left_out and os.environ.get("CI") == "true":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
