"""What every mechanism of this room is: a frozen claim with code under it.

A mechanism's file holds the claim (settings, loss, error), its `State`, `initial` and `step`, and a
`feed` that does many ticks at once. What is the same for all of them is here: starting and loading
runs, standard errors, intervals and bands.
"""

from abc import ABC, abstractmethod
from math import sqrt
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.run import Run
from streamgauge.continual.saved import NoNoise, numbers, read_state
from streamgauge.continual.strategy import Strategy
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum
from streamgauge.privacy import Loss, Unit

Release = npt.NDArray[Any]  # int64 on the integers, float64 where decoding has weights


class Ticking(Protocol):
    """The one thing that the states of all mechanisms have in common."""

    tick: int


S = TypeVar("S", bound=Ticking)


class Mechanism(ABC, Generic[S]):
    """A continual mechanism: `start` it, `step` or `feed` it, read its `stddev` and `interval`."""

    LOSSES: ClassVar[tuple[type[Loss], ...]]  # what it can keep
    WHY: ClassVar[str] = ""  # why it can keep no other
    RESTS_EXACT: ClassVar[str] = ""  # what is exact in its memory, if it cannot be pan-private
    loss: Loss
    horizon: int | None
    bound: int
    pan_private: bool
    unit: Unit

    @abstractmethod
    def initial(self, width: int, noise: Noise) -> S:
        """The state before the first tick; chance is needed where registers start with noise."""

    @abstractmethod
    def step(self, state: S, values: Ints, noise: Noise) -> Release:
        """Takes one tick's value of every group; returns what to release."""

    @abstractmethod
    def feed(self, state: S, block: Ints, noise: Noise) -> Release:
        """Takes many ticks, one row each; draws what as many steps would draw, in the same order."""

    @abstractmethod
    def noise_at(self, tick: int) -> NoiseSum:
        """The noise in the release at `tick`: a sum of independent draws."""

    @abstractmethod
    def strategy(self, ticks: int) -> Strategy:
        """The matrices C and B over the first `ticks` ticks."""

    @abstractmethod
    def mean_variance(self, ticks: int) -> float:
        """The variance of a release, averaged over ticks 1 to `ticks`."""

    def noise_now(self, state: S) -> NoiseSum:
        """The noise in the newest release of a run, announced intrusions included."""
        return self.noise_at(state.tick)

    def memory(self) -> int:
        """How many numbers of 8 bytes a run keeps for each group, at most."""
        return numbers(self.initial(2, NoNoise())) - numbers(self.initial(1, NoNoise()))

    def intrude(self, state: S, noise: Noise) -> S:
        """Answers an announced intrusion with noise before and after; returns what to hand over."""
        raise TypeError(f"pan_private must be True to survive an intrusion, got {self.pan_private}")

    def start(self, width: int = 1, noise: Noise | None = None) -> Run[S]:
        """A new run of `width` groups side by side."""
        if isinstance(width, bool) or not isinstance(width, int) or width < 1:
            raise ValueError(f"width must be a whole number of at least 1, got {width!r}")
        return Run.new(self, width, noise)

    def load(self, saved: bytes, noise: Noise | None = None) -> Run[S]:
        """The run that `Run.save` wrote; refuses another mechanism's or an altered one."""
        width, intrusions, state = read_state(saved, self)
        return Run(self, width, state, noise, intrusions)

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

        `values` are releases of one group at ticks first, first + 1, ...; the ticks share the
        probability of failure equally (union bound).
        """
        centre = np.asarray(values, np.float64)
        each = 1 - (1 - confidence) / len(centre)
        noises = (self.noise_at(self.checked(first + i)) for i in range(len(centre)))
        half = np.array([noise.half_width(each) for noise in noises])
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
        if tick < 1:
            raise ValueError(f"tick must be at least 1, got {tick}")
        if self.horizon is not None and tick > self.horizon:
            raise ValueError(f"tick must be at most the horizon {self.horizon}, got {tick}")
        return tick


def check_settings(mechanism: Mechanism[Any], *, bounded: bool) -> None:
    """Refuses settings that make no claim; `bounded` mechanisms need a horizon."""
    loss, horizon = mechanism.loss, mechanism.horizon
    if not isinstance(loss, mechanism.LOSSES):
        kinds = " or ".join(kind.__name__ for kind in mechanism.LOSSES)
        reason = f" ({mechanism.WHY})" if mechanism.WHY else ""
        raise ValueError(f"loss must be {kinds} for {type(mechanism).__name__}{reason}, got {loss!r}")
    if mechanism.pan_private and mechanism.RESTS_EXACT:
        name, why = type(mechanism).__name__, mechanism.RESTS_EXACT
        raise ValueError(f"pan_private must be False for {name} ({why}), got True")
    if horizon is None and bounded:
        raise ValueError("horizon must be given for this mechanism, got None")
    if horizon is not None:
        check_whole("horizon", horizon)
    check_whole("bound", mechanism.bound)


def check_whole(name: str, value: object, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}")


def draw_rows(distribution: Distribution, noise: Noise, rows: int, width: int) -> Ints:
    """So many draws for every group, one row each."""
    return distribution.draw(noise, rows * width).reshape(rows, width)
