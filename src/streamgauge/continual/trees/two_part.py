"""Two-part noise: pan-private running counts, from fresh noise and a bridge.

Each release adds two noises to the count. The fresh noise of a tick is drawn when the tick ends: p-sums of a k-ary tree
under a pure loss, correlated Gaussian draws under a loss with a delta. The noise ahead is a bridge (see `bridge`): its
draws are in memory before their ticks.

    count              x1  x2  x3  x4 | x5  x6  x7  x8            memory: count + both noises, the fresh one so far,
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
    rho(a + L - (1 - alpha) v) = rho(a + L): so D_alpha <= alpha rho for alpha = 2, 3, .. alone, and
    `Approx.integer_order_loss` is the rho. A zCDP loss is refused, since it covers all orders.

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
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual.factorizations.buffered_toeplitz import BufferedToeplitz
from streamgauge.continual.factorizations.correlated import RunningCount
from streamgauge.continual.factorizations.unbounded_toeplitz import UnboundedToeplitz
from streamgauge.continual.mechanism import UNBOUNDED_PLANNING_TICKS, LinearMechanism, Release, Settings
from streamgauge.continual.run import wipe_state
from streamgauge.continual.state_io import BlankNoise
from streamgauge.continual.strategy import Matrix, Strategy
from streamgauge.continual.trees.bridge import Bridge
from streamgauge.continual.trees.bridge_tree import find_shapes, parse_radices
from streamgauge.continual.trees.hybrid import Hybrid
from streamgauge.continual.trees.kary import Kary
from streamgauge.continual.trees.past_noise import MixedNumbers, PastNoise, PastNoiseState
from streamgauge.continual.validation import check_noise, check_settings
from streamgauge.memory import WipedArrays
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Approx, Loss, Pure, Sensitivity, Zcdp

FIRST_EPOCH_TICKS, EPOCH_GROWTH = 32, 4  # found by search
EPOCH_SHARE = Fraction(1, 4)  # of the loss, for the draws of whole epochs
MAX_LENGTH_ERROR = 0.08  # of an epoch, whose length is the product of its radices
MAX_EPOCH_TICKS = 2**44  # longer epochs follow each other


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group."""

    tick: int
    sum: MixedNumbers  # noisy: the count and both noises, since the noises began
    ahead: PastNoiseState  # secret noise: of ticks to come
    fresh: Any = field(repr=False)  # secret noise: the fresh mechanism's, which counts zeros
    fresh_noise: Ints = field(repr=False)  # secret noise: the fresh noise in `sum`
    base: Floats = field(repr=False)  # public: the released sum that they began from
    last_release: Floats = field(repr=False)  # public: the last release
    past_ticks: Ints = field(repr=False)  # public: ticks of the noises that ended in an intrusion or rerandomisation
    released_runs: int = 0  # public: how many of them are in the last release
    released_tick: int = 0  # public: and the ticks of the noises since


@dataclass(frozen=True)
class WipedNoise:
    """Noise whose draws are overwritten after their use."""

    noise: Noise
    secret: WipedArrays

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self.secret(self.noise.laplace(scale, size))

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self.secret(self.noise.gaussian(variance, size))


@dataclass(frozen=True)
class Epoch:
    """A block of ticks with a bridge of its own."""

    number: int
    begin: int
    noise: PastNoise


@dataclass(frozen=True, kw_only=True)
class TwoPart(Settings, LinearMechanism[State]):
    """Pan-private running counts, with a horizon or without an end; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Approx)
    LOSSES_REASON: ClassVar[str] = "its noise looks ahead, which is proved harmless at integer orders: name a delta"
    pan_private: bool = True
    open_ticks: bool = False
    radices: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        check_settings(self, bounded=self.radices is not None)
        if not self.pan_private:
            raise ValueError("pan_private must be True for TwoPart, got False")
        if self.horizon is not None:
            chosen = self._find_best_radices(self.horizon) if self.radices is None else parse_radices(self.radices)
            object.__setattr__(self, "radices", chosen)
        self.fresh  # noqa: B018 - rejects settings now rather than at the first tick
        check_noise(self)

    def _find_best_radices(self, horizon: int) -> tuple[int, ...]:
        """Return the radices of least mean variance over the horizon."""
        return min(find_shapes(horizon), key=lambda radices: self._build_bridge(radices).sum_variances(horizon))

    def _build_bridge(self, radices: tuple[int, ...]) -> Bridge:
        law = self._calibrate(len(radices) + 1, self._part_loss)
        return Bridge(radices, law, law)

    @cached_property
    def _part_loss(self) -> Pure | Zcdp:
        """The loss of one tick to either part: ticks of a unit are charged as a group."""
        ticks = min(self.unit.ticks, self.horizon or self.unit.ticks)
        whole = self.loss.integer_order_loss if isinstance(self.loss, Approx) else self.loss.additive_loss
        return whole.part(Fraction(1, ticks**whole.power))

    def _calibrate(self, levels: int, loss: Pure | Zcdp) -> Distribution:
        moved = self.tick_sensitivity
        return loss.calibrate(l1=moved.l1 * levels, l2_squared=moved.l2_squared * levels)

    @cached_property
    def fresh(self) -> LinearMechanism[Any]:
        """The mechanism whose noise is drawn when a tick ends."""
        made: dict[str, Any] = {"bound": self.tick_sensitivity}
        if isinstance(self.loss, Pure) and self.horizon is not None:
            return Kary(self._part_loss, horizon=self.horizon, **made)
        if isinstance(self.loss, Pure):
            return Hybrid(self._part_loss, inner=Kary, **made)
        if self.horizon is not None:
            return BufferedToeplitz(self._part_loss, horizon=self.horizon, **made)
        return UnboundedToeplitz(self._part_loss, **made)

    @cached_property
    def distribution(self) -> Distribution:
        """The noise of one draw: the fresh one's, in its own grid points, or that of a bridge."""
        bridge, fresh = self.epoch(1).noise.bridge, self.fresh
        grid = fresh.grid_bits if isinstance(fresh, RunningCount) else 0
        is_wider = bridge.distribution.variance * 4**grid > fresh.distribution.variance
        return bridge.distribution if is_wider else fresh.distribution

    @cached_property
    def _epochs(self) -> list[Epoch]:
        return []

    def epoch(self, tick: int) -> Epoch:
        """Return the epoch that `tick` (from 1, since the noises began) is in."""
        known = self._epochs
        if not known:
            known.append(Epoch(0, 0, self._build_noise(FIRST_EPOCH_TICKS)))
        if self.horizon is not None:
            return known[0]
        while tick > known[-1].begin + known[-1].noise.bridge.span:
            last = known[-1]
            length = min(FIRST_EPOCH_TICKS * EPOCH_GROWTH ** len(known), MAX_EPOCH_TICKS)
            known.append(Epoch(last.number + 1, last.begin + last.noise.bridge.span, self._build_noise(length)))
        return next(each for each in reversed(known) if tick > each.begin)

    def _build_noise(self, length: int) -> PastNoise:
        """Return the noise ahead of a horizon, or of an epoch of about so many ticks."""
        if self.horizon is not None:
            return PastNoise(self._build_bridge(parse_radices(self.radices)))
        return _find_epoch_noise(self._part_loss, self.tick_sensitivity, length)

    def initial(self, width: int, noise: Noise) -> State:
        state = self._build_state(0, np.zeros(width))
        self._begin(state, noise)
        return state

    def _build_state(self, tick: int, base: Floats) -> State:
        """Return a state of a released sum alone, without noise."""
        width, ahead = len(base), self.epoch(1).noise
        zeros, none = np.zeros((3, width), np.int64), np.zeros(0, np.int64)
        sums = MixedNumbers(zeros[0], zeros[1], ahead.bridge.span)
        fresh = self.fresh.initial(width, BlankNoise())
        return State(tick, sums, ahead.initial(width), fresh, zeros[2], base, base.copy(), none)

    def is_open(self, state: State) -> bool:
        """Return whether the noise ahead of the next tick is in the sum, so that its events may come."""
        return self.open_ticks and state.tick != self.horizon

    def _begin(self, state: State, noise: Noise) -> None:
        if self.is_open(state):
            self._open_tick(state, noise)

    def _open_tick(self, state: State, noise: Noise) -> None:
        """Add the noise ahead of the next tick to the sum."""
        tick = int(state.fresh.tick)
        epoch = self.epoch(tick + 1)
        if tick == epoch.begin and tick:
            state.ahead = epoch.noise.initial(len(state.fresh_noise))
            state.sum.span = epoch.noise.bridge.span  # its rest is 0, since bridges have ended
        epoch.noise.add_item(state.ahead, tick - epoch.begin, state.sum, noise)

    def _close_tick(self, state: State, noise: Noise) -> None:
        """Add the fresh noise of a tick that ends to the sum."""
        with WipedArrays() as secret:
            now = self.fresh.step(state.fresh, np.zeros_like(state.fresh_noise), WipedNoise(noise, secret))
            if isinstance(self.fresh, RunningCount):
                now = state.fresh.whole.copy()
            state.sum.whole += secret(now - state.fresh_noise)
        state.fresh_noise = now

    def _read_sum(self, state: State) -> Floats:
        """Return the sum with all noise, which a release or a hand-over publishes."""
        value: Floats = state.base + state.sum.whole + state.sum.rest / state.sum.span
        if isinstance(self.fresh, RunningCount):
            value += state.fresh.part * 2.0**-self.fresh.grid_bits
        return value

    def add_partial(self, state: State, values: Ints) -> None:
        if not self.open_ticks:
            return super().add_partial(state, values)
        state.sum.whole += values
        return None

    def step(self, state: State, values: Ints, noise: Noise) -> Release:
        if not self.open_ticks:
            self._open_tick(state, noise)
        state.sum.whole += values
        self._close_tick(state, noise)
        state.tick += 1
        state.last_release = self._read_sum(state)
        state.released_runs, state.released_tick = len(state.past_ticks), int(state.fresh.tick)
        self._begin(state, noise)
        return state.last_release.copy()

    def feed(self, state: State, block: Ints, noise: Noise) -> Release:
        steps = [self.step(state, values, noise) for values in block]
        return np.stack(steps) if steps else np.zeros(block.shape)

    def intrude(self, state: State, noise: Noise) -> State:
        if self.is_open(state):
            self._close_tick(state, noise)
        self._begin_anew(state, self._read_sum(state), [*state.past_ticks, state.fresh.tick])
        shown = deepcopy(state)
        self._begin(state, noise)
        return shown

    def rerandomize(self, state: State, noise: Noise) -> None:
        if not self.open_ticks:
            return super().rerandomize(state, noise)
        ended = [*state.past_ticks[: state.released_runs], state.released_tick]
        self._begin_anew(state, state.last_release.copy(), ended)
        state.released_runs, state.released_tick = len(state.past_ticks), 0
        return self._begin(state, noise)

    def _begin_anew(self, state: State, base: Floats, ended: list[Any]) -> None:
        """Forget all but a released sum, from which the noises begin again."""
        for secret in (state.sum, state.ahead, state.fresh, state.fresh_noise):
            wipe_state(secret)
        new = self._build_state(state.tick, base)
        state.sum, state.ahead, state.fresh, state.fresh_noise = new.sum, new.ahead, new.fresh, new.fresh_noise
        state.base, state.past_ticks = base, np.array([tick for tick in ended if tick], np.int64)

    def noise_at(self, tick: int) -> NoiseSum:
        epoch = self.epoch(tick)
        bridge = epoch.noise.bridge
        tops = Term(epoch.number, 1, bridge.top_distribution)
        return NoiseSum((tops, *bridge.list_terms(tick - epoch.begin), *self.fresh.noise_at(tick).terms))

    def current_noise(self, state: State) -> NoiseSum:
        ticks = [*state.past_ticks[: state.released_runs].tolist(), state.released_tick]
        return NoiseSum(tuple(term for tick in ticks if tick for term in self.noise_at(tick).terms))

    def memory(self) -> int:
        ticks = self.horizon or UNBOUNDED_PLANNING_TICKS
        ahead = self.epoch(ticks).noise.bridge
        return self.fresh.memory() + sum(ahead.radices) + len(ahead.radices) + 6

    def mean_variance(self, ticks: int) -> float:
        total, done = self.fresh.mean_variance(ticks) * ticks, 0
        while done < ticks:
            epoch = self.epoch(done + 1)
            bridge, inside = epoch.noise.bridge, min(ticks - done, self._count_ticks(epoch))
            total += bridge.sum_variances(inside) + inside * epoch.number * bridge.top_distribution.variance
            done += inside
        return total / ticks

    def matrices(self, ticks: int) -> Strategy:
        """Return the fresh noise's rows, and those of the noise ahead, which measure nothing."""
        fresh, begun = self.fresh.matrices(ticks), ticks + (self.open_ticks and ticks != self.horizon)
        weights, laws, counts = self._weigh_ahead(begun)
        order, first = [], len(fresh.distributions)
        for tick, count in enumerate(counts):
            order += [*range(first, first + count), *fresh.draws[tick : tick + 1]]
            first += count
        measure = np.concatenate([fresh.measure, np.zeros((len(laws), ticks))])
        decode = np.concatenate([fresh.decode, weights[:ticks]], axis=1)
        grids = (*fresh.grids, *(1 for _ in laws))
        return Strategy(measure, decode, (*fresh.distributions, *laws), tuple(order), grids)

    def _weigh_ahead(self, ticks: int) -> tuple[Matrix, list[Distribution], list[int]]:
        """Return weights and laws of the draws ahead of so many ticks, in order, and their number in each tick."""
        parts, laws, counts = [np.zeros((ticks, 0))], [], []
        while len(counts) < ticks:
            epoch, done = self.epoch(len(counts) + 1), len(counts)
            inside = min(ticks - done, self._count_ticks(epoch))
            _, own, more = epoch.noise.bridge.build_matrices(inside)
            parts.append(np.concatenate([np.zeros((done, len(more))), own, *[own[-1:]] * (ticks - done - inside)]))
            laws += more
            counts += [epoch.noise.count_draws(tick) for tick in range(inside)]
        return np.concatenate(parts, axis=1), laws, counts

    def _count_ticks(self, epoch: Epoch) -> int:
        return self.horizon + 1 if self.horizon is not None else epoch.noise.bridge.span


@lru_cache(maxsize=1024)
def _find_epoch_noise(loss: Pure | Zcdp, moved: Sensitivity, length: int) -> PastNoise:
    """Return the noise of an epoch of about so many ticks: the radices of least mean variance."""
    top = loss.part(EPOCH_SHARE).calibrate(l1=moved.l1, l2_squared=moved.l2_squared)
    inner, found = loss.part(1 - EPOCH_SHARE), []
    for levels in range(1, length.bit_length()):
        law = inner.calibrate(l1=moved.l1 * levels, l2_squared=moved.l2_squared * levels)
        middle = max(2, int(length ** (1 / levels)))
        for k, larger in product(range(max(2, middle - 1), middle + 2), range(levels)):
            bridge = Bridge((k + 1,) * larger + (k,) * (levels - larger), law, top)
            if abs(bridge.span / length - 1) <= MAX_LENGTH_ERROR:
                found.append((bridge.sum_variances(bridge.span) / bridge.span, bridge))
    return PastNoise(min(found, key=lambda scored: scored[0])[1])
