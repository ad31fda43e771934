"""A run: one mechanism, its state and its source of chance, bound together for users.

A run is a single thread of releases. It cannot be copied or pickled and does not go on in a forked
child, since two copies would draw two noises for one sum; `save` and `load` move it. Threads that
share a run take turns. A step that fails part of the way leaves a run that refuses to go on: noise may
have been drawn that the state does not know.

A pan-private run draws from the operating system inside each step and keeps nothing of it; any
other run draws from a keystream, ahead of time.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.saved import write_state
from streamgauge.continual.settings import check_rows
from streamgauge.noise import EphemeralNoise, Ints, Noise, NoiseSum, SecureNoise

if TYPE_CHECKING:
    from streamgauge.continual.mechanism import Mechanism, Release

S = TypeVar("S", bound=Any)
CHUNK = 2**21  # numbers worked on at once by `feed`, which keeps its memory bounded


class HorizonPassed(ValueError):  # noqa: N818 - named for what happened
    """A run was asked to go past the last tick of its claim."""


class RunFailed(RuntimeError):  # noqa: N818 - named for what happened
    """An earlier step failed part of the way, so that this run can make no promise."""


class Run(Generic[S]):
    """A mechanism at work; make one with `mechanism.start()` or `mechanism.load(saved)`."""

    def __init__(
        self,
        mechanism: "Mechanism[S]",
        width: int,
        state: S,
        noise: Noise | None,
        *,
        intrusions: int = 0,
        saves: int = 0,
    ) -> None:
        self.mechanism = mechanism
        self.width = width
        self.intrusions = intrusions  # announced ones
        self.saves = saves  # how often the state was written out: each copy is one that may be looked at
        self._state: S | None = state
        self._noise = noise if noise is not None else chance(mechanism)
        self._process = os.getpid()
        self._turn = Lock()

    @classmethod
    def new(cls, mechanism: "Mechanism[S]", width: int, noise: Noise | None) -> "Run[S]":
        source = noise if noise is not None else chance(mechanism)
        return cls(mechanism, width, mechanism.initial(width, source), source)

    @property
    def record(self) -> dict[str, int]:
        """Who may have seen the state: announced intrusions, and copies written out."""
        return {"intrusions": self.intrusions, "saves": self.saves}

    @property
    def tick(self) -> int:
        """The number of ticks taken so far."""
        self._same_process()
        with self._turn:
            return int(self._whole().tick)

    def step(self, values: npt.ArrayLike) -> "Release":
        """Takes one tick's value of every group; returns the release, one number per group."""
        vector = integers("values", values).reshape(-1)
        if vector.shape != (self.width,):
            raise ValueError(f"values must be one number per group ({self.width}), got {len(vector)}")
        with self._taken(1) as state:
            return self.mechanism.step(state, vector, self._noise)

    def feed(self, block: npt.ArrayLike) -> "Release":
        """Takes many ticks, one row each; returns as many rows of releases."""
        rows = integers("block", block)
        if rows.size == 0 and rows.ndim == 1:
            rows = rows.reshape(0, self.width)
        if rows.ndim == 1 and self.width == 1:
            return self.feed(rows[:, None])[:, 0]
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"block must be of shape (ticks, {self.width}), got {rows.shape}")
        size = max(1, CHUNK // self.width)
        pieces = [rows[i : i + size] for i in range(0, max(1, len(rows)), size)]
        with self._taken(len(rows)) as state:
            releases = [self.mechanism.feed(state, piece, self._noise) for piece in pieces]
        return np.concatenate(releases) if len(releases) > 1 else releases[0]

    def noise(self) -> NoiseSum:
        """The noise in the newest release, announced intrusions included."""
        self._same_process()
        with self._turn:
            return self.mechanism.noise_now(self._whole())

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
        self._same_process()
        with self._turn:
            state = self._whole()
            self.saves += 1
            return write_state(self.mechanism, self.width, self.record, state)

    def intrude(self) -> S:
        """An announced intrusion: noise, hand over the state, noise."""
        refusal = self.mechanism.intrusion_refusal()
        if refusal:
            raise TypeError(refusal)
        with self._taken(0) as state:
            seen = self.mechanism.intrude(state, self._noise)
            self.intrusions += 1
        return seen

    def _whole(self) -> S:
        if self._state is None:
            raise RunFailed("run must be whole to go on, got one whose last step failed")
        return self._state

    def _same_process(self) -> None:
        """Asked before the lock, which another thread may have held when the child was forked."""
        if self._process != os.getpid():
            raise RunFailed("run must go on in the process that began it, got a forked child")

    @contextmanager
    def _taken(self, ticks: int) -> Iterator[S]:
        """The state, taken away until the step has succeeded."""
        self._same_process()
        with self._turn:
            state, horizon = self._whole(), self.mechanism.horizon
            if horizon is not None and state.tick + ticks > horizon:
                past = state.tick + ticks
                raise HorizonPassed(f"tick must be at most the horizon {horizon}, got {past}")
            self._state = None
            yield state
            self._state = state

    def __repr__(self) -> str:
        return f"<run of {self.mechanism!r}, width {self.width}>"

    def __copy__(self) -> NoReturn:
        raise TypeError("a run must not be copied: two copies would draw two noises for one sum")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run must not be pickled: use save() and load()")


def chance(mechanism: "Mechanism[Any]") -> Noise:
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
