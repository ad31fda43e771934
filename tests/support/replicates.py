"""Independent runs of a claim, each with its own hash family, compared with the stated error."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy.stats import binom, chi2

from streamgauge.testing.noise import InsecureNoise

FLUKE = 1e-9


def runs(claim: Any, population: list[Any], items: list[Any], *, times: int, device: Any = None) -> Any:
    """Return estimates (times, items), standard errors and ends of intervals. Devices may be of another claim."""
    noise, found = InsecureNoise(3), []
    for seed in range(times):
        honest = replace(claim, seed=seed)
        sender = honest if device is None else device(honest)
        collector = honest.build_collector()
        collector.add(sender.privatise_many(population, noise))
        estimate = collector.estimate(items)
        found.append((estimate.count, estimate.stddev, *estimate.interval(0.9)))
    return np.array(found).transpose(1, 0, 2)


def squared_error_fits(counts: Any, truth: int, stddev: float) -> bool:
    """Neither larger nor smaller than said, but once in 10^9."""
    total = float((((counts - truth) / stddev) ** 2).sum())
    law = chi2(counts.size)
    return bool(min(law.cdf(total), law.sf(total)) > FLUKE)


def assert_coverage(claim: Any) -> None:
    """Intervals of 90 % hold the truth so often, and would not without collisions in them, nor if they were
    narrower by a tenth."""
    items = [f"few {number}" for number in range(50)]
    count, stddev, low, high = runs(claim, ["many"] * 400 + 4 * items, items, times=60)
    alone, narrow = 1.645 * claim.stddev(4, 600), 0.9 * 1.645 * stddev
    assert _covers(low, high, 4, 0.9)
    assert not _covers(count - alone, count + alone, 4, 0.9)
    assert not _covers(count - narrow, count + narrow, 4, 0.9)


def _covers(low: Any, high: Any, truth: int, confidence: float) -> bool:
    held = int(((low <= truth) & (truth <= high)).sum())
    return bool(binom(low.size, confidence).cdf(held) > FLUKE)
