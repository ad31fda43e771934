"""Stated errors of `TwoPart` after intrusions and lost runs: exact and simulated, neither too small nor too large."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit.exact.probe import build_law, compute_push
from streamgauge.continual import TwoPart
from streamgauge.noise import Noise
from streamgauge.testing.noise import CountedNoise, ImpulseNoise, InsecureNoise, SilentNoise

TICKS, WIDTH = 8, 4000
Z = 6.5  # standard errors: p below 1e-10 each
LOSSES = (sg.Pure(1), sg.privacy.IntegerZcdp("1/8"))
SCHEDULES: dict[str, dict[int, str]] = {
    "looks after ticks": {2: "intrude", 5: "intrude"},
    "looks in open ticks": {1: "open intrude", 4: "open intrude", 5: "open intrude"},
    "two looks in one tick": {3: "open intrude twice"},
    "lost runs": {3: "lost", 6: "lost"},
    "a look, then a lost run": {2: "intrude", 4: "open intrude lost", 6: "intrude"},
}
Drive = tuple[np.ndarray, list[float], Any]


class Forgetful(TwoPart):
    """A broken twin: it states the error of a run without intrusions."""

    def current_noise(self, state: Any) -> Any:
        return self.noise_at(state.tick)


class Hoarding(TwoPart):
    """A broken twin: it counts every tick of all noises as if none had ended."""

    def current_noise(self, state: Any) -> Any:
        return sg.noise.NoiseSum(tuple(super().current_noise(state).terms) + tuple(self.noise_at(state.tick).terms))


def drive(claim: TwoPart, schedule: dict[int, str], noise: Noise, width: int = 1) -> Drive:
    """Return the errors of all releases, what the run states of each, and the run."""
    run, truth, errors, stated = claim.start(width, noise), 0, [], []
    for tick in range(1, TICKS + 1):
        act = schedule.get(tick, "")
        if "open" in act or "lost" in act:
            run.add_partial(np.full(width, 5))
            truth += 5
        for _ in range(act.count("intrude") + act.count("twice")):
            run.intrude()
        if "lost" in act:
            run, truth = claim.load(run.save(), noise), truth - 5
            run.rerandomize()
        truth += 2
        errors.append(run.step(np.full(width, 2)) - truth)
        stated.append(run.stddev())
    return np.array(errors), stated, run


def compute_variances(claim: TwoPart, schedule: dict[int, str]) -> np.ndarray:
    """Return the variances of all releases from the effect of every draw on them."""
    counted = CountedNoise(SilentNoise())
    silent = drive(claim, schedule, counted)[0]
    laws = [build_law(kind, value) for kind, value, size in counted.requests for _ in range(size)]
    total = np.zeros(TICKS)
    for number, law in enumerate(laws):
        push = compute_push(law)
        moved = drive(claim, schedule, ImpulseNoise(number, push))[0] - silent
        total += (moved[:, 0] / push) ** 2 * law.variance
    return total


def list_claims(cls: type[TwoPart] = TwoPart) -> Iterator[TwoPart]:
    for loss in LOSSES:
        yield cls(loss, horizon=TICKS, radices=(2, 2), open_ticks=True)
        yield cls(loss, open_ticks=True)


CLAIMS = list(list_claims())
CASES = [(claim, name) for claim in CLAIMS for name in [*SCHEDULES][0 if claim.horizon else -1 :]]


@pytest.mark.parametrize(("claim", "name"), CASES, ids=lambda each: getattr(each, "loss", each))
def test_stated_variance_is_that_of_all_draws(claim: TwoPart, name: str) -> None:
    stated = np.array(drive(claim, SCHEDULES[name], SilentNoise())[1])
    np.testing.assert_allclose(stated**2, compute_variances(claim, SCHEDULES[name]), rtol=1e-6)


def test_twins_that_forget_or_hoard_noise_state_another_variance() -> None:
    for cls in (Forgetful, Hoarding):
        claim = next(list_claims(cls))
        for schedule in [*SCHEDULES.values()][1::3]:
            stated = np.array(drive(claim, schedule, SilentNoise())[1])
            ratio = stated**2 / compute_variances(claim, schedule)
            assert (ratio[-1] < 0.9) if cls is Forgetful else (ratio[-1] > 1.1)


def fits(errors: np.ndarray, stated: list[float], factor: float) -> bool:
    """Return whether second moments at all ticks match, with a tolerance from the fourth."""
    scaled = errors / (factor * np.array(stated))[:, None]
    variance, fourth = (scaled**2).mean(axis=1), (scaled**4).mean(axis=1)
    return bool((np.abs(variance - 1) < Z * np.sqrt(np.maximum(fourth - variance**2, 0.5) / WIDTH)).all())


@pytest.mark.statistical
@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.loss}, {claim.horizon}")
@pytest.mark.parametrize("name", ["looks in open ticks", "a look, then a lost run"])
def test_simulated_errors_fit_what_is_stated_and_no_other(claim: TwoPart, name: str) -> None:
    errors, stated, run = drive(claim, SCHEDULES[name], InsecureNoise(24), WIDTH)
    assert [factor for factor in (0.7, 0.9, 1.0, 1.1, 1.3) if fits(errors, stated, factor)] == [1.0]
    assert (np.abs(errors.mean(axis=1)) < Z * np.array(stated) / WIDTH**0.5).all()
    check_covers = partial(covers, run, errors[-1])
    assert [check_covers(factor) for factor in (0.8, 1.0, 1.25)] == [False, True, False]


def covers(run: Any, errors: np.ndarray, factor: float) -> bool:
    """Return whether intervals, so many times as wide, hold the truth as often as stated, and not much more often."""
    chance = []
    for confidence in (0.5, 0.9, 0.99):
        low, high = run.interval(np.zeros(WIDTH), confidence)
        inside = float((np.abs(errors) <= factor * (high - low) / 2).mean())
        chance.append((inside - confidence) / np.sqrt(confidence * (1 - confidence) / WIDTH))
    return min(chance) > -Z and chance[1] < Z
