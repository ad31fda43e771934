"""What a counter drew for some ticks, whichever kind it is: its sums, and what is known of their error.

A linear counter gives arrays, under noise whose law the claim knows; one that adapts to its data gives
`Released`, which says itself what is certain of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgauge.adaptive import Released
from streamgauge.adaptive.released import stacked
from streamgauge.continual import Mechanism, Run
from streamgauge.noise import Ints, NoiseSum
from streamgauge.noise.numbers import Floats
from streamgauge.statistics.noises import NoisesOf


@dataclass(frozen=True, eq=False)
class Drawn:
    """One row per tick and one column per place of the vector."""

    sums: Floats
    noises: Sequence[NoiseSum]  # the noise in each tick's sums, if they are of a linear counter
    released: Released | None = None  # all of it, if they are of one that adapts

    @classmethod
    def step(cls, counter: Run[Any, Any], vector: Ints) -> "Drawn":
        """One tick, with the noise as announced intrusions have left it."""
        drawn = counter.step(vector)
        if isinstance(drawn, Released):
            return cls(drawn.value[None], (), stacked([drawn]))
        return cls(np.asarray(drawn, np.float64)[None], [counter.noise()])

    @classmethod
    def joined(cls, counter: Run[Any, Any], fed: Sequence[Any]) -> "Drawn":
        """The newest ticks of a run, fed in pieces, with the noise that the claim says."""
        claim = counter.mechanism
        drawn = claim.joined(fed)
        if isinstance(claim, Mechanism):
            ticks = len(drawn)
            return cls(np.asarray(drawn, np.float64), NoisesOf(claim, counter.tick - ticks + 1, ticks))
        return cls(drawn.value, (), drawn)

    @classmethod
    def nothing(cls, counter: Run[Any, Any]) -> "Drawn":
        """No ticks at all."""
        return cls.joined(counter, [counter.feed(np.zeros((0, counter.width), np.int64))])
