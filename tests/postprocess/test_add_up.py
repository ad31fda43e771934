"""Consistent hierarchies: the two passes are generalised least squares, node by node."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.continual import Binary
from streamgauge.postprocess import Hierarchy, HierarchyEstimator, add_up
from streamgauge.privacy import Pure
from streamgauge.testing.noise import InsecureNoise


@st.composite
def forests(draw, most=12):
    """Forests of every shape, numbered in any order."""
    size = draw(st.integers(1, most))
    parents = [draw(st.integers(-1, node - 1)) for node in range(size)]
    names = draw(st.permutations(range(size)))
    renamed = [-1] * size
    for node, parent in enumerate(parents):
        renamed[names[node]] = -1 if parent < 0 else names[parent]
    return Hierarchy(renamed)


def incidence(tree):
    """Return the matrix of leaves below each node: node = sum of its leaves."""
    return tree.sum_leaves(np.eye(len(tree.leaves))).T


def dense(tree, variances):
    """Return the matrix of generalised least squares, by matrix inversion."""
    X, W = incidence(tree), np.diag(1 / variances)
    return X @ np.linalg.inv(X.T @ W @ X) @ X.T @ W


def spread(tree, seed):
    return np.exp(np.random.default_rng(seed).uniform(-3, 3, len(tree)))


def missing(tree, values):
    """Return the distance of each parent from the sum of its children."""
    sums = np.zeros_like(values)
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            sums[..., parent] += values[..., node]
    inner = sorted(set(tree.parents) - {-1})
    return np.abs(values - sums)[..., inner]


def top_down(tree, values, variances):
    """A broken twin: it divides the gap equally, not in proportion to the variances."""
    return HierarchyEstimator(tree, np.ones(len(tree))).step(values)


def bottom_up(tree, values, variances):
    """A broken twin: it sums the leaves and ignores measurements above them."""
    return tree.sum_leaves(values[..., tree.leaves])


def is_least_squares(way, tree, variances):
    made = way(tree, np.eye(len(tree)), variances).T
    return np.allclose(made, dense(tree, variances), rtol=1e-9, atol=1e-9)


@given(tree=forests(), seed=st.integers(0, 999))
def test_the_two_passes_are_generalised_least_squares(tree, seed):
    assert is_least_squares(add_up, tree, spread(tree, seed))
    assert is_least_squares(add_up, tree, np.ones(len(tree)))


def test_broken_twins_are_not_least_squares():
    tree = Hierarchy.build_complete(3, 3)
    assert not is_least_squares(top_down, tree, spread(tree, 1))
    assert not is_least_squares(bottom_up, tree, np.ones(len(tree)))


@given(tree=forests(), seed=st.integers(0, 999))
def test_standard_errors_match_the_matrix_and_never_grow(tree, seed):
    variances = spread(tree, seed)
    P, errors = dense(tree, variances), HierarchyEstimator(tree, variances).stddev
    np.testing.assert_allclose(errors**2, np.diag(P @ np.diag(variances) @ P.T), rtol=1e-9)
    assert (errors**2 <= variances * (1 + 1e-12)).all()


@given(tree=forests(most=40), seed=st.integers(0, 999))
def test_parents_equal_child_sums_and_second_pass_changes_nothing(tree, seed):
    values = np.random.default_rng(seed).normal(0, 1000, (3, len(tree)))
    plan = HierarchyEstimator(tree, spread(tree, seed))
    once = plan.step(values)
    assert (missing(tree, once) <= 1e-9 * np.abs(values).max()).all()
    np.testing.assert_allclose(plan.step(once), once, atol=1e-7)


@given(tree=forests(most=40), seed=st.integers(0, 999))
def test_consistent_values_are_not_changed(tree, seed):
    truth = tree.sum_leaves(np.random.default_rng(seed).integers(0, 100, (5, len(tree.leaves))))
    np.testing.assert_allclose(add_up(tree, truth, spread(tree, seed)), truth, atol=1e-9)


@given(tree=forests(most=30), seed=st.integers(0, 99))
def test_single_ticks_and_groups_equal_the_whole_block(tree, seed):
    rng = np.random.default_rng(seed)
    values, plan = rng.normal(0, 9, (4, 3, len(tree))), HierarchyEstimator(tree, spread(tree, seed))
    whole = plan.step(values)
    for tick in range(4):
        np.testing.assert_array_equal(plan.step(values[tick]), whole[tick])
        np.testing.assert_array_equal(plan.step(values[tick, 1]), whole[tick, 1])


def test_every_group_can_have_its_own_variances():
    tree = Hierarchy([None, 0, 0, 1, 1, 1])
    values = np.random.default_rng(1).normal(0, 9, (2, 6))
    variances = np.array([spread(tree, 1), spread(tree, 2)])
    plan = HierarchyEstimator(tree, variances)
    for group in range(2):
        alone = HierarchyEstimator(tree, variances[group])
        np.testing.assert_allclose(plan.step(values)[group], alone.step(values[group]))
        np.testing.assert_allclose(plan.stddev[group], alone.stddev)
    assert plan.step(values[0]).shape == (2, 6)


def test_a_common_factor_changes_the_standard_errors_alone():
    tree, values = Hierarchy.build_complete(2, 4), np.random.default_rng(4).normal(0, 1, 15)
    one, four = HierarchyEstimator(tree, spread(tree, 3)), HierarchyEstimator(tree, 4 * spread(tree, 3))
    np.testing.assert_allclose(one.step(values), four.step(values))
    np.testing.assert_allclose(2 * one.stddev, four.stddev)


@given(tree=forests(), seed=st.integers(0, 99), data=st.data())
def test_unmeasured_nodes_have_no_influence(tree, seed, data):
    inner = sorted(set(tree.parents) - {-1})
    absent = data.draw(st.lists(st.sampled_from(inner), unique=True)) if inner else []
    variances, values = spread(tree, seed), np.random.default_rng(seed).normal(0, 9, len(tree))
    huge = variances.copy()
    variances[absent], huge[absent] = np.inf, 1e14
    expected = add_up(tree, values, huge)
    values[absent] = np.nan
    plan = HierarchyEstimator(tree, variances)
    np.testing.assert_allclose(plan.step(values), expected, atol=1e-6)
    np.testing.assert_allclose(plan.stddev, HierarchyEstimator(tree, huge).stddev, rtol=1e-6)


def test_exactly_known_nodes_do_not_change():
    tree = Hierarchy([None, 0, 0, 2, 2])
    plan = HierarchyEstimator(tree, [0.0, 1.0, 4.0, 1.0, 0.0])
    out = plan.step([100.0, 30.0, 60.0, 20.0, 50.0])
    assert out[[0, 4]].tolist() == [100.0, 50.0]
    assert missing(tree, out).max() < 1e-12
    np.testing.assert_allclose(plan.stddev[[0, 4]], 0)
    tiny = HierarchyEstimator(tree, [1e-13, 1.0, 4.0, 1.0, 1e-13])
    np.testing.assert_allclose(out, tiny.step([100.0, 30.0, 60.0, 20.0, 50.0]), atol=1e-9)
    both = HierarchyEstimator(Hierarchy([None, 0, 0]), [1.0, 0.0, 0.0])
    assert both.step([9.0, 2.0, 3.0]).tolist() == [5.0, 2.0, 3.0]


def test_noisy_counts_of_a_tree_err_as_predicted():
    tree = Hierarchy([None, 0, 0, 0, 1, 1, 2, 2, 2])
    ticks, runs = 50, 20000
    claims = [Binary(Pure(1 + node % 3), horizon=ticks) for node in range(len(tree))]
    source = InsecureNoise(9)
    still = np.zeros((ticks, runs), np.int64)
    values = np.stack([claim.start(runs, source).feed(still)[-1] for claim in claims], axis=-1)
    plan = HierarchyEstimator(tree, [claim.stddev(ticks) ** 2 for claim in claims])
    found = np.sqrt((plan.step(values) ** 2).mean(axis=0))
    np.testing.assert_allclose(found, plan.stddev, rtol=0.06)
    assert np.abs(plan.step(values).mean(axis=0) / plan.stddev * np.sqrt(runs)).max() < 6.5
    assert (np.abs(found / np.sqrt(plan.variances) - 1) > 0.06).any()


def test_a_complete_tree_of_equal_noise_gives_the_known_variance():
    """By 1/s = 1 + 1/(k s_below): a root with 2 levels of 3 has 3/4, with more levels less."""
    roots = [HierarchyEstimator(Hierarchy.build_complete(3, levels)).stddev[0] ** 2 for levels in (1, 2, 3)]
    np.testing.assert_allclose(roots, [1, 3 / 4, 9 / 13])


def test_large_and_deep_trees_become_consistent():
    wide, path = Hierarchy.build_complete(10, 6), Hierarchy([-1, *range(999)])
    for tree in (wide, path):
        values = np.random.default_rng(1).normal(1000, 9, len(tree))
        out = add_up(tree, values)
        assert missing(tree, out).max() < 1e-6
    assert np.ptp(add_up(path, values)) < 1e-9
    assert add_up(path, values)[0] == pytest.approx(values.mean())


def test_odd_releases_are_never_a_warning():
    assert add_up(Hierarchy([None, 0, 0]), [np.inf, -np.inf, np.nan]).shape == (3,)
    assert add_up(Hierarchy([None, 0, 0]), [1e308, 1e308, 1e308]).shape == (3,)


def test_hierarchies_are_values():
    assert Hierarchy([None, 0, 0]) == Hierarchy(np.array([-1, 0, 0]))
    assert hash(Hierarchy([None, 0])) == hash(Hierarchy((-1, 0)))
    assert Hierarchy.build_complete(2, 3).parents == (-1, 0, 0, 1, 1, 2, 2)
    assert Hierarchy.build_complete(1, 3).parents == (-1, 0, 1)
    assert repr(Hierarchy([None, 0])) == "Hierarchy(parents=(-1, 0))"


def test_invalid_trees_are_refused():
    for parents, rule in [
        ([], "parents must be one node or None for each node"),
        ([None, 0.5], "parents must be one node or None for each node"),
        ([None, 2], "parents must be nodes from 0 to 1"),
        ([None, -2], "parents must be nodes from 0 to 1"),
        ([0], "got a circle from node 0"),
        ([None, 2, 3, 1, 0], "got a circle from node 1"),
        ([None, 2, 1, 1], "got a circle from node 1"),
    ]:
        with pytest.raises(ValueError, match=rule):
            Hierarchy(parents)
    with pytest.raises(ValueError, match="branching and levels must be at least 1"):
        Hierarchy.build_complete(0, 3)


@pytest.mark.parametrize("scale", [1e308, 1.7e308, 1e-300])
def test_variances_of_any_size_weigh_as_their_proportions_do(scale):
    tree = Hierarchy([None, 0, 0, 1, 1, 1])
    weights = np.array([1.0, 0.5, 1.0, 0.25, 1.0, 0.0])
    releases = np.arange(6.0) ** 2
    plain, scaled = HierarchyEstimator(tree, weights), HierarchyEstimator(tree, [weights, weights * scale])
    np.testing.assert_allclose(scaled.step(releases)[1], plain.step(releases), rtol=1e-12)
    np.testing.assert_allclose(scaled.stddev[1] / np.sqrt(scale), plain.stddev, rtol=1e-12)
    np.testing.assert_array_equal(scaled.stddev[0], plain.stddev)
    unknown = HierarchyEstimator(tree, [np.inf, *np.full(5, scale)])
    assert np.isfinite(unknown.step(releases)).all()
    assert unknown.stddev[0] == pytest.approx(np.sqrt(1.75) * np.sqrt(scale), rel=1e-12, abs=0)


def test_variances_and_shapes_that_make_no_sense_are_refused():
    tree = Hierarchy([None, 0, 0])
    for variances, rule in [
        ([1.0, 1.0], "variances must be of shape"),
        ([1.0, -1.0, 1.0], "variances must be at least 0"),
        ([1.0, np.nan, 1.0], "variances must be at least 0"),
        ([1.0, np.inf, 1.0], "variances must be finite for nodes without children"),
        ([0.0, 0.0, 0.0], "variances must not be 0 at once"),
    ]:
        with pytest.raises(ValueError, match=rule):
            HierarchyEstimator(tree, variances)
    with pytest.raises(ValueError, match="values must be of shape"):
        add_up(tree, [1.0, 2.0])
    with pytest.raises(ValueError, match="values must be of shape"):
        tree.sum_leaves([1.0, 2.0, 3.0])
