"""Rehearsals of an intrusion with made-up people: with pan-privacy and without.

    counter     one visit among others in a running count     `run_counter_demo`
    table       all visits of one patient, in a table         `run_table_demo`

Counter:

    ticks          1 ........ 8   9  10  11 | 12 .. 16       Robin came in tick 9, or did not;
    the memory is read after tick 11        ^                the intruder knows all others

Without pan-privacy the memory has the exact total, and one subtraction reveals Robin. With it, every number that
includes Robin has independent noise: a block that was released, or the register of one that is still open. The
intruder's belief is computed exactly: the log odds are the sum, over these blocks, of

    log P(noise = observed - others - 1) - log P(noise = observed - others)

and every one is at most 1/scale, of at most as many blocks as there are levels. A register has one draw of noise in
it, a block that was released from a register two. Two looks, the first of which was before tick 9, break it: a
register that was open at both has the same draw in it, and the difference is the visits in between.

Table:

    week 1            week 2                 week 3
    Robin comes       the table is seized    Robin comes again; then the estimate is published

or Robin never comes. The intruder knows all others who came, none of them in week 3, and reads both. The ordinary
memory is the set of all who came: Robin is in it or not. The pan-private one has a bit for each patient, and the
intruder's belief is computed exactly: the odds are

    P(bit | present)     sum over the new bit c of P(c | present) P(noise = published - others' ones - c)
    ----------------  x  --------------------------------------------------------------------------------
    P(bit | absent)      P(noise = published - others' ones - bit)

with the others' ones from the table that was seized. Two looks, before week 3 and after it, break it: a bit that has
changed was drawn again, so Robin came.

Privacy
    Streams are made here, of constants. Noise is drawn and erased. Nothing of a live run is read: this module
    gets none. Reading the memory of a real run would be an intrusion.
    Promise: the odds change by a factor of at most e^epsilon, in every rehearsal. A second unannounced look is
    not covered, and is shown as well.
    Proof of the counter: levels/scale = epsilon, by the tree's calibration (see
    `streamgauge.continual.trees.tree`). Of the table: the first quotient is at most e^state_loss, the second
    at most e^output_loss, for any visits of Robin (see `streamgauge.panprivate.density`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp, inf
from typing import Any

import numpy as np

from streamgauge.continual import Binary
from streamgauge.continual.run import build_noise
from streamgauge.continual.trees.tree import State, Tree
from streamgauge.noise import DiscreteLaplace, EphemeralNoise, Ints, Noise, RandomSource
from streamgauge.noise.coerce import Floats
from streamgauge.panprivate.density import Density
from streamgauge.privacy import Pure

DEMO_EPSILON = 1
COUNTER_HORIZON, VISIT_TICK, INTRUSION_TICK = 16, 9, 11
OTHER_VISITS = np.array([4, 6, 3, 5, 7, 5, 4, 6, 5, 3, 6])  # other visitors, tick by tick: known to the intruder


@dataclass(frozen=True)
class ObservedSum:
    """Ticks of which one noisy sum was observed: a release, or a register."""

    first_tick: int
    last_tick: int
    is_released: bool
    draws: int  # of noise in it
    sums: Ints  # noisy: one of each rehearsal

    @property
    def other_visits(self) -> int:
        """The sum without Robin, up to the intrusion."""
        return int(OTHER_VISITS[self.first_tick - 1 : min(self.last_tick, INTRUSION_TICK)].sum())

    def log_odds(self, scale: float) -> Floats:
        noise = self.sums - self.other_visits
        return _log_weight(noise - 1, scale, self.draws) - _log_weight(noise, scale, self.draws)


def _log_weight(noise: Ints, scale: float, draws: int) -> Floats:
    """Return the log likelihood of a noise, but for a constant.

    It is a^|k| of one draw, a^|k| (|k| + (1+a^2)/(1-a^2)) of two.
    """
    size = np.abs(noise).astype(np.float64)
    if draws == 1:
        return np.asarray(-size / scale)
    square = exp(-2 / scale)
    return np.asarray(np.log(size + (1 + square) / (1 - square)) - size / scale)


def run_counter_demo(came: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return the first rehearsal in full, and the odds after each."""
    blocks, scale = observe_sums(came)
    plain, others = _build_counter(pan_private=False), int(OTHER_VISITS.sum())
    *_, (state, _) = _iterate_steps(plain, np.array([True]), build_noise(plain))  # Robin came: its total is exact
    total = int(state.total[0])
    return {
        "came_in": VISIT_TICK,
        "seen_after": INTRUSION_TICK,
        "others": OTHER_VISITS.tolist(),
        "plain": {"seen": total, "without": others, "chance": float(total > others)},
        "blocks": [
            {
                "first": block.first_tick,
                "last": block.last_tick,
                "released": block.is_released,
                "seen": int(block.sums[0]),
                "without": block.other_visits,
                "with": block.other_visits + 1,
            }
            for block in blocks
        ],
        "odds": np.exp(sum(block.log_odds(scale) for block in blocks)),
        "two_looks": second_look_odds(came),
    }


def observe_sums(came: np.ndarray[Any, Any], noise: Noise | None = None) -> tuple[list[ObservedSum], float]:
    """Return every noisy sum with Robin's tick in it, and the scale of its noise.

    They are from releases and from the memory.
    """
    mechanism = _build_counter(pan_private=True)
    states, releases = zip(*_iterate_steps(mechanism, came, noise or build_noise(mechanism)), strict=True)
    noises = mechanism.distribution
    assert isinstance(noises, DiscreteLaplace)
    return list(_find_observed_sums(mechanism, states[-1], np.stack(releases))), float(noises.scale)


def second_look_odds(came: np.ndarray[Any, Any], noise: Noise | None = None) -> Floats:
    """Return the odds after a second look, if the first was before Robin's tick.

    The top register was open at both.
    """
    mechanism = _build_counter(pan_private=True)
    tops = [state.total.copy() for state, _ in _iterate_steps(mechanism, came, noise or build_noise(mechanism))]
    others = OTHER_VISITS[VISIT_TICK - 1 : INTRUSION_TICK].sum()
    return np.where(tops[INTRUSION_TICK] - tops[VISIT_TICK - 1] > others, inf, 0.0)


def _find_observed_sums(tree: Tree, state: State, releases: Ints) -> Iterator[ObservedSum]:
    for level in range(tree.levels):
        size = int(tree.branching**level)
        begin = (VISIT_TICK - 1) // size * size
        end = begin + size
        if end > INTRUSION_TICK:
            register = state.total + state.entries[level]
            yield ObservedSum(begin + 1, end, False, 1, register - releases[begin])
        elif tree.level(end) == level:
            yield ObservedSum(begin + 1, end, True, 1 + (level > 0), releases[end] - releases[begin])


def _build_counter(*, pan_private: bool) -> Tree:
    tree = Binary(Pure(DEMO_EPSILON), horizon=COUNTER_HORIZON, pan_private=pan_private).implementation
    assert isinstance(tree, Tree)
    return tree


def _iterate_steps(tree: Tree, came: np.ndarray[Any, Any], noise: Noise) -> Iterator[tuple[State, Ints]]:
    """Yield the state, which is changed in place, and the release after each tick.

    The first pair is that of tick 0, which released nothing.
    """
    state = tree.initial(len(came), noise)
    yield state, np.zeros(len(came), np.int64)
    for tick, others in enumerate(OTHER_VISITS.tolist(), start=1):
        yield state, tree.step(state, others + came.astype(np.int64) * (tick == VISIT_TICK), noise)


PATIENT_COUNT, OTHER_PATIENT_COUNT, ROBIN_ID = 300, 120, 299  # patients below OTHER_PATIENT_COUNT came


@dataclass(frozen=True)
class TableSnapshot:
    """The observations of an intruder in one rehearsal."""

    bit: int  # noisy: Robin's, as it was seized
    ones: int  # noisy: everybody else's
    published: int  # noisy: ones of the table as it was in week 3
    later_bit: int  # noisy: Robin's bit at a second look

    def odds(self, claim: Density) -> float:
        """Return the odds that Robin has come."""
        fair, decay = claim.response, exp(-1 / float(claim.noise.scale))
        chances = [float(1 - fair.present), float(fair.present)]
        before = chances[self.bit] / float(fair.absent if self.bit else 1 - fair.absent)
        noise = self.published - self.ones
        drawn = sum(chance * decay ** abs(noise - bit) for bit, chance in enumerate(chances))
        return float(before * drawn / decay ** abs(noise - self.bit))

    def two_look_odds(self, claim: Density) -> float:
        """Return the odds after both looks at the bits, without the publication."""
        fair = claim.response
        if self.bit != self.later_bit:
            return inf
        stays = fair.present if self.bit else 1 - fair.present
        return float(stays * stays / (fair.absent if self.bit else 1 - fair.absent))


def build_clinic() -> Density:
    return Density(Pure(DEMO_EPSILON), universe=PATIENT_COUNT)


def take_snapshot(claim: Density, came: bool, noise: RandomSource) -> TableSnapshot:
    """Run one rehearsal."""
    state, robin = claim.initial(noise), [ROBIN_ID] if came else []
    claim.add_users(state, np.array([*range(OTHER_PATIENT_COUNT), *robin], np.int64), 0, noise)
    bit = int(state.entries[ROBIN_ID])
    ones = int(np.count_nonzero(state.entries)) - bit
    claim.add_users(state, np.array(robin, np.int64), 0, noise)
    published = int(claim.release(state, noise)[0])
    return TableSnapshot(bit, ones, published, int(state.entries[ROBIN_ID]))


def run_table_demo(came: np.ndarray[Any, Any], noise: RandomSource | None = None) -> dict[str, Any]:
    """Return the first rehearsal in full, and the odds after each."""
    claim, chance = build_clinic(), noise or EphemeralNoise()
    every = [take_snapshot(claim, bool(each), chance) for each in came]
    exact = {*range(OTHER_PATIENT_COUNT), ROBIN_ID} if came[0] else set(range(OTHER_PATIENT_COUNT))
    first, response = every[0], claim.response
    return {
        "patients": PATIENT_COUNT,
        "others": OTHER_PATIENT_COUNT,
        "plain": {"seen": len(exact), "without": OTHER_PATIENT_COUNT, "chance": float(ROBIN_ID in exact)},
        "first": {
            "bit": first.bit,
            "ones": first.ones,
            "published": first.published,
            "scale": float(claim.noise.scale),
            "without": round(float(response.absent), 3),
            "with": round(float(response.present), 3),
        },
        "odds": np.array([each.odds(claim) for each in every]),
        "two_looks": np.array([each.two_look_odds(claim) for each in every]),
    }


PRIOR_PROBABILITY = 0.5  # the intruder's belief before the intrusion


def run_intrusion_demo(times: int) -> dict[str, Any]:
    """Return both rehearsals, ready for `json.dumps`.

    Robin came in every other rehearsal, the first among them.
    """
    came = np.arange(times) % 2 == 0
    most = exp(DEMO_EPSILON)
    return {
        "epsilon": DEMO_EPSILON,
        "before": PRIOR_PROBABILITY,
        "bounds": {"odds": [1 / most, most], "chance": [1 / (1 + most), most / (1 + most)]},
        "came": came.tolist(),
        "counter": _replace_odds(run_counter_demo(came)),
        "table": _replace_odds(run_table_demo(came)),
    }


def _replace_odds(result: dict[str, Any]) -> dict[str, Any]:
    """Replace odds by the intruder's belief after each rehearsal, and the worst odds."""
    odds, twice = result.pop("odds"), result.pop("two_looks")
    furthest = float(np.exp(np.abs(np.log(odds)).max()))
    return result | {"chance": to_probabilities(odds), "worst_odds": furthest, "two_looks": to_probabilities(twice)}


def to_probabilities(odds: Floats) -> list[float]:
    """Return the probabilities that Robin has come; infinite odds are certainty."""
    with np.errstate(invalid="ignore"):
        found = np.where(np.isinf(odds), 1.0, odds / (1 + odds))
    return [round(float(each), 6) for each in found]
