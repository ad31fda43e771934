"""Intervals hold even if an adversary chooses the data from past releases.

The adversary sends values far above all thresholds, so every tick has new noise, until an interval misses the
truth. Then it sends nothing, so the release stays as it is. Noise of many ticks therefore decides about the last
interval, and a bound for fixed data is too narrow.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.adaptive import AdaptiveRelease, CascadingBuffers, PegasusHierarchy, SparseCounter
from streamgauge.noise import Distribution, NoiseSum, Term
from streamgauge.postprocess import Hierarchy
from streamgauge.testing.noise import InsecureNoise

FAR = 10**6
NEARER = 200  # above the threshold of one tick, below that of two: no reading if 0 follows
TICKS, WIDTH = 24, 1200
SHORT, LONG = 6, 96  # a short run is already the worst case for nodes
Halves = Callable[[AdaptiveRelease, float], Any]

CHAINS = Hierarchy([None] * WIDTH + list(range(WIDTH)))
HIERARCHY = PegasusHierarchy(
    Pure(1), hierarchy=CHAINS, window="running", shares=("99/100", "1/100"), max_group_ticks=1, theta=0
)
CLAIMS = {
    "segments": SparseCounter(Pure(1), horizon=TICKS, signed=False),
    "segments under a deep tree": SparseCounter(Pure(1), horizon=TICKS, segments=200),
    "buffers": CascadingBuffers(Pure(1), horizon=LONG, levels=1, ratio=30, kappa=1),
    "buffers that fill buffers": CascadingBuffers(Pure(1), horizon=TICKS, levels=2, kappa=1),
    "nodes": HIERARCHY,
}


def answer(release: AdaptiveRelease, confidence: float) -> Any:
    return release.error_bounds[0].half_width(confidence)


def fixed(law: Distribution, draws: Any, confidence: float) -> Any:
    """Return the half width for this number of draws, if it was fixed in advance."""
    few, places = np.unique(draws, return_inverse=True)
    return np.array([NoiseSum((Term(int(n), 1, law),)).half_width(confidence) for n in few])[places]


def of_p_sums(release: AdaptiveRelease, confidence: float) -> Any:
    bar: Any = release.error_bounds[0]
    return np.where(bar.is_waiting, bar.half_width(confidence), fixed(bar.tree, bar.draws, confidence))


def of_messages(release: AdaptiveRelease, confidence: float) -> Any:
    bar: Any = release.error_bounds[0]
    return fixed(bar.law, bar.draws_inside.sum(axis=0), confidence)


def of_readings(release: AdaptiveRelease, confidence: float) -> Any:
    bar: Any = release.error_bounds[0]
    below = np.maximum(bar.ceiling_sums + bar.unread_ticks * bar.max_shortfall(1, confidence), 0)
    return fixed(bar.laws[1], bar.ticks - bar.unread_ticks, confidence) + np.where(bar.unread_ticks, below, 0)


def missed(claim: Any, confidence: float, halves: Halves = answer) -> float:
    """Count the intervals of the last tick that miss the truth of the adversary."""
    run, rest = claim.start(WIDTH, InsecureNoise(21)), np.zeros(WIDTH, np.bool_)
    truth, misses, ticks = np.zeros(WIDTH, np.int64), rest, claim.horizon or SHORT
    for tick in range(1, ticks + 1):
        far = NEARER if claim is HIERARCHY else FAR
        values = np.where(rest & ((tick < ticks) | (claim is HIERARCHY)), 0, far)
        release, truth = run.step(values), truth + values
        apart = np.abs(release.centre - np.resize(truth, release.centre.shape))
        misses = (apart > halves(release, confidence))[-WIDTH:]
        rest = rest | misses
    return float(misses.mean())


DOUBT = 6.5 * 0.5 / WIDTH**0.5


@pytest.mark.one_of_each
@pytest.mark.parametrize("confidence", [0.5, 0.9])
@pytest.mark.parametrize("name", CLAIMS)
def test_adversary_that_stops_after_a_miss_keeps_interval_coverage(name: str, confidence: float) -> None:
    assert missed(CLAIMS[name], confidence) < 1 - confidence + DOUBT * (1 - confidence) ** 0.5


BROKEN: dict[str, Halves] = {"segments": of_p_sums, "buffers": of_messages, "nodes": of_readings}


@pytest.mark.parametrize("name", BROKEN)
def test_bounds_for_fixed_data_fail_under_adaptive_data(name: str) -> None:
    assert missed(CLAIMS[name], 0.9, BROKEN[name]) > 0.1 + DOUBT * 0.1**0.5
