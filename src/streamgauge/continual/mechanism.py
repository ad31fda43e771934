"""Base classes of mechanisms: frozen settings with code, bound to a state by `Run`.

`Mechanism` is any claim over a stream. It states a `loss`, a `unit` and its sensitivity, and has `initial`,
`step`, and a `feed` that processes many ticks at once. Mechanisms that adapt to their data
(`streamgauge.adaptive`) release arrays together with bounds on their error.

`LinearMechanism` releases arrays under noise of a known law. Standard errors, intervals and bands are here. A
mechanism's file holds the claim (settings, loss, error), its `State`, `initial`, `step` and `feed`.

`DelegatingMechanism` forwards to another mechanism that its settings select. Binary is a tree or a refined
tree. A decayed sum is noisy items under pure privacy, and a factorisation under zCDP. Users name the claim.
The implementation does the work.

`Settings` and `BoundedSettings` have the fields that most mechanisms share.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.run import CHUNK_NUMBERS, NOT_OPEN_MESSAGE, NOT_RERANDOMIZABLE_MESSAGE, Run
from streamgauge.continual.state_io import (
    WRONG_STATE_MESSAGE,
    BlankNoise,
    InvalidSaveError,
    SavedBytes,
    append_columns,
    count_numbers,
    unpack,
)
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.validation import (
    Bound,
    check_matrix_ticks,
    check_noise,
    check_source,
    check_whole,
    check_width,
    parse_bound,
)
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum
from streamgauge.privacy import AdditiveLoss, Event, Loss, Pure, Sensitivity, Unit
from streamgauge.registry import Registry

MECHANISM_GROUP = "streamgauge.mechanisms"
MECHANISMS: "Registry[type[Mechanism[Any, Any]]]" = Registry("mechanism", MECHANISM_GROUP)
"""Mechanisms of other packages, by name. Names of built-in ones come first: none can be replaced."""


class TickState(Protocol):
    """State of a mechanism; all states have a tick."""

    tick: int


S = TypeVar("S", bound=TickState)
R = TypeVar("R")


class Mechanism(ABC, Generic[S, R]):
    """A claim over a stream: `start` it, then `step` or `feed` the run."""

    MAX_HORIZON_TICKS: ClassVar[int] = 2**62  # the longest horizon that it can be given
    LOSSES: ClassVar[tuple[type[Loss], ...]]  # what it can keep
    LOSSES_REASON: ClassVar[str] = ""  # why it can keep no other
    EXACT_MEMORY: ClassVar[str] = ""  # what is exact in its memory, if it cannot be pan-private
    OPEN_TICKS_REASON: ClassVar[str] = ""  # why a tick cannot come in parts
    NEEDS_EPHEMERAL_NOISE: ClassVar[bool] = False  # whether no key may be in memory, pan-private or not
    loss: Loss
    horizon: int | None
    bound: Bound
    pan_private: bool
    unit: Unit
    open_ticks: bool = False  # whether a tick may come in parts, which rest in memory as noisy as all else

    def __init_subclass__(cls) -> None:
        """Append the claim, which is the module's docstring, to the class docstring."""
        super().__init_subclass__()
        claim = sys.modules[cls.__module__].__doc__
        cls.__doc__ = f"{cls.__doc__}\n\n{claim}" if cls.__doc__ and claim else cls.__doc__

    @property
    def charged_loss(self) -> AdditiveLoss:
        """The loss that its noise is made for and that a ledger charges, in the accounting that it needs."""
        return self.loss.additive_loss

    @cached_property
    def tick_sensitivity(self) -> Sensitivity:
        """The most that one unit moves one tick's vector, from `bound`."""
        return parse_bound(self.bound, self.unit)

    @property
    @abstractmethod
    def distribution(self) -> Distribution:
        """The noise of one draw, the widest if there are several; in grid points."""

    @abstractmethod
    def initial(self, width: int, noise: Noise) -> S:
        """Return the state before the first tick; registers may start with noise."""

    @abstractmethod
    def step(self, state: S, values: Ints, noise: Noise) -> R:
        """Process one tick's value of every group and return the release."""

    @abstractmethod
    def feed(self, state: S, block: Ints, noise: Noise) -> R:
        """Process many ticks, one row each, with the draws of as many steps.

        The draws come in the same order.
        """

    @classmethod
    def open_ticks_refusal(cls) -> str:
        """Return the reason for which a tick cannot come in parts."""
        reason = f" ({cls.OPEN_TICKS_REASON})" if cls.OPEN_TICKS_REASON else ""
        return f"open_ticks must be False for {cls.__name__}{reason}, got True"

    def add_partial(self, state: S, values: Ints) -> None:
        """Add part of the open tick's value; the step that closes it adds the rest."""
        raise TypeError(NOT_OPEN_MESSAGE)

    def zero_state(self, width: int, tick: int, noise: Noise) -> S:
        """Return the state of groups that were fed `tick` zeros, in law.

        The law is that of all later releases. By default the zeros are fed. If the state holds few draws, a mechanism
        makes those alone.
        """
        return self.feed_zeros(self.initial(width, noise), width, tick, noise)

    def feed_zeros(self, state: S, width: int, ticks: int, noise: Noise) -> S:
        """Return the state after so many zeros."""
        size = max(1, CHUNK_NUMBERS // width)
        for done in range(0, ticks, size):
            self.feed(state, np.zeros((min(size, ticks - done), width), np.int64), noise)
        return state

    def append_groups(self, state: S, more: S) -> None:
        """Append the groups of another state of the same tick to `state`."""
        append_columns(state, more, self._blank_state(1), self._blank_state(2))

    def widening_refusal(self) -> str:
        """Return why no groups can be appended to a run, or an empty text."""
        return "pan_private must be False to widen a run, got True" if self.pan_private else ""

    @abstractmethod
    def join_releases(self, releases: Sequence[R]) -> R:
        """Return the releases of consecutive blocks as one."""

    @abstractmethod
    def narrow_release(self, release: R) -> R:
        """Return the release of a block of one group as that of its column."""

    def window_sum(self, state: S, window: int) -> R:
        """Return the sums of the last `window` ticks, fewer than those of the newest release."""
        raise TypeError(self._window_refusal)

    def check_windows(self, windows: Sequence[int]) -> None:
        """Reject windows that a run of the claim does not answer."""
        raise TypeError(self._window_refusal)

    def feed_windows(self, state: S, block: Ints, noise: Noise, windows: Sequence[int]) -> R:
        """Process many ticks as `feed` does; return (ticks, windows, groups), with the sums of each window."""
        raise TypeError(self._window_refusal)

    @property
    def _window_refusal(self) -> str:
        return f"window must be that of {type(self).__name__}, got another"

    def current_noise(self, state: S) -> NoiseSum:
        """Return the noise in the newest release, if its law is independent of data."""
        raise TypeError(f"noise of {type(self).__name__} must be read from its releases, on which it depends")

    def memory(self) -> int:
        """Return the most numbers of 8 bytes that a run stores for each group."""
        return count_numbers(self._blank_state(2)) - count_numbers(self._blank_state(1))

    def intrude(self, state: S, noise: Noise) -> S:
        """Add noise before and after an announced intrusion; return the state to show."""
        raise TypeError(self.intrusion_refusal())

    def rerandomize(self, state: S, noise: Noise) -> None:
        """Replace all open registers by the last release and fresh draws.

        Use it for a saved state whose run continued and was lost. Data that the lost run read after the save is in no
        release. An intruder may have read it in memory, under the draws of the saved registers.
        """
        raise TypeError(NOT_RERANDOMIZABLE_MESSAGE)

    def redraw_future_noise(self, state: S, noise: Noise) -> None:
        """Replace the draws of measurements that later ticks are part of.

        Use it for a saved state from which another run continued and published. With shared draws, the two runs would
        publish the exact difference of their data. By default there are none: a measurement is drawn when its last
        tick arrives, or the state is pan-private, so that later ticks are private even from a reader of it.

        Raises:
            TypeError: if the mechanism cannot state its error after a redraw.
        """

    def redraw_refusal(self) -> str:
        """Return why the noise of later ticks cannot be drawn again, or an empty text."""
        return ""

    def intrusion_refusal(self) -> str:
        """Return why an announced intrusion is impossible, or an empty text."""
        return "" if self.pan_private else "pan_private must be True to survive an intrusion, got False"

    def identity(self) -> str:
        """Return the text that a saved run must share with the claim that loads it."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        return repr(self)

    def start(self, width: int = 1, noise: Noise | None = None) -> Run[S, R]:
        """Start a new run of `width` groups side by side."""
        check_width(width)
        check_source(self, noise)
        check_noise(self)
        return Run.create(self, int(width), noise)

    def load(self, saved: SavedBytes, noise: Noise | None = None) -> Run[S, R]:
        """Load a run that `Run.save` wrote; reject another mechanism's or altered bytes."""
        check_source(self, noise)
        width, record, state = unpack(saved, self.identity(), self._blank_state, repr(self))
        is_valid = type(state.tick) is int and 0 <= state.tick <= (self.horizon or state.tick)
        if not is_valid or not record.keys() <= {"intrusions", "saves", "rerandomizations"}:
            raise InvalidSaveError(WRONG_STATE_MESSAGE)
        return Run(self, width, state, noise, **record)

    def _blank_state(self, width: int) -> S:
        """Return a state that only shows the structure of states."""
        return self.initial(width, BlankNoise())

    def check_tick(self, tick: int) -> int:
        """Return the tick, if it is in the horizon."""
        check_whole("tick", tick)
        if self.horizon is not None and tick > self.horizon:
            raise ValueError(f"tick must be at most the horizon {self.horizon}, got {tick}")
        return tick


@dataclass(frozen=True)
class Settings:
    """The settings that mechanisms share."""

    loss: Loss
    _: KW_ONLY
    horizon: int | None = None
    bound: Bound = 1
    pan_private: bool = False
    unit: Unit = Event()


@dataclass(frozen=True)
class BoundedSettings(Settings):
    """The settings that mechanisms share, of those that need a horizon."""

    horizon: int = field(kw_only=True)


def shared_settings(claim: Settings) -> dict[str, Any]:
    """Return the settings of a claim besides its loss, for its implementation."""
    return {name: getattr(claim, name) for name in ("horizon", "bound", "pan_private", "unit")}


MAX_CHEAP_DRAWS = 128  # draws for which a group that slept is woken cheaply
UNBOUNDED_PLANNING_TICKS = 2**20  # ticks that streams without an end are judged by

Release = npt.NDArray[Any]  # int64 on the integers, float64 where decoding has weights


class LinearMechanism(Mechanism[S, Release]):
    """A linear mechanism: `start`, `step` or `feed`, then `stddev` and `interval`."""

    @property
    def cheap_zero_state(self) -> bool:
        """True if `zero_state` needs few draws a group for any number of ticks.

        A `zero_state` that does not feed zeros draws the noise of the next releases: on average at most
        MAX_CHEAP_DRAWS draws.
        """
        if self.pan_private or type(self).zero_state is LinearMechanism.zero_state:
            return False
        return (
            self.mean_variance(self.horizon or UNBOUNDED_PLANNING_TICKS) <= MAX_CHEAP_DRAWS * self.distribution.variance
        )

    @abstractmethod
    def noise_at(self, tick: int) -> NoiseSum:
        """Return the noise in the release at `tick`: a sum of independent draws."""

    def window_noise(self, window: int, tick: int) -> NoiseSum:
        """Return the noise in the sum of the last `window` ticks at `tick`."""
        raise TypeError(self._window_refusal)

    @abstractmethod
    def matrices(self, ticks: int) -> Strategy:
        """Return C and B over the first `ticks` ticks."""

    @abstractmethod
    def mean_variance(self, ticks: int) -> float:
        """Return the variance of a release, averaged over ticks 1 to `ticks`."""

    @property
    def has_falling_overlaps(self) -> bool:
        """True if entries (s, t) of the Gram matrix of C are not negative and fall as t > s grows.

        Then w moves by 1 that alternate in sign, at any ticks, cost at most w times one of them. With G the Gram
        matrix, rows divided by their noise, they cost sum_i (G(i, i) + 2 sum_(j > i) (-1)^(j-i) G(i, j)). Each inner
        sum alternates, begins with a minus and falls, so that it is at most 0. Rows that are one number over an
        interval of ticks and else 0 have such a matrix: an interval that has s and t + 1 has t. So have Toeplitz
        matrices with falling positive coefficients.
        """
        return False

    @property
    def bounds_alternating(self) -> bool:
        """True if w alternating moves cost at most w times one move. In L1 that is always so."""
        return isinstance(self.loss.additive_loss, Pure) or self.has_falling_overlaps

    def strategy(self, ticks: int) -> Strategy:
        """Return C and B over the first `ticks` ticks, which must be few."""
        check_matrix_ticks(self.check_tick(ticks))
        return self.matrices(ticks)

    def join_releases(self, releases: Sequence[Release]) -> Release:
        return np.concatenate(releases) if len(releases) > 1 else releases[0]

    def narrow_release(self, release: Release) -> Release:
        return release[:, 0]

    def current_noise(self, state: S) -> NoiseSum:
        """Return the noise in the newest release, including announced intrusions."""
        return self.noise_at(state.tick)

    def stddev(self, tick: int) -> float:
        """Return the exact standard error of the release at `tick`."""
        return self.noise_at(self.check_tick(tick)).stddev

    def rmse(self, ticks: int | None = None) -> float:
        """Return the root mean squared error over ticks 1 to `ticks`.

        The default is the horizon.
        """
        over = ticks if ticks is not None else self.horizon
        if over is None:
            raise ValueError("ticks must be given for a stream without an end, got None")
        return sqrt(self.mean_variance(self.check_tick(over)))

    def interval(
        self, value: npt.ArrayLike, tick: int, confidence: float = 0.95
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return bounds that contain the true value with at least `confidence`.

        They hold at this tick by itself.
        """
        half = self.noise_at(self.check_tick(tick)).half_width(confidence)
        centre = np.asarray(value, np.float64)
        return centre - half, centre + half

    def band(
        self, values: npt.ArrayLike, first: int = 1, confidence: float = 0.95
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return bounds that contain all true values at once with at least `confidence`.

        `values` are the releases at ticks first, first + 1, ..., one group's or one row a tick. Ticks and groups share
        the probability of failure equally (union bound).
        """
        centre = np.asarray(values, np.float64)
        if centre.ndim not in (1, 2):
            raise ValueError(f"values must be of shape (ticks,) or (ticks, width), got {centre.shape}")
        noises = (self.noise_at(self.check_tick(first + i)) for i in range(len(centre)))
        half = np.array([noise.simultaneous_half_width(confidence, centre.size) for noise in noises])
        half = half.reshape(-1, *[1] * (centre.ndim - 1))
        return centre - half, centre + half

    def feed_by_steps(self, state: S, block: Ints, noise: Noise) -> Ints:
        """Feed many ticks as so many steps."""
        steps = [self.step(state, values, noise) for values in block]
        return np.stack(steps) if steps else block.copy()

    def deviation(self, tick: int) -> float:
        """Return the error without noise at `tick`, per unit of the sum of |x|."""
        return 0.0

    def overflow_limit(self) -> int:
        """Return the sum of |x| that 64 bits no longer hold, noise aside.

        A grid uses some of the bits.
        """
        return 2**63

    def wrap_probability(self, tick: int, largest: int | None = None) -> float:
        """Return a bound on the probability that sums have wrapped around at `tick`.

        The release is then wrong. `largest` bounds the sum of |x|, by default half of `overflow_limit()`.
        Wrap-around is post-processing and harms no one's privacy.
        """
        left = self.overflow_limit() - (self.overflow_limit() // 2 if largest is None else largest)
        if left <= 0:
            return 1.0
        return min(1.0, 2 * tick * self.noise_at(self.check_tick(tick)).upper_tail(float(left)))


def draw_rows(distribution: Distribution, noise: Noise, rows: int, width: int) -> Ints:
    """Draw so many rows, one number for every group."""
    return distribution.draw(noise, rows * width).reshape(rows, width)


def draw_sum(distribution: Distribution, noise: Noise, count: int, width: int) -> Ints:
    """Draw the sum of so many draws for every group, in bounded memory."""
    total, size = np.zeros(width, np.int64), max(1, CHUNK_NUMBERS // width)
    for done in range(0, count, size):
        total += draw_rows(distribution, noise, min(size, count - done), width).sum(axis=0)
    return total


class DelegatingMechanism(LinearMechanism[Any]):
    """A mechanism implemented by another one; cache the `implementation` property."""

    @property
    @abstractmethod
    def implementation(self) -> LinearMechanism[Any]: ...

    @property
    def distribution(self) -> Distribution:
        return self.implementation.distribution

    def initial(self, width: int, noise: Noise) -> Any:
        return self.implementation.initial(width, noise)

    def step(self, state: Any, values: Ints, noise: Noise) -> Release:
        return self.implementation.step(state, values, noise)

    def feed(self, state: Any, block: Ints, noise: Noise) -> Release:
        return self.implementation.feed(state, block, noise)

    def zero_state(self, width: int, tick: int, noise: Noise) -> Any:
        return self.implementation.zero_state(width, tick, noise)

    @property
    def cheap_zero_state(self) -> bool:
        return self.implementation.cheap_zero_state

    def redraw_refusal(self) -> str:
        return self.implementation.redraw_refusal()

    def redraw_future_noise(self, state: Any, noise: Noise) -> None:
        self.implementation.redraw_future_noise(state, noise)

    def noise_at(self, tick: int) -> NoiseSum:
        return self.implementation.noise_at(tick)

    def current_noise(self, state: Any) -> NoiseSum:
        return self.implementation.current_noise(state)

    def intrusion_refusal(self) -> str:
        return self.implementation.intrusion_refusal()

    @cached_property
    def _identity(self) -> str:
        return f"{self!r} by {self.implementation!r}"

    def intrude(self, state: Any, noise: Noise) -> Any:
        return self.implementation.intrude(state, noise)

    def mean_variance(self, ticks: int) -> float:
        return self.implementation.mean_variance(ticks)

    def stddev(self, tick: int) -> float:
        return self.implementation.stddev(tick)

    def memory(self) -> int:
        return self.implementation.memory()

    @property
    def has_falling_overlaps(self) -> bool:
        return self.implementation.has_falling_overlaps

    def deviation(self, tick: int) -> float:
        return self.implementation.deviation(tick)

    def overflow_limit(self) -> int:
        return self.implementation.overflow_limit()

    def matrices(self, ticks: int) -> Strategy:
        return self.implementation.matrices(ticks)
