"""All levels of a ROLLUP by one run: the groups of a release as a hierarchy.

    ROLLUP (floor, room)        nodes in the order of places: rooms of all floors, then floors, then all

The hierarchy is public. Its nodes are numbered as the places of the release are, so that the releases of all nodes
are the results. The finest groups are its leaves. Above each is the group that has its first columns.
So counts of a level are sums of the finest groups' counts. An event that is in none of these counts nowhere,
while separate runs of each level would count it in the groups that it has. Statistics that do not add up, such as the
number of different users, have no such run.
"""

from itertools import pairwise
from math import prod

from streamgauge.config.mechanism import HIERARCHY_MECHANISM, LEVEL_MECHANISM
from streamgauge.postprocess import Hierarchy
from streamgauge.sql.query import Query


def compute_width(query: Query, level: int) -> int:
    """Return the number of groups of a level."""
    return prod(len(group.labels) for group in query.groups[:level])


def resolve_mechanism(mechanism: str, query: Query) -> str:
    """Return the mechanism that the file names, hierarchical if there are levels."""
    return HIERARCHY_MECHANISM if mechanism == LEVEL_MECHANISM and len(query.levels) > 1 else mechanism


def find_run_levels(mechanism: str, query: Query) -> tuple[int, ...]:
    """Return the levels with separate runs: the finest alone if it answers all."""
    return query.levels[:1] if resolve_mechanism(mechanism, query) == HIERARCHY_MECHANISM else query.levels


def build_hierarchy(query: Query) -> Hierarchy:
    """Return every group of every level, with its parent."""
    widths = [compute_width(query, level) for level in query.levels]
    parents: list[int | None] = []
    for own, above in pairwise(widths):
        first = len(parents) + own
        parents += [first + place // (own // above) for place in range(own)]
    return Hierarchy([*parents, *[None] * widths[-1]])
