"""Several sliding windows of a count or a sum, from one run."""

from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import WindowBridge, WindowSum
from streamgauge.statistics import Count, Sum
from streamgauge.statistics.mechanism_config import MechanismConfig
from streamgauge.testing.noise import InsecureNoise, SilentNoise

PURE, WIDTH, Z = sg.Pure(1), 20_000, 7.0  # Z standard errors: a failure of probability below 1e-11
COUNT = Count(PURE, window="sliding 24", shorter_windows=(6, 1), mechanism=MechanismConfig.build(WindowBridge))
SUM = Sum(PURE, window="sliding 24", shorter_windows=[6], lower=-3, upper=2, step=0.5)
CLAIMS = [COUNT, SUM]


def events(ticks: int) -> dict[str, Any]:
    chance = np.random.default_rng(ticks)
    when = np.sort(chance.integers(1, ticks + 1, 20 * ticks))
    return {"values": chance.integers(-3, 3, 20 * ticks) * 1.0, "groups": when % 3, "ticks": when, "until": ticks}


@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
def test_each_window_equals_a_claim_of_it_alone(claim: Any) -> None:
    made, given = claim.start(3, SilentNoise()).feed(**events(40)), events(40)
    assert made.windows == claim.windows == tuple(sorted(claim.windows))
    settings = {} if claim is COUNT else {"lower": -3, "upper": 2, "step": 0.5}
    for place, window in enumerate(claim.windows):
        alone = type(claim)(PURE, window=f"sliding {window}", **settings).start(3, SilentNoise()).feed(**given)
        assert made.value[:, place].tolist() == alone.value.tolist()
        assert made.columns()[f"sliding {window}"].value.tolist() == alone.value.tolist()


@pytest.mark.parametrize("claim", CLAIMS, ids=repr)
def test_steps_and_loaded_runs_equal_a_feed(claim: Any) -> None:
    given, tick_rows = events(40), []
    whole = claim.start(3, InsecureNoise(3)).feed(**given)
    run = claim.start(3, source := InsecureNoise(3))
    for tick in range(1, 41):
        now = given["ticks"] == tick
        tick_rows.append(run.step(given["values"][now], groups=given["groups"][now]))
        run = claim.load(run.save(), source) if tick % 7 == 0 else run
    stepped = type(tick_rows[0]).stack(tick_rows)
    for name in ("value", "stddev"):
        assert getattr(stepped, name).tolist() == getattr(whole, name).tolist()
    assert np.array(stepped.interval()).tolist() == np.array(whole.interval()).tolist()
    assert whole.select_tick(30).value.tolist() == whole.value[30].tolist()


@pytest.mark.parametrize("tick", [4, 24, 37])
def test_errors_of_each_window_are_stated_and_measured(tick: int) -> None:
    made = COUNT.start(WIDTH, InsecureNoise(5)).feed_totals(np.zeros((tick, 1, WIDTH), np.int64)).select_tick(-1)
    low, high = made.interval(0.9)
    for place, measure in enumerate(COUNT.measures):
        stated = COUNT.predict_stddev(measure, tick)
        assert made.stddev[place] == pytest.approx(stated)
        assert (high - low)[place] / 2 == pytest.approx(COUNT.noise_at(tick, measure).half_width(0.9))
        squares = made.value[place] ** 2
        uncertainty = squares.std() / np.sqrt(WIDTH)
        assert abs(squares.mean() - stated**2) < Z * uncertainty
        assert all(abs(squares.mean() - (stated * wrong) ** 2) > Z * uncertainty for wrong in (0.7, 1.3))
        inside = ((low[place] <= 0) & (high[place] >= 0)).mean()
        assert inside > 0.9 - Z * np.sqrt(0.09 / WIDTH)


def test_a_shorter_window_errs_less_and_early_ticks_alike() -> None:
    assert COUNT.predict_stddev("sliding 1", 30) < COUNT.predict_stddev("sliding 6", 30) < COUNT.stddev(30)
    assert COUNT.predict_stddev("sliding 6", 5) == COUNT.predict_stddev("sliding 24", 5) == COUNT.stddev(5)


def test_memory_is_that_of_the_longest_window() -> None:
    assert COUNT.memory_numbers == WindowBridge(PURE, window=24).memory() > 2 * 24


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"window": "running"}, 'window must be "sliding TICKS" of events where there are shorter windows, got'),
        ({"window": "each", "cells": 64}, 'window must be "sliding TICKS" of events'),
        ({"shorter_windows": (24,)}, r"shorter_windows must be different whole numbers of 1 to 23 ticks, got \(24,\)"),
        ({"shorter_windows": (6, 6)}, "shorter_windows must be different whole numbers"),
        ({"shorter_windows": (6.0,)}, "shorter_windows must be different whole numbers"),
        ({"shorter_windows": "6"}, "shorter_windows must be different whole numbers"),
        ({"mechanism": WindowSum}, "mechanism must be WindowBridge where there are shorter windows, got WindowSum"),
        ({"loss": sg.Zcdp(1)}, "loss must be Pure for WindowBridge"),
        ({"loss": sg.Approx(1, 1e-6)}, "loss must be Pure for WindowBridge"),
        ({"pan_private": True}, "pan_private must be False for WindowBridge"),
    ],
)
def test_other_claims_refuse_several_windows(settings: dict[str, Any], message: str) -> None:
    given = {"loss": PURE, "window": "sliding 24", "shorter_windows": (6,)} | settings
    with pytest.raises(ValueError, match=f"^{message}"):
        Count(given.pop("loss"), **given)
