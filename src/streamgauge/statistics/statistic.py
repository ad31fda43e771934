"""What every statistic of this room is: a frozen claim over the events of a stream.

A continual mechanism counts whole numbers; a statistic says which numbers. The events of one tick are read
item by item, clamped, put on an integer grid and added up into one exact vector: so many channels for every
group. One vector counter releases all channels under one loss; what readers see is decoded from its
releases alone.

    events -> marks (which place of the vector, how much) -> exact vector -> counter (+ noise) -> estimate

Privacy
    Neighbours: streams that differ in one unit. `reach` is how far one unit moves the vector of one tick, in
    L1 and L2 over all channels and groups together, and is what the counter's noise is calibrated to: the
    joint sensitivity, never the sum over channels of the worst of each. The counter keeps `loss`; decoding
    is post-processing. Whether an event counts, and for what, is decided by that event alone (and, where a
    unit's contributions are bounded, by that unit's events alone).
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.adaptive import Adaptive, Bar, Released
from streamgauge.continual import Claim, Mechanism, choose
from streamgauge.continual.claim import unopened
from streamgauge.noise import Grid, Ints, Noise, NoiseSum
from streamgauge.privacy import Loss, Reach, Tick, Unit, User
from streamgauge.statistics.adapted import Scaled, adapted
from streamgauge.statistics.asked_counter import asked_counter
from streamgauge.statistics.columns import Column, column
from streamgauge.statistics.estimate import Estimate, Floats, linear, stacked
from streamgauge.statistics.hash_cells import HashCells
from streamgauge.statistics.power_sums import Weights, channels_of
from streamgauge.statistics.settings import check_claim
from streamgauge.statistics.tuned import AskedMechanism, linear_of, tuned

if TYPE_CHECKING:
    from streamgauge.statistics.event_run import EventRun
    from streamgauge.statistics.events import Events

R = TypeVar("R")
MOST = 2**31  # places of a vector: beyond it no machine has the memory


@dataclass(frozen=True, eq=False)
class Marks:
    """What events add to a tick's vector: amounts[i, j] at places[i, j], for event events[i]."""

    events: Ints
    places: Ints
    amounts: Ints  # of the same shape, or one that broadcasts to it

    def only(self, rows: Ints) -> "Marks":
        """Some of the events."""
        amounts = self.amounts if len(self.amounts) == 1 else self.amounts[rows]
        return Marks(self.events[rows], self.places[rows], amounts)


@dataclass(frozen=True, eq=False)
class Told:
    """What a release is made of: noisy sums, one row per tick and one column per place of the vector."""

    sums: Floats
    noises: Sequence[NoiseSum]  # the noise in each tick's sums
    width: int
    memory: Any
    counts: Floats  # the exact counts of events where they are public, else empty
    released: Released | None = None  # the same, of a counter that adapts to its data

    @property
    def channels(self) -> Floats:
        """The sums as (ticks, channels, width)."""
        return self.sums.reshape(len(self.sums), self.sums.shape[1] // self.width, self.width)

    def rows(self, part: slice) -> "Told":
        """What some of the ticks are told of."""
        known = None if self.released is None else self.released.of_ticks(part)
        some = replace(self, sums=self.sums[part], noises=self.noises[part], counts=self.counts[part])
        return replace(some, released=known)

    def estimate(self, scale: float) -> Estimate:
        """The sums themselves, in units of the data."""
        if self.released is not None:
            return adapted(self.released, scale)
        return linear(self.sums * scale, self.noises, scale)


@dataclass(frozen=True)
class Expected:
    """What is expected of the data, to predict errors from."""

    count: float
    mean: float | None
    variance: float | None


@dataclass(slots=True)
class Nothing:
    """The memory of a statistic that has none but its counter's."""


class Statistic(ABC, Generic[R]):
    """A statistic over a stream: `start` it, `step` it with the events of a tick, read its estimates."""

    RESTS_EXACT: ClassVar[str] = ""  # what is exact in its memory besides the counter's, if anything
    REMEMBERS: ClassVar[bool] = False  # whether what events count for depends on earlier ticks
    GROWS: ClassVar[bool] = False  # whether the vector gets new places with time
    NEEDS_VALUES: ClassVar[bool] = True  # whether events carry something besides their group
    ADAPTS: ClassVar[bool] = False  # whether counters that adapt to their data may count for it
    loss: Loss
    horizon: int | None
    window: str
    mechanism: AskedMechanism
    pan_private: bool
    unit: Unit
    open_ticks: bool = False  # whether a tick may come in parts, which rest in memory as noisy as all else

    def __init_subclass__(cls) -> None:
        """Lets `help` of a statistic show the claim, which opens its module."""
        super().__init_subclass__()
        claim = sys.modules[cls.__module__].__doc__
        cls.__doc__ = f"{cls.__doc__}\n\n{claim}" if cls.__doc__ and claim else cls.__doc__

    def __post_init__(self) -> None:
        check_claim(self)
        self.check()
        self.counter  # noqa: B018 - chosen now, so that what cannot be kept is refused now

    @property
    def channels(self) -> int:
        """How many numbers of the vector every group has."""
        return 1

    @property
    def columns(self) -> int:
        """How many columns of values events have."""
        return 1

    @property
    @abstractmethod
    def reach(self) -> Reach:
        """How far one unit moves the vector of one tick."""

    @abstractmethod
    def marks(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Marks:
        """What the events of a tick add; `groups` has the code of each event's group."""

    @abstractmethod
    def release(self, told: Told) -> R:
        """What readers see of noisy sums: nothing here knows the data."""

    def check(self) -> None:
        """Refuses settings that make no claim; a statistic with settings of its own overrides it."""

    def first(self, release: R) -> R:
        """The first tick of a release of several."""
        several: Any = release
        one: R = several.of_tick(0)
        return one

    def joined(self, releases: Sequence[R]) -> Any:
        """The releases of several ticks as one."""
        estimates: Any = releases
        return stacked(estimates)

    def none(self, told: Told) -> Any:
        """The release of no ticks at all."""
        return self.release(told)

    def read(self, values: Any) -> list[Column]:
        """The columns of the events."""
        return [column("values", values)]

    def memory(self, width: int) -> Any:
        """What a run remembers besides the counter's state, at the beginning."""
        return Nothing()

    def size(self, width: int, memory: Any) -> int:
        """How many places the vector has; it may grow with what a run remembers."""
        return self.channels * width

    def packed(self, memory: Any) -> Any:
        """What a run remembers as a dataclass of arrays, to be saved."""
        return memory

    def unpacked(self, saved: Any) -> Any:
        return saved

    @property
    def signed(self) -> bool:
        """Whether what is counted can be negative."""
        return True

    @property
    def hash_cells(self) -> int | None:
        """The size of the hash table whose occupied cells are counted; None if nothing is hashed."""
        return None

    @property
    def counts_are_public(self) -> bool:
        """Whether a run keeps the exact number of events, which its curator has declared public."""
        return False

    @property
    def bounds_users(self) -> bool:
        """Whether the contributions of users are bounded here."""
        return isinstance(self.unit, User)

    @property
    def why_users(self) -> str:
        """What the users of events are needed for; nothing if they are not."""
        return "so that their contributions can be bounded" if self.bounds_users else ""

    def admitted(self, events: "Events", memory: Any) -> "Events":
        """The events that count, where a statistic has bounds of its own: it sees whose they are."""
        return events

    @property
    def most_events(self) -> int | None:
        """How many events of a tick count at most, where the whole tick is the unit."""
        return self.unit.events if isinstance(self.unit, Tick) else None

    def check_cut(self) -> None:
        """Refuses vectors that were made elsewhere, where they can not be cut off."""
        if self.most_events is not None and self.reach.l2_squared != self.reach.l1**2:
            raise ValueError(
                "totals must be of one number an event where ticks are units, got others: give events"
            )

    def cut(self, vector: Ints) -> Ints:
        """A vector that was made elsewhere, cut off at the reach of a tick, where a tick is the unit.

        Any function of the tick alone is as good, if it is bounded: of the numbers that are not 0, the first
        as many as the tick has events are kept, until their sizes add up to the reach in L1. That bounds L2
        as well, where an event moves one number only.
        """
        if self.most_events is None:
            return vector
        most = int(self.reach.l1)
        there = np.cumsum(vector != 0) <= self.reach.coordinates
        sizes = np.minimum(np.abs(np.maximum(vector, -(2**62))), most).astype(object) * there
        used = np.cumsum(sizes) - sizes
        kept = np.minimum(sizes, np.maximum(most - used, 0)).astype(np.int64)
        signed: Ints = kept * np.sign(vector)
        return signed

    @property
    def last_tick(self) -> int | None:
        """The last tick that the claim speaks of, if there is one."""
        return self.horizon if self.horizon is not None else self.counter.horizon

    @property
    def counted(self) -> Unit:
        """The unit as the counter sees it: how many ticks it touches."""
        return self.unit

    @cached_property
    def counter(self) -> Claim[Any, Any]:
        """The mechanism that releases the vector."""
        return self.counter_of(self.loss)

    @property
    def linear(self) -> Mechanism[Any]:
        """The counter, if its noise has a law apart from the data."""
        return linear_of(self.counter, type(self).__name__)

    def counter_of(self, loss: Loss) -> Claim[Any, Any]:
        """The counter that keeps a loss: the one asked for, or that of least predicted error."""
        if self.mechanism is not None:
            return asked_counter(self, tuned(self.mechanism), loss)
        asked: dict[str, Any] = {"unit": self.counted, "pan_private": self.pan_private, "bound": self.reach}
        asked |= {"open_ticks": True} if self.open_ticks else {}
        return choose(loss, horizon=self.horizon, window=self.window, **asked)

    @property
    def grid(self) -> Grid | None:
        """What values are put on, if they are."""
        return None

    @property
    def absent(self) -> int | None:
        """The place on the grid that what is no number counts as; none where that is dropped."""
        return None

    @property
    def power_weights(self) -> Weights:
        """What each channel has of n, s1 and s2 (see `power_sums`); nothing if it is not made of those."""
        return ()

    @property
    def power(self) -> int | None:
        """The highest power of a value that has to be added up: 0 (only counted), 1 or 2."""
        return len(self.power_weights[0]) - 1 if self.power_weights else None

    def of_power_sums(self, *sums: npt.ArrayLike) -> Ints:
        """The exact vectors, (channels, ...), of n, s1 and s2 up to `power`, each of one shape (...)."""
        if not self.power_weights:
            raise ValueError(f"sums must be of a statistic of powers, got {type(self).__name__}")
        return channels_of(self.power_weights, sums)

    def of_cells(  # noqa: PLR0917 - a table of events, and the shape of the vectors
        self,
        cells: Ints,
        places: Ints,
        counts: Ints,
        width: int,
        rows: Ints | None = None,
        ticks: int = 1,
    ) -> Ints:
        """The exact vectors of so many events in each cell of each group, where values lie in cells."""
        raise ValueError(f"cells must be of a statistic along an axis, got {type(self).__name__}")

    def of_keys(self, keys: Column, counts: Ints, memory: Any) -> Ints:
        """The exact vector of so many events of each key, where keys are discovered."""
        raise ValueError(f"keys must be of a statistic that discovers them, got {type(self).__name__}")

    def totals(self, values: Any, groups: Any = None, width: int = 1, memory: Any = None) -> Ints:
        """The exact vector of one tick's events: secret, and what the privacy of a claim rests on."""
        rows = self.read(values)
        codes = np.zeros(len(rows[0]), np.int64) if groups is None else np.asarray(groups, np.int64)
        remembered = self.memory(width) if memory is None else memory
        inside = (codes >= 0) & (codes < width)
        rows, codes = [row[inside] for row in rows], codes[inside]
        return tally(self.marks(rows, codes, width, remembered), self.size(width, remembered))

    @property
    def scale(self) -> float:
        """What one step of the counter's grid is in units of the data."""
        return 1.0

    def noise_at(self, tick: int) -> NoiseSum:
        """The noise in every count or sum that the release at `tick` is made of, in units of the data."""
        return self.linear.noise_at(self.linear.checked(tick)).times(self.scale)

    def bar_at(self, tick: int) -> Bar:
        """What is certain of every count or sum that the release at `tick` is made of, before any data."""
        counter = self.counter
        return Scaled(counter.bar(tick), self.scale) if isinstance(counter, Adaptive) else self.noise_at(tick)

    @property
    def depends(self) -> str:
        """What else the error depends on, in words, where the counter adapts to its data; else nothing."""
        return getattr(self.counter, "DEPENDS", "")

    def stddev(self, tick: int) -> float:
        """The standard error of every count or sum that the release at `tick` is made of, before any data."""
        return float(np.max(self.bar_at(tick).stddev))

    @property
    def measures(self) -> tuple[str, ...]:
        """The names under which releases are `told`."""
        return ("value",)

    def stddev_of(
        self,
        measure: str,
        tick: int,
        *,
        count: float = 0.0,
        mean: float | None = None,
        variance: float | None = None,
    ) -> float:
        """The standard error of a measure at `tick`, before any data.

        Where it depends on the data, that to be expected of so many events of such a mean and variance, as
        `stddev` of that statistic says; NaN where there is no such thing. Of hashed values `count` is their
        number.
        """
        if measure not in self.measures:
            raise ValueError(f"measure must be one of {', '.join(self.measures)}, got {measure!r}")
        return self._predicted(measure, tick, Expected(count, mean, variance))

    def _predicted(self, measure: str, tick: int, expected: Expected) -> float:
        if self.hash_cells is None:
            return self.stddev(tick)
        return float(HashCells(self.hash_cells).stddev(expected.count, self.stddev(tick)))

    def identity(self) -> str:
        """All that a saved run must share with the claim that goes on with it."""
        return unopened(f"{self!r} by {self.counter.identity()}")

    def start(
        self, width: int = 1, noise: Noise | None = None, *, groups: Sequence[Any] | None = None
    ) -> "EventRun[R]":
        """A new run of `width` groups side by side, or of one group for each label in `groups`."""
        from streamgauge.statistics.event_run import EventRun

        return EventRun.new(self, width, groups, noise)

    def load(self, saved: bytes, noise: Noise | None = None) -> "EventRun[R]":
        """The run that `save` wrote; refuses another statistic's or an altered one."""
        from streamgauge.statistics.event_run import EventRun

        return EventRun.restored(self, saved, noise)


def tally(marks: Marks, size: int, ticks: Ints | None = None, count: int = 1) -> Ints:
    """The exact vectors that marks add up to, one row per tick; `ticks` says in which row each event is."""
    block = np.zeros(count * size, np.int64)
    places = marks.places if ticks is None else marks.places + ticks[:, None] * size
    amounts = np.broadcast_to(marks.amounts, places.shape)
    np.add.at(block, places.reshape(-1), amounts.reshape(-1))
    return block.reshape(count, size) if ticks is not None else block
