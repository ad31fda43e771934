"""Markers by folder, one case of each in `make test`, property tests that repeat themselves exactly.

A run lists the parts of the machine that it had to leave out. With CI=true it refuses to start without them.
"""

import gc
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from tests.support.markers import (
    COLLECTED_TESTS,
    MARKERS,
    find_marker,
    find_missing_parts,
    mark_repetitions,
    rank_module,
)

PROMPT = b">>>"
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # workers share the cores: more threads wait in circles
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")


class ModulesWithExamples:
    """Search doctests only in modules with a prompt, in src as well: a search of all modules takes seconds."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[Any], list[Any]]:
        found = yield
        return [each for each in found if not isinstance(each, DoctestModule) or PROMPT in file_path.read_bytes()]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ModulesWithExamples())
    missing = find_missing_parts(shutil.which)
    if missing and os.environ.get("CI") == "true":
        pytest.exit("; ".join(missing), returncode=pytest.ExitCode.USAGE_ERROR)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Skip a folder or module whose marker the expression rules out, to save making its items."""
    marker = find_marker(collection_path)
    terms = config.getoption("markexpr").split(" and ")
    return True if marker and f"not {marker}" in terms else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_repetitions(items)
    items.sort(key=lambda item: rank_module(item.path))
    for item in items:
        marker = find_marker(item.path)
        if marker:
            item.add_marker(marker)
        found = MARKERS & {each.name for each in item.iter_markers()}
        item.user_properties += [("marker", name) for name in sorted(found)]
        COLLECTED_TESTS[item.nodeid] = "slow" in found


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """Collect without the garbage collector, and keep it from the many items that stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left_out = len(terminalreporter.stats.get("skipped", []))
    terminalreporter.write_line(f"left out: {left_out or 'nothing'}")
    for part in find_missing_parts(shutil.which):
        terminalreporter.write_line(f"left out: {part}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    left_out = reporter is not None and reporter.stats.get("skipped")
    if left_out and os.environ.get("CI") == "true":
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
