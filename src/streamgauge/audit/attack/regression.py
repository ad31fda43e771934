"""Scores fitted to training runs by logistic regression, of numbers and of the draws behind them.

Newton's method runs on standardised numbers, with a small ridge: numbers that say the same share their weight.

Releases are sums of draws. Under Laplace noise the draws separate two neighbours, not the sums: evidence of a draw
grows from its mean without the unit to its mean with it, and no further. So one score unmixes the draws:

    views -> whitened -> rotated until the parts are least Gaussian -> each clipped between the two means

Symmetric FastICA (Hyvarinen 1999) finds the rotation. It separates draws of any law but the Gaussian one. Under
Gaussian noise every rotation is as good, and the plain sum is the best score. Logistic regression weights the clipped
parts and the clipped places.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from streamgauge.audit.subject import Score
from streamgauge.noise.coerce import Bools, Floats

MAX_NEWTON_STEPS = 30  # of Newton's method, which ends sooner
RIDGE_WEIGHT = 1e-6
MIN_DEVIATION = 1e-12


def fill_missing(views: Floats) -> Floats:
    """Replace numbers that are not finite by 0."""
    return np.nan_to_num(views, nan=0.0, posinf=0.0, neginf=0.0)


def train_score(one: Floats, other: Floats, places: list[int], *, with_squares: bool) -> Score:
    """Fit a weighted sum of places, and of their squares on request."""
    both = np.concatenate([one[:, places], other[:, places]])
    features = Features(places, *standardise(fill_missing(both)), with_squares)
    rows = features(np.concatenate([one, other]))
    label = np.arange(len(rows)) < len(one)
    return partial(apply_weights, features, fit_weights(rows, label))


def fit_weights(rows: Floats, label: Bools) -> Floats:
    """Return the weights under which rows best separate those that are labelled."""
    weights = np.zeros(rows.shape[1])
    for _ in range(MAX_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        bend = (rows * (chance * (1 - chance) + RIDGE_WEIGHT)[:, None]).T @ rows
        step = np.linalg.solve(bend + RIDGE_WEIGHT * len(rows) * np.eye(len(weights)), rows.T @ (label - chance))
        weights += step
        if np.abs(step).max() < RIDGE_WEIGHT:
            break
    return weights


def standardise(rows: Floats) -> tuple[Floats, Floats]:
    return rows.mean(axis=0), rows.std(axis=0) + MIN_DEVIATION


class Features:
    """Places of a view by their own deviation, their squares on request, and a constant."""

    def __init__(self, places: list[int], centre: Floats, spread: Floats, squares: bool) -> None:
        self.places = places
        self.centre = centre
        self.spread = spread
        self.squares = squares

    def __call__(self, views: Floats) -> Floats:
        plain = (fill_missing(views[:, self.places]) - self.centre) / self.spread
        bent = [np.minimum(plain**2, 100.0)] if self.squares else []
        return np.column_stack([plain, *bent, np.ones(len(plain))])


def apply_weights(features: Callable[[Floats], Floats], weights: Floats, views: Floats) -> Floats:
    """Return one number for each view."""
    return np.asarray(features(views) @ weights, np.float64)


MAX_ROWS = 10_000  # rows that a turn is found by
MAX_ROTATIONS = 20  # a few are enough, unless there is nothing to be found
ROTATION_TOLERANCE = 1e-5
MIN_VARIANCE_SHARE = 1e-9  # of the largest variance: directions that are below it hold no draw


@dataclass(frozen=True, eq=False)
class IcaFeatures:
    """Places of a view and the parts they are made of, clipped between their means under two neighbours."""

    places: list[int]
    centre: Floats
    mixing: Floats  # of places to parts
    low: Floats
    high: Floats

    def __call__(self, views: Floats) -> Floats:
        parts = (fill_missing(views[:, self.places]) - self.centre) @ self.mixing
        clipped = np.clip(parts, self.low, self.high) - (self.low + self.high) / 2
        return np.column_stack([clipped / (self.high - self.low + MIN_DEVIATION), np.ones(len(parts))])


def fit_ica_score(one: Floats, other: Floats, places: list[int]) -> Score:
    """Fit a score to training views of two neighbours."""
    first, second = fill_missing(one[:, places]), fill_missing(other[:, places])
    centre, spread = standardise(np.concatenate([first, second]))
    apart = (np.concatenate([rows - rows.mean(axis=0) for rows in (first, second)])) / spread
    mixing = np.column_stack([np.diag(1 / spread), find_rotation(apart) / spread[:, None]])
    means = [(rows.mean(axis=0) - centre) @ mixing for rows in (first, second)]
    parts = IcaFeatures(places, centre, mixing, np.minimum(*means), np.maximum(*means))
    rows = parts(np.concatenate([one, other]))
    return partial(apply_weights, parts, fit_weights(rows, np.arange(len(rows)) < len(one)))


def find_rotation(rows: Floats) -> Floats:
    """Return weights of columns in parts that are as independent as possible, for rows of mean 0."""
    few = rows[:: 1 + len(rows) // MAX_ROWS]
    variances, directions = np.linalg.eigh(few.T @ few / len(few))
    there = variances > MIN_VARIANCE_SHARE * max(variances[-1], MIN_DEVIATION)
    whitening = directions[:, there] / np.sqrt(variances[there])
    white = few @ whitening
    turn = np.eye(white.shape[1])
    for _ in range(MAX_ROTATIONS):
        before, turn = turn, refine_rotation(white, turn)
        if np.abs(np.abs((turn * before).sum(axis=1)) - 1).max(initial=0.0) < ROTATION_TOLERANCE:
            break
    return np.asarray(whitening @ turn.T, np.float64)


def refine_rotation(white: Floats, rotation: Floats) -> Floats:
    """Return one step of the fixed point: away from the Gaussian, and back to right angles."""
    bent = np.tanh(white @ rotation.T)
    step = bent.T @ white / len(white) - (1 - bent**2).mean(axis=0)[:, None] * rotation
    left, _, right = np.linalg.svd(step)
    return np.asarray(left @ right, np.float64)
