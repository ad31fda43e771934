"""The levels of a public forest, from its roots downwards: who is read side by side, and below whom.

A leaf has at most one ancestor on each level, itself included. So one event is in one node of each level at
most: the nodes of a level can run side by side for one loss, and losses add up over levels alone.
Nodes of a level stand in the `order` of their hierarchy, siblings side by side.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from streamgauge.postprocess import Hierarchy
from streamgauge.postprocess.hierarchy import Places
from streamgauge.privacy.exact import exact


@dataclass(frozen=True, eq=False)
class Level:
    """The nodes of one depth. Roots have one parent in thought, and no siblings."""

    depth: int
    places: slice  # of its nodes, in the order of the hierarchy
    above: int  # how many nodes the level above has
    parents: Places  # of each node, the place of its parent among them
    siblings: Places  # of each node, how many children its parent has

    @property
    def width(self) -> int:
        return len(self.parents)


def levels_of(hierarchy: Hierarchy) -> tuple[Level, ...]:
    """The roots, their children, and so on."""
    roots = hierarchy.parents.count(-1)
    levels = [Level(0, slice(0, roots), 1, np.zeros(roots, np.intp), np.ones(roots, np.intp))]
    for depth, young in enumerate(hierarchy.generations, start=1):
        old = levels[-1]
        parents = (young.parents - old.places.start)[young.family]
        siblings = np.bincount(young.family)[young.family]
        levels.append(Level(depth, young.children, old.width, parents, siblings))
    return tuple(levels)


def shares_of(given: object, levels: int) -> tuple[Fraction, ...]:
    """What part of a loss each level may lose, the roots first: exact, and 1 together; even, if None."""
    if given is None:
        return (Fraction(1, levels),) * levels
    if not isinstance(given, tuple | list) or len(given) != levels:
        raise ValueError(f"shares must be one number for each of {levels} levels, got {given!r}")
    shares = tuple(exact(share, "shares") for share in given)
    if min(shares) <= 0 or sum(shares) != 1:
        raise ValueError(f"shares must be above 0 and add up to 1, got {', '.join(map(str, shares))}")
    return shares
