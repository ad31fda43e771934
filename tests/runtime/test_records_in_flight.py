"""Live sources with records that exist but have not arrived: ticks wait for them."""

import json
from pathlib import Path

import pytest

from streamgauge.cli.errors import EXIT_FAILED, EXIT_REFUSED, describe_error
from streamgauge.interfaces import SourceKind, StreamingSource
from streamgauge.records.blocks import Block
from streamgauge.sources import SourceAccessError, SourceError
from streamgauge.testing.noise import ManualClock, SilentNoise
from tests.support.pipelines import SECOND, START, pipeline, published, tables

EMPTY_POLLS = 40
POLL_MICROSECONDS = 50_000
LINES = b"".join(json.dumps({"ts": START + second, "g": "a", "x": 1}).encode() + b"\n" for second in range(7))


class SlowLog(StreamingSource):
    """A log whose records of the first tick arrive after many empty polls."""

    replayable = True
    at_end = False

    def __init__(self, clock: ManualClock) -> None:
        self.clock, self.polls = clock, 0

    def read(self) -> Block | None:
        self.polls += 1
        self.at_end = self.polls > EMPTY_POLLS
        if self.polls < EMPTY_POLLS:
            self.clock.sleep(POLL_MICROSECONDS)
        return Block(LINES, 0) if self.polls == EMPTY_POLLS else None

    def position(self) -> bytes:
        return b"0"

    def resume(self, position: bytes | None) -> None:
        pass


def test_a_due_tick_waits_for_records_in_flight(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(live=True, end="2026-01-05T00:00:10Z"))
    clock = ManualClock(time=(START + 30) * SECOND)
    made.run(clock=clock, noise=SilentNoise(), source=SlowLog(clock))
    assert published(made) == [[7, 0]]


def test_replayable_source_cannot_be_pan_private() -> None:
    with pytest.raises(ValueError, match="supports_pan_private must be False for a source that can be read again"):
        SourceKind(supports_pan_private=True)
    assert SourceKind(supports_pan_private=True, is_replayable=False).supports_pan_private


class ForeignError(SourceError):
    """An error of another package."""


class ForeignAccessError(SourceAccessError):
    """An error of another package about an unreachable source."""


def test_errors_of_other_packages_are_one_line_with_exit_code() -> None:
    assert describe_error(ForeignError("topic must exist, got none")) == ("topic must exist, got none", EXIT_REFUSED)
    assert describe_error(ForeignAccessError("broker is away")) == ("broker is away", EXIT_FAILED)
