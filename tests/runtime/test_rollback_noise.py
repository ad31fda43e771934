"""Accepted rollbacks draw independently: the copy of a store may have noise of later ticks.

A backup is made after some tick. Then events of the next tick arrive too late and are dropped. The backup is restored,
and now they are in time. The two values of that tick must not differ by exactly these events.
"""

import shutil
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.runtime.session import RunRefusedError
from streamgauge.store.backup import backup
from streamgauge.store.errors import RollbackError
from streamgauge.testing.noise import InsecureNoise
from tests.support.codes import has_code
from tests.support.crash_readers import in_memory
from tests.support.pipelines import event, one_a_second, pipeline, tables, world, write

TOTAL = {"name": "total", "sql": "SELECT COUNT(*) FROM v", "window": "running", "epsilon": "1/1000"}
COPY_TICKS = (6, 8)  # after which the copy of a tree has noise of the next tick
LATE_EVENTS = 7
tmp_path = pytest.fixture(in_memory, name="tmp_path")


class KilledError(Exception):
    """The end of a process."""


def build(folder: Path, **release: Any) -> Pipeline:
    made = tables({**TOTAL, "horizon": "end", **release}, live=True, sinks=[], end="2026-01-05T00:10:00Z")
    return pipeline(folder, made)


class History:
    """Runs of one folder, and every value of the target tick that they published."""

    def __init__(self, folder: Path, copy_tick: int, **release: Any) -> None:
        self.folder, self.pipeline = folder, build(folder, **release)
        self.target, self.values = copy_tick + 1, list[float]()

    def run(self, begin: int, end: int, seed: int, events: dict[float, Any] | None = None, **options: Any) -> None:
        clock, stop = world(self.folder, events or {}, at=begin), Event()
        clock.acts[end] = stop.set
        options |= {"clock": clock, "stop": stop, "noise": InsecureNoise(seed), "max_batch_ticks": 1}
        for releases in self.pipeline.ticks(**options):
            self.values += [float(each.value[0, 0]) for each in releases if each.tick == self.target]

    def run_to_lost_tick(self) -> int:
        """Run, copy the store, publish the target tick, and restore the copy. Return the second of the end."""
        copied_at, published_at = 10 * self.target - 4, 10 * self.target + 7
        self.run(0, copied_at, 1, {float(second + 1): [event(second)] for second in range(0, copied_at - 6, 3)})
        backup(self.pipeline.file.folder, self.folder / "copy")
        self.run(copied_at, published_at, 2)
        late = [event(10 * self.target - 8) for _ in range(LATE_EVENTS)]
        self.run(published_at, published_at + 5, 2, {float(published_at + 1): late})
        shutil.rmtree(self.pipeline.file.folder)
        shutil.copytree(self.folder / "copy", self.pipeline.file.folder)
        with pytest.raises(RollbackError):
            self.run(published_at + 5, published_at + 7, 3)
        return published_at + 5

    @property
    def difference(self) -> float:
        first, second = self.values
        return second - first


@pytest.mark.parametrize("copy_tick", COPY_TICKS)
def test_values_of_two_histories_differ_by_noise(tmp_path: Path, copy_tick: int) -> None:
    history = History(tmp_path, copy_tick)
    begin = history.run_to_lost_tick()
    history.run(begin, begin + 2, 3, accept_rollback=True)
    assert history.difference != LATE_EVENTS


def test_a_crash_after_the_charge_leaves_no_old_draws(tmp_path: Path) -> None:
    history = History(tmp_path, COPY_TICKS[0])
    begin = history.run_to_lost_tick()

    def kill(step: str) -> None:
        if step == "session_opened":
            raise KilledError

    with pytest.raises(KilledError):
        history.run(begin, begin + 1, 3, accept_rollback=True, step=kill)
    history.run(begin + 1, begin + 2, 4)
    assert history.difference != LATE_EVENTS


def test_twin_that_reuses_old_draws_is_caught(tmp_path: Path) -> None:
    class RepeatingRun(ReleaseRun):
        def redraw_future_noise(self) -> None:
            pass

    history = History(tmp_path, COPY_TICKS[0])
    begin = history.run_to_lost_tick()
    history.run(begin, begin + 2, 3, accept_rollback=True, components={ReleaseRun: RepeatingRun})
    assert history.difference == LATE_EVENTS


def test_a_release_that_cannot_redraw_must_end_first(tmp_path: Path) -> None:
    history = History(tmp_path, COPY_TICKS[0], window="decayed polynomial 0.01")
    begin = history.run_to_lost_tick()
    with pytest.raises(RunRefusedError, match="release total must end before a rollback is accepted"):
        history.run(begin, begin + 2, 3, accept_rollback=True)


def test_replaced_store_is_detected_by_any_spelling_of_path(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    write(real, one_a_second())
    pipeline(real, tables(sinks=[])).run()
    shutil.rmtree(real / "v.streamgauge")
    for folder in (real, link):
        with pytest.raises(RollbackError, check=has_code("store_replaced")):
            pipeline(folder, tables(sinks=[])).run()
