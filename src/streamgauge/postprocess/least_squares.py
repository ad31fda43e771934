"""Hierarchies that add up, by least squares over a public tree.

Every node of the tree (country, region, town) has a noisy release. They do not add up, and each carries
information about the others. The estimate of least variance that adds up needs two passes:

    up     z = the mean of the node's own release (variance v) and of the sum of its children's z (variance
           sum s), weighed by the inverse of their variances; its variance is s, 1/s = 1/v + 1/(sum s)
    down   x = z at a root; below, the difference is shared among the children in proportion to their s:
           x_child = z_child + (s_child / sum s) (x_parent - sum z)

Both are linear in the number of nodes and process all groups at once. The tree and the variances are public. So
`HierarchyEstimator` computes the weights once, and every tick costs the two passes alone.

Privacy
    Post-processing: the input is releases only.

Error
    If the noise of the nodes is independent, unbiased, and of variances in the given proportion, the result
    is that of generalised least squares. It is unbiased, and no node's variance is larger than before. The
    variances of the results are exactly f = s at a root and, with a = s/(sum s), f = s (1 - a) + a^2 f_parent
    at a child, since z_child - a (sum z) is uncorrelated with everything that made x_parent. With other
    variances than those given, the result still adds up and is unbiased, but `stddev` is wrong.
    If all nodes run the same mechanism, up to the scale of its noise, earlier ticks add nothing. The
    covariance is then a product of one over nodes and one over ticks, and so is the projection.

Reference
    Hay, Rastogi, Miklau, Suciu: Boosting the accuracy of differentially private histograms through
    consistency, VLDB 2010, for complete trees and equal variances. Here any forest and any variances.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamgauge.postprocess.hierarchy import Hierarchy

Floats = npt.NDArray[np.float64]
MAX_VARIANCE_EXPONENT = (
    900  # the binary exponent that the largest variance is brought to: sums of 2^100 of them are finite
)


class PassWeights(NamedTuple):
    """The weights of both passes, generation by generation, and s of every node."""

    own: tuple[Floats, ...]  # the weight of a parent's own release in its z
    share: tuple[Floats, ...]  # s of a child over the sum of s
    spread: Floats  # s, in order


class HierarchyEstimator:
    """The least squares estimate over a hierarchy; `step` processes a tick.

    Its weights are computed once. `variances` are those of the releases, (nodes,) or (..., nodes); all 1 by default.
    A common factor changes nothing but `stddev`. Infinity means not measured (nodes with children only), 0 means
    known.

    >>> plan = HierarchyEstimator(Hierarchy([None, 0, 0]), [1.0, 1.0, 1.0])
    >>> plan.step([10.0, 4.0, 3.0])
    array([9., 5., 4.])
    >>> (plan.stddev**2).round(3)
    array([0.667, 0.667, 0.667])
    """

    def __init__(self, hierarchy: Hierarchy, variances: npt.ArrayLike | None = None) -> None:
        given = np.ones(len(hierarchy)) if variances is None else np.array(variances, np.float64)
        if given.shape[-1:] != (len(hierarchy),):
            raise ValueError(f"variances must be of shape (..., {len(hierarchy)} nodes), got {given.shape}")
        if not (given >= 0).all():
            raise ValueError(f"variances must be at least 0, got {float(given.min())}")
        if np.isinf(given[..., hierarchy.leaves]).any():
            raise ValueError("variances must be finite for nodes without children, got inf")
        self.hierarchy = hierarchy
        self.variances = given
        self._shift = find_variance_shift(given)
        self._weights = build_weights(hierarchy, np.ldexp(given, 2 * self._shift)[..., hierarchy.order])

    def step(self, values: npt.ArrayLike) -> Floats:
        """Return the releases (..., nodes) of one tick, or of many, made to add up."""
        releases = np.asarray(values, np.float64)
        if releases.shape[-1:] != (len(self.hierarchy),):
            raise ValueError(f"values must be of shape (..., {len(self.hierarchy)} nodes), got {releases.shape}")
        order = self.hierarchy.order
        nodes = np.where(np.isinf(self.variances), 0.0, releases)[..., order]
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self._sum_upwards(nodes)
            self._distribute_downwards(nodes, sums)
        return self.hierarchy.restore_order(nodes)

    @property
    def stddev(self) -> Floats:
        """The exact standard error of every node's result, for independent noise."""
        spread = self._weights.spread
        final = spread.copy()
        for young, share in zip(self.hierarchy.generations, self._weights.share, strict=True):
            parents = final[..., young.parents][..., young.family]
            final[..., young.children] = spread[..., young.children] * (1 - share) + share**2 * parents
        return np.asarray(np.ldexp(np.sqrt(self.hierarchy.restore_order(final)), -self._shift))

    def _sum_upwards(self, nodes: Floats) -> list[Floats]:
        """Turn releases into z, in place; returns the sums of the children's z."""
        sums = []
        for young, own in zip(self.hierarchy.generations[::-1], self._weights.own[::-1], strict=True):
            together = young.sums(nodes)
            nodes[..., young.parents] = own * nodes[..., young.parents] + (1 - own) * together
            sums.append(together)
        return sums[::-1]

    def _distribute_downwards(self, nodes: Floats, sums: list[Floats]) -> None:
        """Turn z into x, in place."""
        for young, share, together in zip(self.hierarchy.generations, self._weights.share, sums, strict=True):
            lacking = nodes[..., young.parents] - together
            nodes[..., young.children] += share * lacking[..., young.family]


def find_variance_shift(variances: Floats) -> npt.NDArray[np.intc]:
    """Return the power of 4 that scales the largest finite variance of each tree.

    The scaling rounds nothing.
    """
    finite = np.where(np.isfinite(variances), variances, 0.0)
    _, exponents = np.frexp(finite.max(axis=-1, keepdims=True))
    return np.asarray((MAX_VARIANCE_EXPONENT - exponents) // 2)


def build_weights(hierarchy: Hierarchy, spread: Floats) -> PassWeights:
    """Return weights from variances in order, which become s in place."""
    own, share = [], []
    for young in hierarchy.generations[::-1]:
        together, alone = young.sums(spread), spread[..., young.parents]
        if ((together == 0) & (alone == 0)).any():
            raise ValueError("variances must not be 0 at once for a node and all its children, got 0")
        weight = together / (alone + together)
        measured = np.isfinite(alone)
        spread[..., young.parents] = np.where(measured, weight * np.where(measured, alone, 0.0), together)
        family = together[..., young.family]
        parts = spread[..., young.children]
        own.append(weight)
        share.append(np.divide(parts, family, out=np.zeros_like(parts), where=family > 0))
    return PassWeights(tuple(own[::-1]), tuple(share[::-1]), spread)


def add_up(hierarchy: Hierarchy, values: npt.ArrayLike, variances: npt.ArrayLike | None = None) -> Floats:
    """Return the releases (..., nodes) of a hierarchy, made to add up.

    For many ticks, reuse a `HierarchyEstimator`.

    >>> add_up(Hierarchy([None, 0, 0]), [10.0, 4.0, 3.0], [0.0, 1.0, 2.0])     # the total is known
    array([10.,  5.,  5.])
    """
    return HierarchyEstimator(hierarchy, variances).step(values)
