"""Each place of a piece once, without sorting it.

Places that fall into one slot of a small room compete: the last to be written stays. Those that stay are
different, and those of the same place as the one that stayed are done. The few others compete again, and
what is left after some rounds is sorted. The room is overwritten like all else that was read.
"""

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.noise.entropy import Wiped

ROUNDS = 3
FEW = 1 << 10  # of which sorting is as fast


def once(places: Ints, secret: Wiped) -> Ints:
    """Each place once, in any order."""
    if len(places) < FEW:
        return in_order(places, secret)
    size = 2 << len(places).bit_length()
    room, found = secret(np.empty(size, np.int64)), []
    for _ in range(ROUNDS):
        slots, order = secret(places & (size - 1)), np.arange(len(places))
        room[slots] = order
        last = secret(room[slots])
        beaten = secret(last != order)
        found.append(chosen(places, ~beaten, secret))
        winners = secret(places[chosen(last, beaten, secret)])
        losers = chosen(places, beaten, secret)
        places = chosen(losers, losers != winners, secret)
    return secret(np.concatenate([*found, in_order(places, secret)]))


def in_order(places: Ints, secret: Wiped) -> Ints:
    """Each place once, of however many in one slot."""
    ordered = secret(np.sort(places))
    first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return chosen(ordered, first, secret)


def chosen(places: Ints, which: npt.NDArray[np.bool_], secret: Wiped) -> Ints:
    return secret(places[secret(which)])
