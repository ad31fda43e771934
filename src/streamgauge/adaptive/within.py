"""Estimates of a hierarchy that add up and stay within bounds, wherever bounds leave room for that.

Bounds of leaves hold; those of a node are first brought between the sums of its children's, so that there is
room below for whatever a node may be. Then, from the roots downwards, a node is cut to its bounds, and what
its children lack or exceed is shared out in proportion to the room that each has left:

    node       12                  is 12; its children say 9 and 7, and may be 0 to 20 and 6 to 8
    children   9 -> 5.4   7 -> 6.6      they exceed it by 4, and have room for 9 and 1 downwards

Privacy
    None is spent: a function of releases.

Error
    Where the truth keeps all bounds, so does every node that is returned.
"""

import numpy as np

from streamgauge.noise.numbers import Floats
from streamgauge.postprocess import Hierarchy
from streamgauge.postprocess.hierarchy import Generation

ENDLESS = 2.0**100  # a bound that is none; room of which is shared evenly


def within(hierarchy: Hierarchy, values: Floats, low: Floats, high: Floats) -> Floats:
    """The values (nodes,), which add up, brought between bounds; where bounds contradict, leaves' hold.

    >>> tree = Hierarchy([None, 0, 0])
    >>> within(tree, np.array([12.0, 9.0, 7.0]), np.array([0.0, 0.0, 6.0]), np.array([99.0, 20.0, 8.0]))
    array([12. ,  5.4,  6.6])
    """
    nodes, least, most = (np.clip(each, -ENDLESS, ENDLESS)[hierarchy.order] for each in (values, low, high))
    for young in hierarchy.generations[::-1]:
        room = young.sums(least), young.sums(most)
        for bound in (least, most):
            bound[young.parents] = np.clip(bound[young.parents], *room)
    nodes = np.clip(nodes, least, most)
    for young in hierarchy.generations:
        _share(young, nodes, least, most)
    return hierarchy.numbered(nodes)


def _share(young: Generation, nodes: Floats, least: Floats, most: Floats) -> None:
    """Makes children add up to their parents, in place."""
    lacking = nodes[young.parents] - young.sums(nodes)
    here, up = nodes[young.children], (lacking > 0)[young.family]
    room = np.where(up, most[young.children] - here, here - least[young.children])
    whole = np.add.reduceat(room, young.starts)
    part = np.divide(lacking, whole, out=np.zeros_like(lacking), where=whole > 0)
    nodes[young.children] = here + room * part[young.family]
