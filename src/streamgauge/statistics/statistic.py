"""Base class of all statistics: a frozen claim over the events of a stream.

A continual mechanism counts whole numbers. A statistic determines which numbers. The events of one tick are read
item by item, clamped, put on an integer grid and added up into one exact vector. It has the same channels for every
group. One vector counter releases all channels under one loss. Estimates are decoded from its
releases alone.

    events -> marks (which place of the vector, how much) -> exact vector -> counter (+ noise) -> estimate

If a counter is configured by name, the statistic sets its loss, unit, reach, pan-privacy, horizon and window. It also
sets whether the counted numbers can be negative. Settings that the mechanism does not have are left out.

Privacy
    Neighbours: streams that differ in one unit. `tick_sensitivity` is how far one unit moves the vector of one tick, in
    L1 and L2 over all channels and groups together. The counter's noise is calibrated to it: the
    joint sensitivity, never the sum over channels of the worst of each. The counter guarantees `loss`, and decoding
    is post-processing. An event alone decides whether and how it counts. If a
    unit's contributions are bounded, that unit's events alone decide.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.adaptive import AdaptiveMechanism, AdaptiveRelease, ErrorBound
from streamgauge.continual import LinearMechanism, Mechanism, WindowBridge, choose
from streamgauge.continual.choice import parse_window
from streamgauge.continual.run import parse_integers
from streamgauge.noise import Grid, Ints, Noise, NoiseSum
from streamgauge.privacy import Event, Loss, Sensitivity, Tick, Unit, User
from streamgauge.statistics.estimate import (
    Estimate,
    Floats,
    ScaledErrorBound,
    WindowEstimates,
    build_adaptive_estimate,
    build_linear_estimate,
    name_window,
)
from streamgauge.statistics.events import Column, to_column
from streamgauge.statistics.keys.hash_cells import HashCells
from streamgauge.statistics.mechanism_config import (
    MechanismSpec,
    build_configured_counter,
    check_alternating,
    require_linear,
    to_config,
)
from streamgauge.statistics.validation import check_statistic

if TYPE_CHECKING:
    from streamgauge.statistics.events import EventColumns
    from streamgauge.statistics.run import EventRun


R = TypeVar("R")
Weights = tuple[tuple[int, ...], ...]  # of n, s1, ..., for each channel
POWER_SUM_NAMES = ("n", "s1", "s2")
MAX_VECTOR_PLACES = 2**31  # places of a vector: beyond it no machine has the memory


@dataclass(frozen=True, eq=False)
class Increments:
    """Increments of a tick's vector: amounts[i, j] at places[i, j], for events[i]."""

    events: Ints
    places: Ints
    amounts: Ints  # of the same shape, or one that broadcasts to it

    def select(self, rows: Ints) -> "Increments":
        """Return some of the events."""
        amounts = self.amounts if len(self.amounts) == 1 else self.amounts[rows]
        return Increments(self.events[rows], self.places[rows], amounts)


@dataclass(frozen=True, eq=False)
class NoisySums:
    """Input of a release: noisy sums by tick and place of the vector."""

    sums: Floats
    noises: Sequence[NoiseSum]  # the noise in each tick's sums
    width: int
    memory: Any
    counts: Floats  # the exact counts of events if they are public, else empty
    release: AdaptiveRelease | None = None  # the same sums, of a counter that adapts to its data
    window_noises: Mapping[int, Sequence[NoiseSum]] = field(default_factory=dict)  # if `sums` are of several windows

    @property
    def channels(self) -> Floats:
        """Sums as (ticks, channels, width)."""
        return self.sums.reshape(len(self.sums), self.sums.shape[1] // self.width, self.width)

    def select_ticks(self, part: slice) -> "NoisySums":
        """Return the sums of some of the ticks."""
        known = None if self.release is None else self.release.select_ticks(part)
        some = replace(self, sums=self.sums[part], noises=self.noises[part], counts=self.counts[part])
        windows = {window: noises[part] for window, noises in self.window_noises.items()}
        return replace(some, release=known, window_noises=windows)

    def estimate(self, scale: float) -> Estimate:
        """Return the sums themselves, in units of the data."""
        if self.window_noises:
            rows = np.moveaxis(self.channels, 1, 0) * scale
            pairs = zip(rows, self.window_noises.values(), strict=True)
            return WindowEstimates.join([*self.window_noises], [build_linear_estimate(*each, scale) for each in pairs])
        if self.release is not None:
            return build_adaptive_estimate(self.release, scale)
        return build_linear_estimate(self.sums * scale, self.noises, scale)


@dataclass(frozen=True)
class ExpectedData:
    """Expected data for predictions of errors."""

    count: float
    mean: float | None
    variance: float | None


@dataclass(slots=True)
class EmptyMemory:
    """Memory of a statistic that has only its counter's."""


@dataclass(frozen=True)
class Statistic(ABC, Generic[R]):
    """Statistic over a stream: `start` it, then `step` it with the events of a tick.

    It has the settings that all statistics share.
    """

    EXACT_MEMORY: ClassVar[str] = ""  # description of exact memory outside the counter, if any
    HAS_MEMORY: ClassVar[bool] = False  # true if increments depend on earlier ticks
    CAN_GROW: ClassVar[bool] = False  # true if the vector gets new places with time
    NEEDS_VALUES: ClassVar[bool] = True  # true if events have values in addition to their group
    HAS_CHOICE: ClassVar[bool] = True  # true if the planner chooses its counter
    ERROR_GROWS: ClassVar[bool] = True  # true if the error depends on the tick, not on the number of events alone
    CAN_ADAPT: ClassVar[bool] = False  # true if counters that adapt to their data may be used
    CAN_SPAN_GROUPS: ClassVar[bool] = False  # true if one event may count in several groups
    open_ticks = False  # true if a tick may come in parts, which are as noisy in memory as everything else
    loss: Loss
    _: KW_ONLY
    horizon: int | None = None
    window: str = "running"
    mechanism: MechanismSpec = None
    pan_private: bool = False
    unit: Unit = Event()
    groups_per_event: int = 1  # maximum of different groups in which one event counts, once each

    def __init_subclass__(cls) -> None:
        """Use the module's claim as the docstring for `help`."""
        super().__init_subclass__()
        claim = sys.modules[cls.__module__].__doc__
        cls.__doc__ = f"{cls.__doc__}\n\n{claim}" if cls.__doc__ and claim else cls.__doc__

    def __post_init__(self) -> None:
        check_statistic(self)
        self.check()
        self.counter  # noqa: B018 - evaluated now, so that an invalid claim is rejected now

    @property
    def memory_numbers(self) -> int:
        """Maximum numbers of 8 bytes in memory for each place of a tick's vector."""
        return int(self.counter.memory())

    @property
    def channels(self) -> int:
        """Numbers of the vector for every group."""
        return 1

    @property
    def columns(self) -> int:
        """Number of columns of values that events have."""
        return 1

    @property
    @abstractmethod
    def tick_sensitivity(self) -> Sensitivity:
        """Distance by which one unit moves the vector of one tick."""

    @abstractmethod
    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        """Return the increments of a tick's events. `groups` has the group code of each."""

    @abstractmethod
    def release(self, sums: NoisySums) -> R:
        """Return the estimates of noisy sums, without access to the data."""

    def check(self) -> None:
        """Reject invalid settings. Statistics with their own settings override it."""

    def select_first(self, release: R) -> R:
        """Return the first tick of a release of several."""
        several: Any = release
        one: R = several.select_tick(0)
        return one

    def join_releases(self, releases: Sequence[R]) -> Any:
        """Return the releases of several ticks as one."""
        kind: Any = type(releases[0])
        return kind.stack(releases)

    def empty_release(self, sums: NoisySums) -> Any:
        """Return the release of no ticks."""
        return self.release(sums)

    def read_columns(self, values: Any) -> list[Column]:
        """Return the columns of the events."""
        return [to_column("values", values)]

    def initial_memory(self, width: int) -> Any:
        """Return the memory of a new run without the counter's state."""
        return EmptyMemory()

    def vector_size(self, width: int, memory: Any) -> int:
        """Return the size of the vector, which may grow with the memory of a run."""
        return self.channels * width

    def pack_memory(self, memory: Any) -> Any:
        """Return the memory of a run as a dataclass of arrays, to be saved."""
        return memory

    def unpack_memory(self, saved: Any) -> Any:
        return saved

    @property
    def is_signed(self) -> bool:
        """True if the counted numbers can be negative."""
        return True

    @property
    def hash_cells(self) -> int | None:
        """Size of the hash table whose occupied cells are counted; None without a hash."""
        return None

    @property
    def has_public_counts(self) -> bool:
        """True if a run stores exact numbers of events, declared public by the curator."""
        return False

    @property
    def bounds_users(self) -> bool:
        """True if the contributions of users are bounded here."""
        return isinstance(self.unit, User)

    @property
    def users_reason(self) -> str:
        """Reason that the users of events are needed; empty if they are not."""
        return "so that their contributions can be bounded" if self.bounds_users else ""

    def admit_events(self, events: "EventColumns", memory: Any) -> "EventColumns":
        """Return the events that count, if a statistic has its own bounds on users."""
        return events

    @property
    def max_tick_events(self) -> int | None:
        """Maximum number of events of a tick that count, if the tick is the unit."""
        return self.unit.events if isinstance(self.unit, Tick) else None

    def check_clipping(self) -> None:
        """Reject vectors from elsewhere if they cannot be clipped."""
        if self.max_tick_events is not None and self.tick_sensitivity.l2_squared != self.tick_sensitivity.l1**2:
            raise ValueError("totals must be of one number an event where ticks are units, got others: give events")

    def clip_vector(self, vector: Ints) -> Ints:
        """Return a vector from elsewhere, clipped at the reach of a tick as the unit.

        Any bounded function of the tick alone would do. Of the nonzero numbers, the first
        as many as the tick has events remain, until their sizes add up to the reach in L1. That bounds L2
        as well, if an event moves one number only.
        """
        if self.max_tick_events is None:
            return vector
        most = int(self.tick_sensitivity.l1)
        there = np.cumsum(vector != 0) <= self.tick_sensitivity.coordinates
        sizes = np.minimum(np.abs(np.maximum(vector, -(2**62))), most).astype(object) * there
        used = np.cumsum(sizes) - sizes
        clipped = np.minimum(sizes, np.maximum(most - used, 0)).astype(np.int64)
        signed: Ints = clipped * np.sign(vector)
        return signed

    @property
    def last_tick(self) -> int | None:
        """Last tick of the claim, if there is one."""
        return self.horizon if self.horizon is not None else self.counter.horizon

    @property
    def alternates(self) -> bool:
        """True if a unit moves each number up and down in turn, and pays for each move (see `choose`)."""
        return False

    @property
    def reads_weights(self) -> bool:
        """True if events may have weights: +1 for one that comes, -1 for one that is taken back."""
        return False

    @property
    def counter_unit(self) -> Unit:
        """Unit of the counter: the number of ticks that it touches."""
        return self.unit

    @cached_property
    def counter(self) -> Mechanism[Any, Any]:
        """Mechanism that releases the vector."""
        return self.build_counter(self.loss)

    @property
    def linear_counter(self) -> LinearMechanism[Any]:
        """Counter, if its noise law is independent of the data."""
        return require_linear(self.counter, type(self).__name__)

    def build_counter(self, loss: Loss) -> Mechanism[Any, Any]:
        """Return the counter under a loss: the configured one, or that of least error.

        The error is the predicted one.
        """
        if named := self.mechanism or (WindowBridge if self.windows else None):
            return check_alternating(self, build_configured_counter(self, to_config(named), loss))
        settings: dict[str, Any] = {
            "unit": self.counter_unit,
            "pan_private": self.pan_private,
            "bound": self.tick_sensitivity,
        }
        settings |= {"open_ticks": True} if self.open_ticks else {}
        settings |= {"alternating": True} if self.alternates else {}
        return choose(loss, horizon=self.horizon, window=self.window, **settings)

    @property
    def grid(self) -> Grid | None:
        """Grid of the values, if there is one."""
        return None

    @property
    def absent_place(self) -> int | None:
        """Grid place of an item that is not a number; None if it is dropped."""
        return None

    @property
    def power_weights(self) -> Weights:
        """Weights of n, s1 and s2 in each channel (see `combine_power_sums`), or empty."""
        return ()

    @property
    def max_power(self) -> int | None:
        """Highest power of a value to be added up: 0 (only counted), 1 or 2."""
        return len(self.power_weights[0]) - 1 if self.power_weights else None

    def vectors_from_power_sums(self, *sums: npt.ArrayLike) -> Ints:
        """Return the exact vectors, (channels, ...), of n, s1 and s2 up to `max_power`.

        Each sum has one shape (...).
        """
        if not self.power_weights:
            raise ValueError(f"sums must be of a statistic of powers, got {type(self).__name__}")
        return combine_power_sums(self.power_weights, sums)

    def vectors_from_cells(  # noqa: PLR0917 - a table of events, and the shape of the vectors
        self,
        cells: Ints,
        places: Ints,
        counts: Ints,
        width: int,
        rows: Ints | None = None,
        ticks: int = 1,
        memory: Any = None,
    ) -> Ints:
        """Return the exact vectors of so many events in each cell of each group.

        This is for statistics whose values lie in cells. `memory` is that of the run.
        """
        raise ValueError(f"cells must be of a statistic along an axis, got {type(self).__name__}")

    def vector_from_keys(self, keys: Column, counts: Ints, memory: Any) -> Ints:
        """Return the exact vector of so many events of each key, if keys are discovered."""
        raise ValueError(f"keys must be of a statistic that discovers them, got {type(self).__name__}")

    def compute_totals(self, values: Any, groups: Any = None, width: int = 1, memory: Any = None) -> Ints:
        """Return the exact vector of one tick's events. It is secret.

        The privacy of a claim rests on it.
        """
        rows = self.read_columns(values)
        codes = np.zeros(len(rows[0]), np.int64) if groups is None else np.asarray(groups, np.int64)
        remembered = self.initial_memory(width) if memory is None else memory
        inside = (codes >= 0) & (codes < width)
        rows, codes = [row[inside] for row in rows], codes[inside]
        return sum_increments(
            self.build_increments(rows, codes, width, remembered), self.vector_size(width, remembered)
        )

    @property
    def scale(self) -> float:
        """One step of the counter's grid in units of the data."""
        return 1.0

    def noise_at(self, tick: int, measure: str = "value") -> NoiseSum:
        """Return the noise of every count or sum of the release at `tick`, in data units.

        Args:
            measure: the window, if there are several; without one it is the longest.
        """
        counter, tick = self.linear_counter, self.linear_counter.check_tick(tick)
        window = next((window for window in self.windows if name_window(window) == measure), None)
        return (counter.noise_at(tick) if window is None else counter.window_noise(window, tick)).scale(self.scale)

    def error_bound_at(self, tick: int, measure: str = "value") -> ErrorBound:
        """Return the error bound of every count or sum at `tick`, before any data."""
        if isinstance(self.counter, AdaptiveMechanism):
            return ScaledErrorBound(self.counter.error_bound(tick), self.scale)
        return self.noise_at(tick, measure)

    @property
    def error_depends_on(self) -> str:
        """Words for other influences on an adaptive counter's error; else empty."""
        return getattr(self.counter, "ERROR_DEPENDS_ON", "")

    def stddev(self, tick: int) -> float:
        """Return the standard error of every count or sum at `tick`, before any data."""
        return float(np.max(self.error_bound_at(tick).stddev))

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the columns of releases."""
        return tuple(map(name_window, self.windows)) or ("value",)

    @property
    def windows(self) -> tuple[int, ...]:
        """Ticks of each window, the longest last, if one run answers several; else empty."""
        shorter: tuple[int, ...] = getattr(self, "shorter_windows", ())
        return (*shorter, int(parse_window(self.window).size)) if shorter else ()

    def predict_stddev(
        self, measure: str, tick: int, *, count: float = 0.0, mean: float | None = None, variance: float | None = None
    ) -> float:
        """Return the standard error of a measure at `tick`, before any data.

        If it depends on the data, it is the expected one for `count` events of such a mean and variance, as
        `stddev` of that statistic defines. It is NaN if there is none. For hashed values `count` is their
        number.
        """
        if measure not in self.measures:
            raise ValueError(f"measure must be one of {', '.join(self.measures)}, got {measure!r}")
        return self._predict_stddev(measure, tick, ExpectedData(count, mean, variance))

    def _predict_stddev(self, measure: str, tick: int, expected: ExpectedData) -> float:
        if self.windows:
            return self.noise_at(tick, measure).stddev
        if self.hash_cells is None:
            return self.stddev(tick)
        return float(HashCells(self.hash_cells).stddev(expected.count, self.stddev(tick)))

    def identity(self) -> str:
        """Return all that a saved run must share with the claim that resumes it."""
        return self._identity

    @cached_property
    def _identity(self) -> str:
        return f"{self!r} by {self.counter.identity()}"

    def start(
        self, width: int = 1, noise: Noise | None = None, *, groups: Sequence[Any] | None = None
    ) -> "EventRun[R]":
        """Return a new run of `width` groups, or of one group for each label in `groups`."""
        from streamgauge.statistics.run import EventRun

        return EventRun.create(self, width, groups, noise)

    def load(self, saved: bytes, noise: Noise | None = None) -> "EventRun[R]":
        """Return the run that `save` wrote; reject another statistic's or an altered one."""
        from streamgauge.statistics.run import EventRun

        return EventRun.load(self, saved, noise)


def sum_increments(marks: Increments, size: int, ticks: Ints | None = None, count: int = 1) -> Ints:
    """Return the exact vectors of increments, one row per tick.

    `ticks` has the row of each event.
    """
    block = np.zeros(count * size, np.int64)
    places = marks.places if ticks is None else marks.places + ticks[:, None] * size
    amounts = np.broadcast_to(marks.amounts, places.shape)
    np.add.at(block, places.reshape(-1), amounts.reshape(-1))
    return block.reshape(count, size) if ticks is not None else block


def combine_power_sums(weights: Weights, sums: Sequence[npt.ArrayLike]) -> Ints:
    """Return the channels, (channels, ...), of a database's sums by tick and group.

    The sums have one shape: n = count(i), s1 = sum(i), s2 = sum(i * i) with i = floor(x/step + 1/2), cut off at the
    grid's ends. An event's increment of a channel is a polynomial of i with whole coefficients. So a channel of all
    events is the same combination of n, s1 and s2. Everything is modulo 2^64, as counters are: sums that wrapped
    around give the same vector as those that did not.

    >>> combine_power_sums(((1, 0), (3, -2)), ([2**62, 1], [2**62, 1])).tolist()
    [[4611686018427387904, 1], [4611686018427387904, 1]]
    """
    powers = len(weights[0])
    if len(sums) < powers:
        raise ValueError(f"sums must be {', '.join(POWER_SUM_NAMES[:powers])}, got {len(sums)} of them")
    known = [parse_integers(name, numbers) for name, numbers in zip(POWER_SUM_NAMES, sums[:powers], strict=False)]
    if len({numbers.shape for numbers in known}) > 1:
        raise ValueError(f"sums must be of one shape, got {[numbers.shape for numbers in known]}")
    rows = [numbers.reshape(-1).view(np.uint64) for numbers in known]
    made = np.zeros((len(weights), rows[0].size), np.uint64)
    for channel, row in enumerate(weights):
        for weight, numbers in zip(row, rows, strict=True):
            made[channel] += np.uint64(weight % 2**64) * numbers
    return made.view(np.int64).reshape(len(weights), *known[0].shape)


def unit_sensitivity(
    unit: Unit, single: Sensitivity, pair: Sensitivity, *, in_place: bool = False, groups: int = 1
) -> Sensitivity:
    """Return the reach of a unit, from that of one event.

    `single` is the reach of an event's presence, over all its possible values. `pair` is that of two values of
    one event in one group, with their common count cancelled.

    Present or absent, a unit of m events a tick moves m times as far as one. A replaced event that stays in
    its tick and group moves from one value to another (`in_place`). One that may also change its group, or
    cease to count, is removed here and added there: twice as far in L1 and, in other places of the vector,
    twice the squared L2.

    An event may count in several `groups`, with one value in each. Then it moves so many times as far in L1, in
    squared L2 and in coordinates. A replaced one shares any number of groups with its other value. All three are
    linear in that number, so the largest is at none or at all.
    """
    single, pair = spread_over_groups(single, groups), spread_over_groups(pair, groups)
    if not unit.replace:
        return single.scale(unit.events)
    if in_place:
        return pair
    return Sensitivity(
        max(2 * single.l1, pair.l1),
        max(2 * single.l2_squared, pair.l2_squared),
        max(2 * single.coordinates, pair.coordinates),
    )


def spread_over_groups(move: Sensitivity, groups: int) -> Sensitivity:
    """Return the sensitivity to `groups` such moves, each in coordinates of its own."""
    return Sensitivity(move.l1 * groups, move.l2_squared * groups, move.coordinates * groups)
