"""The open period of a tumbling release: its first tick, and the exact sums of its ticks so far. Secret.

    ticks 1 2 3 4 of "tumbling 4"   ->   sums of tick 1 for the statistic, at tick 4

Sums are added up under the number of their period, so that a code counts once a period. They are saved as open ticks
are (`live.open_ticks`): encrypted, under keys that the next commit destroys, in parts whose size is public. They are
removed with the commit of their row.

With pan_private = true there are no sums: the events of a closed tick go into the registers of the open period, which
have had noise since its beginning. If such a run was lost, its registers are rerandomized, and the events in them are
in no release. The period then begins again at the next tick, which its row says.

With `partial = true` there are no sums either: the runs of the open period release each tick, and are replaced at its
end (`split`).

A release that ends, or a stream that does, cuts its last period: the row has the true start and end.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from struct import Struct

import numpy as np

from streamgauge.config.periods import Periods
from streamgauge.plan.measure import Measure, Tally
from streamgauge.runtime.live.open_ticks import OpenTicks

POSITION_STRUCT = Struct("<QQ")
TickSpan = tuple[int, int]  # first and last tick


@dataclass(frozen=True, eq=False)
class ClosedPeriods:
    """Periods that end in some ticks, and the exact sums of each, by its number as tick."""

    spans: Sequence[TickSpan]
    sums: Sequence[Tally]
    rest: Sequence[Tally]  # sums of the open period that must not be remembered exactly


class OpenPeriod:
    """The open period of one release, from its first tick on."""

    def __init__(self, periods: Periods, first: int, measures: Sequence[Measure], *, is_forgetful: bool) -> None:
        self.periods, self.is_forgetful = periods, is_forgetful
        self.next_tick = self.first_tick = first
        self._sums = OpenTicks({} if is_forgetful else {str(i): each for i, each in enumerate(measures)}, 1)

    def restore(self, saved: bytes) -> None:
        """Restore the state of the last commit."""
        self.next_tick, self.first_tick = POSITION_STRUCT.unpack_from(saved)
        self._sums.restore(saved[POSITION_STRUCT.size :])

    def save(self) -> bytes:
        return POSITION_STRUCT.pack(self.next_tick, self.first_tick) + self._sums.save(1)

    def restart(self) -> None:
        """Begin the period again at the next tick, without the events so far."""
        self.first_tick = self.next_tick

    def find_end(self, final: int | None) -> int:
        """Return the last tick of the open period of a release that ends at tick `final`.

        The counters of partial figures are made for the longest period. None is longer, even if a zone changes.
        """
        longest = self.first_tick + self.periods.survey.longest - 1
        ends = [self.periods.find_last_tick(self.first_tick), longest, *([] if final is None else [final])]
        return max(min(ends), self.next_tick)

    def split(self, last: int, final: int | None) -> Iterator[list[TickSpan]]:
        """Yield the ticks up to `last`, period by period, each with the first tick of its period.

        Its first tick is that of the next period when the iteration goes on.
        """
        while self.next_tick <= last:
            end = self.find_end(final)
            ticks = range(self.next_tick, min(end, last) + 1)
            yield [(self.first_tick, tick) for tick in ticks]
            self.next_tick = ticks[-1] + 1
            if end <= last:
                self.first_tick = self.next_tick

    def close(self, answers: Sequence[Tally], number: int, last: int, final: int | None) -> ClosedPeriods:
        """Add the sums up to tick `last`, and return those of the periods that end by then.

        Args:
            answers: The sums by tick, one for each measure. Those of other ticks are left out.
            number: The number of the open period.
            final: The last tick of the release, which ends its period.
        """
        spans = self._list_spans(last, final)
        ends = np.array([end for _, end in spans], np.int64)
        inside = [tally.select((tally.ticks >= self.next_tick) & (tally.ticks <= last)) for tally in answers]
        by_period = [replace(each, ticks=number + np.searchsorted(ends, each.ticks)) for each in inside]
        self.next_tick = last + 1
        if spans:
            self.first_tick = spans[-1][1] + 1
        newest = number + len(spans)
        if self.is_forgetful:
            sums = [each.select(each.ticks < newest) for each in by_period]
            return ClosedPeriods(spans, sums, [each.select_tick(newest) for each in by_period])
        self._sums.add(by_period)
        return ClosedPeriods(spans, self._sums.close(newest - 1), ())

    def _list_spans(self, last: int, final: int | None) -> list[TickSpan]:
        """Return the periods that end from the next tick to `last`."""
        spans: list[TickSpan] = []
        first = self.first_tick
        while first <= last:
            end = max(self.periods.find_last_tick(first), self.next_tick)
            end = end if final is None else min(end, final)
            if end > last:
                break
            spans.append((first, end))
            first = end + 1
        return spans
