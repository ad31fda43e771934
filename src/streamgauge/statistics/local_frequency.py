"""How many reports are of each value, where devices have made them private: estimates, tick by tick.

Privacy
    None is spent: reports lost their epsilon when devices made them, and all here is a function of reports
    and of public settings. How many reports there are is public.

Error
    That of the protocol (`streamgauge.localdp`): unbiased, with standard errors that have the collisions of
    hashes in them, and the copies of reports that devices repeat (`streamgauge.localdp.windows`). Intervals
    have the estimate between their ends, as those of any count: they are not cut to what a count can be.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from streamgauge.localdp.estimates import Frequencies
from streamgauge.noise.normal import normal_point
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.privacy import Pure
from streamgauge.statistics.told import Columns

VALUE = "value"
LONG = 32  # bytes of a report, beyond which it is told how many there are


@dataclass(frozen=True)
class LocalEstimates:
    """Estimates of some ticks, in the order of the ticks."""

    frequencies: tuple[Frequencies, ...]

    @property
    def value(self) -> Floats:
        return np.stack([each.count for each in self.frequencies])

    @property
    def stddev(self) -> Floats:
        return np.stack([each.stddev for each in self.frequencies])

    @property
    def enough(self) -> Bools:
        """Whether there is any report."""
        return np.array([[each.reports > 0] for each in self.frequencies])

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        known = {each: _uncut(each, confidence) for each in dict.fromkeys(self.frequencies)}  # by identity
        ends = [known[each] for each in self.frequencies]
        return np.stack([low for low, _ in ends]), np.stack([high for _, high in ends])


def _uncut(each: Frequencies, confidence: float) -> tuple[Floats, Floats]:
    """An interval that was cut at 0 or at all reports, let out again on both sides of its estimate."""
    wide = normal_point((1 - confidence) / 2) * each.stddev
    low, high = each.interval(confidence)
    return np.minimum(low, each.count - wide), np.maximum(high, each.count + wide)


@dataclass(frozen=True)
class LocalFrequency:
    """The values of a column of reports, counted over a window; see the module's claim."""

    REMEMBERS: ClassVar[bool] = False
    pan_private: ClassVar[bool] = False
    depends: ClassVar[str] = "how many reports come, whatever they say"
    counter: Any  # the claim
    _: KW_ONLY
    items: tuple[str | int, ...]
    window: str
    horizon: int | None = None
    copies: int = 1  # of one report in a window, at most

    @property
    def ticks(self) -> int | None:
        """Of a window; None if all are in it."""
        kind, _, ticks = self.window.partition(" ")
        return None if kind == "running" else int(ticks or 1)

    @property
    def loss(self) -> Pure:
        """Of one report, lost before it came."""
        loss: Pure = self.counter.loss
        return loss

    @property
    def channels(self) -> int:
        return len(self.items)

    @cached_property
    def table_bytes(self) -> int:
        """What the sums of all reports take."""
        return int(self.counter.blank().nbytes)

    @property
    def numbers(self) -> int:
        """How many numbers of 8 bytes it keeps for each item."""
        return -(-self.table_bytes // (8 * self.channels))

    @property
    def hashed(self) -> int:
        """How many values are hashed for an estimate."""
        return int(getattr(self.counter, "hashes", 1)) * self.channels

    @property
    def hints(self) -> tuple[str, ...]:
        """What is to be known of what it keeps."""
        size, each = self.table_bytes / 10**6, int(self.counter.report_size)
        last = "the table once as much has come" if self.window == "running" else ""
        written = ", ".join(filter(None, ("commits write a tick's reports", last)))
        until = "the table is written" if self.ticks is None else "its window is over"
        kept = f"a report takes {each:,} bytes in memory and in commits until {until}"
        table = f"its table of sums takes {size:,.1f} MB; {written}"
        return (*([table] if size >= 1 else []), *([kept] if each > LONG else []))

    def stddev(self, reports: float) -> float:
        """Of the estimate of a rare item, among so many reports that are spread evenly over the items. Copies
        repeat their report's chance, not the collisions of items, which are the same for every report."""
        squares = max(reports, reports**2 / self.channels)
        return sqrt(float(self.counter.variance(0, round(reports), squares, self.copies)))

    def told(self, frequencies: Sequence[Frequencies], confidence: float) -> dict[str, Columns]:
        """Estimates of some ticks as columns."""
        found = LocalEstimates(tuple(frequencies))
        return {VALUE: Columns(confidence, lambda: found)}
