"""The worst loss over neighbouring short streams, enumerated with exact probabilities.

A history of releases of one stream is also one of its neighbour, under other noise: n + D - D' in a distance
and z + c - c' in a publication. Under discrete Laplace noise the log of the ratio of their chances is the sum
of (|n'| - |n|)/scale, a fraction. No n has a larger one than those far out on either side, so that trying
these finds the worst. The streams are stepped with the code itself, which must release the same for both.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

from streamgauge import Pure, WEvent
from streamgauge.adaptive.w_event.absorption import BudgetAbsorption
from streamgauge.adaptive.w_event.distribution import BudgetDistribution
from streamgauge.adaptive.w_event.republish import clipped_distance
from streamgauge.noise import Ints
from tests.support.budget_twins import Loud
from tests.support.commanded import FAR, CommandedNoise

EPSILON = Fraction(1, 2)
NEAR = 50
CHOICES = [(-FAR, 0), (FAR, -NEAR), (FAR, 0), (FAR, NEAR)]  # draws for a distance and a publication


def stepped(claim: Any, state: Any, values: Ints, draws: list[int]) -> tuple[Any, Any, list[Fraction]]:
    after, noise = replace(state), CommandedNoise(*draws)
    return after, claim.step(after, values, noise), noise.scales


def tick_losses(claim: Any, state: Any, ours: Ints, theirs: Ints) -> Iterator[tuple[Any, Fraction]]:
    """Yield each distinct release of a tick with its loss and the states after it."""
    moved = clipped_distance(state.last_published, ours) - clipped_distance(state.last_published, theirs)
    for look, draw in CHOICES:
        mine, other = [look, draw], [look + moved, draw + int(ours[0] - theirs[0])]
        after, release, scales = stepped(claim, state, ours, mine)
        there, same, _ = stepped(claim, state, theirs, other)
        assert (release.value, release.error_bounds) == (same.value, same.error_bounds)
        assert (after.last_published, after.history.tolist()) == (there.last_published, there.history.tolist())
        pairs = zip(mine, other, scales, strict=False)  # no second scale without a publication
        yield after, sum(((abs(n) - abs(m)) / scale for m, n, scale in pairs), Fraction(0))


def worst(claim: Any, ours: list[int], theirs: list[int]) -> Fraction:
    """Return the largest loss of any history of releases, in both directions."""
    ends = [(claim.initial(1, CommandedNoise()), Fraction(0))]
    for mine, other in zip(ours, theirs, strict=True):
        here, there = np.array([mine]), np.array([other])
        ends = [
            (after, so_far + loss) for state, so_far in ends for after, loss in tick_losses(claim, state, here, there)
        ]
    return max(abs(loss) for _, loss in ends)


def neighbours(ticks: int, differing: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield pairs of streams that differ by 1 in each of `differing` consecutive ticks."""
    base = [1, 3, 2, 3][:ticks]
    for first, moves in product(range(ticks - differing + 1), product((-1, 1), repeat=differing)):
        other = list(base)
        for place, move in enumerate(moves, first):
            other[place] += move
        yield base, other


def worst_of_all(kind: type[Any], ticks: int, differing: int) -> Fraction:
    claim = kind(Pure(EPSILON), unit=WEvent(2))
    return max(worst(claim, ours, theirs) for ours, theirs in neighbours(ticks, differing))


def test_absorption_loses_epsilon_and_no_more() -> None:
    assert worst_of_all(BudgetAbsorption, 4, 2) == EPSILON


def test_distribution_loses_exactly_its_spent_budget() -> None:
    assert worst_of_all(BudgetDistribution, 4, 2) == EPSILON / 2 * (1 + Fraction(3, 4))


@pytest.mark.parametrize("kind", [BudgetDistribution, BudgetAbsorption])
def test_streams_that_differ_beyond_a_window_exceed_epsilon(kind: type[Any]) -> None:
    """This shows that the enumeration detects larger losses."""
    assert worst_of_all(kind, 3, 3) > EPSILON


def test_twin_with_full_epsilon_for_distances_is_caught() -> None:
    assert worst_of_all(Loud, 3, 2) == EPSILON * Fraction(3, 2)
