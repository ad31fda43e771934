"""A pan-private run overwrites memory as it is freed, in every library."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from threading import Event as Flag

import pytest

from streamgauge import memory as freed
from streamgauge.sources.http_ephemeral import EphemeralInbox
from tests.support.pipelines import Tables, pipeline, tables, world
from tests.support.raw_memory import shifted
from tests.support.seized_process import freed_and_looked_for

BLOCKS = {f"{size} block": shifted(f"a {size:>6} block.. ".encode()) for size in ("small", "middle", "large")}
LIVE: Tables = {"source": "http", "live": True}
PRIVATE: Tables = {"source": "http", "mode": "streaming", "pan_private": True}


@pytest.mark.parametrize(("overwritten", "found"), [(True, set()), (False, set(BLOCKS))])
def test_freed_blocks_are_overwritten_on_request(overwritten: bool, found: set[str]) -> None:
    context = get_context("forkserver")
    context.set_forkserver_preload([freed_and_looked_for.__module__])
    with ProcessPoolExecutor(1, context) as process:
        assert process.submit(freed_and_looked_for, BLOCKS, overwritten=overwritten).result() == found


@pytest.mark.parametrize(("stream", "asked"), [(PRIVATE, True), (LIVE, False)], ids=["pan-private", "ordinary"])
def test_only_pan_private_run_requests_overwriting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: Tables, asked: bool
) -> None:
    calls: list[bool] = []
    monkeypatch.setattr(freed, "zero_freed_memory", lambda: calls.append(True))
    stop = Flag()
    clock = world(tmp_path)
    clock.acts = {3: stop.set}
    pipeline(tmp_path, tables(**stream)).run(clock=clock, source=EphemeralInbox(max_waiting_bytes=9), stop=stop)
    assert calls == [True] * asked


def test_missing_support_of_c_library_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freed.ctypes, "CDLL", lambda name: object())
    assert not freed.zero_freed_memory()
