"""A process whose raw memory is searched: a server that resumes a stopped run and answers requests.

It imports little: the less it holds, the less is searched.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from streamgauge import memory as freed
from streamgauge.continual import run as single
from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands import apply
from streamgauge.runtime.options import Options
from streamgauge.server.runner import Runner
from streamgauge.server.tuning import Tuning
from streamgauge.testing.noise import ManualClock, SilentNoise
from tests.support.pipelines import START, pipeline
from tests.support.raw_memory import in_raw_memory

SIZES = (2_000, 20_000, 100_000)  # of which the allocator keeps none aside
BODY = {"name": "m", "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/8", "horizon": "100s"}


class Standing(ManualClock):
    """Stands still during sleeps."""

    def sleep(self, microseconds: int) -> None:
        time.sleep(0.001)


def taken_up_and_asked(
    folder: Path, tables: Any, batches: Sequence[bytes], marks: Mapping[str, bytes], *, wiped: bool
) -> list[set[str]]:
    """Return the marks found after a start and a batch, and after a command and another batch."""
    made, clock = pipeline(folder, tables), Standing(time=(START + 17) * 1_000_000)
    tuning = Tuning(align_commands=False)
    runner = Runner(made.file, Options(clock=clock, noise=SilentNoise()), tuning=tuning)
    with mock.patch.object(freed, "zero_freed_memory"), _as_told(wiped):
        runner.start()
        try:
            return [_after(runner, batches[0], marks), _after(_asked(runner), batches[1], marks)]
        finally:
            runner.stop()


@contextmanager
def _as_told(wiped: bool) -> Iterator[None]:
    """Broken twin that overwrites no array."""
    if wiped:
        yield
        return
    kept = list[Any]()
    keep = mock.patch.object(apply, "overwrite", kept.append)
    with mock.patch.object(single, "wipe_state"), mock.patch.object(freed.WipedArrays, "__exit__"), keep:
        yield


def _asked(runner: Runner) -> Runner:
    runner.submit_release(AdHocRelease(parse_adhoc_release(BODY, runner.file.stream), "ana")).result()
    return runner


def _after(runner: Runner, batch: bytes, marks: Mapping[str, bytes]) -> set[str]:
    """Once another batch is read, this one is in the registers."""
    assert runner.inbox is not None
    for each in (batch, b"{}"):
        runner.inbox.put("", each).done.result(20)
    return in_raw_memory(marks)


def freed_and_looked_for(marks: Mapping[str, bytes], *, overwritten: bool) -> set[str]:
    """Return the freed blocks, each full of its mark, that are still in memory: many of each size."""
    if overwritten:
        assert freed.zero_freed_memory()
    sizes = list(zip(SIZES, marks.values(), strict=True)) * 200
    held = [[_filled(mark, size), bytes(size)] for size, mark in sizes]
    for pair in held:
        del pair[0]  # what stays keeps the system from taking it back
    return in_raw_memory({name: 3 * mark for name, mark in marks.items()})


def _filled(mark: bytes, size: int) -> bytes:
    return bytes((byte - 1) % 256 for byte in mark) * (size // len(mark))
