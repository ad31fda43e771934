"""A score that finds by itself which draws a view is made of, and asks each of them.

Releases are sums of draws, and what tells two neighbours apart under Laplace noise is not the sums but the
draws: evidence of a draw grows from where it is without the unit to where it is with it, and no further.

    views -> whitened -> turned until the parts are least like Gaussians -> each clipped between the two means

The turn is found by symmetric FastICA (Hyvarinen 1999), which takes draws of any law but the Gaussian one
apart; under Gaussian noise every turn is as good, and the plain sum is the best score anyway. The clipped
parts, and the clipped places besides, are weighed by logistic regression.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

from streamgauge.audit.regression import TINY, centred, fitted, known, weighed
from streamgauge.audit.subject import Score
from streamgauge.noise.numbers import Floats

ENOUGH = 10_000  # rows that a turn is found by
TURNS = 20  # a few are enough, unless there is nothing to be found
STILL = 1e-5
FLAT = 1e-9  # of the largest variance: directions that are below it hold no draw


@dataclass(frozen=True, eq=False)
class Parts:
    """Places of a view and the parts they are made of, clipped between their means under two neighbours."""

    places: list[int]
    centre: Floats
    mixing: Floats  # of places to parts
    low: Floats
    high: Floats

    def __call__(self, views: Floats) -> Floats:
        parts = (known(views[:, self.places]) - self.centre) @ self.mixing
        clipped = np.clip(parts, self.low, self.high) - (self.low + self.high) / 2
        return np.column_stack([clipped / (self.high - self.low + TINY), np.ones(len(parts))])


def unmixed(one: Floats, other: Floats, places: list[int]) -> Score:
    """Fitted to training views of two neighbours."""
    first, second = known(one[:, places]), known(other[:, places])
    centre, spread = centred(np.concatenate([first, second]))
    apart = (np.concatenate([rows - rows.mean(axis=0) for rows in (first, second)])) / spread
    mixing = np.column_stack([np.diag(1 / spread), turned(apart) / spread[:, None]])
    means = [(rows.mean(axis=0) - centre) @ mixing for rows in (first, second)]
    parts = Parts(places, centre, mixing, np.minimum(*means), np.maximum(*means))
    rows = parts(np.concatenate([one, other]))
    return partial(weighed, parts, fitted(rows, np.arange(len(rows)) < len(one)))


def turned(rows: Floats) -> Floats:
    """Weights of columns in each part: of rows of mean 0, parts that are as independent as can be."""
    few = rows[:: 1 + len(rows) // ENOUGH]
    variances, directions = np.linalg.eigh(few.T @ few / len(few))
    there = variances > FLAT * max(variances[-1], TINY)
    whitening = directions[:, there] / np.sqrt(variances[there])
    white = few @ whitening
    turn = np.eye(white.shape[1])
    for _ in range(TURNS):
        before, turn = turn, turned_further(white, turn)
        if np.abs(np.abs((turn * before).sum(axis=1)) - 1).max(initial=0.0) < STILL:
            break
    return np.asarray(whitening @ turn.T, np.float64)


def turned_further(white: Floats, turn: Floats) -> Floats:
    """One step of the fixed point: away from the Gaussian, and back to right angles."""
    bent = np.tanh(white @ turn.T)
    step = bent.T @ white / len(white) - (1 - bent**2).mean(axis=0)[:, None] * turn
    left, _, right = np.linalg.svd(step)
    return np.asarray(left @ right, np.float64)
