"""Neighbouring streams that are worth an attack on a mechanism.

They contain the worst pattern of the unit (see `exact`), in an empty stream, in a busy one, and in one with one event
in every tick. They also contain the pattern that loses most in the probed code, and units that come first, last, in
the middle and around a power of two, which a wrong mechanism may treat differently. If the code is not linear, the
streams that show it are added, and streams of one to three events.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from math import isqrt
from typing import Any

import numpy as np

from streamgauge.audit.exact.linear import LikelihoodRatio, LinearView, NonlinearStream, fix_streams
from streamgauge.audit.exact.worst_case import Pattern, WorstCase
from streamgauge.audit.subject import Pair
from streamgauge.continual import LinearMechanism
from streamgauge.noise import Ints
from streamgauge.privacy import Sensitivity, Unit

SPREAD_GROUPS = 64  # that one unit is spread over: a run needs as many
FIRST_COUNTS = (1, 2, 3)  # of events at first, where code is not linear
MAX_NONLINEAR_STREAMS = 2  # streams at which it was seen not to be

PlacedUnit = tuple[Pattern, Ints, str]  # its ticks, the events of others in each tick, and these in words


def list_units(
    unit: Unit, ticks: int, worst_patterns: Sequence[Pattern], nonlinear_streams: Sequence[NonlinearStream] = ()
) -> Iterator[PlacedUnit]:
    """List units in streams of one group, the worst first; then some at streams whose view is no sum of events."""
    nothing = np.zeros(ticks, np.int64)
    first, *others = dict.fromkeys([*worst_patterns, *list_landmarks(unit, ticks)])
    yield first, nothing, ""
    yield first, add_background_counts(nothing), " of a busy stream"
    yield from ((pattern, nothing, "") for pattern in others)
    yield first, nothing + 1, " of a quiet stream"
    if nonlinear_streams:
        streams = [(count * (np.arange(ticks) == 0), f"{count} at first") for count in FIRST_COUNTS]
        streams += [(each.stream[:ticks], each.name) for each in nonlinear_streams[:MAX_NONLINEAR_STREAMS]]
        few = dict.fromkeys([first, *islice(list_landmarks(unit, ticks), 2)])
        yield from ((pattern, stream, f" of a stream of {name}") for stream, name in streams for pattern in few)


def build_pairs(
    mechanism: LinearMechanism[Any], view: LinearView, found: Iterable[PlacedUnit], other_groups: int = 0
) -> Iterator[Pair]:
    """Build pairs of units in streams, one stream for all groups; `other_groups` have no unit."""
    move = spread_unit(mechanism.tick_sensitivity, mechanism.charged_loss.currency == "pure")
    for pattern, stream, where in found:
        other = np.tile(stream, (len(move) + other_groups, 1))
        one = add_unit(other, np.pad(move, (0, other_groups)), pattern)
        ratio = LikelihoodRatio(view, len(move), fix_streams(one[: len(move)], other[: len(move)]))
        yield Pair(f"{WorstCase(pattern, 0)}{where}", one, other, ratio)


def list_landmarks(unit: Unit, ticks: int) -> Iterator[Pattern]:
    """List units that come first, last, in the middle, and just before and at the last power of two.

    >>> from streamgauge.privacy import WEvent
    >>> list(list_landmarks(WEvent(2), 6))
    [(1, 2), (5, 6), (3, 4), (4, 5)]
    """
    size = min(unit.ticks, ticks)
    power = 1 << (ticks.bit_length() - 1)
    begins = (1, ticks - size + 1, ticks // 2, power - 1, power)
    for first in dict.fromkeys(min(max(1, begin), ticks - size + 1) for begin in begins):
        yield tuple(range(first, first + size))


def add_unit(stream: Ints, move: Ints, pattern: Pattern) -> Ints:
    """Return the stream with a unit that moves these ticks."""
    with_unit = stream.copy()
    for tick in pattern:
        with_unit[:, tick - 1] += move
    return with_unit


def add_background_counts(stream: Ints) -> Ints:
    """Add so many events of other people that they would not fit into the noise."""
    return stream + 1000 + 7 * np.arange(stream.shape[-1]) % 11


def spread_unit(reach: Sensitivity, is_laplace: bool) -> Ints:
    """Return a move of one tick, one number per group, as far as the reach allows in the norm that counts.

    >>> spread_unit(Sensitivity(13, 91, 3), True), spread_unit(Sensitivity(13, 91, 3), False)
    (array([5, 4, 4]), array([9]))
    """
    groups = min(reach.coordinates, int(reach.l1))
    if not is_laplace or reach.l2_squared == reach.l1**2 or groups > SPREAD_GROUPS:
        return np.array([isqrt(int(reach.l2_squared))], np.int64)
    each, rest = divmod(int(reach.l1), groups)
    return np.array([each + (place < rest) for place in range(groups)], np.int64)
