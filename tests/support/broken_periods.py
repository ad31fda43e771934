"""Broken periods: the sums of each stay in the next one."""

from collections.abc import Sequence
from dataclasses import replace

from streamgauge.plan.measure import Tally, concatenate_tallies
from streamgauge.runtime.open_period import ClosedPeriods, OpenPeriod, TickSpan


class OverlappingPeriod(OpenPeriod):
    def close(self, answers: Sequence[Tally], number: int, last: int, final: int | None) -> ClosedPeriods:
        spans: list[TickSpan] = []
        sums: list[Sequence[Tally]] = []
        for tick in range(self.next_tick, last + 1):
            closed = super().close([tally.select_tick(tick) for tally in answers], number, tick, final)
            number += len(closed.spans)
            if closed.spans:
                self._sums.add([replace(each, ticks=each.ticks * 0 + number) for each in closed.sums])
                spans, sums = [*spans, *closed.spans], [*sums, closed.sums]
        return ClosedPeriods(spans, [concatenate_tallies(each) for each in zip(*sums, strict=True)], ())
