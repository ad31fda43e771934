"""Public trees of groups: parents, and the order in which sums run through them.

Places are those of `order`. Every generation is one slice of it, and siblings are adjacent. So sums over all
children of a depth are one NumPy operation for any tree.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

NodeIndices = npt.NDArray[np.intp]


class Generation(NamedTuple):
    """The nodes of one depth, below the roots, with siblings side by side."""

    children: slice  # places of these nodes
    parents: NodeIndices  # places of their parents
    starts: NodeIndices  # where, among these nodes, the children of each parent begin
    family: NodeIndices  # which of the parents each node belongs to

    def sums(self, nodes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum over the children of each parent."""
        return np.asarray(np.add.reduceat(nodes[..., self.children], self.starts, axis=-1))


@dataclass(frozen=True, init=False)
class Hierarchy:
    """A public forest: `parents` holds the parent of each node; None or -1 marks a root.

    >>> country = Hierarchy([None, 0, 0, 1, 1])      # a country, two regions, two towns in the first
    >>> country.leaves
    array([2, 3, 4])
    >>> country.sum_leaves([10, 2, 3])
    array([15,  5, 10,  2,  3])
    """

    parents: tuple[int, ...]

    def __init__(self, parents: Iterable[int | None]) -> None:
        given = [-1 if parent is None else parent for parent in parents]
        if not given or not all(isinstance(parent, int | np.integer) for parent in given):
            raise ValueError(f"parents must be one node or None for each node, got {given!r}")
        plain = [int(parent) for parent in given]
        astray = [parent for parent in plain if not -1 <= parent < len(plain)]
        if astray:
            raise ValueError(f"parents must be nodes from 0 to {len(plain) - 1}, or -1, got {astray[0]}")
        object.__setattr__(self, "parents", tuple(plain))
        if (self._depths < 0).any():
            circle = int(np.argmax(self._depths < 0))
            raise ValueError(f"parents must lead from every node to a root, got a circle from node {circle}")

    @classmethod
    def build_complete(cls, branching: int, levels: int) -> Self:
        """Return the complete tree, from the root (node 0) downwards, level by level."""
        if branching < 1 or levels < 1:
            raise ValueError(f"branching and levels must be at least 1, got {branching} and {levels}")
        nodes = sum(branching**level for level in range(levels))
        return cls([-1, *(node // branching for node in range(nodes - 1))])

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def leaves(self) -> NodeIndices:
        """The nodes without children, in their order."""
        return np.setdiff1d(np.arange(len(self)), self.parents)

    def sum_leaves(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the sum of every node, from the values (..., leaves) of the leaves."""
        below: npt.NDArray[Any] = np.asarray(values)
        if below.shape[-1:] != self.leaves.shape:
            raise ValueError(f"values must be of shape (..., {len(self.leaves)} leaves), got {below.shape}")
        nodes = np.zeros((*below.shape[:-1], len(self)), below.dtype)
        nodes[..., self.leaves] = below
        nodes = nodes[..., self.order]
        for generation in reversed(self.generations):
            nodes[..., generation.parents] = generation.sums(nodes)
        return self.restore_order(nodes)

    @cached_property
    def order(self) -> NodeIndices:
        """The nodes from the roots downwards, siblings side by side."""
        return np.lexsort((np.array(self.parents), self._depths))

    def restore_order(self, nodes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return nodes by their numbers, from nodes in `order`."""
        out = np.empty_like(nodes)
        out[..., self.order] = nodes
        return out

    @cached_property
    def generations(self) -> tuple[Generation, ...]:
        """In places of `order`, the roots' children first."""
        parents, places = np.array(self.parents)[self.order], self.restore_order(np.arange(len(self)))
        depths = self._depths[self.order]
        bounds = np.searchsorted(depths, np.arange(1, depths[-1] + 2))
        return tuple(
            build_generation(slice(int(begin), int(end)), parents[begin:end], places) for begin, end in pairwise(bounds)
        )

    @cached_property
    def _depths(self) -> NodeIndices:
        """Depths by doubling; -1 in a cycle.

        After k rounds `above` is the ancestor 2^k up.
        """
        root = len(self)
        above = np.array([*(root if parent < 0 else parent for parent in self.parents), root])
        depths = (above != root).astype(np.intp)
        for _ in range(root.bit_length()):
            depths, above = depths + depths[above], above[above]
        return np.where(above == root, depths, -1)[:-1]


def build_generation(children: slice, parents: NodeIndices, places: NodeIndices) -> Generation:
    new = np.append(True, parents[1:] != parents[:-1])
    starts = np.flatnonzero(new)
    return Generation(children, places[parents[starts]], starts, np.cumsum(new) - 1)
