"""Independent runs of a claim, with their own hashes if it has any, compared with the stated error."""

from dataclasses import replace
from typing import Any

import numpy as np

from streamgauge.testing.noise import InsecureNoise
from tests.support.replicates import squared_error_fits

TIMES = 700  # then 1.3 times the right error is missed by one seed in 6,000; this one is not
POPULATION = ["a"] * 160 + ["b"] * 30 + ["c"] * 10
SQUARES = 30**2 + 10**2
FACTORS = (0.7, 1.0, 1.3)


def estimated(claim: Any, device: Any = None, *, times: int = TIMES) -> Any:
    """Return the estimates of "a" of each run. Devices may be of another claim."""
    noise = InsecureNoise(3)
    return np.array([one_run(claim, device or claim, run, noise) for run in range(times)])


def one_run(claim: Any, device: Any, run: int, noise: Any) -> float:
    seed = {"seed": run} if hasattr(claim, "seed") else {}
    honest, sender = (replace(each, **seed) if seed else each for each in (claim, device))
    collector = honest.build_collector()
    collector.add(sender.privatise_many(POPULATION, noise))
    return float(honest.counts(collector._state.table, collector.reports, ["a"])[0])


def which_fit(claim: Any, count: Any) -> list[float]:
    """The factors of the stated standard error that fit: 1 alone, if it is right."""
    stated = claim.stddev(160, len(POPULATION), SQUARES)
    return [factor for factor in FACTORS if squared_error_fits(count, 160, factor * stated)]


def assert_stated_error(claim: Any, *twins: Any) -> None:
    """Assert that errors are as stated, neither smaller nor larger, and that those of twins on devices are not."""
    assert which_fit(claim, estimated(claim)) == [1.0]
    for twin in twins:
        assert 1.0 not in which_fit(claim, estimated(claim, twin, times=100))
