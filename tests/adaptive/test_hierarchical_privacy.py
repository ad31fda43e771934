"""Loss of a hierarchy, computed exactly by replaying releases in its own code; twins.

A release of a small tree is fixed beforehand: readings, and the ticks that join a group. `Replay` is a noise that
makes the mechanism release exactly that, for all counts, and computes its probability.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from itertools import islice, product
from math import inf, log

import numpy as np
import pytest

from streamgauge.adaptive.pegasus.hierarchy import PegasusHierarchy, Tier
from streamgauge.noise import DiscreteLaplace
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Event, Pure
from streamgauge.testing.noise import CountedNoise, InsecureNoise

TREE = Hierarchy([None, 0, 0])
TICKS, EPSILON = 3, 6
STREAM = np.array([[3, 1], [4, 1], [3, 2]])
FAR = 2**40


@cache
def chances(scale):
    """Return the probabilities and upper tails of noise from -REACH to REACH."""
    law = DiscreteLaplace(scale)
    places = np.arange(-900, 901)
    return np.array([law.pmf(k) for k in places.tolist()]), np.array([law.tail(k) for k in places.tolist()])


@dataclass
class Instance:
    """One group of one node: its counts and the answers of its threshold."""

    opening: Fraction
    level: int
    counts: list[int]
    asks: list[tuple[int, bool, Fraction]] = field(default_factory=list)

    def ask(self, count, refuse, scale):
        counts = [*self.counts, count]
        mean = Fraction(sum(counts), len(counts))
        self.asks.append((int(sum(abs(c - mean) for c in counts)), refuse, scale))
        self.counts = counts

    @property
    def chance(self):
        """Return the probability, summed for all noise of the threshold."""
        threshold, _ = chances(self.opening)
        joint = threshold.copy()
        for deviation, refuse, scale in self.asks:
            least = np.clip(np.arange(-900, 901) + self.level - deviation + 900, 0, 1800)
            refused = chances(scale)[1][least]
            joint *= refused if refuse else 1 - refused
        return float(joint.sum())


class Replay:
    """Noise that forces the given `readings` and `refusals`, both (ticks, nodes).

    Each level draws three times a tick: for readings, for queries and for thresholds. Siblings have their groups
    in common, so a level draws for all its nodes or for none.
    """

    def __init__(self, mechanism, counts, readings, refusals):
        self.mechanism, self.counts, self.readings, self.refusals = mechanism, counts, readings, refusals
        self.calls, self.log, self.open, self.closed = 0, 0.0, {}, []

    def laplace(self, scale, size):
        visit, kind = divmod(self.calls, 3)
        self.calls += 1
        tick, depth = divmod(visit, len(self.mechanism.tiers))
        nodes = range(0, 1) if depth == 0 else range(1, 3)
        assert size in (0, len(nodes))
        act = (self._read, self._ask, self._open)[kind]
        draws = [act(tick, node, depth, scale) for node in nodes] if size else []
        if kind == 0 and not size:
            self._gap(nodes)
        return np.array(draws, np.int64)

    gaussian = laplace

    def _read(self, tick, node, depth, scale):
        draw = int(self.readings[tick, node] - self.counts[tick, node])
        self.log += log(DiscreteLaplace(scale).pmf(draw))
        return draw

    def _ask(self, tick, node, depth, scale):
        refuse = bool(self.refusals[tick, node])
        self.open[node].ask(int(self.counts[tick, node]), refuse, scale)
        if refuse:
            self.closed.append(self.open.pop(node))
        return FAR if refuse else -FAR

    def _open(self, tick, node, depth, scale):
        level = self.mechanism.tiers[depth].pegasus.grouper.max_deviation
        self.open[node] = Instance(scale, level, [int(self.counts[tick, node])])
        return 0

    def _gap(self, nodes):
        self.closed += [self.open.pop(node) for node in nodes if node in self.open]

    @property
    def chance(self):
        return self.log + sum(log(group.chance) for group in [*self.closed, *self.open.values()])


def replayed(build, stream, readings, refusals):
    """Return the release of a run, and the logarithm of its probability."""
    mechanism = build()
    noise = Replay(mechanism, TREE.sum_leaves(stream), readings, refusals)
    release = mechanism.start(noise=noise).feed(stream)
    shown = (
        release.was_read.tolist(),
        release.noisy_counts.tolist(),
        release.group_starts.tolist(),
        release.value.tolist(),
    )
    return shown, noise.chance


PATTERNS = [((a, b), other) for a, b in product((0, 1), repeat=2) for other in {(a, b), (b, a)}]


def releases():
    """Yield releases with nodes on both sides of their thresholds and varied refusals."""
    for roots, leaf in product(product((-20, 30), repeat=TICKS), (-20, 20)):
        readings = np.array([[root, leaf, 1] for root in roots])
        for root, leaves in PATTERNS:
            yield readings, np.array([[0, 0, 0], *([a, b, b] for a, b in zip(root, leaves, strict=True))])


def losses(build, *ticks):
    """Return each release's worst loss if the first leaf has one more at one of these ticks."""
    for readings, refusals in releases():
        shown, chance = replayed(build, STREAM, readings, refusals)
        others = [replayed(build, one_more(tick), readings, refusals) for tick in ticks]
        yield max(abs(chance - other) if shown == view else inf for view, other in others)


def one_more(tick):
    neighbour = STREAM.copy()
    neighbour[tick, 0] += 1
    return neighbour


def claim(kind=PegasusHierarchy, **settings):
    return kind(Pure(EPSILON), hierarchy=TREE, theta=2, max_group_ticks=TICKS, shares=("1/3", "2/3"), **settings)


def test_no_release_loses_more_than_epsilon_under_any_pruning():
    worst = max(losses(cache(claim), *range(TICKS)))
    assert Fraction(4, 5) * EPSILON < worst <= EPSILON * (1 + 1e-9)


def test_running_window_with_pruning_loses_at_most_epsilon():
    worst = max(losses(cache(lambda: claim(window="running", prune=2)), 0))
    assert worst <= EPSILON * (1 + 1e-9)


class ByExactSize(Tier):
    """A broken twin: its threshold depends on exact counts."""

    def step(self, state, counts, above, tick, noise):
        self.pruner.threshold[:] = -inf if above and counts.sum() > 5 else FAR
        return super().step(state, counts, above, tick, noise)


def test_pruning_a_window_by_exact_counts_is_caught():
    assert inf in losses(cache(lambda: twin(ByExactSize, window="running")), 0, 1, 2)


def test_replayed_releases_cover_all_pruning_patterns():
    mechanism = claim()
    patterns = {
        str(replayed(lambda: mechanism, STREAM, *each)[0][0]) for each in islice(releases(), 5, None, len(PATTERNS))
    }
    assert len(patterns) == 2**TICKS


class ByExactCounts(Tier):
    """A broken twin: it prunes by exact parent counts, not by their releases."""

    def step(self, state, counts, above, tick, noise):
        return super().step(state, counts, above, tick, noise)._replace(newest=counts.astype(float))


@dataclass(frozen=True)
class Reusing(Tier):
    """A broken twin: it adds the budget of skipped readings to the next one."""

    skipped: list = field(default_factory=lambda: [0])

    def read_nodes(self, counts, read, noise):
        self.skipped[0] += 1
        sharper = DiscreteLaplace(self.pegasus.perturber.scale / self.skipped[0])
        noisy = np.zeros_like(counts)
        noisy[read] = counts[read] + sharper.draw(noise, int(read.sum()))
        self.skipped[0] *= not read.any()
        return noisy


def twin(kind, **settings):
    """A claim whose levels are of another kind."""

    class Twin(PegasusHierarchy):
        def build_tier(self, level, part):
            tier = super().build_tier(level, part)
            return kind(tier.level, tier.pegasus, tier.pruner)

    return claim(Twin, **settings)


class FullEpsilon(PegasusHierarchy):
    """A broken twin: every level spends the full epsilon."""

    @property
    def level_shares(self):
        return (Fraction(1),) * len(self.levels)


def test_pruning_by_exact_counts_is_caught():
    prune = 5.5 / claim().tiers[1].pruner.threshold[0]  # the root has 5 at the last tick, or one more
    assert inf not in islice(losses(cache(lambda: twin(Tier, prune=prune)), 2), 32)
    assert inf in losses(cache(lambda: twin(ByExactCounts, prune=prune)), 2)


def test_levels_at_full_epsilon_are_caught():
    assert any(loss > 1.2 * EPSILON for loss in losses(cache(lambda: claim(FullEpsilon)), 1))


def test_budget_of_skipped_levels_that_is_reused_is_caught():
    assert any(loss > 1.1 * EPSILON for loss in losses(lambda: twin(Reusing), 1))


@pytest.mark.parametrize("parents", [[None, 0, 0, 1, 1, 2], [2, 2, None, None, 3, 4, 4]])
def test_event_moves_at_most_one_node_per_level_by_one(parents):
    mechanism = PegasusHierarchy(Pure(1), hierarchy=Hierarchy(parents))
    for leaf in np.eye(mechanism.leaves, dtype=int):
        moved = mechanism.hierarchy.sum_leaves(leaf)
        assert np.bincount(mechanism.depths, weights=moved).max() == 1


def test_all_drawn_noise_belongs_to_the_levels():
    mechanism = PegasusHierarchy(
        Pure(1), hierarchy=Hierarchy([None, 0, 0, 1, 1]), unit=Event(), shares=("1/2", "1/4", "1/4")
    )
    noise = CountedNoise(InsecureNoise(5))
    release = mechanism.start(noise=noise).feed(np.random.default_rng(0).poisson(30, (30, 3)))
    laws = [tier.pegasus for tier in mechanism.tiers]
    scales = {
        each.scale for law in laws for each in (law.perturber, law.grouper.test_noise, law.grouper.threshold_noise)
    }
    assert {scale for _, scale, _ in noise.requests} == scales
    drawn = sum(size for _, scale, size in noise.requests if scale in {law.perturber.scale for law in laws})
    assert drawn == release.was_read.sum()


@pytest.mark.parametrize("lowest", [0, None])
def test_clipped_leaf_moves_by_at_most_one_across_64_bits(lowest):
    mechanism = PegasusHierarchy(Pure(1), hierarchy=TREE, lowest=lowest)
    ends = np.iinfo(np.int64)
    places = [ends.min, -1, 0, 2**61 - 1, 2**61, 2**62, 2**63 - 2**61 - 1, ends.max]
    here = np.array(places, np.int64)
    with np.errstate(over="ignore"):
        apart = mechanism.clip_counts(here + 1) - mechanism.clip_counts(here)
    assert np.abs(apart).max() <= 1
    if lowest == 0:
        assert mechanism.clip_counts(here).min() == 0
        assert mechanism.clip_counts(here).max() <= 2**62 // mechanism.leaves
