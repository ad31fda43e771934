"""A release whose groups are discovered, at work: the places of a tick are the groups that it publishes.

    tick 3    tea 312, coffee 204          tick 4    coffee 371, tea 330, milk 190

Groups come largest first, as their noisy counts say, ties in the order of their texts: never in the order in
which they came, which is secret. One that was published stays so, as long as it is among the largest
`max_groups`. Bounds hold for all groups at once, published or not.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.pipeline.release_run import ReleaseRun
from streamgauge.query.measure import Tally
from streamgauge.query.released import Released
from streamgauge.statistics.ranking import Ranking

Texts = npt.NDArray[np.object_]


class DiscoveredRun(ReleaseRun):
    """The run of one part, whose keys have their events counted by the engine."""

    def take(self, answers: Sequence[Tally], count: int) -> list[Released]:
        (tally,) = self.scan.tallies(answers)
        ticks = range(self.next_tick, self.next_tick + count)
        mine = tally.only((tally.ticks >= ticks.start) & (tally.ticks < ticks.stop))
        keys = np.array([*mine.keys, None], object)
        return [self._taken(tick, mine.of(tick), keys) for tick in ticks]

    def _taken(self, tick: int, tally: Tally, keys: Texts) -> Released:
        """Takes one tick, of which a key may come more than once."""
        run: Any = self.runs[0].run
        return self._released(tick, run.take_keys(keys[tally.places], tally.sums[0]))

    def _released(self, tick: int, ranking: Ranking) -> Released:
        begins, size = self.planned.stream.begins, (1, len(ranking.keys[0]))
        ((low, high),) = ranking.interval()
        return Released(
            self.shape.having([str(key) for key in ranking.keys[0]]),
            tick,
            begins(tick),
            begins(tick + 1),
            value=ranking.counts[0].reshape(size),
            stddev=np.full(size, ranking.stddev),
            low=low.reshape(size),
            high=high.reshape(size),
            enough=np.ones(size, np.bool_),
        )
