"""Pruned nodes: their guessed values and the bounds that still hold."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from streamgauge.adaptive.pegasus import node_estimates as node_bars
from streamgauge.adaptive.pegasus.hierarchy import PegasusHierarchy
from streamgauge.adaptive.pegasus.node_estimates import NodePruner
from streamgauge.noise import NoiseSum, Term
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Pure
from streamgauge.testing.noise import CountedNoise, ImpulseNoise, InsecureNoise, SilentNoise
from tests.support.pruning_twins import TickPrunedHierarchy

PAIR = Hierarchy([None, 0, 0])
DEEP = Hierarchy([None, 0, 0, 1, 1, 2, 2, 3])


def claim(hierarchy=PAIR, kind=PegasusHierarchy, **settings):
    return kind(Pure(1), hierarchy=hierarchy, **settings)


def test_children_of_small_parent_split_it_without_draws():
    mechanism, noise = claim(consistent=False, theta=0), CountedNoise(SilentNoise())
    run = mechanism.start(noise=noise)
    threshold = mechanism.tiers[1].pruner.threshold[0]
    assert threshold == pytest.approx(sqrt(2) * mechanism.laws[1].variance ** 0.5)
    at_most, above = int(threshold), int(threshold) + 1
    release = run.feed([[at_most, 0], [above, 0]])
    assert release.was_read.tolist() == [[True, False, False], [True, True, True]]
    assert np.allclose(release.value, [[at_most, at_most / 2, at_most / 2], [above, above, 0]], atol=1e-6)
    readings = [size for _, scale, size in noise.requests if scale == mechanism.laws[0].scale]
    assert readings == [1, 0, 1, 2]


def test_descendants_of_an_unread_node_are_unread():
    mechanism = claim(DEEP, prune=2)
    release = mechanism.start(noise=InsecureNoise(1)).feed(np.random.default_rng(1).poisson(9, (60, 4)))
    parents = np.array(DEEP.parents[1:])
    assert 0.1 < release.was_read.mean() < 0.9
    assert release.was_read[:, 0].all()
    assert not (release.was_read[:, 1:] & ~release.was_read[:, parents]).any()
    assert (release.noisy_counts[~release.was_read] == 0).all()


def test_without_pruning_all_zero_nodes_are_read():
    assert claim(DEEP, prune=None).start().feed(np.zeros((9, 4), int)).was_read.all()


def test_values_below_lowest_are_clamped_only_if_declared():
    values = [[-5, 9], [3, -7]]
    silent = SilentNoise()
    clamped = claim(prune=None, theta=0).start(noise=silent).feed(values)
    signed = claim(prune=None, theta=0, lowest=None).start(noise=silent).feed(values)
    assert clamped.centre.tolist() == [[9, 0, 9], [3, 3, 0]]
    assert signed.centre.tolist() == [[4, -5, 9], [-4, 3, -7]]
    assert clamped.lowest == 0
    assert signed.lowest == -np.inf


@pytest.mark.parametrize("window", ["each", "sliding 4", "running"])
def test_window_values_equal_sums_of_tick_guesses(window):
    alone = {"kind": TickPrunedHierarchy, "consistent": False, "max_group_ticks": 1, "prune": 2, "lowest": None}
    mechanism = claim(window=window, **alone)
    release = mechanism.start(noise=InsecureNoise(2)).feed(np.random.default_rng(2).poisson(3, (200, 2)))
    each = claim(**alone).start(noise=InsecureNoise(2))
    ticks = each.feed(np.random.default_rng(2).poisson(3, (200, 2)))
    size = {"each": 1, "sliding 4": 4, "running": 200}[window]
    sums = np.array([ticks.value[max(0, t - size + 1) : t + 1].sum(axis=0) for t in range(200)])
    assert ticks.was_read[:, 1].mean() < 0.9
    assert np.allclose(release.value, sums, rtol=0, atol=1e-3)


READINGS = range(-80, 130)  # readings of a root with a count of 0 to 49


def worst_miss(mechanism, confidence, upper):
    """Return the worst exact probability that a tick's interval misses a leaf equal to its root.

    Computed from one release for each reading of the root. `upper` is the bound of an unread leaf.
    """
    releases = [mechanism.start(noise=ImpulseNoise(0, reading)).step([0, 0]) for reading in READINGS]
    read = np.array([release.was_read[1] for release in releases])
    own = 2 * mechanism.laws[1].tail(int(releases[-1].error_bounds[0].half_width(confidence)[1]) + 1)
    bound = np.array([upper(*each) for each in zip(READINGS, releases, strict=True)])
    chances = np.array([mechanism.laws[0].pmf(k) for k in range(-150, 150)])
    return max(
        float(chances[np.array(READINGS) - truth + 150] @ np.where(read, own, truth > bound)) for truth in range(50)
    )


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_intervals_hold_their_confidence_under_noisy_pruning(confidence):
    worst = worst_miss(claim(), confidence, lambda reading, release: release.interval(confidence)[1][1])
    assert 0.5 * (1 - confidence) < worst <= 1 - confidence


def test_intervals_without_reserved_miss_share_are_caught(monkeypatch):
    monkeypatch.setattr(node_bars, "PARTIAL_MISS_SHARE", 1e-12)  # own noise has the whole miss probability
    half = NoiseSum((Term(1, 1, claim().laws[0]),)).half_width(0.8)
    assert worst_miss(claim(), 0.8, lambda reading, release: max(0, reading + half)) > 1.1 * 0.2


@pytest.mark.parametrize("window", ["sliding 3", "running"])
def test_window_intervals_hold_for_nodes_with_unread_ticks(window):
    roots, spread = 4000, 6.5 * sqrt(0.09 / 4000)
    hierarchy = Hierarchy([None] * roots + [root for root in range(roots) for _ in range(2)])
    mechanism = PegasusHierarchy(Pure(1), hierarchy=hierarchy, window=window, prune=2)
    values = np.zeros((6, 2 * roots), int)
    values[:, ::2] = np.arange(roots) % 30
    release = mechanism.start(noise=InsecureNoise(6)).feed(values)
    sums = hierarchy.sum_leaves(values).cumsum(axis=0)
    if window != "running":
        sums[3:] -= sums[:-3].copy()
    apart, half = np.abs(release.centre - sums)[-1], release.error_bounds[-1].half_width(0.9)
    state = apart <= half
    assert 0.1 < release.was_read[:, roots:].mean() < 0.9
    assert 0.9 - spread < state[:roots].mean() < 0.91 + spread
    for leaf in range(2):  # of each root, so that no two have noise in common
        assert state[roots + leaf :: 2].mean() > 0.9 - spread
    never = (release.error_bounds[-1].unread_ticks > 0) & (sums[-1] > half[0])
    assert never.sum() > 300
    assert (apart[never] <= half[0]).mean() < 0.7, "bars that say nothing of ticks without a reading"
    assert np.isfinite(half).all()


def test_bounds_follow_draws_of_read_nodes_and_are_else_infinite():
    mechanism = claim(lowest=None, window="sliding 2", theta=0)
    quiet, loud = mechanism.start(noise=SilentNoise()).feed([[0, 0], [99, 99], [99, 99]]).error_bounds[1:]
    law = NoiseSum((Term(2, 1, mechanism.laws[1]),))
    assert loud.half_width(0.9).tolist() == [law.half_width(0.9)] * 3
    assert np.allclose(loud.stddev, law.stddev)
    assert quiet.half_width(0.9).tolist() == [law.half_width(0.9), np.inf, np.inf]
    assert np.isnan(quiet.stddev).tolist() == [False, True, True]


def test_bounds_before_data_are_finite_for_unpruned_nodes():
    law = NoiseSum((Term(1, 1, claim().laws[0]),))
    assert claim().error_bound(5).half_width(0.9).tolist() == [law.half_width(0.9), np.inf, np.inf]
    assert claim(prune=None).error_bound(5).half_width(0.9).tolist() == [law.half_width(0.9)] * 3
    assert "read" in PegasusHierarchy.ERROR_DEPENDS_ON


def test_bounds_of_many_ticks_are_finite_and_grow():
    bars = claim(window="running").error_bound(2**40)
    widths = [
        replace(bars, is_counting=True, unread_ticks=np.array([0, n, n])).half_width(0.99)[1] for n in (0, 1, 2**39)
    ]
    assert np.isfinite(widths).all()
    assert widths == sorted(widths)


def test_very_negative_node_is_read_if_counts_are_signed() -> None:
    read, newest = np.array([True, True, True]), np.array([-90.0, 0.5, 90.0])
    for signed, expected in ((True, [False, True, False]), (False, [True, True, False])):
        guessing = NodePruner(np.full(3, 2.0), 0, signed)
        assert guessing.find_pruned(read, newest, newest, 1).tolist() == expected


def unread(ticks, chains=1, count=0):
    """Return a release of leaves that are never read and have the counts of their roots."""
    hierarchy = Hierarchy([None] * chains + list(range(chains)))
    values = np.full((ticks, chains), count)
    mechanism = claim(hierarchy, window="running", prune=2**40)
    return mechanism.start(noise=InsecureNoise(8)).feed(values).select_tick(-1)


def test_interval_of_unread_leaf_is_little_wider_than_roots():
    for ticks in (16, 256):
        root, leaf = unread(ticks).interval(0.95)[1]
        assert root < leaf < 2 * unread(ticks).error_bounds[0].half_width(0.95)[0] + root


class NoiselessBound(node_bars.NodeErrorBound):
    """A broken twin: it ignores the noise of sums."""

    def draws_half_width(self, draws, law, confidence):
        return 0.0


@pytest.mark.parametrize("confidence", [0.0, 0.9])
def test_ancestor_bounds_miss_at_most_their_reserved_share(confidence):
    chains, count, ticks = 3000, 40, 12
    release = replace(unread(ticks, chains, count), value=np.zeros(2 * chains))
    apart = (1 - confidence) * node_bars.PARTIAL_MISS_SHARE / 4  # of the half for sums, the half for those of all ticks

    def missed(release):
        return (release.interval(confidence)[1][chains:] < count * ticks).mean()

    assert missed(release) <= apart + 6.5 * sqrt(apart / chains)
    bounds = tuple(NoiselessBound(**vars(bound)) for bound in release.error_bounds)
    assert missed(replace(release, error_bounds=bounds)) > 0.4, "bounds that say nothing of an ancestor's noise"


def test_reserved_miss_share_is_divided_among_ancestors():
    bars = unread(16).error_bounds[0]
    deep = replace(
        bars,
        laws=(bars.laws[0],) * 3,
        depths=np.arange(3),
        parents=np.arange(3) - 1,
        centres=np.zeros(3, int),
        unread_ticks=np.array([0, 16, 16]),
        ceiling_sums=np.zeros(3, int),
    )
    half, root = deep.half_width(0.9), NoiseSum((Term(16, 1, bars.laws[0]),))
    assert half[1:].tolist() == [root.half_width(1 - 0.1 * node_bars.PARTIAL_MISS_SHARE / 2 / d) for d in (1, 2)]
