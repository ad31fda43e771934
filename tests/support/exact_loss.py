"""The loss of two streams whose exact vectors are known, from the strategy alone."""

from typing import Any

import numpy as np

from streamgauge.continual import LinearMechanism
from streamgauge.noise import DiscreteGaussian, DiscreteLaplace
from streamgauge.statistics import Statistic


def lost(claim: Statistic[Any], difference: np.ndarray) -> float:
    """Return the loss of neighbours with this difference: one row a tick, one column a place."""
    assert isinstance(claim.counter, LinearMechanism)
    strategy = claim.counter.strategy(len(difference))
    moved = strategy.measure @ difference * np.array(strategy.grids)[:, None]
    total = 0.0
    for row, distribution in zip(moved, strategy.distributions, strict=True):
        if isinstance(distribution, DiscreteLaplace):
            total += np.abs(row).sum() / float(distribution.scale)
        else:
            assert isinstance(distribution, DiscreteGaussian)
            total += (row**2).sum() / float(2 * distribution.parameter)
    return total


def declared(claim: Statistic[Any]) -> float:
    """Return the loss that the counter declares."""
    return float(claim.counter.loss.additive_loss.amount)


def worst(claim: Statistic[Any], differences: Any) -> float:
    """The worst of many, each tried once."""
    return max(lost(claim, np.array(difference)) for difference in distinct(differences))


def distinct(differences: Any) -> list[np.ndarray]:
    found = {array.tobytes(): array for array in (np.asarray(d, np.int64) for d in differences)}
    return list(found.values())
