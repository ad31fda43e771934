"""Launchers of blocks without a sandbox, for tests of what lies around it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streamgauge.mapreduce.sandbox.block_process import EncodedBlock
from streamgauge.mapreduce.sandbox.block_worker import read_columns
from streamgauge.testing.noise import ManualClock


@dataclass
class InlineBlock:
    """A block whose result is known when it starts."""

    result: bytes
    stop_block: Callable[[], None]

    def stop(self) -> bytes:
        self.stop_block()
        return self.result


@dataclass
class InlineLauncher:
    """Runs programs in this process when their block starts, and records the times of a clock."""

    clock: ManualClock = field(default_factory=ManualClock)
    times: list[tuple[str, int]] = field(default_factory=list)
    blocks: list[EncodedBlock] = field(default_factory=list)

    def launch(self, block: EncodedBlock) -> InlineBlock:
        self.times.append(("start", self.clock.steady()))
        self.blocks.append(block)
        return InlineBlock(run_program(block), lambda: self.times.append(("stop", self.clock.steady())))


def run_program(block: EncodedBlock) -> bytes:
    """Return the numbers of a program as bytes, or none if it failed."""
    names: dict[str, Any] = {}
    exec(str(block.header["source"]), names)
    described: Any = block.header["columns"]
    try:
        return bytes(np.asarray(names["run"](read_columns(described, block.data)), np.float64).tobytes())
    except Exception:
        return b""
