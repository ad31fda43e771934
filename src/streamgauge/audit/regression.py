"""Logistic regression: how much each number of a view speaks for one of two neighbours.

Newton's method on standardised numbers, with a small ridge: numbers that say the same share their weight.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from streamgauge.audit.subject import Score
from streamgauge.noise.numbers import Bools, Floats

ROUNDS = 30  # of Newton's method, which ends sooner
RIDGE = 1e-6
TINY = 1e-12


def known(views: Floats) -> Floats:
    """Views in which what is not there is 0."""
    return np.nan_to_num(views, nan=0.0, posinf=0.0, neginf=0.0)


def trained(one: Floats, other: Floats, places: list[int], *, squares: bool) -> Score:
    """A weighted sum of places, and of their squares if asked for."""
    both = np.concatenate([one[:, places], other[:, places]])
    features = Features(places, *centred(known(both)), squares)
    rows = features(np.concatenate([one, other]))
    label = np.arange(len(rows)) < len(one)
    return partial(weighed, features, fitted(rows, label))


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


def weighed(features: Callable[[Floats], Floats], weights: Floats, views: Floats) -> Floats:
    """One number for each view."""
    return np.asarray(features(views) @ weights, np.float64)
