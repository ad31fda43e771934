"""Noise of a bridge for memory that can be seized, as numbers that are linear in the draws.

The same noise as that of `bridge`, laid out for a look. With K_i blocks of level i in a block of the top level, and a
block's noise E in units of 1/K_(i+1):

    share of its children   c = E - K_(i+1) sum of their draws
    noise of a child        K_i draw + c, in units of 1/K_i

An event in a block moves E and the draws alike, so that c stays. Draws are overwritten when their child begins, and so
is everything that a step computes on its way. All is linear modulo 2^64, as the audit of memory requires.
"""

from dataclasses import dataclass, field

import numpy as np

from streamgauge.continual.mechanism import draw_rows
from streamgauge.continual.trees.bridge import Bridge
from streamgauge.memory import WipedArrays
from streamgauge.noise import Ints, Noise


@dataclass(slots=True)
class MixedNumbers:
    """Numbers whole + rest/span with 0 <= rest < span, one for each group.

    One number has one such form. So a reader of the memory sees whole * span + rest, and no more.
    """

    whole: Ints = field(repr=False)  # modulo 2^64
    rest: Ints = field(repr=False)
    span: int

    @property
    def is_normal(self) -> bool:
        return bool(((self.rest >= 0) & (self.rest < self.span)).all())

    def add(self, numerators: Ints) -> None:
        """Add so many parts of 1/span."""
        self.rest += numerators
        with WipedArrays() as secret:
            self.whole += secret(self.rest // self.span)
        self.rest %= self.span

    def to_numerators(self) -> Ints:
        """Return the numbers in parts of 1/span, modulo 2^64."""
        return self.whole * np.int64(self.span) + self.rest


@dataclass(slots=True)
class PastNoiseState:
    """Noise of open blocks, one column per group."""

    draws: Ints = field(repr=False)  # secret noise: of children that have not begun, level by level
    shares: Ints = field(repr=False)  # secret noise: c of the open block's children, one row a level


@dataclass(frozen=True)
class PastNoise:
    """The noise of a bridge, item by item."""

    bridge: Bridge

    def initial(self, width: int) -> PastNoiseState:
        radices = self.bridge.radices
        return PastNoiseState(np.zeros((sum(radices), width), np.int64), np.zeros((len(radices), width), np.int64))

    def count_draws(self, tick: int) -> int:
        """Return how many draws are made for the item after `tick` ticks."""
        begun = self.bridge.begun_level(tick)
        return (begun == self.bridge.levels - 1) + sum(self.bridge.radices[:begun])

    def add_item(self, state: PastNoiseState, tick: int, total: MixedNumbers, noise: Noise) -> None:
        """Add the noise of the item after `tick` ticks to a sum, and forget it."""
        bridge, width = self.bridge, len(total.whole)
        begun = bridge.begun_level(tick)
        with WipedArrays() as secret:
            top = secret(draw_rows(bridge.top_distribution, noise, int(begun == bridge.levels - 1), width))
            draws = secret(draw_rows(bridge.distribution, noise, sum(bridge.radices[:begun]), width))
            block, drawn = top[0] if len(top) else secret(self._take_child(state, tick, begun)), 0
            for level in reversed(range(begun)):
                children = draws[drawn : drawn + bridge.radices[level]]
                drawn += len(children)
                sums = secret(children.sum(axis=0))
                sums *= bridge.span // bridge.sizes[level + 1]
                np.subtract(block, sums, out=state.shares[level])
                state.draws[bridge.rows[level]] = children
                block = secret(self._take_child(state, tick, level))
            total.add(block)

    def _take_child(self, state: PastNoiseState, tick: int, level: int) -> Ints:
        """Return the noise of the block of a level that begins, and overwrite its draw."""
        bridge = self.bridge
        row = bridge.rows[level].start + tick // bridge.sizes[level] % bridge.radices[level]
        found = state.draws[row] * np.int64(bridge.span // bridge.sizes[level])
        found += state.shares[level]
        state.draws[row] = 0
        return found
