"""Hybrid counting: a stream without an end, cut into epochs that grow.

At the end of each epoch one p-sum of the whole epoch is released. In between, a mechanism with a horizon
counts inside the epoch, and restarts in the next. A count adds the p-sums of the past epochs and the inner
mechanism's count of this one:

    [-][---][-------][---------------][---- . . .    growth 2, first 1: epochs of 1, 2, 4, 8, .. ticks
     1   2      4            8                       inner mechanism of the fourth: horizon 7

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The stream has no end.
    Promise: `loss` over the whole stream, even if values are chosen in view of past releases.
    Proof: an item is in the p-sum of one epoch, under noise for `split` of the loss. It is also in one run of
    the inner mechanism, which has the rest of the loss. A unit of n ticks is charged as a group of n: the loss
    of one tick is 1/n of it (pure) or 1/n^2 (zCDP).

Pan-privacy
    The open epoch is a register that begins with a draw, and its p-sum gets another at its release, as in
    a tree. The inner mechanism is itself pan-private.

    With `open_ticks=True` a tick may come in parts, if those of the inner mechanism may: parts are added to the epoch's
    register and, but for the epoch's last tick, to the inner ones. After a lost run, `rerandomize` replaces the epoch's
    register by the last release and a fresh draw, so that no draw is shared with the lost registers.

Error
    Unbiased; the noise of the p-sums of the past epochs, log t of them, and of the inner mechanism. The p-sums
    are few and the inner noise is wide, so `split` is small: even halves cost Binary a third more error. After
    `rerandomize` the inner noise of the last release stays.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011: growth 2, split 1/2 and
    inner Binary. An account that puts a window sum inside has the wrong object: the epoch needs a count.
    Defaults here were found by search over growth and split (docs/continual.md).
"""

from copy import deepcopy
from dataclasses import dataclass, field, fields, is_dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual.factorizations.buffered_toeplitz import BufferedToeplitz
from streamgauge.continual.mechanism import UNBOUNDED_PLANNING_TICKS, LinearMechanism, Release, Settings, draw_sum
from streamgauge.continual.strategy import Strategy, stack_strategies
from streamgauge.continual.trees.kary import Kary
from streamgauge.continual.trees.subtractive import SubtractiveTree
from streamgauge.continual.validation import check_noise, check_settings, check_whole
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Approx, Loss, Number, Pure, Zcdp, parse_rational

DEFAULT_GROWTHS: dict[Any, int] = {BufferedToeplitz: 64}  # found by search; others do well with 4


def is_inner(cls: object) -> bool:
    """Return whether a class is a linear mechanism that counts all ticks up to a horizon.

    Claims that need ephemeral noise are excluded: their releases are floats, to which open registers must not add
    exact values, and they have no end by themselves.
    """
    if not (isinstance(cls, type) and issubclass(cls, LinearMechanism) and is_dataclass(cls)):
        return False
    if cls.NEEDS_EPHEMERAL_NOISE:
        return False
    names = {f.name for f in fields(cls)}
    return {"loss", "horizon", "bound"} <= names and not names & {"window", "exponent", "decay"}


def list_inner_names() -> tuple[str, ...]:
    """Return the names of the mechanisms of this package that can be inside a `Hybrid`."""
    from streamgauge import continual

    return tuple(name for name in continual.__all__ if is_inner(getattr(continual, name)))


def find_inner(name: str) -> type[LinearMechanism[Any]]:
    """Return the mechanism of a name; raise ValueError if none of that name can be inside."""
    from streamgauge import continual

    if name not in list_inner_names():
        raise ValueError(f"inner must be one of {', '.join(list_inner_names())}, got {name!r}")
    found: type[LinearMechanism[Any]] = getattr(continual, name)
    return found


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    past_release: Release = field(repr=False)  # noisy: the release at the last end of an epoch
    open_sum: Ints = field(repr=False)  # exact: the open epoch; pan-private: on top of `past_release` and a draw
    inner: Any = field(repr=False)  # memory of the inner mechanism in the open epoch
    past_draws: int  # public: the draws in `past_release`
    open_draws: int  # public: the draws in `open_sum` (pan-private)
    past_inner: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # public: inner draws in `past_release`
    open_inner: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # public: and in `open_sum`, both as pairs
    released_inner: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # noisy: the inner part of the release


@dataclass(frozen=True, kw_only=True)
class Hybrid(Settings, LinearMechanism[State]):
    """Running counts without an end; see the module's claim.

    `inner` is a mechanism with a horizon, as a class or by its name. `growth` is the ratio of the lengths of
    consecutive epochs, `first` the length of the first (by default `growth`). `split` is the share of the loss for
    the epochs' p-sums. Chan's halves are `Hybrid(loss, inner=Binary, growth=2, first=1, split="1/2")`.
    """

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    inner: type[LinearMechanism[Any]] | str | None = None
    growth: int = 0
    first: int = 0
    split: Number = Fraction(1, 5)
    open_ticks: bool = False

    @property
    def has_falling_overlaps(self) -> bool:
        return self.counter(0, 2).has_falling_overlaps

    def __post_init__(self) -> None:
        check_settings(self, bounded=False)
        if self.growth != 0:
            check_whole("growth", self.growth, least=2)
        check_whole("first", self.first, least=0)
        object.__setattr__(self, "split", parse_rational(self.split, "split"))
        if not 0 < parse_rational(self.split, "split") < 1:
            raise ValueError(f"split must be between 0 and 1, got {self.split}")
        inner = find_inner(self.inner) if isinstance(self.inner, str) else self.inner
        plain = SubtractiveTree if isinstance(self.loss, Pure) else BufferedToeplitz
        object.__setattr__(self, "inner", inner or (Kary if self.pan_private else plain))
        object.__setattr__(self, "growth", self.growth or DEFAULT_GROWTHS.get(self.inner, 4))
        object.__setattr__(self, "first", self.first or self.growth)
        if not is_inner(self.inner):
            got = self.inner.__name__ if isinstance(self.inner, type) else repr(self.inner)
            raise ValueError(f"inner must be a running counter with a horizon, got {got}")
        self.counter(0, self.first)  # rejects an inner mechanism that is not for this loss
        check_noise(self)

    @cached_property
    def distribution(self) -> Distribution:
        """The noise of an epoch's p-sum, which moves by all that a unit does."""
        moved = self.tick_sensitivity.scale(self.unit.ticks)
        return self.loss.part(self.split).calibrate(l1=moved.l1, l2_squared=moved.l2_squared)

    @cached_property
    def _counters(self) -> dict[int, LinearMechanism[Any]]:
        return {}

    def counter(self, begin: int, length: int) -> LinearMechanism[Any]:
        """Return the inner mechanism of an epoch.

        The last tick is the p-sum's, and the epoch ends with the horizon.
        """
        ticks = length - 1 if self.horizon is None else min(length - 1, self.horizon - begin)
        return self._find_counter(max(1, ticks))

    def _find_counter(self, horizon: int) -> LinearMechanism[Any]:
        if horizon not in self._counters:
            self._counters[horizon] = self._build_counter(horizon)
        return self._counters[horizon]

    def _build_counter(self, horizon: int) -> LinearMechanism[Any]:
        inner: Any = self.inner  # a claim, as `__post_init__` has checked
        rest = self.loss.part(1 - parse_rational(self.split, "split"))
        loss = rest.part(Fraction(1, self.unit.ticks**rest.power))
        extra = {"pan_private": True} if self.pan_private else {}
        if self.pan_private and "pan_private" not in {f.name for f in fields(inner)}:
            raise ValueError(f"inner must be pan-private where the claim is, got {inner.__name__}")
        if self.open_ticks and "open_ticks" not in {f.name for f in fields(inner)}:
            raise ValueError(f"inner must have open ticks where the claim has, got {inner.__name__}")
        extra |= {"open_ticks": True} if self.open_ticks else {}
        made: LinearMechanism[Any] = inner(loss, horizon=horizon, bound=self.tick_sensitivity, **extra)
        return made

    def __repr__(self) -> str:
        shown = {f.name: getattr(self, f.name) for f in fields(self)}
        shown["inner"], shown["split"] = shown["inner"].__name__, str(shown["split"])
        return f"Hybrid({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    def next_length(self, length: int) -> int:
        """Return the length of the next epoch, limited by the inner mechanism."""
        inner: Any = self.inner  # a class since `__post_init__`
        longest: int = inner.MAX_HORIZON_TICKS
        return min(length * self.growth, longest)

    def epoch(self, tick: int) -> tuple[int, int, int]:
        """Return the number, beginning and length of the epoch that `tick` (from 1) is in."""
        number, begin, length = 0, 0, self.first
        while tick > begin + length:
            number, begin, length = number + 1, begin + length, self.next_length(length)
        return number, begin, length

    def initial(self, width: int, noise: Noise) -> State:
        zeros = np.zeros(width, np.int64)
        state = State(0, zeros, zeros, None, 0, 0)
        self._begin_epoch(state, self.first, width, noise)
        return state

    def zero_state(self, width: int, tick: int, noise: Noise) -> State:
        """Return a draw for every ended epoch, and the inner mechanism's zero state."""
        if self.pan_private:
            return super().zero_state(width, tick, noise)
        number, begin, length = self.epoch(tick + 1)
        past = draw_sum(self.distribution, noise, number, width)
        inner = self.counter(begin, length).zero_state(width, tick - begin, noise)
        return State(tick, past, np.zeros(width, np.int64), inner, number, 0)

    @property
    def cheap_zero_state(self) -> bool:
        """True if the inner mechanism's is cheap: past epochs are few."""
        _, begin, length = self.epoch(self.horizon or UNBOUNDED_PLANNING_TICKS)
        return not self.pan_private and self.counter(begin, length).cheap_zero_state

    def _begin_epoch(self, state: State, length: int, width: int, noise: Noise) -> None:
        """Start a new epoch on top of the last release."""
        state.open_sum, state.open_draws = np.zeros(width, np.int64), 0
        if self.pan_private:
            state.open_sum = state.past_release + self.distribution.draw(noise, width)
            state.open_draws = state.past_draws + 1
            state.open_inner = state.past_inner
        state.inner = self.counter(state.tick, length).initial(width, noise)
        state.released_inner = np.zeros(width if self.open_ticks else 0, np.int64)

    def _end_epoch(self, state: State, length: int, noise: Noise) -> Release:
        """Return the release with the epoch's p-sum, and start the next epoch."""
        width = len(state.open_sum)
        whole = state.open_sum if self.pan_private else state.past_release + state.open_sum
        state.past_release = whole + self.distribution.draw(noise, width)
        state.past_draws = 1 + (state.open_draws if self.pan_private else state.past_draws)
        state.past_inner = state.open_inner
        self._begin_epoch(state, self.next_length(length), width, noise)
        return state.past_release.copy()

    def add_partial(self, state: State, values: Ints) -> None:
        if not self.open_ticks:
            return super().add_partial(state, values)
        _, begin, length = self.epoch(state.tick + 1)
        state.open_sum += values
        if state.tick + 1 < begin + length:
            self.counter(begin, length).add_partial(state.inner, values)
        return None

    def rerandomize(self, state: State, noise: Noise) -> None:
        if not self.open_ticks:
            return super().rerandomize(state, noise)
        _, begin, length = self.epoch(state.tick + 1)
        counter = self.counter(begin, length)
        state.open_sum = state.past_release + state.released_inner + self.distribution.draw(noise, len(state.open_sum))
        state.open_draws, state.open_inner = state.past_draws + 1, state.past_inner
        if state.tick > begin:
            draws = sum(int(term.count) for term in counter.current_noise(state.inner).terms)
            state.open_inner = np.append(state.past_inner, [counter.horizon or 1, draws])
        return counter.rerandomize(state.inner, noise)

    def step(self, state: State, values: Ints, noise: Noise) -> Release:
        state.tick += 1
        _, begin, length = self.epoch(state.tick)
        state.open_sum += values
        if state.tick == begin + length:
            return self._end_epoch(state, length, noise)
        inner: Release = self.counter(begin, length).step(state.inner, values, noise)
        if self.open_ticks:
            state.released_inner = inner.copy()
        return state.past_release + inner

    def feed(self, state: State, block: Ints, noise: Noise) -> Release:
        if self.open_ticks:
            return self.feed_by_steps(state, block, noise)
        releases, done = [np.zeros((0, block.shape[1]), np.int64)], 0
        while done < len(block):
            _, begin, length = self.epoch(state.tick + 1)
            inside = min(begin + length - 1 - state.tick, len(block) - done)
            piece = block[done : done + inside]
            releases.append(state.past_release + self.counter(begin, length).feed(state.inner, piece, noise))
            state.open_sum += piece.sum(axis=0)
            state.tick += inside
            done += inside
            if done < len(block):
                state.tick += 1
                state.open_sum += block[done]
                releases.append(self._end_epoch(state, length, noise)[None])
                done += 1
        return np.concatenate(releases)

    def redraw_future_noise(self, state: State, noise: Noise) -> None:
        """Redraw inside the open epoch. Draws of ended epochs are of past ticks only."""
        _, begin, length = self.epoch(state.tick + 1)
        self.counter(begin, length).redraw_future_noise(state.inner, noise)

    def noise_at(self, tick: int) -> NoiseSum:
        number, begin, length = self.epoch(tick)
        ended = tick == begin + length
        past = Term((number + ended) * (2 if self.pan_private else 1), 1, self.distribution)
        return NoiseSum((past, *(() if ended else self.counter(begin, length).noise_at(tick - begin).terms)))

    def current_noise(self, state: State) -> NoiseSum:
        _, begin, length = self.epoch(state.tick)
        past = [Term(state.past_draws, 1, self.distribution)]
        for horizon, draws in state.past_inner.reshape(-1, 2).tolist():
            past.append(Term(draws, 1, self._find_counter(horizon).distribution))
        ended = state.tick in (0, begin + length)
        return NoiseSum((*past, *(() if ended else self.counter(begin, length).current_noise(state.inner).terms)))

    def intrusion_refusal(self) -> str:
        return super().intrusion_refusal() or self.counter(0, self.first).intrusion_refusal()

    def intrude(self, state: State, noise: Noise) -> State:
        if self.intrusion_refusal():
            return super().intrude(state, noise)
        _, begin, length = self.epoch(state.tick + 1)
        state.open_sum += self.distribution.draw(noise, len(state.open_sum))
        inner = self.counter(begin, length).intrude(state.inner, noise)
        shown = replace(deepcopy(replace(state, inner=None)), inner=inner)
        state.open_sum += self.distribution.draw(noise, len(state.open_sum))
        state.open_draws += 2
        return shown

    def memory(self) -> int:
        """Return the most of all epochs up to the horizon or, without one, up to tick 2^20."""
        most, end = 0, 0
        while end < (self.horizon or UNBOUNDED_PLANNING_TICKS):
            _, begin, length = self.epoch(end + 1)
            most, end = max(most, self.counter(begin, length).memory()), begin + length
        return 2 + self.open_ticks + most

    def mean_variance(self, ticks: int) -> float:
        total, number, begin, length = 0.0, 0, 0, self.first
        one = self.distribution.variance * (2 if self.pan_private else 1)
        while begin < ticks:
            inside = min(ticks - begin, length - 1)
            if inside:
                total += inside * (number * one + self.counter(begin, length).mean_variance(inside))
            total += (number + 1) * one * (ticks >= begin + length)
            number, begin, length = number + 1, begin + length, self.next_length(length)
        return total / ticks

    def matrices(self, ticks: int) -> Strategy:
        parts = []
        number, begin, length = 0, 0, self.first
        while begin < ticks:
            inside = min(ticks - begin, length - 1)
            parts.append(self._epoch_strategy(begin, inside, length, ticks))
            number, begin, length = number + 1, begin + length, self.next_length(length)
        return stack_strategies(parts)

    def _epoch_strategy(self, begin: int, inside: int, length: int, ticks: int) -> Strategy:
        """Return the rows of one epoch: its p-sum, and the inner mechanism's."""
        ended = ticks >= begin + length
        drawn = self.pan_private + ended
        inner = self.counter(begin, length).matrices(inside) if inside else None
        rows = 1 + (inner.measure.shape[0] if inner else 0)
        measure, decode = np.zeros((rows, ticks)), np.zeros((ticks, rows))
        measure[0, begin : begin + length] = 1
        decode[begin + length - 1 :, 0] = 1
        draws = [0] * self.pan_private
        distributions, grids = [self.distribution], [1]
        if inner:
            measure[1:, begin : begin + inside] = inner.measure
            decode[begin : begin + inside, 1:] = inner.decode
            draws += [row + 1 for row in inner.draws]
            distributions += inner.distributions
            grids += inner.grids
        draws += [0] * (drawn - self.pan_private)
        return Strategy(measure, decode, tuple(distributions), tuple(draws), tuple(grids))
