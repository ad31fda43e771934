"""Statistical laws of adaptive mechanisms: intervals hold on a hostile stream.

The stream rests, spikes, climbs, alternates and falls below 0. Each tick by itself must have the stated coverage.
If the noise of a centre has a known law, an interval of 0.7 times its width must fail.
"""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from streamgauge import Pure
from streamgauge.adaptive import AdaptiveMechanism, AdaptiveRelease
from streamgauge.adaptive.pegasus.pegasus import Pegasus
from streamgauge.noise import Ints, Noise
from streamgauge.postprocess import Hierarchy
from streamgauge.testing.noise import InsecureNoise
from tests.support.adaptive_catalogue import Adapting, every_adapting, truth

HOSTILE = np.array([0, 0, 0, 90, 0, 8, 16, 24, 32, 0, 60, 0, 60, -40, -40, 0])
TICKS = len(HOSTILE)
CONFIDENCE = 0.9
RUNS, FEW = 1200, 120  # groups of one run, and starts
Z = 6.5  # standard errors: p below 1e-10 each

Observation = tuple[AdaptiveRelease, np.ndarray]  # the release and the truth


def simulated(claim: AdaptiveMechanism[Any], noise: Noise) -> list[Observation]:
    """Return runs on the hostile stream: groups, trees of one forest, or separate starts."""
    trees = getattr(claim, "hierarchy", None)
    if trees is not None:
        parents = [-1 if up < 0 else up + tree * len(trees) for tree in range(FEW) for up in trees.parents]
        forest = replace(claim, hierarchy=Hierarchy(parents))
        leaves = np.arange(len(trees.leaves) * FEW) % len(trees.leaves)
        return [fed(forest, HOSTILE[:, None] // (1 + leaves), noise)]
    if not claim.HAS_JOINT_GROUPS:
        return [fed(claim, np.repeat(HOSTILE[:, None], RUNS, axis=1), noise)]
    return [fed(claim, HOSTILE[:, None], noise) for _ in range(FEW)]


@cache
def runs_of(case: Adapting) -> list[Observation]:
    return simulated(case.claim(TICKS), InsecureNoise(12))


def fed(claim: AdaptiveMechanism[Any], values: np.ndarray, noise: Noise) -> Observation:
    release = claim.start(values.shape[1], noise).feed(values)
    return release, truth(claim, values, release.lowest)


def covered(view: list[Observation], factor: float = 1.0) -> tuple[np.ndarray, int]:
    """Return each tick's coverage of intervals scaled by `factor`, and the number of runs."""
    inside = [within(release, exact, factor) for release, exact in view]
    return np.concatenate(inside, axis=1).mean(axis=1), sum(each.shape[1] for each in inside)


def within(release: AdaptiveRelease, exact: np.ndarray, factor: float) -> np.ndarray:
    low, high = release.interval(CONFIDENCE)
    half = factor * np.maximum(high - release.centre, release.centre - low)
    return np.asarray(np.abs(exact - release.centre) <= half)


def holds(view: list[Observation], factor: float = 1.0) -> bool:
    rates, count = covered(view, factor)
    return bool((rates > CONFIDENCE - Z * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / count)).all())


@every_adapting
def test_intervals_hold_the_truth_as_stated_on_hostile_data(case: Adapting) -> None:
    view = runs_of(case)
    assert holds(view)
    if all(np.isfinite(release.stddev).all() for release, _ in view):
        assert not holds(view, 0.7)


@every_adapting
def test_standard_error_of_centre_matches_simulation(case: Adapting) -> None:
    """Only if there is one: else the release has no standard error."""
    for release, exact in runs_of(case)[:1]:
        known = np.isfinite(release.stddev).all(axis=1)
        scaled = ((release.centre - exact) / release.stddev)[known]
        if scaled.size < TICKS * FEW:
            continue
        squares = (scaled**2).mean(axis=1)
        doubt = Z * np.sqrt(np.maximum((scaled**4).mean(axis=1) - squares**2, 1) / scaled.shape[1])
        assert (np.abs(squares - 1) < doubt).all()
        for wrong in (0.7, 1.3):
            assert (np.abs(squares / wrong**2 - 1) > doubt / wrong**2).any()


class Confident(Pegasus):
    """A broken twin: intervals around the smoothed values, as if smoothing had no bias."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        release = super().step(state, values, noise)
        return replace(release, centre=release.value)


def test_twin_with_intervals_around_smoothed_values_is_caught() -> None:
    claim = Confident(Pure(2), horizon=TICKS, theta=100)
    assert not holds(simulated(claim, InsecureNoise(14)))
    assert holds(simulated(Pegasus(Pure(2), horizon=TICKS, theta=100), InsecureNoise(14)))
