"""A public tree, or several: who is whose parent, and in which order sums run through it.

Places are those of `order`, in which every generation is one slice and siblings stand side by side, so that
sums over all children of a depth are one NumPy operation, whatever the shape of the tree.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.intp]


class Generation(NamedTuple):
    """The nodes of one depth, below the roots, with siblings side by side."""

    children: slice  # places of these nodes
    parents: Places  # places of their parents
    starts: Places  # where, among these nodes, the children of each parent begin
    family: Places  # which of the parents each node belongs to

    def sums(self, nodes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The sum over the children of each parent."""
        return np.asarray(np.add.reduceat(nodes[..., self.children], self.starts, axis=-1))


@dataclass(frozen=True, init=False)
class Hierarchy:
    """A public forest: `parents` holds the parent of each node; None or -1 marks a root.

    >>> country = Hierarchy([None, 0, 0, 1, 1])      # a country, two regions, two towns in the first
    >>> country.leaves
    array([2, 3, 4])
    >>> country.totals([10, 2, 3])
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
    def complete(cls, branching: int, levels: int) -> Self:
        """The complete tree, from the root (node 0) downwards, level by level."""
        if branching < 1 or levels < 1:
            raise ValueError(f"branching and levels must be at least 1, got {branching} and {levels}")
        nodes = sum(branching**level for level in range(levels))
        return cls([-1, *(node // branching for node in range(nodes - 1))])

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def leaves(self) -> Places:
        """The nodes without children, in their order."""
        return np.setdiff1d(np.arange(len(self)), self.parents)

    def totals(self, values: npt.ArrayLike) -> npt.NDArray[Any]:
        """What every node adds up to, from the values (..., leaves) of the leaves."""
        below: npt.NDArray[Any] = np.asarray(values)
        if below.shape[-1:] != self.leaves.shape:
            raise ValueError(f"values must be of shape (..., {len(self.leaves)} leaves), got {below.shape}")
        nodes = np.zeros((*below.shape[:-1], len(self)), below.dtype)
        nodes[..., self.leaves] = below
        nodes = nodes[..., self.order]
        for generation in reversed(self.generations):
            nodes[..., generation.parents] = generation.sums(nodes)
        return self.numbered(nodes)

    @cached_property
    def order(self) -> Places:
        """The nodes from the roots downwards, siblings side by side."""
        return np.lexsort((np.array(self.parents), self._depths))

    def numbered(self, nodes: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Nodes by their numbers again, from nodes in `order`."""
        out = np.empty_like(nodes)
        out[..., self.order] = nodes
        return out

    @cached_property
    def generations(self) -> tuple[Generation, ...]:
        """In places of `order`, the roots' children first."""
        parents, places = np.array(self.parents)[self.order], self.numbered(np.arange(len(self)))
        depths = self._depths[self.order]
        bounds = np.searchsorted(depths, np.arange(1, depths[-1] + 2))
        return tuple(
            generation(slice(int(begin), int(end)), parents[begin:end], places)
            for begin, end in pairwise(bounds)
        )

    @cached_property
    def _depths(self) -> Places:
        """By doubling: after k rounds `above` is the ancestor 2^k up. In a circle there is no depth: -1."""
        root = len(self)
        above = np.array([*(root if parent < 0 else parent for parent in self.parents), root])
        depths = (above != root).astype(np.intp)
        for _ in range(root.bit_length()):
            depths, above = depths + depths[above], above[above]
        return np.where(above == root, depths, -1)[:-1]


def generation(children: slice, parents: Places, places: Places) -> Generation:
    new = np.append(True, parents[1:] != parents[:-1])
    starts = np.flatnonzero(new)
    return Generation(children, places[parents[starts]], starts, np.cumsum(new) - 1)
