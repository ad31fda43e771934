"""Estimated frequencies of values in private reports of devices, tick by tick.

Privacy
    None is spent: reports lost their epsilon when devices made them, and everything here is a function of reports
    and of public settings. The number of reports is public.

Error
    That of the protocol (`streamgauge.localdp`): unbiased. Standard errors include the collisions of
    hashes, and the copies of reports that devices repeat (`streamgauge.localdp.windows`). Intervals
    have the estimate between their ends, as those of any count: they are not cut to the possible counts.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from streamgauge.localdp.collector import Frequencies
from streamgauge.noise.coerce import Floats
from streamgauge.noise.tail_bounds import normal_point
from streamgauge.privacy import Pure
from streamgauge.statistics.estimate import Columns, Estimate

VALUE_MEASURE = "value"
MAX_QUIET_REPORT_BYTES = 32  # bytes of a report above which a hint states the number of reports


def stack_frequencies(frequencies: Sequence[Frequencies]) -> Estimate:
    """Return the estimates of some ticks, one row each. Without any report they are not reliable."""

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        known = {each: _widen_clipped(each, confidence) for each in dict.fromkeys(frequencies)}  # by identity
        lows, highs = zip(*(known[each] for each in frequencies), strict=True)
        return np.stack(lows), np.stack(highs)

    return Estimate(
        np.stack([each.count for each in frequencies]),
        lambda: np.stack([each.stddev for each in frequencies]),
        np.array([[each.reports > 0] for each in frequencies]),
        intervals,
    )


def _widen_clipped(each: Frequencies, confidence: float) -> tuple[Floats, Floats]:
    """Undo the clipping of an interval at 0 or at all reports, on both sides."""
    wide = normal_point((1 - confidence) / 2) * each.stddev
    low, high = each.interval(confidence)
    return np.minimum(low, each.count - wide), np.maximum(high, each.count + wide)


@dataclass(frozen=True)
class LocalFrequency:
    """Values of a column of reports, counted over a window. See the module's claim."""

    HAS_MEMORY: ClassVar[bool] = False
    HAS_CHOICE: ClassVar[bool] = False
    ERROR_GROWS: ClassVar[bool] = False
    pan_private: ClassVar[bool] = False
    error_depends_on: ClassVar[str] = "how many reports come, whatever they say"
    counter: Any  # the mechanism's claim
    _: KW_ONLY
    items: tuple[str | int, ...]
    window: str
    horizon: int | None = None
    copies: int = 1  # maximum copies of one report in a window

    @property
    def ticks(self) -> int | None:
        """Ticks of a window; None if all are in it."""
        kind, _, ticks = self.window.partition(" ")
        return None if kind == "running" else int(ticks or 1)

    @property
    def loss(self) -> Pure:
        """Loss of one report, spent before it arrived."""
        loss: Pure = self.counter.loss
        return loss

    @property
    def channels(self) -> int:
        return len(self.items)

    @cached_property
    def table_bytes(self) -> int:
        """Bytes of the sums of all reports."""
        return int(self.counter.build_table().nbytes)

    @property
    def memory_numbers(self) -> int:
        """Numbers of 8 bytes in memory for each item."""
        return -(-self.table_bytes // (8 * self.channels))

    @property
    def hashed_values(self) -> int:
        """Number of values that are hashed for an estimate."""
        return int(getattr(self.counter, "hashes", 1)) * self.channels

    @property
    def hints(self) -> tuple[str, ...]:
        """Hints on its memory use."""
        size, each = self.table_bytes / 10**6, int(self.counter.report_size)
        last = "the table once as much has come" if self.window == "running" else ""
        written = ", ".join(filter(None, ("commits write a tick's reports", last)))
        until = "the table is written" if self.ticks is None else "its window is over"
        storage = f"a report takes {each:,} bytes in memory and in commits until {until}"
        table = f"its table of sums takes {size:,.1f} MB; {written}"
        return (*([table] if size >= 1 else []), *([storage] if each > MAX_QUIET_REPORT_BYTES else []))

    def stddev(self, reports: float) -> float:
        """Return the standard error of a rare item, with `reports` spread evenly.

        Copies repeat their report's chance. They do not repeat the collisions of items, which are the same for every
        report.
        """
        squares = max(reports, reports**2 / self.channels)
        return sqrt(float(self.counter.variance(0, round(reports), squares, self.copies)))

    def build_columns(self, frequencies: Sequence[Frequencies], confidence: float) -> dict[str, Columns]:
        """Return the estimates of some ticks as columns."""
        return {VALUE_MEASURE: Columns(confidence, partial(stack_frequencies, frequencies))}
