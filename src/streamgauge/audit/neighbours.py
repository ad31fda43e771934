"""Neighbouring streams that are worth an attack on a mechanism.

The dearest pattern of the unit (see `exact`), in a stream of nothing, in a busy one and in a quiet one, where
every tick has one event; the one that the code loses most to, as tried; and units that come first, last, in
the middle and around a power of two, which a mechanism that is not what it says may treat otherwise. Where
code was seen not to be linear, the streams at which it was, and streams of one to three events besides.
"""

from collections.abc import Iterator, Sequence
from math import isqrt
from typing import Any

import numpy as np

from streamgauge.audit.exact import Pattern, Worst
from streamgauge.audit.likelihood import Likelihood, fixed
from streamgauge.audit.linear import LinearView, Odd
from streamgauge.audit.subject import Pair
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints
from streamgauge.privacy import Reach, Unit

SPREAD = 64  # that one unit is spread over: a run needs as many
COUNTS = (1, 2, 3)  # of events at first, where code is not linear
ODD = 2  # streams at which it was seen not to be


def neighbours(
    mechanism: Mechanism[Any], ticks: int, view: LinearView, dear: Sequence[Pattern]
) -> Iterator[Pair]:
    """Pairs of streams (groups, ticks) that differ in one unit; the first that is dear comes first."""
    nothing = np.zeros(ticks, np.int64)
    placed = dict.fromkeys([*dear, *landmarks(mechanism.unit, ticks)])
    found = [(pattern, nothing, "") for pattern in placed]
    found.insert(1, (dear[0], busy(nothing), " of a busy stream"))
    found.append((dear[0], nothing + 1, " of a quiet stream"))
    return paired(mechanism, view, found)


def odd_neighbours(
    mechanism: Mechanism[Any], view: LinearView, dear: Sequence[Pattern], odd: Sequence[Odd]
) -> Iterator[Pair]:
    """At streams that are not seen as the sum of their events."""
    ticks = view.by_data.shape[1]
    first = np.arange(ticks) == 0
    streams = [(count * first, f"{count} at first") for count in COUNTS]
    streams += [(each.stream[:ticks], each.name) for each in odd[:ODD]]
    patterns = dict.fromkeys([dear[0], *list(landmarks(mechanism.unit, ticks))[:2]])
    found = [(at, stream, f" of a stream of {name}") for stream, name in streams for at in patterns]
    return paired(mechanism, view, found)


def paired(
    mechanism: Mechanism[Any], view: LinearView, found: Sequence[tuple[Pattern, Ints, str]]
) -> Iterator[Pair]:
    """Units in streams, one stream for all groups."""
    move = spread(mechanism.reach, mechanism.loss.kept_as.currency == "pure")
    for pattern, stream, where in found:
        other = np.tile(stream, (len(move), 1))
        one = joined(other, move, pattern)
        yield Pair(f"{Worst(pattern, 0)}{where}", one, other, Likelihood(view, len(move), fixed(one, other)))


def landmarks(unit: Unit, ticks: int) -> Iterator[Pattern]:
    """Units that come first, last, in the middle, and just before and at the last power of two.

    >>> from streamgauge.privacy import WEvent
    >>> list(landmarks(WEvent(2), 6))
    [(1, 2), (5, 6), (3, 4), (4, 5)]
    """
    size = min(unit.ticks, ticks)
    power = 1 << (ticks.bit_length() - 1)
    begins = (1, ticks - size + 1, ticks // 2, power - 1, power)
    for first in dict.fromkeys(min(max(1, begin), ticks - size + 1) for begin in begins):
        yield tuple(range(first, first + size))


def joined(stream: Ints, move: Ints, pattern: Pattern) -> Ints:
    """The stream with a unit that moves these ticks."""
    with_unit = stream.copy()
    for tick in pattern:
        with_unit[:, tick - 1] += move
    return with_unit


def busy(stream: Ints) -> Ints:
    """Other people's events: so many that they would not fit into the noise."""
    return stream + 1000 + 7 * np.arange(stream.shape[-1]) % 11


def spread(reach: Reach, laplace: bool) -> Ints:
    """A move of one tick that is as far as the reach allows in the norm that counts, one number per group.

    >>> spread(Reach(13, 91, 3), True), spread(Reach(13, 91, 3), False)
    (array([5, 4, 4]), array([9]))
    """
    groups = min(reach.coordinates, int(reach.l1))
    if not laplace or reach.l2_squared == reach.l1**2 or groups > SPREAD:
        return np.array([isqrt(int(reach.l2_squared))], np.int64)
    each, rest = divmod(int(reach.l1), groups)
    return np.array([each + (place < rest) for place in range(groups)], np.int64)


def at_first(unit: Unit, ticks: int) -> Pattern:
    """The first of its patterns."""
    return tuple(range(1, min(unit.ticks, ticks) + 1))
