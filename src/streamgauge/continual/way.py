"""A claim that another mechanism keeps: which one depends on its settings.

Binary is a tree, or a refined tree; a decayed sum is noisy items under pure privacy, and a
factorisation under zCDP. The claim is what users name; the way is what does the work.
"""

from abc import abstractmethod
from typing import Any

from streamgauge.continual.claim import unopened
from streamgauge.continual.mechanism import Mechanism, Release
from streamgauge.continual.strategy import Strategy
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum


class Delegating(Mechanism[Any]):
    """A mechanism whose `way` is another one; make `way` a cached property."""

    @property
    @abstractmethod
    def way(self) -> Mechanism[Any]: ...

    @property
    def distribution(self) -> Distribution:
        return self.way.distribution

    def initial(self, width: int, noise: Noise) -> Any:
        return self.way.initial(width, noise)

    def step(self, state: Any, values: Ints, noise: Noise) -> Release:
        return self.way.step(state, values, noise)

    def feed(self, state: Any, block: Ints, noise: Noise) -> Release:
        return self.way.feed(state, block, noise)

    def dormant(self, width: int, tick: int, noise: Noise) -> Any:
        return self.way.dormant(width, tick, noise)

    @property
    def sleeps_cheaply(self) -> bool:
        return self.way.sleeps_cheaply

    def noise_at(self, tick: int) -> NoiseSum:
        return self.way.noise_at(tick)

    def noise_now(self, state: Any) -> NoiseSum:
        return self.way.noise_now(state)

    def intrusion_refusal(self) -> str:
        return self.way.intrusion_refusal()

    def identity(self) -> str:
        return unopened(f"{self!r} by {self.way!r}")

    def intrude(self, state: Any, noise: Noise) -> Any:
        return self.way.intrude(state, noise)

    def mean_variance(self, ticks: int) -> float:
        return self.way.mean_variance(ticks)

    def stddev(self, tick: int) -> float:
        return self.way.stddev(tick)

    def memory(self) -> int:
        return self.way.memory()

    def deviation(self, tick: int) -> float:
        return self.way.deviation(tick)

    def room(self) -> int:
        return self.way.room()

    def matrices(self, ticks: int) -> Strategy:
        return self.way.matrices(ticks)
