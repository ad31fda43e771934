"""Pan-privacy by enumeration: tables and outputs together, intruded at every moment, in exact arithmetic."""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations, permutations, product

import numpy as np
import pytest

from streamgauge.noise import DiscreteLaplace
from streamgauge.panprivate import CroppedMean, Density, HeavyFraction, Incidence, MultiplicativeDensity
from streamgauge.panprivate.cycle import Cycle
from streamgauge.panprivate.run import NoisyTable
from streamgauge.privacy import Pure
from tests.support.every_draw import power, views, worst

HALF = Fraction(1, 2)
ONE = {"universe": 1, "split": HALF}
CLAIMS = {
    "density": Density(Pure(1), **ONE),
    "density, paper": Density(Pure(1), law="paper", **ONE),
    "density, two releases": Density(Pure(3), releases=2, **ONE),
    "cropped mean": CroppedMean(Pure(1), limit=2, **ONE),
    "cropped mean, paper": CroppedMean(Pure(1), limit=3, law="paper", **ONE),
    "cropped at one": CroppedMean(Pure(2), limit=1, **ONE),
    "heavy fraction": HeavyFraction(Pure(2), at_least=3, **ONE),
    "incidence": Incidence(Pure(1), exactly=1, **ONE),
    "heavy, hashed": HeavyFraction(Pure(2), at_least=2, hashed=True, **ONE),
    "never came": Incidence(Pure(1), exactly=0, law="paper", **ONE),
}
INTRUDED = {
    name: replace(CLAIMS[name], intrusions=1, loss=Pure(2 * CLAIMS[name].loss.epsilon))
    for name in ("density", "density, paper", "cropped mean", "never came")
}


def histories(first, second, releases):
    """Yield acts: one user comes twice, with one unannounced peek at every moment."""
    acts = [first, second, *["release"] * releases]
    return [[*acts[:place], "see", *acts[place:]] for place in range(len(acts) + 1)]


def absent(acts):
    """Return the same acts without the user."""
    return [act if isinstance(act, str) else [] for act in acts]


def within(claim, acts, other=None):
    """Return True if the observations of two streams satisfy the claim."""
    ratio = worst(views(claim, acts), views(claim, absent(acts) if other is None else other), claim.noise.scale)
    return ratio is not None and ratio <= power(claim.loss.epsilon)


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize("first", [[0], [0, 0]])
def test_intrusion_at_any_moment_with_outputs_satisfies_the_claim(name, first):
    claim = CLAIMS[name]
    for acts in histories(first, [0], claim.releases):
        assert within(claim, acts)


def test_replacing_a_user_satisfies_the_claim():
    acts = [[0], "see", [0, 0], "release"]
    others = [act if isinstance(act, str) else [1] * len(act) for act in acts]
    for claim in (
        Density(Pure(1), universe=2, replace=True, split=HALF),
        CroppedMean(Pure(1), universe=2, limit=2, replace=True, split=HALF),
    ):
        assert within(claim, acts, others)
    assert not within(LooseReplace(Pure(1), universe=2, replace=True, split=HALF), acts, others)


def orders(claim):
    """Yield estimates, announced intrusions and one unannounced peek, in every order."""
    acts = ["see", *["intrude"] * claim.intrusions, *["release"] * claim.releases]
    return sorted(set(permutations(acts)))


def streams(order, most):
    """Yield streams in which one user comes, or not, before each observation."""
    for times in product(range(most + 1), repeat=len(order)):
        yield [act for each, seen in zip(times, order, strict=True) for act in ([0] * each, seen)]


def worst_of(claim, order, most=1):
    """Return the worst ratio of all pairs of streams."""
    known = [views(claim, acts) for acts in streams(order, most)]
    return max(worst(one, other, claim.noise.scale) for one, other in combinations(known, 2))


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", INTRUDED)
def test_announced_and_unannounced_intrusions_together_satisfy_the_claim(name):
    claim = INTRUDED[name]
    for order in orders(claim):
        assert worst_of(claim, order) <= power(claim.loss.epsilon)


def test_half_noise_exceeds_claim_only_with_final_intrusion():
    """Other orders stay below the claim, so the test must try all orders."""
    claim = HalfNoise(Pure(1), universe=1, intrusions=1)
    for order in orders(claim):
        assert (worst_of(claim, order) > power(1)) == (order[-1] == "intrude")


def test_several_tables_together_satisfy_the_claim():
    settings = {"universe": 3, "shrink": 2, "smallest": 1, "split": Fraction(3, 4)}
    acts = [[1, 1], "see", "release"]
    assert within(MultiplicativeDensity(Pure(2), **settings), acts)
    assert not within(Undivided(Pure(2), **settings), acts)


class HalfNoise(Density):
    """A broken twin: it has half of the required noise."""

    @cached_property
    def noise(self):
        return DiscreteLaplace(super().noise.scale / 2)


class LooseReplace(Density):
    """A broken twin: it ignores that a replacement moves two entries."""

    @property
    def entries_per_unit(self):
        return 1


class Undivided(MultiplicativeDensity):
    """A broken twin: every table spends the whole loss."""

    @property
    def entries_per_unit(self):
        return 1


class FigureOne(Density):
    """A broken twin: it adds noise after scaling, as in the paper's Figure 1."""

    @cached_property
    def noise(self):
        return DiscreteLaplace(self.response.gap * self.entries_per_unit / self.output_loss.epsilon)


@dataclass(slots=True)
class Known:
    """A broken twin: a table that records the users."""

    entries: np.ndarray
    came: np.ndarray


class OnlyFirst(Density):
    """A broken twin: it redraws an entry only at the user's first appearance."""

    def initial(self, noise):
        return Known(super().initial(noise).entries, np.zeros(self.entries, np.bool_))

    def add_users(self, state, users, intrusions, noise):
        fresh = [user for user in users if not state.came[user]]
        super().add_users(state, np.array(fresh, np.int64), intrusions, noise)
        state.came[users] = True


class NoiseAfter(Density):
    """A broken twin: it rerandomizes only after the intrusion."""

    def rerandomize(self, state, before, noise):
        if before % 2:
            super().rerandomize(state, before, noise)


class NoiseBefore(Density):
    """A broken twin: it rerandomizes only before the intrusion."""

    def rerandomize(self, state, before, noise):
        if before % 2 == 0:
            super().rerandomize(state, before, noise)


class FromZero(Cycle):
    """A broken twin: all cycles start at 0."""

    def initial_table(self, entries, noise):
        return NoisyTable(noise.coins(self.response.absent, entries).astype(np.uint16))


class BitsOnly(Cycle):
    """A broken twin: it redraws only the bits at an announced intrusion."""

    def apply_channel(self, table, noise):
        fresh = noise.coins(self.response.present, len(table.entries))
        table.entries[:] = table.entries // 2 * 2 + fresh


class Begun(CroppedMean):
    kind = FromZero

    @cached_property
    def cycle(self):
        honest = super().cycle
        return self.kind(honest.length, honest.response, honest.epsilon)


class Seen(Begun):
    kind = BitsOnly


TWINS = {
    "figure one": (FigureOne(Pure(HALF), **ONE), ["see", [0], "release"]),
    "first appearance": (OnlyFirst(Pure(1), **ONE), [[0], "see", [0], "release"]),
    "noise after": (NoiseAfter(Pure(2), intrusions=1, **ONE), ["see", [0], "intrude"]),
    "noise before": (NoiseBefore(Pure(2), intrusions=1, **ONE), ["intrude", [0], "see"]),
    "cycles from zero": (Begun(Pure(1), limit=3, **ONE), [[0], "see"]),
    "cycles seen twice": (Seen(Pure(2), limit=2, intrusions=1, **ONE), ["see", [0], "intrude"]),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_twin_is_caught(twin):
    claim, acts = TWINS[twin]
    assert not within(claim, acts)


@pytest.mark.parametrize("name", CLAIMS)
def test_state_loss_is_nearly_tight(name):
    """The state alone loses nearly its share of the claim, and never more."""
    claim = CLAIMS[name]
    if claim.law == "symmetric":
        acts = [[0] * 3, "see"]
        ratio = worst(views(claim, acts), views(claim, absent(acts)), 1)
        assert power(claim.state_loss.epsilon) * Fraction(999, 1000) < ratio <= power(claim.state_loss.epsilon)
