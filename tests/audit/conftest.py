"""Faults that several tests of the audit share, each installed by one fixture."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamgauge.runtime.part_runs import EventPartRun
from streamgauge.sources.file import WholeFile

Leak = Callable[[EventPartRun, Any, int, int, Any], Any]  # run, tally, first tick, ticks, honest estimates


@pytest.fixture
def leaky_run(monkeypatch: pytest.MonkeyPatch) -> Callable[[Leak], None]:
    """Install a run that passes each exact tally and its estimates through a function."""
    honest = EventPartRun.estimate_ticks

    def install(leak: Leak) -> None:
        def estimate_ticks(run: EventPartRun, tally: Any, first: int, count: int) -> Any:
            return leak(run, tally, first, count, honest(run, tally, first, count))

        monkeypatch.setattr(EventPartRun, "estimate_ticks", estimate_ticks)

    return install


@pytest.fixture
def failing_source(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes, Callable[[Path], None]], None]:
    """Install a source that calls a function with its path if its file has some bytes."""
    honest = WholeFile.is_clean

    def install(marker: bytes, fault: Callable[[Path], None]) -> None:
        def is_clean(file: WholeFile, stop: object = None) -> bool:
            if marker in file.path.read_bytes():
                fault(file.path)
            return honest(file)

        monkeypatch.setattr(WholeFile, "is_clean", is_clean)

    return install


@pytest.fixture
def rewriting_sink(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[Any], Callable[[bytes], bytes]], None]:
    """Install a format of lines that passes its bytes through a function."""

    def install(form: type[Any], rewrite: Callable[[bytes], bytes]) -> None:
        honest = form.format_lines
        monkeypatch.setattr(form, "format_lines", lambda *arguments: rewrite(honest(*arguments)))

    return install
