"""Two-part noise: pan-private running counts, from fresh noise and a bridge.

Each release adds two noises to the count. The fresh noise of a tick is drawn when the tick ends: p-sums of a k-ary tree
under a pure loss, correlated Gaussian draws under a loss with a delta. The noise ahead is a bridge (see `bridge`): its
draws are in memory before their ticks.

    count              x1  x2  x3  x4 | x5  x6  x7  x8            memory: count + noise ahead, the fresh noise so far,
    noise ahead        [ z1 z2 z3 z4 ]|[ z5 z6 z7 z8 ]                    and draws ahead of their ticks: z6 z7 z8
    fresh noise        [y1][y2][y3][y4]                                   (those of begun ticks are overwritten)
                                         ^ look: y4 is known, so z hides x1..x5, and y6, y7, .. hide x6, x7, ..

Privacy
    Neighbours: one unit moves one tick's vector by at most `bound`. The number of ticks is public.
    Promise: `loss` against one who sees all releases and, at one unannounced moment, the memory, even if values and
    the moment are chosen in view of past releases. Announced intrusions cost nothing more.
    Proof: if the look comes after an event at t, shift the draws ahead of all blocks that hold t. The register moves
    with them, no share of a bridge moves, and the draws of begun blocks are overwritten: nothing visible moves, and
    the fresh noise is as it was. If the look comes before the event, or never, shift the fresh draws of the blocks
    that hold t: all are drawn at t or later, so after the look. So each part has the whole loss. A unit of n ticks, n1
    of them before the look, costs at most n1/n + n2/n of it, or (n1/n)^2 + (n2/n)^2: n ticks are charged as a group.
    A tick may come in parts (`open_ticks`). It begins with its noise ahead, before its first event. So all that came is
    hidden by that noise, and all that comes later by the fresh noise of its end.

    Under a loss with a delta, noise is discrete Gaussian. Given past releases, draws ahead are on a coset of a lattice
    that holds every shift v. For integer orders alpha the moments of the shift are those of continuous noise, since
    rho(a + L - (1 - alpha) v) = rho(a + L): so D_alpha <= alpha rho for alpha = 2, 3, .. alone. `charged_loss` says
    so to the ledger: it is an `IntegerZcdp`. A zCDP loss is refused, since it covers all orders.

    An announced intrusion forgets all but the released sum, hands that over, and begins both noises again. It does not
    hand over the fresh noise: with that of an unannounced look before, it would tell exact sums. In an open tick the
    sum is released to the intruder as if the tick ended. A run that continues from the save of one that was lost must
    `rerandomize`: it begins again from the last release, since a look at the lost run saw the saved draws. Noise is
    drawn from the operating system: a key in memory would tell the overwritten draws.

Error
    Unbiased; the variance at tick t is the sum of both parts' variances. After an intrusion or a rerandomisation the
    noise of the sum that was handed over stays, and both parts begin again.

Reference
    We know of no published account. Pan-privacy and its first counters: Dwork, Naor, Pitassi, Rothblum: Differential
    privacy under continual observation, STOC 2010. Their noise of a segment begins with it. The bridge is as in
    constrained inference (Hay et al., VLDB 2010; Honaker 2015), with draws of the future.
"""

from copy import deepcopy
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual.factorizations.buffered_toeplitz import BufferedToeplitz
from streamgauge.continual.factorizations.correlated import RunningCount
from streamgauge.continual.factorizations.unbounded_toeplitz import UnboundedToeplitz
from streamgauge.continual.mechanism import UNBOUNDED_PLANNING_TICKS, LinearMechanism, Release, Settings
from streamgauge.continual.run import wipe_state
from streamgauge.continual.state_io import BlankNoise
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees.hybrid import Hybrid
from streamgauge.continual.trees.kary import Kary
from streamgauge.continual.trees.past_noise import NoiseAhead, PastPrivateSums, to_floats
from streamgauge.continual.validation import check_noise, check_settings
from streamgauge.memory import WipedArrays
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import AdditiveLoss, Approx, IntegerZcdp, Loss, Pure, Zcdp

OTHER_NUMBERS = 3  # of a group: base, last release and the fresh noise so far


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    sums: PastPrivateSums  # noisy: the count and the noise ahead, since they began, and draws of ticks to come
    fresh: Any = field(repr=False)  # secret noise: of the fresh mechanism, which counts zeros
    fresh_noise: Ints = field(repr=False)  # secret noise: the fresh noise of the last tick, if `fresh` does not have it
    base: Floats = field(repr=False)  # public: the released sum from which the noises began
    last_release: Floats = field(repr=False)  # public
    past_ticks: Ints = field(repr=False)  # public: ticks of the noises that an intrusion or a lost run has ended
    released_runs: int = 0  # public: how many of them are in the last release
    released_tick: int = 0  # public: and how many ticks of the noises since


@dataclass(frozen=True)
class WipedNoise:
    """Noise whose draws are overwritten after their use."""

    noise: Noise
    secret: WipedArrays

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self.secret(self.noise.laplace(scale, size))

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self.secret(self.noise.gaussian(variance, size))


@dataclass(frozen=True, kw_only=True)
class TwoPart(Settings, LinearMechanism[State]):
    """Pan-private running counts, with a horizon or without an end; see the module's claim."""

    NEEDS_EPHEMERAL_NOISE: ClassVar[bool] = True
    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, IntegerZcdp, Approx)
    LOSSES_REASON: ClassVar[str] = "its noise looks ahead, which is proved harmless at integer orders: name a delta"
    pan_private: bool = True
    open_ticks: bool = False
    radices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_settings(self, bounded=self.radices is not None)
        if not self.pan_private:
            raise ValueError("pan_private must be True for TwoPart, got False")
        check_noise(self)
        if self.horizon is not None:
            object.__setattr__(self, "radices", self.noise_ahead.radices)

    @property
    def charged_loss(self) -> AdditiveLoss:
        return self.loss.integer_order_loss if isinstance(self.loss, Approx) else self.loss.additive_loss

    @cached_property
    def _part_loss(self) -> Pure | Zcdp:
        """The loss of one tick to either part: ticks of a unit are charged as a group."""
        ticks, whole = min(self.unit.ticks, self.horizon or self.unit.ticks), self.charged_loss
        part = whole.part(Fraction(1, ticks**whole.power))
        return part.sufficient_loss if isinstance(part, IntegerZcdp) else part

    @cached_property
    def noise_ahead(self) -> NoiseAhead:
        return NoiseAhead(self._part_loss, self.tick_sensitivity, self.horizon, self.radices)

    @cached_property
    def fresh(self) -> LinearMechanism[Any]:
        """The mechanism whose noise is drawn when a tick ends."""
        loss, bound = self._part_loss, self.tick_sensitivity
        if isinstance(loss, Pure):
            if self.horizon is None:
                return Hybrid(loss, inner=Kary, bound=bound)
            return Kary(loss, horizon=self.horizon, bound=bound)
        if self.horizon is None:
            return UnboundedToeplitz(loss, bound=bound)
        return BufferedToeplitz(loss, horizon=self.horizon, bound=bound)

    @cached_property
    def _grid_bits(self) -> int:
        return self.fresh.grid_bits if isinstance(self.fresh, RunningCount) else 0

    @cached_property
    def distribution(self) -> Distribution:
        """The wider noise of one draw, in grid points of its own part."""
        ahead, fresh = self.noise_ahead.epoch(1).noise.bridge.distribution, self.fresh.distribution
        return ahead if ahead.variance * 4**self._grid_bits > fresh.variance else fresh

    def initial(self, width: int, noise: Noise) -> State:
        state = self._build_state(0, np.zeros(width))
        self._begin_tick(state, noise)
        return state

    def _build_state(self, tick: int, base: Floats) -> State:
        """Return a state of a released sum alone, without noise."""
        width = len(base)
        fresh, sums = self.fresh.initial(width, BlankNoise()), self.noise_ahead.initial(width)
        zeros = np.zeros(0 if isinstance(self.fresh, RunningCount) else width, np.int64)
        return State(tick, sums, fresh, zeros, base, base.copy(), np.zeros(0, np.int64))

    def _begin_tick(self, state: State, noise: Noise) -> None:
        """Add the noise ahead of the next tick, whose events may then come in parts."""
        if self.open_ticks and state.tick != self.horizon:
            self.noise_ahead.begin_tick(state.sums, noise)

    def _end_tick(self, state: State, noise: Noise) -> None:
        """Draw the fresh noise of a tick."""
        with WipedArrays() as secret:
            zeros = np.zeros_like(state.sums.sum.whole)
            now = self.fresh.step(state.fresh, zeros, WipedNoise(noise, secret))
            if isinstance(self.fresh, RunningCount):
                secret(now)
            else:
                secret(state.fresh_noise)
                state.fresh_noise = now

    def _read_sum(self, state: State) -> Floats:
        """Return the sum with all noise, as a release or a hand-over publishes it.

        Whole parts of both noises are added first: the rounding of a sum of floats would show each.
        """
        is_correlated = isinstance(self.fresh, RunningCount)
        with WipedArrays() as secret:
            whole = secret(state.sums.sum.whole + (state.fresh.whole if is_correlated else state.fresh_noise))
            value = state.base + to_floats(replace(state.sums.sum, whole=whole))
        return value + state.fresh.part * 2.0**-self._grid_bits if is_correlated else value

    def add_partial(self, state: State, values: Ints) -> None:
        if not self.open_ticks:
            return super().add_partial(state, values)
        state.sums.sum.whole += values
        return None

    def step(self, state: State, values: Ints, noise: Noise) -> Release:
        if not self.open_ticks:
            self.noise_ahead.begin_tick(state.sums, noise)
        state.sums.sum.whole += values
        self._end_tick(state, noise)
        state.tick += 1
        state.last_release = self._read_sum(state)
        state.released_runs, state.released_tick = len(state.past_ticks), state.sums.tick
        self._begin_tick(state, noise)
        return state.last_release.copy()

    def feed(self, state: State, block: Ints, noise: Noise) -> Release:
        steps = [self.step(state, values, noise) for values in block]
        return np.stack(steps) if steps else np.zeros(block.shape)

    def intrude(self, state: State, noise: Noise) -> State:
        if state.sums.tick > state.fresh.tick:
            self._end_tick(state, noise)
        self._begin_again(state, self._read_sum(state), [*state.past_ticks, state.sums.tick])
        shown = deepcopy(state)
        self._begin_tick(state, noise)
        return shown

    def rerandomize(self, state: State, noise: Noise) -> None:
        if not self.open_ticks:
            return super().rerandomize(state, noise)
        ended = [*state.past_ticks[: state.released_runs], state.released_tick]
        self._begin_again(state, state.last_release.copy(), ended)
        state.released_runs, state.released_tick = len(state.past_ticks), 0
        return self._begin_tick(state, noise)

    def _begin_again(self, state: State, base: Floats, ended: list[Any]) -> None:
        """Forget all but a released sum, from which the noises begin again."""
        for secret in (state.sums, state.fresh, state.fresh_noise):
            wipe_state(secret)
        new = self._build_state(state.tick, base)
        state.sums, state.fresh, state.fresh_noise, state.base = new.sums, new.fresh, new.fresh_noise, base
        state.past_ticks = np.array([tick for tick in ended if tick], np.int64)

    def noise_at(self, tick: int) -> NoiseSum:
        return NoiseSum((*self.noise_ahead.list_terms(tick), *self.fresh.noise_at(tick).terms))

    def current_noise(self, state: State) -> NoiseSum:
        ticks = [*state.past_ticks[: state.released_runs].tolist(), state.released_tick]
        return NoiseSum(tuple(term for tick in ticks if tick for term in self.noise_at(tick).terms))

    def memory(self) -> int:
        """Return the numbers of a group; without a horizon, up to tick 2^20."""
        ahead = self.noise_ahead.count_numbers(self.horizon or UNBOUNDED_PLANNING_TICKS)
        return ahead + self.fresh.memory() + OTHER_NUMBERS

    def mean_variance(self, ticks: int) -> float:
        return self.fresh.mean_variance(ticks) + self.noise_ahead.sum_variances(ticks) / ticks

    def matrices(self, ticks: int) -> Strategy:
        """Return the rows of the fresh noise, and those of the noise ahead, which measure nothing."""
        fresh, begun = self.fresh.matrices(ticks), ticks + (self.open_ticks and ticks != self.horizon)
        _, weights, laws, counts = self.noise_ahead.build_matrices(begun)
        order, first = [], len(fresh.distributions)
        for tick, count in enumerate(counts):
            order += [*range(first, first + count), *fresh.draws[tick : tick + 1]]
            first += count
        measure = np.concatenate([fresh.measure, np.zeros((len(laws), ticks))])
        decode = np.concatenate([fresh.decode, weights[:ticks]], axis=1)
        return Strategy(measure, decode, (*fresh.distributions, *laws), tuple(order), fresh.grids + (1,) * len(laws))
