"""What a window of ticks spends at worst: every decision of a mechanism is forced, both ways.

A mechanism that looks before it publishes is driven through all ways in which its looks may end: noise that
no distance outweighs decides each of them. What it draws at a tick is what the tick costs: a vector that a
unit moves by l1 in L1, under Laplace noise of some scale, loses l1/scale; and what a window of w ticks costs
is the sum. Costs are fractions, as scales are.

Promise
    The most that any w consecutive ticks cost, over all decisions, exactly, if nothing that is under noise
    moves further than `reach.l1`: that is for tests of the distance, and for experiments.
"""

from collections.abc import Iterator
from copy import deepcopy
from fractions import Fraction
from typing import Any

import numpy as np

from streamgauge.adaptive.window_budget import WindowClaim
from streamgauge.audit.exact import Worst
from streamgauge.audit.group_patterns import FORCED, Said
from streamgauge.testing import CountedNoise

Costs = tuple[Fraction, ...]


def worst_window(claim: WindowClaim[Any], ticks: int) -> Worst:
    """The dearest window of the claim's unit."""
    size = min(claim.unit.ticks, ticks)
    windows = (
        (sum(costs[first : first + size], Fraction(0)), first)
        for costs in spent(claim, claim.initial(1, Said(None)), ticks)
        for first in range(ticks - size + 1)
    )
    amount, first = max(windows)
    return Worst(tuple(range(first + 1, first + size + 1)), amount, how=f"all decisions of {ticks} ticks")


def spent(claim: WindowClaim[Any], state: Any, ticks: int) -> Iterator[Costs]:
    """What each tick costs, for all ways to decide."""
    if not ticks:
        yield ()
        return
    for forced in (FORCED, -FORCED):
        after, noise = deepcopy(state), CountedNoise(Said(np.array([forced])))
        claim.step(after, np.zeros(1, np.int64), noise)
        cost = sum((claim.reach.l1 / scale for _, scale, size in noise.requests if size), Fraction(0))
        yield from ((cost, *later) for later in spent(claim, after, ticks - 1))
