"""Sliding sums over the last W ticks, for ever, as differences of one endless bridge.

The noise is that of a `BridgeTree` whose blocks of the top level follow each other for ever. A release is the sum of
the window, plus the noise of its items. It is the difference of two noisy counts:

    [    e1    |    e2    |    e3    |    e4    | . . .      top blocks; inner ones as in `BridgeTree`
         s <------------- W -------------> t                 o_t - o_s: e2, e3, a part of e1 and one of e4

So every window of at most W ticks is post-processing of one run (`Run.window_sum`, `Run.feed_windows`).

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: pure epsilon-DP over the whole, endless stream, even if values are chosen in view of past releases.
    Proof: that of `BridgeTree`. It hides an event in all noisy counts o_t at a cost of h bound/b = epsilon, however
    many top blocks there are. Windows are differences of them, taken in integers: o_t modulo 2^64 and its rest. Only
    the difference is divided and rounded. Floats of the noise alone, with the exact sum added, would show the sum.
    Memory holds exact sums and noise of the future. It is not pan-private, and must be guarded (see `BridgeTree`).

Error
    Unbiased. Var(t) is the sum over draws of v times the squared difference of their weights at t and t - W. It
    repeats when the top blocks do. Without `radices`, those of least mean variance are taken. No block is larger than
    the window. A run stores 3 W numbers for each group, and those of the open blocks.

Reference
    Windows as differences of counts: Bolot, Fawaz, Muthukrishnan, Nikolov, Taft: Private decayed predicate sums on
    streams, ICDT 2013. Bridges: see `BridgeTree`. We know of no published account of both together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from math import prod
from typing import ClassVar

import numpy as np

from streamgauge.continual.mechanism import LinearMechanism, Release, Settings
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees.bridge import Bridge, BridgeState, to_release
from streamgauge.continual.trees.bridge_tree import MAX_LEVELS, MAX_RADIX, UNIT_NOISE, BridgeTree, parse_radices
from streamgauge.continual.trees.window_sum import check_window
from streamgauge.continual.validation import check_noise, check_settings, check_whole
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Loss

SEARCHED_TICKS, MAX_EXACT_TICKS = 2**9, 2**16  # ticks by which radices and errors are compared
GOLDEN_RATIO = (5**0.5 - 1) / 2  # whose multiples modulo 1 are spread evenly


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group; row i of both lists is the last tick t = i modulo W."""

    tick: int
    noise: BridgeState = field(repr=False)  # secret noise: of the items so far, and of items to come
    sums: Ints = field(repr=False)  # exact: the sums up to each of the last W ticks
    noises: Ints = field(repr=False)  # secret noise: of these sums, whole parts modulo 2^64
    rests: Ints = field(repr=False)  # secret noise: their rests, in units of 1/prod(radices)


@dataclass(frozen=True, kw_only=True)
class WindowBridge(Settings, LinearMechanism[State]):
    """Sums of the last `window` ticks, under pure loss; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = BridgeTree.LOSSES
    LOSSES_REASON: ClassVar[str] = BridgeTree.LOSSES_REASON
    EXACT_MEMORY: ClassVar[str] = "its memory is exact sums and the noise to come"
    window: int
    radices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        check_window(self.window)
        given = self._search_radices() if self.radices is None else parse_radices(self.radices)
        object.__setattr__(self, "radices", given)
        if prod(given) > self.window:
            raise ValueError(f"radices must have a product of at most the window {self.window}, got {given}")
        check_noise(self)

    def _search_radices(self) -> tuple[int, ...]:
        return min(find_window_shapes(self.window), key=self._relate_mean)

    def _relate_mean(self, radices: tuple[int, ...]) -> float:
        try:
            law = self._calibrate(radices)
        except (ValueError, OverflowError):
            return 0.0  # as `check_noise` will say
        return relate_variance(self.window, radices) * law.variance

    def _calibrate(self, radices: tuple[int, ...]) -> Distribution:
        ticks = min(self.unit.ticks, self.horizon or self.unit.ticks)
        return self.loss.calibrate(l1=self.tick_sensitivity.l1 * ticks * (len(radices) + 1), l2_squared=0)

    @cached_property
    def distribution(self) -> Distribution:
        return self._calibrate(self.radices or ())

    @cached_property
    def bridge(self) -> Bridge:
        return Bridge(self.radices or (), self.distribution, self.distribution, is_wiped=False)

    def initial(self, width: int, noise: Noise) -> State:
        return State(0, self.bridge.initial(width), *np.zeros((3, self.window, width), np.int64))

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        """Return the state of a stream that begins with the window. All earlier noise cancels."""
        state, begin = self.initial(width, noise), max(0, tick - self.window)
        state.noise = self.bridge.zero_state(width, begin % self.bridge.span, noise)
        state.tick = begin  # its noise is in no later release: the window's ticks overwrite all rows
        return self.feed_zeros(state, width, tick - begin, noise)

    @property
    def cheap_zero_state(self) -> bool:
        """True: a new group needs no more draws than a window and its open blocks."""
        return True

    def redraw_future_noise(self, state: State, noise: Noise) -> None:
        fresh = self.zero_state(len(state.noise.whole), state.tick, noise)
        state.noise, state.noises, state.rests = fresh.noise, fresh.noises, fresh.rests

    def _divide(self, counts: Ints, rests: Ints) -> Release:
        """Return differences of noisy counts as releases. Both parts are differences, so rests may be negative."""
        return to_release(counts, rests, self.bridge.span)

    def step(self, state: State, values: Ints, noise: Noise) -> Release:
        """Advance part by part, as `Bridge.step_parts` does."""
        release, noises = np.empty(len(values)), state.noise
        last, row = state.tick % self.window, (state.tick + 1) % self.window
        for part in self.bridge.step_parts(noises, state.tick, noise):
            whole, rest = noises.whole[part], noises.rest[part]
            total = state.sums[last, part] + values[part]
            counts = (total + whole) - (state.sums[row, part] + state.noises[row, part])
            release[part] = self._divide(counts, rest - state.rests[row, part])
            state.sums[row, part], state.noises[row, part], state.rests[row, part] = total, whole, rest
        state.tick += 1
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Release:
        return self._feed(state, block, noise, (self.window,))[0]

    def check_windows(self, windows: Sequence[int]) -> None:
        for window in windows:
            check_whole("window", window)
        if max(windows) > self.window:
            raise ValueError(f"windows must be at most the claim's {self.window}, got {max(windows)}")

    def feed_windows(self, state: State, block: Ints, noise: Noise, windows: Sequence[int]) -> Release:
        return np.stack(self._feed(state, block, noise, windows), axis=1)

    def _feed(self, state: State, block: Ints, noise: Noise, windows: Sequence[int]) -> list[Release]:
        ticks, last = len(block), state.tick % self.window
        noises, rests = self.bridge.feed(state.noise, state.tick, ticks, noise)
        sums = state.sums[last] + np.cumsum(block, axis=0)
        releases, stored = [], (state.sums, state.noises, state.rests)
        for window in windows:
            pairs = zip(stored, (sums, noises, rests), strict=True)
            moves, drawn, left = (self._subtract(*pair, state.tick, window) for pair in pairs)
            releases.append(self._divide(moves + drawn, left))
        state.tick += ticks
        for rows, new in zip(stored, (sums, noises, rests), strict=True):
            self._store(rows, new, state.tick)
        return releases

    def _subtract(self, stored: Ints, new: Ints, tick: int, window: int) -> Ints:
        """Return the numbers after `tick` less those so many ticks before; rows before tick 1 are still 0."""
        early, moves = min(len(new), window), new.copy()
        moves[:early] -= stored[(tick + 1 - window + np.arange(early)) % self.window]
        moves[early:] -= new[: len(new) - early]
        return moves

    def _store(self, stored: Ints, new: Ints, tick: int) -> None:
        """Store the newest W of the numbers up to `tick`."""
        early = min(len(new), self.window)
        stored[(tick - early + 1 + np.arange(early)) % self.window] = new[len(new) - early :]

    def window_sum(self, state: State, window: int) -> Release:
        """Return the noisy sums of fewer ticks, from the same counts."""
        check_whole("window", window)
        if window >= self.window:
            raise ValueError(f"window must be less than the claim's {self.window}, got {window}")
        now, before = state.tick % self.window, (state.tick - window) % self.window
        counts, rests = state.sums[now] + state.noises[now], state.rests[now]
        if state.tick >= window:
            counts, rests = counts - (state.sums[before] + state.noises[before]), rests - state.rests[before]
        return self._divide(counts, rests)

    def noise_at(self, tick: int) -> NoiseSum:
        return self.window_noise(self.window, tick)

    def window_noise(self, window: int, tick: int) -> NoiseSum:
        if tick <= window:
            return NoiseSum(self.bridge.list_terms(tick))
        inner, tops = self.bridge.weigh_window(np.array([tick - window]), np.array([tick]))
        return NoiseSum(tuple(Term(int(n[0]), float(w[0]), self.distribution) for n, w in (*inner, *tops)))

    def mean_variance(self, ticks: int) -> float:
        """Return the mean variance, of a spread of ticks if top blocks are longer than `MAX_EXACT_TICKS`."""
        early, span = min(ticks, self.window), self.bridge.span
        periods, rest = divmod(ticks - early, span)
        later = periods * span * self._mean_weight(span) if periods else 0.0
        later += rest * self._mean_weight(rest) if rest else 0.0
        return (self.bridge.sum_variances(early) + later * self.distribution.variance) / ticks

    def _mean_weight(self, ticks: int) -> float:
        return mean_weight(self.bridge, self.window, spread_ticks(ticks, MAX_EXACT_TICKS))

    def matrices(self, ticks: int) -> Strategy:
        measure, decode, laws = self.bridge.build_matrices(ticks)
        windows = decode.copy()
        windows[self.window :] -= decode[: max(0, ticks - self.window)]
        return Strategy(measure, windows, tuple(laws), tuple(range(len(laws))))


def spread_ticks(ticks: int, most: int) -> Ints:
    """Return the ticks from 1 on or, of too many, some that are spread over all digits."""
    if ticks <= most:
        return np.arange(1, ticks + 1)
    return 1 + (np.arange(most) * GOLDEN_RATIO % 1 * ticks).astype(np.int64)


def mean_weight(bridge: Bridge, window: int, start: Ints) -> float:
    """Return the mean sum of squared weights of windows that begin after these ticks."""
    inner, tops = bridge.weigh_window(start, start + window)
    return sum(float((count * weight**2).mean()) for count, weight in (*inner, *tops))


@lru_cache(maxsize=64)
def find_window_shapes(window: int) -> tuple[tuple[int, ...], ...]:
    """Return the radices of least mean variance for each number of levels."""
    best = (min(_list_shapes(window, n), key=partial(relate_variance, window), default=None) for n in range(MAX_LEVELS))
    return tuple(radices for radices in best if radices is not None)


def _list_shapes(window: int, inner: int) -> Iterator[tuple[int, ...]]:
    """Yield radices k and k + 1 whose product is between a part of the window and all of it."""
    for k in range(2, MAX_RADIX) if inner else [1]:
        for larger in range(max(1, inner)):
            radices = (k + 1,) * larger + (k,) * (inner - larger)
            if window <= 64 * prod(radices) <= 64 * window or not inner:
                yield radices


@lru_cache(maxsize=4096)
def relate_variance(window: int, radices: tuple[int, ...]) -> float:
    """Return the mean variance over some ticks, in draws."""
    bridge = Bridge(radices, UNIT_NOISE, UNIT_NOISE)
    return mean_weight(bridge, window, spread_ticks(bridge.span, SEARCHED_TICKS))
