"""Slots: times of starts, stops and releases, for every kind of program."""

import pytest

from streamgauge.mapreduce.sandbox import SandboxError, SlotSchedule
from streamgauge.mapreduce.sandbox.block_process import EncodedBlock, encode_block
from streamgauge.mapreduce.sandbox.slots import stop_blocks
from streamgauge.testing.noise import ManualClock
from tests.support.inline_programs import InlineBlock, InlineLauncher

BLOCKS = [encode_block("def run(rows):\n    return [1.0]", 1, {}, {})] * 5
SECOND = 1_000_000


class SlowLauncher(InlineLauncher):
    """Blocks whose start takes some of the slot."""

    def launch(self, block: EncodedBlock) -> InlineBlock:
        started = super().launch(block)
        self.clock.sleep(123_456)
        return started


class JitteryClock(ManualClock):
    """Clock that sleeps for less than it should, then for more."""

    def sleep(self, microseconds: int) -> None:
        super().sleep(microseconds // 2 if microseconds > 10 else microseconds)


@pytest.mark.parametrize("source", ["return [1.0]", "raise SystemError", "return 'no number'", "return [1.0] * 99"])
def test_slots_keep_their_times_whatever_programs_do(source: str) -> None:
    launcher = InlineLauncher()
    blocks = [encode_block(f"def run(rows):\n    {source}", 1, {}, {})] * 3
    SlotSchedule(2).run(blocks, launcher, launcher.clock, 0)
    moments = [(2, 3.8), (4, 5.8), (6, 7.8)]
    expected = [
        (what, round(at * SECOND)) for each in moments for what, at in zip(("start", "stop"), each, strict=True)
    ]
    assert launcher.times == expected
    assert launcher.clock.steady() == 8 * SECOND


def test_slow_starts_and_jitter_do_not_add_up() -> None:
    clock = JitteryClock()
    launcher = SlowLauncher(clock)
    assert SlotSchedule(1).run(BLOCKS, launcher, clock, 0) == [bytes(6) + b"\xf0\x3f"] * 5
    starts = [at for what, at in launcher.times if what == "start"]
    assert starts == [place * SECOND for place in range(1, 6)]
    assert clock.steady() == 6 * SECOND


def test_parallel_blocks_share_a_slot() -> None:
    launcher = InlineLauncher()
    schedule = SlotSchedule(1, parallel=2)
    schedule.run(BLOCKS, launcher, launcher.clock, 0)
    assert [at // SECOND for what, at in launcher.times if what == "start"] == [1, 1, 2, 2, 3]
    assert schedule.count_seconds(5) == launcher.clock.steady() / SECOND == 4


def test_blocks_that_were_made_late_start_at_once() -> None:
    launcher = InlineLauncher(ManualClock(5 * SECOND))
    SlotSchedule(2).run(BLOCKS[:1], launcher, launcher.clock, 0)
    assert launcher.times == [("start", 5 * SECOND), ("stop", 5 * SECOND)]


def test_all_blocks_are_stopped_if_one_cannot_be() -> None:
    stopped: list[str] = []

    def fail() -> None:
        stopped.append("first")
        raise SandboxError("still there")

    with pytest.raises(SandboxError, match="still there"):
        stop_blocks([InlineBlock(b"", fail), InlineBlock(b"", lambda: stopped.append("second"))])
    assert stopped == ["first", "second"]


def test_impossible_slots_are_refused() -> None:
    with pytest.raises(ValueError, match=r"slot_seconds must be 0\.01 to 86,400, got 0"):
        SlotSchedule(0)
    with pytest.raises(ValueError, match="parallel must be a whole number of at least 1, got 0"):
        SlotSchedule(1, 0)
