"""Estimates of a hierarchy that add up and stay within bounds, wherever bounds leave room for that.

First, from the leaves upwards, bounds of a node are cut to the sums of its children's, so that there is room
below for whatever it may be; but where both contradict, its own stay: of many bounds that hold by themselves
some do not, and what those ask for adds up. Then, from the roots downwards, a node is cut to its bounds. If
those of its children leave no room for it, all give way by the same amount, down to `lowest` at most. What
the children lack or exceed is shared out in proportion to the room that each has left:

    node       12                  is 12; its children say 9 and 7, and may be 0 to 20 and 6 to 8
    children   9 -> 5.4   7 -> 6.6      they exceed it by 4, and have room for 9 and 1 downwards

    node       12                  is 12; its children are at least 10, 5 and 1, which is 16
    children   10 -> 8.5   5 -> 3.5   1 -> 0      all give way by 1.5, the last by what it has

Privacy
    None is spent: a function of releases.

Error
    Where the truth keeps all bounds, so does every node that is returned. Roots keep theirs in any case.
"""

import numpy as np

from streamgauge.noise.numbers import Floats
from streamgauge.postprocess import Hierarchy
from streamgauge.postprocess.hierarchy import Generation

ENDLESS = 2.0**100  # a bound that is none; room of which is shared evenly


def within(
    hierarchy: Hierarchy, values: Floats, low: Floats, high: Floats, lowest: float = -np.inf
) -> Floats:
    """The values (nodes,), which add up, brought between bounds; where bounds contradict, those above hold.

    >>> tree = Hierarchy([None, 0, 0])
    >>> within(tree, np.array([12.0, 9.0, 7.0]), np.array([0.0, 0.0, 6.0]), np.array([99.0, 20.0, 8.0]))
    array([12. ,  5.4,  6.6])
    """
    nodes, least, most = (np.clip(each, -ENDLESS, ENDLESS)[hierarchy.order] for each in (values, low, high))
    for young in hierarchy.generations[::-1]:
        _cut(young, least, most)
    nodes = np.clip(nodes, least, most)
    for young in hierarchy.generations:
        here, wanted = young.children, nodes[young.parents]
        least[here] = _given_way(young, least[here], wanted, lowest)
        most[here] = -_given_way(young, -most[here], -wanted, -np.inf)
        nodes[here] = np.clip(nodes[here], least[here], most[here])
        _share(young, nodes, least, most)
    return hierarchy.numbered(nodes)


def _cut(young: Generation, least: Floats, most: Floats) -> None:
    """Cuts bounds of parents to the sums of their children's, in place, unless they contradict."""
    up = young.parents
    low, high = np.maximum(least[up], young.sums(least)), np.minimum(most[up], young.sums(most))
    agree = low <= high
    least[up], most[up] = np.where(agree, low, least[up]), np.where(agree, high, most[up])


def _given_way(young: Generation, least: Floats, wanted: Floats, lowest: float) -> Floats:
    """Bounds of children, lowered evenly where they add up to more than is wanted; Newton's steps."""
    giving = least > lowest
    while True:
        excess = np.maximum(np.add.reduceat(least, young.starts) - wanted, 0)
        able = np.maximum(np.add.reduceat(giving, young.starts, dtype=np.intp), 1)
        least = np.maximum(least - (excess / able)[young.family], lowest)
        if np.array_equal(giving, still := least > lowest):
            return least
        giving = still


def _share(young: Generation, nodes: Floats, least: Floats, most: Floats) -> None:
    """Makes children add up to their parents, in place."""
    lacking = nodes[young.parents] - young.sums(nodes)
    here, up = nodes[young.children], (lacking > 0)[young.family]
    room = np.where(up, most[young.children] - here, here - least[young.children])
    whole = np.add.reduceat(room, young.starts)
    part = np.divide(lacking, whole, out=np.zeros_like(lacking), where=whole > 0)
    nodes[young.children] = here + room * np.clip(part, -1, 1)[young.family]
