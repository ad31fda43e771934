"""What every claim over a stream is: frozen settings with code under them, which a `Run` binds to a state.

A claim says what it keeps (`loss`), for whom (`unit`, and how far one of them reaches), and how: `initial`,
`step`, and a `feed` that does many ticks at once. What a step gives is the claim's own affair: the linear
mechanisms of this room release arrays under noise of a known law (`mechanism.py`); those that adapt to their
data (`streamgauge.adaptive`) release arrays together with what is known of their error.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np

from streamgauge.continual.bound import Bound, reach_of
from streamgauge.continual.columns import append_columns
from streamgauge.continual.run import CHUNK, CLOSED, NEVER_OPEN, Run
from streamgauge.continual.saved import ANOTHER, BadSave, NoNoise, Saved, numbers, unpack
from streamgauge.continual.settings import check_noise, check_source, check_whole, check_width
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum
from streamgauge.privacy import Loss, Reach, Unit


class Ticking(Protocol):
    """The one thing that the states of all mechanisms have in common."""

    tick: int


S = TypeVar("S", bound=Ticking)
R = TypeVar("R")


class Claim(ABC, Generic[S, R]):
    """A claim over a stream: `start` it, then `step` or `feed` the run."""

    LONGEST: ClassVar[int] = 2**62  # the longest horizon that it can be given
    LOSSES: ClassVar[tuple[type[Loss], ...]]  # what it can keep
    WHY: ClassVar[str] = ""  # why it can keep no other
    RESTS_EXACT: ClassVar[str] = ""  # what is exact in its memory, if it cannot be pan-private
    loss: Loss
    horizon: int | None
    bound: Bound
    pan_private: bool
    unit: Unit
    open_ticks: bool = False  # whether a tick may come in parts, which rest in memory as noisy as all else

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
        """The noise of one draw, in grid points where there is a grid, the widest if several."""

    @abstractmethod
    def initial(self, width: int, noise: Noise) -> S:
        """The state before the first tick; chance is needed where registers start with noise."""

    @abstractmethod
    def step(self, state: S, values: Ints, noise: Noise) -> R:
        """Takes one tick's value of every group; returns what to release."""

    @abstractmethod
    def feed(self, state: S, block: Ints, noise: Noise) -> R:
        """Takes many ticks, one row each; draws what as many steps would draw, in the same order."""

    def absorb(self, state: S, values: Ints) -> None:
        """Takes part of the open tick's value of every group; the step that closes it takes the rest."""
        raise TypeError(CLOSED)

    def dormant(self, width: int, tick: int, noise: Noise) -> S:
        """The state of groups that were fed `tick` zeros: in the law of all later releases.

        Here by feeding them; where the state holds few draws, a mechanism makes those alone.
        """
        return self.rested(self.initial(width, noise), width, tick, noise)

    def rested(self, state: S, width: int, ticks: int, noise: Noise) -> S:
        """The state, fed so many zeros."""
        size = max(1, CHUNK // width)
        for done in range(0, ticks, size):
            self.feed(state, np.zeros((min(size, ticks - done), width), np.int64), noise)
        return state

    def append(self, state: S, more: S) -> None:
        """Appends the groups of another state of the same tick to `state`."""
        append_columns(state, more, self._blank(1), self._blank(2))

    def widening_refusal(self) -> str:
        """Why no groups can be appended to a run; nothing if they can."""
        return "pan_private must be False to widen a run, got True" if self.pan_private else ""

    @abstractmethod
    def joined(self, releases: Sequence[R]) -> R:
        """The releases of blocks that were fed one after the other as one."""

    @abstractmethod
    def narrowed(self, release: R) -> R:
        """The release of a block of one group as that of its column."""

    def noise_now(self, state: S) -> NoiseSum:
        """The noise in the newest release of a run, where it has a law that is known apart from the data."""
        raise TypeError(f"noise of {type(self).__name__} must be asked of its releases: it depends on them")

    def memory(self) -> int:
        """How many numbers of 8 bytes a run keeps for each group, at most."""
        return numbers(self._blank(2)) - numbers(self._blank(1))

    def intrude(self, state: S, noise: Noise) -> S:
        """Answers an announced intrusion with noise before and after; returns what to hand over."""
        raise TypeError(self.intrusion_refusal())

    def begin_anew(self, state: S, noise: Noise) -> None:
        """Lets all open registers go for what was released and fresh draws.

        For a saved state whose run went on, and was lost: what it took in after the save is in no release,
        and may have been seen in memory, under the draws that the saved registers have.
        """
        raise TypeError(NEVER_OPEN)

    def intrusion_refusal(self) -> str:
        """Why an announced intrusion cannot be survived; nothing if it can."""
        return "" if self.pan_private else "pan_private must be True to survive an intrusion, got False"

    def identity(self) -> str:
        """All that a saved run must share with the claim that goes on with it."""
        return unopened(repr(self))

    def start(self, width: int = 1, noise: Noise | None = None) -> Run[S, R]:
        """A new run of `width` groups side by side."""
        check_width(width)
        check_source(self, noise)
        check_noise(self)
        return Run.new(self, int(width), noise)

    def load(self, saved: Saved, noise: Noise | None = None) -> Run[S, R]:
        """The run that `Run.save` wrote; refuses another mechanism's or an altered one."""
        check_source(self, noise)
        width, record, state = unpack(saved, self.identity(), self._blank, repr(self))
        if not self._in_time(state.tick) or not record.keys() <= {"intrusions", "saves", "begun_anew"}:
            raise BadSave(ANOTHER)
        return Run(self, width, state, noise, **record)

    def _blank(self, width: int) -> S:
        """A state that only tells what states are made of."""
        return self.initial(width, NoNoise())

    def _in_time(self, tick: object) -> bool:
        return type(tick) is int and tick >= 0 and (self.horizon is None or tick <= self.horizon)

    def checked(self, tick: int) -> int:
        """The tick, if the claim speaks of it."""
        check_whole("tick", tick)
        if self.horizon is not None and tick > self.horizon:
            raise ValueError(f"tick must be at most the horizon {self.horizon}, got {tick}")
        return tick


def unopened(text: str) -> str:
    """The text of a claim as it was before ticks could be open: what was saved then goes on."""
    return text.replace(", open_ticks=False", "")
