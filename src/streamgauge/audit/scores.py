"""What an attacker looks at, where the likelihood ratio is not known: scores that are tried one by one.

trained    a weighted sum of all numbers of a view, fitted by logistic regression to training runs
bent       the same with their squares besides: noise whose width depends on the data
places     every number of a view by itself
granular   the lowest bit that is set in a number: what naive float noise gives away
repeats    whether two steps of a view are equal: noise that was used twice
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from streamgauge.audit.subject import Score
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Bools, Floats

PLACES = 16  # numbers of a view that are tried by themselves: those that differ most between the neighbours
BROADEST = 64  # numbers that are weighed together
ROUNDS = 30  # of Newton's method, which ends sooner
RIDGE = 1e-6
TINY = 1e-12


def scores(one: Floats, other: Floats) -> Iterator[tuple[str, Score]]:
    """Names and scores, fitted to training views of two neighbours."""
    places = telling(one, other)
    yield "trained", trained(one, other, places[:BROADEST], squares=False)
    yield "bent", trained(one, other, places[: BROADEST // 2], squares=True)
    for place in places[:PLACES]:
        yield f"place {place}", partial(value, place)
        if not (whole(one[:, place]) and whole(other[:, place])):
            yield f"lowest bit of place {place}", partial(lowest_bit, place)
    if one.shape[1] > 1:
        yield "repeats", repeats


def telling(one: Floats, other: Floats) -> list[int]:
    """The places that differ most, in means and spreads, by their own deviation."""
    first, second = known(one), known(other)
    spread = np.sqrt(first.var(axis=0) + second.var(axis=0)) + TINY
    apart = np.abs(first.mean(axis=0) - second.mean(axis=0)) / spread
    wider = np.abs(np.log((first.std(axis=0) + TINY) / (second.std(axis=0) + TINY)))
    missing = np.abs(np.isnan(one).mean(axis=0) - np.isnan(other).mean(axis=0))
    return [int(place) for place in np.argsort(-(apart + wider + missing), kind="stable")]


def known(views: Floats) -> Floats:
    """Views in which what is not there is 0."""
    return np.nan_to_num(views, nan=0.0, posinf=0.0, neginf=0.0)


def value(place: int, views: Floats) -> Floats:
    return np.asarray(views[:, place], np.float64)


def whole(column: Floats) -> bool:
    there = column[np.isfinite(column)]
    return bool((there == np.rint(there)).all())


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


def trained(one: Floats, other: Floats, places: list[int], *, squares: bool) -> Score:
    """Logistic regression on standardised places, by Newton's method with a small ridge."""
    both = np.concatenate([one[:, places], other[:, places]])
    features = Features(places, *centred(known(both)), squares)
    rows = features(np.concatenate([one, other]))
    label = np.arange(len(rows)) < len(one)
    return partial(_weighed, features, fitted(rows, label))


def fitted(rows: Floats, label: Bools) -> Floats:
    """The weights under which rows tell best which of them are labelled."""
    weights = np.zeros(rows.shape[1])
    for _ in range(ROUNDS):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        bend = (rows * (chance * (1 - chance) + RIDGE)[:, None]).T @ rows
        step = np.linalg.solve(bend + RIDGE * len(rows) * np.eye(len(weights)), rows.T @ (label - chance))
        weights += step
        if np.abs(step).max() < RIDGE:
            break
    return weights


def centred(rows: Floats) -> tuple[Floats, Floats]:
    return rows.mean(axis=0), rows.std(axis=0) + TINY


class Features:
    """Places of a view by their own deviation, their squares if asked for, and a constant."""

    def __init__(self, places: list[int], centre: Floats, spread: Floats, squares: bool) -> None:
        self.places = places
        self.centre = centre
        self.spread = spread
        self.squares = squares

    def __call__(self, views: Floats) -> Floats:
        plain = (known(views[:, self.places]) - self.centre) / self.spread
        bent = [np.minimum(plain**2, 100.0)] if self.squares else []
        return np.column_stack([plain, *bent, np.ones(len(plain))])


def _weighed(features: Features, weights: Floats, views: Floats) -> Floats:
    return np.asarray(features(views) @ weights, np.float64)
