"""All levels of a ROLLUP by one run: the groups of a release as a public hierarchy.

    ROLLUP (floor, room)        nodes in the order of places: rooms of all floors, then floors, then all

The nodes of a hierarchy are numbered as the places of the release are, so that what is released of all nodes
is what readers see. The finest groups are its leaves; above each stands the group that has its first columns.
So counts of a level are sums of the finest groups' counts: an event that is in none of these counts nowhere,
where runs of each level by itself would count it in the groups that it has. What does not add up, such as the
number of different users, has no such run.
"""

from itertools import pairwise
from math import prod

from streamgauge.postprocess import Hierarchy
from streamgauge.query.query import Query

BY_LEVEL, TOGETHER = "Pegasus", "PegasusHierarchy"


def width_of(query: Query, level: int) -> int:
    """How many groups a level has."""
    return prod(len(group.labels) for group in query.groups[:level])


def named_for(mechanism: str, query: Query) -> str:
    """The mechanism that was asked for by name; one that knows of hierarchies, where there is one."""
    return TOGETHER if mechanism == BY_LEVEL and len(query.levels) > 1 else mechanism


def levels_run(mechanism: str, query: Query) -> tuple[int, ...]:
    """The levels that have runs of their own: the finest alone, if its run answers all of them."""
    return query.levels[:1] if named_for(mechanism, query) == TOGETHER else query.levels


def hierarchy_of(query: Query) -> Hierarchy:
    """Every group of every level, with the one above it."""
    widths = [width_of(query, level) for level in query.levels]
    parents: list[int | None] = []
    for own, above in pairwise(widths):
        first = len(parents) + own
        parents += [first + place // (own // above) for place in range(own)]
    return Hierarchy([*parents, *[None] * widths[-1]])
