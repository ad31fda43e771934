"""What an attacker looks at, where the likelihood ratio is not known: scores that are tried one by one.

trained    a weighted sum of all numbers of a view, fitted by logistic regression to training runs
bent       the same with their squares besides: noise whose width depends on the data
places     every number of a view by itself
granular   the lowest bit that is set in a number: what naive float noise gives away
residues   whole numbers modulo the steps that they come in, and modulo 2 and 3: noise in large steps
repeats    whether two steps of a view are equal: noise that was used twice
unmixed    the draws that a view is made of, found and asked one by one (see `unmixing`)
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from streamgauge.audit.regression import TINY, known, trained
from streamgauge.audit.subject import Score
from streamgauge.audit.unmixing import unmixed
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Floats

PLACES = 16  # numbers of a view that are tried by themselves: those that differ most between the neighbours
BROADEST = 64  # numbers that are weighed together
MODULI = (2, 3)  # tried of the place that differs most: larger ones tell as much as the number itself
EXACT = 2.0**53  # whole numbers below are what they seem
RUNS_EACH = 20  # that a number must have to be unmixed from others


def scores(one: Floats, other: Floats) -> Iterator[tuple[str, Score]]:
    """Names and scores, fitted to training views of two neighbours."""
    places = telling(one, other)
    yield "trained", trained(one, other, places[:BROADEST], squares=False)
    yield "bent", trained(one, other, places[: BROADEST // 2], squares=True)
    for place in places[:PLACES]:
        yield f"place {place}", partial(value, place)
        if not (whole(one[:, place]) and whole(other[:, place])):
            yield f"lowest bit of place {place}", partial(lowest_bit, place)
            continue
        steps = steps_of(one[:, place], other[:, place]).union(MODULI if place == places[0] else ())
        for step in sorted(steps):
            yield f"place {place} modulo {step}", partial(residue, place, step)
    if one.shape[1] > 1:
        yield "repeats", repeats
        yield "unmixed", unmixed(one, other, places[: min(BROADEST, 1 + len(one) // RUNS_EACH)])


def telling(one: Floats, other: Floats) -> list[int]:
    """The places that differ most, in means and spreads, by their own deviation."""
    first, second = known(one), known(other)
    spread = np.sqrt(first.var(axis=0) + second.var(axis=0)) + TINY
    apart = np.abs(first.mean(axis=0) - second.mean(axis=0)) / spread
    wider = np.abs(np.log((first.std(axis=0) + TINY) / (second.std(axis=0) + TINY)))
    missing = np.abs(np.isnan(one).mean(axis=0) - np.isnan(other).mean(axis=0))
    return [int(place) for place in np.argsort(-(apart + wider + missing), kind="stable")]


def value(place: int, views: Floats) -> Floats:
    return np.asarray(views[:, place], np.float64)


def whole(column: Floats) -> bool:
    there = column[np.isfinite(column)]
    return bool((there == np.rint(there)).all())


def steps_of(*columns: Floats) -> set[int]:
    """The steps in which each of some columns of whole numbers comes, if there are any but 1."""
    there = (column[np.isfinite(column) & (np.abs(known(column)) < EXACT)] for column in columns)
    steps = {int(np.gcd.reduce((seen - seen[0]).astype(np.int64))) for seen in there if len(seen)}
    return steps - {0, 1}


def residue(place: int, step: int, views: Floats) -> Floats:
    return np.asarray(np.mod(known(views[:, place]), step), np.float64)


def lowest_bit(place: int, views: Floats) -> Floats:
    """The exponent of the lowest bit that is set.

    >>> lowest_bit(0, np.array([[0.75], [3.0], [1 + 2.0**-52]]))
    array([ -2.,   0., -52.])
    """
    mantissa, exponent = np.frexp(known(views[:, place]))
    bits: Ints = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.where(bits == 0, 1, bits & -bits)
    return np.asarray(np.where(bits == 0, 0.0, exponent - 53.0 + np.log2(lowest)), np.float64)


def repeats(views: Floats) -> Floats:
    """How many of the steps of a view are equal to the one before."""
    steps = np.diff(views, axis=1, prepend=0.0)
    return np.asarray((np.diff(steps, axis=1) == 0).sum(axis=1), np.float64)
