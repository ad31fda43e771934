"""Blocks in slots of fixed length: when a block starts, stops and is read depends on no record.

    |<---- slot ---->|<-------------- slot -------------->|<---- ...
    the blocks are   start                    kill, read  |
    made             |------- run 9/10 -------|-- clear --|

A program that ends early does not shorten its slot, and one that never ends does not lengthen it. `parallel` blocks
run at once. With more than one, give each a core of its own: otherwise a busy block slows its neighbour down.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from streamgauge.clock import MICROSECONDS_PER_SECOND, Clock
from streamgauge.mapreduce.sandbox.block_process import EncodedBlock


class StartedBlock(Protocol):
    """A block at work."""

    def stop(self) -> bytes:
        """Kill it, and return its bytes."""
        ...


class BlockLauncher(Protocol):
    """Starts blocks, each apart from all others."""

    def launch(self, block: EncodedBlock) -> StartedBlock: ...


@dataclass(frozen=True)
class SlotSchedule:
    """Length of a slot, and the number of blocks that run at once."""

    slot_seconds: float
    parallel: int = 1

    def __post_init__(self) -> None:
        if not 0.01 <= self.slot_seconds <= 86_400:
            raise ValueError(f"slot_seconds must be 0.01 to 86,400, got {self.slot_seconds!r}")
        if type(self.parallel) is not int or self.parallel < 1:
            raise ValueError(f"parallel must be a whole number of at least 1, got {self.parallel!r}")

    @property
    def slot(self) -> int:
        """Length of a slot in microseconds."""
        return round(self.slot_seconds * MICROSECONDS_PER_SECOND)

    @property
    def run_seconds(self) -> float:
        """Time from the start of a block until it is killed."""
        return self.slot_seconds * 9 / 10

    def count_slots(self, blocks: int) -> int:
        return -(-blocks // self.parallel)

    def count_seconds(self, blocks: int) -> float:
        """Return the time that a window takes, whatever its programs do."""
        return (1 + self.count_slots(blocks)) * self.slot_seconds

    def run(self, blocks: Sequence[EncodedBlock], launcher: BlockLauncher, clock: Clock, start: int) -> list[bytes]:
        """Return the bytes of all blocks at the end of the last slot.

        Args:
            blocks: Blocks of one window.
            launcher: Starts them.
            clock: Clock of the slots.
            start: Steady time of the first slot, in which the blocks were made.
        """
        results: list[bytes] = []
        for place in range(self.count_slots(len(blocks))):
            begin = start + (1 + place) * self.slot
            wait_until(begin, clock)
            started: list[StartedBlock] = []
            try:
                for block in blocks[place * self.parallel : (place + 1) * self.parallel]:
                    started.append(launcher.launch(block))
                wait_until(begin + self.slot * 9 // 10, clock)
            finally:
                found = stop_blocks(started)
            results += found
        wait_until(start + (1 + self.count_slots(len(blocks))) * self.slot, clock)
        return results


def stop_blocks(started: Sequence[StartedBlock]) -> list[bytes]:
    """Return the bytes of blocks. If one cannot be stopped, the others are stopped before it is an error."""
    if not started:
        return []
    try:
        first = started[0].stop()
    finally:
        rest = stop_blocks(started[1:])
    return [first, *rest]


def wait_until(moment: int, clock: Clock) -> None:
    while (rest := moment - clock.steady()) > 0:
        clock.sleep(rest)
