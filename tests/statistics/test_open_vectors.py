"""Statistics with open ticks: vectors can be added in parts and are stored noisy."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge import statistics
from streamgauge.statistics import Count, Distinct, Mean, Quantile
from streamgauge.testing.noise import InsecureNoise
from tests.support.saved_states import live_state
from tests.support.statistics_catalogue import KINDS

OPEN: dict[str, Any] = {"pan_private": True, "open_ticks": True}
VECTORS = [name for name in KINDS if "open_ticks" in {f.name for f in fields(getattr(statistics, name))}]


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("window", ["running", "sliding 3"])
def test_parts_and_the_rest_are_the_same_as_the_whole(name: str, window: str) -> None:
    settings = {**KINDS[name].settings[0], "horizon": 9, "window": window, **OPEN}
    statistic = getattr(statistics, name)(sg.Pure(50), **settings)
    assert statistic.counter.open_ticks
    whole, parted = (statistic.start(2, InsecureNoise(3)) for _ in range(2))
    for _ in range(4):
        totals = np.random.default_rng(2).integers(0, 50, (statistic.channels, 2))
        parted.add_partial(totals // 3)
        parted = statistic.load(parted.save(), live_state(parted).counter.source)
        parted.step_totals(totals - totals // 3)
        whole.step_totals(totals)
        one, two = (live_state(live_state(run).counter) for run in (parted, whole))
        for each in fields(one):
            np.testing.assert_array_equal(getattr(one, each.name), getattr(two, each.name))
    assert parted.tick == 4


def test_all_counters_of_vectors_can_have_open_ticks() -> None:
    assert set(KINDS) - set(VECTORS) == {"Distinct", "TopK"}, "which remember who, or which, was there"


def test_clipped_or_whole_tick_statistics_refuse_open_ticks() -> None:
    with pytest.raises(ValueError, match=r"^open_ticks must be False where a tick is cut off"):
        Count(sg.Pure(1), horizon=9, unit=sg.Tick(5), **OPEN)
    with pytest.raises(ValueError, match=r"^open_ticks must be False where a tick is cut off"):
        Mean(sg.Pure(1), lower=0, upper=1, horizon=9, public_counts=True, unit=sg.Event(replace=True), **OPEN)
    with pytest.raises(ValueError, match=r"^pan_private must be True where ticks are open, got False$"):
        Quantile(sg.Pure(1), q=0.5, lower=0, upper=8, step=1, horizon=9, open_ticks=True)
    with pytest.raises(ValueError, match=r"^open_ticks must be False for Binary, got True$"):
        Count(sg.Pure(1), horizon=9, mechanism=sg.continual.Binary, **OPEN)
    run = Count(sg.Pure(1), horizon=9, pan_private=True).start()
    with pytest.raises(TypeError, match=r"^open_ticks must be True to take part of a tick, got False$"):
        run.add_partial([1])
    assert not Distinct.open_ticks


def test_identities_state_whether_ticks_are_open() -> None:
    assert "open_ticks=False" in Count(sg.Pure(1), horizon=9).identity()
