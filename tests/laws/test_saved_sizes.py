"""Laws of sizes: no saved run is larger than its settings predict, at any tick and width.

A width of one shows the fixed part, a larger one the part of each group.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from streamgauge.runtime.plan.limits import FIXED_BYTES, max_run_bytes
from streamgauge.testing.noise import InsecureNoise
from tests.support import adaptive_catalogue, catalogue, statistics_catalogue

TICKS, LONG = 20, 90
WIDTHS = (1, 100)
DIGITS = 256  # bytes: more groups need more digits in the header


def largest_save(run: Any, ticks: int, step: Callable[[Any, int], None]) -> int:
    """Return the most bytes of a run that is saved after every tick."""
    sizes = [len(run.save())]
    for tick in range(1, ticks + 1):
        step(run, tick)
        sizes.append(len(run.save()))
    return max(sizes)


def counted(claim: Any, width: int, ticks: int) -> int:
    rng = np.random.default_rng(7)
    run = claim.start(width, InsecureNoise(7))
    return largest_save(run, ticks, lambda each, _: each.step(rng.integers(0, 90, width)))


def check_bound(statistic: Any, saved: list[int], widths: tuple[int, ...]) -> None:
    bounds = [max_run_bytes(statistic, width * statistic.channels, width) for width in widths]
    assert saved[0] <= bounds[0] + FIXED_BYTES
    assert saved[1] - saved[0] <= bounds[1] - bounds[0] + DIGITS


def check_counter(claim: Any, ticks: int) -> None:
    statistic = SimpleNamespace(counter=claim, memory_numbers=claim.memory(), horizon=claim.horizon, channels=1)
    check_bound(statistic, [counted(claim, width, ticks) for width in WIDTHS], WIDTHS)


@pytest.mark.one_of_each("case")
@catalogue.every_kept_case
def test_no_counter_takes_more_bytes_than_predicted(case: catalogue.Case) -> None:
    for horizon in (TICKS, LONG):
        check_counter(case.claim(horizon), horizon)
    if case.unbounded:
        check_counter(case.claim(None), LONG)


@pytest.mark.one_of_each("case")
@pytest.mark.parametrize("case", list(adaptive_catalogue.cases()), ids=str)
def test_no_adaptive_counter_takes_more_bytes_than_predicted(case: adaptive_catalogue.Adapting) -> None:
    for horizon in (TICKS, LONG):
        claim = case.claim(horizon)
        if "hierarchy" not in dict(case.settings):
            check_counter(claim, horizon)
            continue
        statistic = SimpleNamespace(counter=claim, memory_numbers=claim.memory(), horizon=horizon)
        bound = max_run_bytes(statistic, case.width, case.width)
        assert counted(claim, case.width, horizon) <= bound + FIXED_BYTES


@pytest.mark.one_of_each("case")
@statistics_catalogue.every_kept_case
def test_no_statistic_takes_more_bytes_than_predicted(case: statistics_catalogue.Case) -> None:
    claim = case.claim(TICKS)
    if claim.CAN_GROW or claim.bounds_users:  # by data that are secret; not as pipelines run them
        return
    saved = []
    for width in WIDTHS:
        release = statistics_catalogue.stream(case, TICKS)

        def step(run: Any, tick: int, width: int = width, release: Any = release) -> None:
            part = release.tick(tick)
            given = statistics_catalogue.given(case, claim, part)
            run.step(**given | {"groups": part.groups % width})

        saved.append(largest_save(claim.start(width, InsecureNoise(7)), TICKS, step))
    check_bound(claim, saved, WIDTHS)
