"""What every mechanism of this room is: a frozen claim with code under it.

A mechanism's file holds the claim (settings, loss, error), its `State`, `initial` and `step`, and a
`feed` that does many ticks at once. What is the same for all of them is here: starting and loading
runs, standard errors, intervals and bands.
"""

import sys
from abc import ABC, abstractmethod
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.bound import Bound, reach_of
from streamgauge.continual.columns import append_columns
from streamgauge.continual.run import CHUNK, Run
from streamgauge.continual.saved import ANOTHER, BadSave, NoNoise, numbers, unpack
from streamgauge.continual.settings import check_noise, check_short, check_source, check_whole, check_width
from streamgauge.continual.strategy import Strategy
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum
from streamgauge.privacy import Loss, Reach, Unit

FEW = 128  # draws for which a group that slept is woken cheaply
AHEAD = 2**20  # ticks that streams without an end are judged by

Release = npt.NDArray[Any]  # int64 on the integers, float64 where decoding has weights


class Ticking(Protocol):
    """The one thing that the states of all mechanisms have in common."""

    tick: int


S = TypeVar("S", bound=Ticking)


class Mechanism(ABC, Generic[S]):
    """A continual mechanism: `start` it, `step` or `feed` it, read its `stddev` and `interval`."""

    LONGEST: ClassVar[int] = 2**62  # the longest horizon that it can be given
    LOSSES: ClassVar[tuple[type[Loss], ...]]  # what it can keep
    WHY: ClassVar[str] = ""  # why it can keep no other
    RESTS_EXACT: ClassVar[str] = ""  # what is exact in its memory, if it cannot be pan-private
    loss: Loss
    horizon: int | None
    bound: Bound
    pan_private: bool
    unit: Unit

    def __init_subclass__(cls) -> None:
        """Lets `help` of a mechanism show the claim, which opens its module."""
        super().__init_subclass__()
        claim = sys.modules[cls.__module__].__doc__
        cls.__doc__ = f"{cls.__doc__}\n\n{claim}" if cls.__doc__ and claim else cls.__doc__

    @cached_property
    def reach(self) -> Reach:
        """How far one unit moves one tick's vector: what `bound` says, in L1 and in squared L2."""
        return reach_of(self.bound, self.unit)

    @property
    @abstractmethod
    def distribution(self) -> Distribution:
        """The noise of one draw, in grid points where there is a grid."""

    @abstractmethod
    def initial(self, width: int, noise: Noise) -> S:
        """The state before the first tick; chance is needed where registers start with noise."""

    @abstractmethod
    def step(self, state: S, values: Ints, noise: Noise) -> Release:
        """Takes one tick's value of every group; returns what to release."""

    @abstractmethod
    def feed(self, state: S, block: Ints, noise: Noise) -> Release:
        """Takes many ticks, one row each; draws what as many steps would draw, in the same order."""

    def dormant(self, width: int, tick: int, noise: Noise) -> S:
        """The state of groups that were fed `tick` zeros: in the law of all later releases.

        Here by feeding them; where the state holds few draws, a mechanism makes those alone.
        """
        return self.rested(self.initial(width, noise), width, tick, noise)

    @property
    def sleeps_cheaply(self) -> bool:
        """Whether `dormant` takes few draws a group, however many ticks the group has slept.

        One that does not feed zeros draws the noise of the next releases: on average FEW draws, at most.
        """
        if self.pan_private or type(self).dormant is Mechanism.dormant:
            return False
        return self.mean_variance(self.horizon or AHEAD) <= FEW * self.distribution.variance

    def rested(self, state: S, width: int, ticks: int, noise: Noise) -> S:
        """The state, fed so many zeros."""
        size = max(1, CHUNK // width)
        for done in range(0, ticks, size):
            self.feed(state, np.zeros((min(size, ticks - done), width), np.int64), noise)
        return state

    def append(self, state: S, more: S) -> None:
        """Appends the groups of another state of the same tick to `state`."""
        append_columns(state, more, self._blank(1), self._blank(2))

    @abstractmethod
    def noise_at(self, tick: int) -> NoiseSum:
        """The noise in the release at `tick`: a sum of independent draws."""

    @abstractmethod
    def matrices(self, ticks: int) -> Strategy:
        """C and B over the first `ticks` ticks."""

    @abstractmethod
    def mean_variance(self, ticks: int) -> float:
        """The variance of a release, averaged over ticks 1 to `ticks`."""

    def strategy(self, ticks: int) -> Strategy:
        """The matrices C and B over the first `ticks` ticks, which must be few."""
        check_short(self.checked(ticks))
        return self.matrices(ticks)

    def noise_now(self, state: S) -> NoiseSum:
        """The noise in the newest release of a run, announced intrusions included."""
        return self.noise_at(state.tick)

    def memory(self) -> int:
        """How many numbers of 8 bytes a run keeps for each group, at most."""
        return numbers(self._blank(2)) - numbers(self._blank(1))

    def intrude(self, state: S, noise: Noise) -> S:
        """Answers an announced intrusion with noise before and after; returns what to hand over."""
        raise TypeError(self.intrusion_refusal())

    def intrusion_refusal(self) -> str:
        """Why an announced intrusion cannot be survived; nothing if it can."""
        return "" if self.pan_private else "pan_private must be True to survive an intrusion, got False"

    def identity(self) -> str:
        """All that a saved run must share with the claim that goes on with it."""
        return repr(self)

    def start(self, width: int = 1, noise: Noise | None = None) -> Run[S]:
        """A new run of `width` groups side by side."""
        check_width(width)
        check_source(self, noise)
        check_noise(self)
        return Run.new(self, int(width), noise)

    def load(self, saved: bytes, noise: Noise | None = None) -> Run[S]:
        """The run that `Run.save` wrote; refuses another mechanism's or an altered one."""
        check_source(self, noise)
        width, record, state = unpack(saved, self.identity(), self._blank, repr(self))
        if not self._in_time(state.tick) or not record.keys() <= {"intrusions", "saves"}:
            raise BadSave(ANOTHER)
        return Run(self, width, state, noise, **record)

    def _blank(self, width: int) -> S:
        """A state that only tells what states are made of."""
        return self.initial(width, NoNoise())

    def _in_time(self, tick: object) -> bool:
        return type(tick) is int and tick >= 0 and (self.horizon is None or tick <= self.horizon)

    def stddev(self, tick: int) -> float:
        """The exact standard error of the release at `tick`."""
        return self.noise_at(self.checked(tick)).stddev

    def rmse(self, ticks: int | None = None) -> float:
        """The root of the mean squared error over ticks 1 to `ticks` (the horizon, if there is one)."""
        over = ticks if ticks is not None else self.horizon
        if over is None:
            raise ValueError("ticks must be given for a stream without an end, got None")
        return sqrt(self.mean_variance(self.checked(over)))

    def interval(
        self, value: npt.ArrayLike, tick: int, confidence: float = 0.95
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Bounds that hold the true value with at least `confidence`, at this tick by itself."""
        half = self.noise_at(self.checked(tick)).half_width(confidence)
        centre = np.asarray(value, np.float64)
        return centre - half, centre + half

    def band(
        self, values: npt.ArrayLike, first: int = 1, confidence: float = 0.95
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Bounds that hold the true values of all these ticks at once with at least `confidence`.

        `values` are the releases at ticks first, first + 1, ..., one group's or one row a tick; ticks and
        groups share the probability of failure equally (union bound).
        """
        centre = np.asarray(values, np.float64)
        if centre.ndim not in (1, 2):
            raise ValueError(f"values must be of shape (ticks,) or (ticks, width), got {centre.shape}")
        noises = (self.noise_at(self.checked(first + i)) for i in range(len(centre)))
        half = np.array([noise.simultaneous(confidence, centre.size) for noise in noises])
        half = half.reshape(-1, *[1] * (centre.ndim - 1))
        return centre - half, centre + half

    def deviation(self, tick: int) -> float:
        """How far a release without noise may be off at `tick`, per unit of the sum of |x|."""
        return 0.0

    def room(self) -> int:
        """The sum of |x| from which 64 bits are too few, noise aside; a grid takes some of them."""
        return 2**63

    def wrap_probability(self, tick: int, largest: int | None = None) -> float:
        """A bound on the chance that sums have wrapped around at `tick`, so that the release is wrong.

        `largest` bounds the sum of |x|, half of `room()` unless told otherwise. Wrapping around is
        post-processing, and harms no one's privacy.
        """
        left = self.room() - (self.room() // 2 if largest is None else largest)
        if left <= 0:
            return 1.0
        return min(1.0, 2 * tick * self.noise_at(self.checked(tick)).upper_tail(float(left)))

    def checked(self, tick: int) -> int:
        """The tick, if the claim speaks of it."""
        check_whole("tick", tick)
        if self.horizon is not None and tick > self.horizon:
            raise ValueError(f"tick must be at most the horizon {self.horizon}, got {tick}")
        return tick


def draw_rows(distribution: Distribution, noise: Noise, rows: int, width: int) -> Ints:
    """So many draws for every group, one row each."""
    return distribution.draw(noise, rows * width).reshape(rows, width)


def draw_sum(distribution: Distribution, noise: Noise, count: int, width: int) -> Ints:
    """The sum of so many draws for every group, in bounded memory."""
    total, size = np.zeros(width, np.int64), max(1, CHUNK // width)
    for done in range(0, count, size):
        total += draw_rows(distribution, noise, min(size, count - done), width).sum(axis=0)
    return total
