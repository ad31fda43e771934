"""Hierarchies of one stream: exact without noise, consistent sums, and saved runs."""

from fractions import Fraction

import numpy as np
import pytest

from streamgauge.adaptive.pegasus.hierarchy import PegasusHierarchy
from streamgauge.continual.state_io import InvalidSaveError
from streamgauge.postprocess import Hierarchy
from streamgauge.privacy import Event, Pure, WEvent, Zcdp
from streamgauge.testing.noise import InsecureNoise, SilentNoise

WINDOWS = ("each", "sliding 3", "running")
LEVELLED = Hierarchy([None, 0, 0, 1, 1, 2, 2, 2])
SKEW = Hierarchy([2, 2, None, None, 3, 4, 4, None])  # a leaf on each of three levels, and three roots
FORESTS = (LEVELLED, SKEW, Hierarchy([None]), Hierarchy([1, None]))


def claim(**settings):
    return PegasusHierarchy(settings.pop("loss", Pure(2)), **{"hierarchy": LEVELLED, **settings})


def stream(leaves, ticks=9, seed=3):
    return np.random.default_rng(seed).poisson(4, (ticks, leaves))


def over(window, truth):
    sums = truth.cumsum(axis=0)
    if window == "running":
        return sums
    size = 1 if window == "each" else 3
    return sums - np.concatenate([np.zeros((size, truth.shape[1]), int), sums[:-size]])


def same(one, other):
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in one.array_names)
    return arrays and all(np.array_equal(a, b) for a, b in zip(one.interval(), other.interval(), strict=True))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("hierarchy", FORESTS)
def test_without_noise_and_pruning_all_nodes_are_exact(hierarchy, window):
    mechanism = claim(hierarchy=hierarchy, window=window, theta=0, prune=None)
    values = stream(mechanism.leaves)
    release = mechanism.start(noise=SilentNoise()).feed(values)
    truth = over(window, hierarchy.sum_leaves(values)).reshape(release.value.shape)
    assert np.allclose(release.value, truth, rtol=0, atol=1e-9)
    assert np.array_equal(release.centre, truth)


@pytest.mark.parametrize("smoother", ["average", "median", "james_stein"])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("hierarchy", [LEVELLED, SKEW])
def test_children_sum_to_their_parents_even_if_pruned(hierarchy, window, smoother):
    mechanism = claim(hierarchy=hierarchy, window=window, smoother=smoother, prune=3)
    release = mechanism.start(noise=InsecureNoise(1)).feed(stream(mechanism.leaves, ticks=40))
    assert 0 < release.was_read.mean() < 1
    sums = hierarchy.sum_leaves(release.value[:, hierarchy.leaves])
    assert np.allclose(sums, release.value, rtol=0, atol=1e-9)


def test_consistency_changes_values_but_not_centres_or_bounds():
    values = stream(5, ticks=20)
    loose, tight = (claim(consistent=yes).start(noise=InsecureNoise(2)).feed(values) for yes in (False, True))
    assert not np.allclose(loose.value, tight.value)
    assert np.array_equal(loose.centre, tight.centre)
    for one, other in zip(loose.error_bounds, tight.error_bounds, strict=True):
        assert np.array_equal(one.half_width(0.95), other.half_width(0.95))


def test_adjustment_moves_a_long_group_less_than_fresh_reading():
    mechanism = claim(hierarchy=Hierarchy([None, 0, 0]), prune=None, theta=40, loss=Pure(1))
    values = np.array([[100, 0]] * 40 + [[400, 0]])
    release = mechanism.start(noise=InsecureNoise(4)).feed(values)
    plain = claim(hierarchy=Hierarchy([None, 0, 0]), prune=None, theta=40, loss=Pure(1), consistent=False)
    before = plain.start(noise=InsecureNoise(4)).feed(values)
    moved = np.abs(release.value - before.value)[-1]
    assert release.group_starts[-1].tolist() == [True, True, False]
    assert moved[2] < moved[1] / 2


@pytest.mark.parametrize("window", WINDOWS)
def test_feed_equals_steps_and_loaded_run_continues_bit_for_bit(window):
    mechanism = claim(window=window, hierarchy=SKEW)
    values, noise = stream(mechanism.leaves, ticks=16), InsecureNoise(7)
    fed = mechanism.start(noise=InsecureNoise(7)).feed(values)
    run = mechanism.start(noise=noise)
    for tick, row in enumerate(values):
        if tick == 8:
            run = mechanism.load(run.save(), noise.clone())
        assert same(run.step(row), fed.select_tick(tick))


def test_any_count_and_any_loss_give_finite_releases():
    ends = np.iinfo(np.int64)
    values = np.array([[ends.min, ends.max, -1, 0, 2**62], [ends.max] * 5, [ends.min] * 5])
    for lowest in (0, None):
        for loss in (Pure(5000), Pure(Fraction(1, 10**6))):
            release = claim(lowest=lowest, loss=loss, window="sliding 2").start().feed(values)
            assert np.isfinite(release.value).all()


def test_a_run_of_another_hierarchy_is_refused():
    saved = claim().start().save()
    other = claim(hierarchy=Hierarchy([None, 0, 0, 1, 1, 1, 2, 2]))
    with pytest.raises(InvalidSaveError, match="saved must be a run of"):
        other.load(saved)
    assert claim() == claim()
    assert hash(claim()) == hash(claim())
    assert "Hierarchy(parents=(-1, 0, 0, 1, 1, 2, 2, 2))" in repr(claim())


def test_empty_feed_and_single_leaf_have_expected_shapes():
    assert claim().start().feed(np.zeros((0, 5), int)).value.shape == (0, 8)
    assert claim(hierarchy=Hierarchy([1, None])).start().feed([1, 2, 3]).value.shape == (3, 2)
    assert claim(hierarchy=Hierarchy([None])).start().feed([1, 2, 3]).value.shape == (3,)


def test_the_width_is_that_of_the_leaves():
    run = claim().start()
    assert run.width == 5
    with pytest.raises(ValueError, match="width must be the number of leaves, 5, got 3"):
        claim().start(3)
    with pytest.raises(TypeError, match="width must stay as it is for PegasusHierarchy"):
        run.widen(1)
    assert claim(window="sliding 64").memory() > claim().memory() > 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hierarchy": [None, 0]}, "hierarchy must be a Hierarchy"),
        ({"shares": ("1/2", "1/2", "1/2")}, "shares must be above 0 and add up to 1, got 1/2, 1/2, 1/2"),
        ({"shares": (1, 1, -1)}, "shares must be above 0 and add up to 1"),
        ({"shares": (0.5, 0.5)}, "shares must be one number for each of 3 levels"),
        ({"prune": -1}, "prune must not be negative"),
        ({"prune": 10**400}, r"prune must be at most 2\*\*62"),
        ({"lowest": 1}, "lowest must be 0 or None, got 1"),
        ({"window": "decayed 3"}, "window must be"),
        ({"smoother": "mode"}, "smoother must be one of"),
        ({"split": 1}, "split must be above 0 and below 1"),
        ({"consistent": 1}, "consistent must be True or False"),
        ({"pan_private": True}, "pan_private must be False for PegasusHierarchy"),
        ({"loss": Zcdp(1)}, "loss must be Pure"),
    ],
)
def test_settings_that_make_no_claim_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        claim(**settings)


def test_tenths_are_exact_shares():
    assert claim(shares=(0.1, 0.2, 0.7)).shares == (Fraction(1, 10), Fraction(1, 5), Fraction(7, 10))


@pytest.mark.parametrize("unit", [Event(), WEvent(3)])
@pytest.mark.parametrize("shares", [None, ("1/6", "1/3", "1/2")])
def test_losses_of_all_perturbers_and_groupers_sum_to_epsilon(unit, shares):
    mechanism = claim(unit=unit, bound=2, shares=shares)
    lost = sum(1 / tier.pegasus.perturber.scale + tier.pegasus.grouper.epsilon for tier in mechanism.tiers)
    assert lost * mechanism.max_unit_steps == mechanism.loss.epsilon
