"""A table of residues: counts modulo k of as many users as it has entries, which only ever go round.

Batches hold a user as often as it appears. Where k divides the range of an entry, entries are counted up
and reduced after; elsewhere entries are of 16 bits, a piece is shorter than their range, and how often a
user is in it is what its entry went up by. Either way all copies of a user in a piece write the same
number, and entries rest reduced.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.noise.entropy import Wiped

Residues = npt.NDArray[Any]  # unsigned

LARGEST = 2**16  # of a modulus
BYTE = 2**8


def width(modulus: int) -> npt.DTypeLike:
    """One byte for an entry where that goes round by itself, two elsewhere."""
    return np.uint8 if BYTE % modulus == 0 else np.uint16


def count(entries: Residues, places: Ints, modulus: int, secret: Wiped, *, removed: bool = False) -> None:
    """One more for each place, or one less, as often as it is there; fewer than 2^16 of them."""
    turned = np.subtract if removed else np.add
    if goes_round(entries, modulus):
        turned.at(entries, places, entries.dtype.type(1))
        after = secret(entries.take(places, mode="clip"))
        reduced(after, modulus)
    else:
        before = secret(entries.take(places, mode="clip"))
        turned.at(entries, places, entries.dtype.type(1))
        after = secret(entries.take(places, mode="clip"))
        np.subtract(*((before, after) if removed else (after, before)), out=after)
        np.remainder(after, entries.dtype.type(modulus), out=after)
        if removed:
            np.subtract(entries.dtype.type(modulus), after, out=after, where=secret(np.not_equal(after, 0)))
        add_modulo(after, before, modulus)
    entries[places] = after


def add_modulo(residues: Residues, more: Residues, modulus: int) -> None:
    """Residues, each with another added, without passing the range of an entry."""
    if goes_round(residues, modulus):
        np.add(residues, more, out=residues)
        reduced(residues, modulus)
        return
    k = residues.dtype.type(modulus)
    with Wiped() as secret:
        room = secret(np.subtract(k, more))
        over = secret(secret(np.greater_equal(residues, room)).astype(residues.dtype))
        over *= k
        np.add(residues, more, out=residues)
        np.subtract(residues, over, out=residues)


def reduced(residues: Residues, modulus: int) -> None:
    """In place, of a modulus that divides the range."""
    np.bitwise_and(residues, residues.dtype.type(modulus - 1), out=residues)


def goes_round(entries: Residues, modulus: int) -> bool:
    return (int(np.iinfo(entries.dtype).max) + 1) % modulus == 0
