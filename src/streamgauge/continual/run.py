"""A run: one mechanism, its state and its source of noise, bound for users.

A state and its source of noise are a single thread of releases: two copies would draw two noises for one
sum. So a run cannot be copied or pickled and does not continue in a forked child. `save` and `load` move it.
Threads that share a run wait for each other. Code that a step calls cannot step the same run. A step that
fails midway leaves a run that rejects further steps, since noise may have been drawn that the state does not
include.

A pan-private run draws from the operating system inside each step and stores nothing of it. Any
other run draws from a keystream, ahead of time.

Freed memory is overwritten first: by `wipe_state`, and after a failed step. NumPy caches small freed arrays
unchanged. Next to a continuing run, former contents of its registers would be a second view.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.state_io import pack
from streamgauge.continual.validation import check_rows, check_whole, check_width
from streamgauge.noise import EphemeralNoise, Ints, Noise, NoiseSum, SecureNoise

if TYPE_CHECKING:
    from streamgauge.continual.mechanism import Mechanism

S = TypeVar("S", bound=Any)


class RunFailedError(RuntimeError):
    """A run or device that can make no promise (`failed`), was called from its own step (`reentrant`), or is elsewhere.

    Elsewhere are a fork (`forked`), the loader of its save (`moved`), and the user of its memory file (`in_use`).
    """

    def __init__(self, message: str, code: str = "failed") -> None:
        super().__init__(message)
        self.code = code


def wipe_state(state: Any) -> None:
    """Overwrite the arrays of a state, a dataclass of arrays, of runs and of such dataclasses."""
    if isinstance(state, np.ndarray):
        state.fill(0)
    elif isinstance(state, ExclusiveState):
        state.wipe()
    else:
        for each in fields(state) if is_dataclass(state) else ():
            wipe_state(getattr(state, each.name))


class ExclusiveState(Generic[S]):
    """One state for one process: `_locked` to read it, `_exclusive` to advance it."""

    def __init__(self, state: S) -> None:
        self._state: S | None = state
        self._process = os.getpid()
        self._lock, self._is_inside = RLock(), False  # whether an act is under way

    def _check_process(self) -> None:
        """Reject use in a forked child.

        Call it before the lock, which another thread may own when the child was forked.
        """
        if self._process != os.getpid():
            raise RunFailedError("run must continue in the process that began it, got a forked child", "forked")

    @contextmanager
    def _locked(self) -> Iterator[S]:
        """Yield the state, while no other thread has it; the block must not draw."""
        self._check_process()
        with self._lock:
            self._check_not_inside()
            if self._state is None:
                raise RunFailedError("run must be whole to continue, got one whose last step failed")
            try:
                self._is_inside = True
                yield self._state
            finally:
                self._is_inside = False

    def _check_not_inside(self) -> None:
        """Reject a call from inside a step.

        Call it under the lock: then the running step is this thread's own.
        """
        if self._is_inside:
            raise RunFailedError("run must be used when its step is over, got a call from inside the step", "reentrant")

    @contextmanager
    def _exclusive(self, check: Callable[[S], None] = lambda state: None) -> Iterator[S]:
        """Yield the state, withdrawn until the block has succeeded.

        A refusal by `check` changes nothing.
        """
        with self._locked() as state:
            check(state)
            self._state = None
            try:
                yield state
            except BaseException:
                wipe_state(state)
                raise
            self._state = state

    def wipe(self) -> None:
        """Overwrite the state; no step is possible afterwards."""
        self._check_process()
        with self._lock:
            self._check_not_inside()
            state, self._state = self._state, None
            wipe_state(state)

    def __copy__(self) -> NoReturn:
        raise TypeError("a run must not be copied: two copies would draw two noises for one sum")

    def __deepcopy__(self, memo: object) -> NoReturn:
        self.__copy__()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run must not be pickled: use save() and load()")


R = TypeVar("R")
NOT_OPEN_MESSAGE = "open_ticks must be True to take part of a tick, got False"
NOT_RERANDOMIZABLE_MESSAGE = "open_ticks must be True to rerandomize registers, got False"
CHUNK_NUMBERS = 2**21  # numbers worked on at once by `feed`, which keeps its memory bounded


class LimitExceededError(ValueError):
    """A step, a release or an announced intrusion beyond those that the claim pays for.

    Codes: `horizon_exceeded`, `releases_exhausted`, `intrusions_exhausted`.
    """

    def __init__(self, message: str, code: str = "horizon_exceeded") -> None:
        super().__init__(message)
        self.code = code


class Run(ExclusiveState[S], Generic[S, R]):
    """A claim at work; make one with `mechanism.start()` or `mechanism.load(saved)`."""

    def __init__(
        self,
        mechanism: "Mechanism[S, R]",
        width: int,
        state: S,
        noise: Noise | None,
        *,
        intrusions: int = 0,
        saves: int = 0,
        rerandomizations: int = 0,
    ) -> None:
        super().__init__(state)
        self.mechanism = mechanism
        self.width = width
        self.intrusions = intrusions  # announced ones
        self.saves = saves  # how often the state was written out: each copy is one that may be looked at
        self.rerandomizations = rerandomizations  # how often registers were: each time a run was lost
        self.source = noise if noise is not None else build_noise(mechanism)

    @classmethod
    def create(cls, mechanism: "Mechanism[S, R]", width: int, noise: Noise | None) -> "Run[S, R]":
        source = noise if noise is not None else build_noise(mechanism)
        return cls(mechanism, width, mechanism.initial(width, source), source)

    @property
    def record(self) -> dict[str, int]:
        """Counts of announced intrusions, saved copies and lost runs.

        In each case the state may have been read.
        """
        lost = {"rerandomizations": self.rerandomizations} if self.rerandomizations else {}
        return {"intrusions": self.intrusions, "saves": self.saves, **lost}

    @property
    def has_extra_noise(self) -> bool:
        """True if releases have more noise than the claim states; see `noise`."""
        return self.intrusions + self.rerandomizations > 0

    @property
    def tick(self) -> int:
        """The number of ticks so far."""
        with self._locked() as state:
            return int(state.tick)

    def add_partial(self, values: npt.ArrayLike) -> None:
        """Add part of the open tick's values; for claims with `open_ticks=True`."""
        if not self.mechanism.open_ticks:
            raise TypeError(NOT_OPEN_MESSAGE)
        vector = self._parse_vector(values)
        with self._exclusive(partial(self._check_ready, 1, len(vector))) as state:
            self.mechanism.add_partial(state, vector)

    def _parse_vector(self, values: npt.ArrayLike) -> Ints:
        vector = parse_integers("values", values).reshape(-1)
        if vector.shape != (self.width,):
            raise ValueError(f"values must be one number per group ({self.width}), got {len(vector)}")
        return vector

    def step(self, values: npt.ArrayLike) -> R:
        """Process one tick's values, or the rest of them; return a number per group."""
        vector = self._parse_vector(values)
        with self._exclusive(partial(self._check_ready, 1, len(vector))) as state:
            return self.mechanism.step(state, vector, self.source)

    def feed(self, block: npt.ArrayLike) -> R:
        """Process many ticks, one row each; return as many rows of releases."""
        return self._feed(block, self.mechanism.feed)

    def feed_windows(self, block: npt.ArrayLike, windows: Sequence[int]) -> R:
        """Process the same; return the sums of windows of so many ticks, (ticks, windows, width).

        This is for `WindowBridge`, whose window none may exceed. All windows together lose what one does.
        """
        self.mechanism.check_windows(windows)
        return self._feed(block, partial(self.mechanism.feed_windows, windows=windows), len(windows))

    def _feed(self, block: npt.ArrayLike, act: Callable[[S, Ints, Noise], R], numbers: int = 1) -> R:
        """Feed pieces of a block to the mechanism, which releases so many numbers for each."""
        rows = parse_integers("block", block)
        if rows.size == 0 and rows.ndim == 1:
            rows = rows.reshape(0, self.width)
        if rows.ndim == 1 and self.width == 1:
            return self.mechanism.narrow_release(self._feed(rows[:, None], act, numbers))
        if rows.ndim != 2 or rows.shape[1] != self.width:
            raise ValueError(f"block must be of shape (ticks, {self.width}), got {rows.shape}")
        size = max(1, CHUNK_NUMBERS // (self.width * max(1, numbers)))
        pieces = [rows[i : i + size] for i in range(0, max(1, len(rows)), size)]
        with self._exclusive(partial(self._check_ready, len(rows), rows.shape[1])) as state:
            releases = [act(state, piece, self.source) for piece in pieces]
        return self.mechanism.join_releases(releases)

    def window_sum(self, window: int) -> R:
        """Return the newest sums of fewer ticks than the claim's window, at no further loss; for `WindowBridge`."""
        with self._locked() as state:
            return self.mechanism.window_sum(state, window)

    def noise(self) -> NoiseSum:
        """Return the noise in the newest release, announced intrusions included."""
        with self._locked() as state:
            return self.mechanism.current_noise(state)

    def stddev(self) -> float:
        """Return the exact standard error of the newest release."""
        return self.noise().stddev

    def interval(
        self, value: npt.ArrayLike, confidence: float = 0.95
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return bounds for the true value of the newest release, announced intrusions included."""
        half, centre = self.noise().half_width(confidence), np.asarray(value, np.float64)
        return centre - half, centre + half

    def save(self) -> bytes:
        """Return all state of the run, secrets included, for `mechanism.load`.

        A reader of the bytes is an intruder. Continue from one copy only: two runs that continue from
        the same bytes draw two noises for one sum, and may share a third. If another run did continue, call
        `redraw_future_noise` after loading, and count the loss of both.
        """
        with self._locked() as state:
            self.saves += 1
            return pack(self.mechanism.identity(), self.width, self.record, state)

    def widen(self, more: int) -> None:
        """Append so many groups that continue as if fed zeros from the start.

        Time and amount of widening show in the time and memory of a run. Both must be public, follow from
        releases, or be a channel that the caller declares (`TopK` does). A step that widens takes longer, by an
        amount that depends on `cheap_zero_state`.
        """
        check_whole("more", more)
        check_width(self.width + int(more))
        refusal = self.mechanism.widening_refusal()
        if refusal:
            raise TypeError(refusal)
        with self._exclusive() as state:
            self.mechanism.append_groups(state, self.mechanism.zero_state(int(more), state.tick, self.source))
            self.width += int(more)

    def intrude(self) -> S:
        """Announce an intrusion: add noise, return the state, add noise."""
        refusal = self.mechanism.intrusion_refusal()
        if refusal:
            raise TypeError(refusal)
        with self._exclusive() as state:
            shown = self.mechanism.intrude(state, self.source)
            self.intrusions += 1
        return shown

    def rerandomize(self) -> None:
        """Replace open registers by the last release and fresh draws.

        For claims with `open_ticks=True`, if the run was loaded from a save after which another run continued,
        absorbed data and was lost.
        """
        if not self.mechanism.open_ticks:
            raise TypeError(NOT_RERANDOMIZABLE_MESSAGE)
        with self._exclusive() as state:
            self.mechanism.rerandomize(state, self.source)
            self.rerandomizations += 1

    def redraw_future_noise(self) -> None:
        """Replace saved draws that another run of the same save may have published with."""
        refusal = self.mechanism.redraw_refusal()
        if refusal:
            raise TypeError(refusal)
        with self._exclusive() as state:
            self.mechanism.redraw_future_noise(state, self.source)

    def _check_ready(self, ticks: int, width: int, state: S) -> None:
        """Reject a step past the horizon, or of the width before another widening."""
        if width != self.width:
            raise ValueError(f"width must be that of the run, {self.width} by now, got {width}")
        last, horizon = state.tick + ticks, self.mechanism.horizon
        if horizon is not None and last > horizon:
            raise LimitExceededError(f"tick must be at most the horizon {horizon}, got {last}")

    def __repr__(self) -> str:
        return f"<run of {self.mechanism!r}, width {self.width}>"


def build_noise(mechanism: "Mechanism[Any, Any]") -> Noise:
    """Return the source of noise that a claim needs."""
    return EphemeralNoise() if mechanism.pan_private or mechanism.NEEDS_EPHEMERAL_NOISE else SecureNoise()


def parse_integers(name: str, values: npt.ArrayLike) -> Ints:
    """Return integers of any kind as int64, modulo 2^64.

    Anything else is rejected by its type, never by its value.
    """
    check_rows(name, values)
    try:
        array = np.asarray(values)
    except ValueError:
        raise ValueError(f"{name} must be integers in rows of one length, got ragged rows") from None
    if array.dtype.kind in "fO" and not isinstance(values, np.ndarray):
        array = wrap_integers(np.array(values, dtype=object))
    if array.dtype.kind not in "iub":
        raise ValueError(f"{name} must be integers, got {np.asarray(values).dtype}")
    return array.astype(np.int64, copy=False)


def wrap_integers(numbers: npt.NDArray[np.object_]) -> npt.NDArray[Any]:
    """Return Python integers of any size modulo 2^64; leave other items unchanged."""
    flat = numbers.ravel().tolist()
    if not all(isinstance(number, int | np.integer) for number in flat):
        return numbers
    return np.array([int(number) % 2**64 for number in flat], np.uint64).reshape(numbers.shape)
