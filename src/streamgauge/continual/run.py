"""A run: one mechanism, its state and its source of chance, bound together for users.

A run is a single thread of releases (see `streamgauge.continual.single`): it cannot be copied, pickled or
gone on with in a forked child; `save` and `load` move it. Threads that share a run take turns. A step that
fails part of the way leaves a run that refuses to go on.

A pan-private run draws from the operating system inside each step and keeps nothing of it; any
other run draws from a keystream, ahead of time.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.saved import pack
from streamgauge.continual.settings import check_rows, check_whole, check_width
from streamgauge.continual.single import Single
from streamgauge.noise import EphemeralNoise, Ints, Noise, NoiseSum, SecureNoise

if TYPE_CHECKING:
    from streamgauge.continual.claim import Claim

S = TypeVar("S", bound=Any)
R = TypeVar("R")
CLOSED = "open_ticks must be True to take part of a tick, got False"
NEVER_OPEN = "open_ticks must be True to begin registers anew, got False"
CHUNK = 2**21  # numbers worked on at once by `feed`, which keeps its memory bounded


class HorizonPassed(ValueError):  # noqa: N818 - named for what happened
    """A run was asked to go past the last tick of its claim."""


class Run(Single[S], Generic[S, R]):
    """A claim at work; make one with `mechanism.start()` or `mechanism.load(saved)`."""

    def __init__(
        self,
        mechanism: "Claim[S, R]",
        width: int,
        state: S,
        noise: Noise | None,
        *,
        intrusions: int = 0,
        saves: int = 0,
        begun_anew: int = 0,
    ) -> None:
        super().__init__(state)
        self.mechanism = mechanism
        self.width = width
        self.intrusions = intrusions  # announced ones
        self.saves = saves  # how often the state was written out: each copy is one that may be looked at
        self.begun_anew = begun_anew  # how often registers were: each time a run was lost
        self._noise = noise if noise is not None else chance(mechanism)

    @classmethod
    def new(cls, mechanism: "Claim[S, R]", width: int, noise: Noise | None) -> "Run[S, R]":
        source = noise if noise is not None else chance(mechanism)
        return cls(mechanism, width, mechanism.initial(width, source), source)

    @property
    def record(self) -> dict[str, int]:
        """Who may have seen the state: announced intrusions, copies written out, and runs that were lost."""
        lost = {"begun_anew": self.begun_anew} if self.begun_anew else {}
        return {"intrusions": self.intrusions, "saves": self.saves, **lost}

    @property
    def noisier(self) -> bool:
        """Whether the noise of releases is more than the claim says of their ticks: `noise` knows it."""
        return self.intrusions + self.begun_anew > 0

    @property
    def tick(self) -> int:
        """The number of ticks taken so far."""
        with self._alone() as state:
            return int(state.tick)

    def absorb(self, values: npt.ArrayLike) -> None:
        """Takes part of the open tick's value of every group; for claims with `open_ticks=True`."""
        if not self.mechanism.open_ticks:
            raise TypeError(CLOSED)
        vector = self._vector(values)
        with self._taken(partial(self._ready, 1, len(vector))) as state:
            self.mechanism.absorb(state, vector)

    def _vector(self, values: npt.ArrayLike) -> Ints:
        vector = integers("values", values).reshape(-1)
        if vector.shape != (self.width,):
            raise ValueError(f"values must be one number per group ({self.width}), got {len(vector)}")
        return vector

    def step(self, values: npt.ArrayLike) -> R:
        """Takes one tick's value of every group, or what is left of it; returns one number per group."""
        vector = self._vector(values)
        with self._taken(partial(self._ready, 1, len(vector))) as state:
            return self.mechanism.step(state, vector, self._noise)

    def feed(self, block: npt.ArrayLike) -> R:
        """Takes many ticks, one row each; returns as many rows of releases."""
        rows = integers("block", block)
        if rows.size == 0 and rows.ndim == 1:
            rows = rows.reshape(0, self.width)
        if rows.ndim == 1 and self.width == 1:
            return self.mechanism.narrowed(self.feed(rows[:, None]))
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"block must be of shape (ticks, {self.width}), got {rows.shape}")
        size = max(1, CHUNK // self.width)
        pieces = [rows[i : i + size] for i in range(0, max(1, len(rows)), size)]
        with self._taken(partial(self._ready, len(rows), rows.shape[1])) as state:
            releases = [self.mechanism.feed(state, piece, self._noise) for piece in pieces]
        return self.mechanism.joined(releases)

    def noise(self) -> NoiseSum:
        """The noise in the newest release, announced intrusions included."""
        with self._alone() as state:
            return self.mechanism.noise_now(state)

    def stddev(self) -> float:
        """The exact standard error of the newest release."""
        return self.noise().stddev

    def interval(
        self, value: npt.ArrayLike, confidence: float = 0.95
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Bounds for the true value of the newest release, announced intrusions included."""
        half, centre = self.noise().half_width(confidence), np.asarray(value, np.float64)
        return centre - half, centre + half

    def save(self) -> bytes:
        """All that the run remembers, secrets included; `mechanism.load` goes on from it.

        Whoever reads the bytes has intruded. Go on from one copy only: two runs that go on from
        the same bytes draw two noises for one sum.
        """
        with self._alone() as state:
            self.saves += 1
            return pack(self.mechanism.identity(), self.width, self.record, state)

    def widen(self, more: int) -> None:
        """Appends so many groups, which go on as if they had been there from the start and had only zeros.

        When and by how much shows in the time and the memory that a run takes, if in nothing else: both must
        be public, follow from what was released, or be a channel that whoever widens a run owns up to
        (`TopK` does). A step that widens takes longer, and how much so depends on `sleeps_cheaply`.
        """
        check_whole("more", more)
        check_width(self.width + int(more))
        refusal = self.mechanism.widening_refusal()
        if refusal:
            raise TypeError(refusal)
        with self._taken() as state:
            self.mechanism.append(state, self.mechanism.dormant(int(more), state.tick, self._noise))
            self.width += int(more)

    def intrude(self) -> S:
        """An announced intrusion: noise, hand over the state, noise."""
        refusal = self.mechanism.intrusion_refusal()
        if refusal:
            raise TypeError(refusal)
        with self._taken() as state:
            seen = self.mechanism.intrude(state, self._noise)
            self.intrusions += 1
        return seen

    def begin_anew(self) -> None:
        """Lets open registers go for what was released and fresh draws; for claims with `open_ticks=True`.

        For a run that was loaded from a save after which another went on, absorbed and was lost.
        """
        if not self.mechanism.open_ticks:
            raise TypeError(NEVER_OPEN)
        with self._taken() as state:
            self.mechanism.begin_anew(state, self._noise)
            self.begun_anew += 1

    def _ready(self, ticks: int, width: int, state: S) -> None:
        """Refuses to go past the last tick of the claim, or as wide as before another thread widened it."""
        if width != self.width:
            raise ValueError(f"width must be that of the run, {self.width} by now, got {width}")
        last, horizon = state.tick + ticks, self.mechanism.horizon
        if horizon is not None and last > horizon:
            raise HorizonPassed(f"tick must be at most the horizon {horizon}, got {last}")

    def __repr__(self) -> str:
        return f"<run of {self.mechanism!r}, width {self.width}>"


def chance(mechanism: "Claim[Any, Any]") -> Noise:
    """The source of noise that a claim needs."""
    return EphemeralNoise() if mechanism.pan_private else SecureNoise()


def integers(name: str, values: npt.ArrayLike) -> Ints:
    """Integers of any kind as int64, modulo 2^64; all else is refused by its type, never by its value."""
    check_rows(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be integers in rows of one length, got ragged rows") from None
    if array.dtype.kind in "fO" and not isinstance(values, np.ndarray):
        array = wrapped(np.array(values, dtype=object))
    if array.dtype.kind not in "iub":
        raise ValueError(f"{name} must be integers, got {np.asarray(values).dtype}")
    return array.astype(np.int64, copy=False)


def wrapped(numbers: npt.NDArray[np.object_]) -> npt.NDArray[Any]:
    """Python's integers, however large, modulo 2^64; whatever else is in the list stays as it is."""
    flat = numbers.ravel().tolist()
    if not all(isinstance(number, int | np.integer) for number in flat):
        return numbers
    return np.array([int(number) % 2**64 for number in flat], np.uint64).reshape(numbers.shape)
