"""Whole programs: blocks of a unit, the loss of the combination by enumeration, and predicted errors."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import inf, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import streamgauge as sg
from streamgauge.mapreduce import SampleAggregate
from streamgauge.mapreduce.block_combination import (
    build_grid,
    combine_mean,
    combine_median,
    find_places,
    predict_mean_error,
    predict_median_error,
)
from streamgauge.mapreduce.sample_aggregate import ProgramRun
from streamgauge.noise import DiscreteLaplace
from streamgauge.statistics.median_selection import median_scores
from streamgauge.testing.noise import InsecureNoise
from tests.statistics.test_median_selection import selection_law
from tests.support.inline_programs import InlineLauncher

MEAN = "def run(rows):\n    return [rows['x'].mean(), len(rows['x'])]"
OUTPUTS = [(0, 100, 1), (0, 100, 1)]
KEY = bytes(range(32))


class FixedBlocks(InsecureNoise):
    """Noise whose uniform draws are given."""

    def __init__(self, blocks: Sequence[int]) -> None:
        super().__init__(1)
        self.blocks = np.array(blocks, np.int64)

    def uniform(self, sides: int, size: int) -> Any:
        assert size == len(self.blocks)
        return self.blocks


def build_aggregate(**settings: Any) -> SampleAggregate:
    given: dict[str, Any] = {"outputs": OUTPUTS, "loss": sg.Pure(1), "blocks": 400, **settings}
    return SampleAggregate(MEAN, {"x": "number"}, **given)


def run_blocks(run: ProgramRun, values: Any, users: Any = None) -> list[bytes]:
    """Return the bytes of each block's records."""
    return [block.data for block in run.build_blocks({"x": values}, users)]


def count_moved(one: list[bytes], other: list[bytes]) -> int:
    return sum(left != right for left, right in zip(one, other, strict=True))


def test_one_event_moves_exactly_one_block() -> None:
    aggregate, blocks = build_aggregate(), np.arange(60) % 7
    for place in range(60):
        values = np.arange(60.0)
        here = run_blocks(aggregate.start(noise=FixedBlocks(blocks), launcher=InlineLauncher()), values)
        fewer = FixedBlocks(np.delete(blocks, place))
        gone = run_blocks(aggregate.start(noise=fewer, launcher=InlineLauncher()), np.delete(values, place))
        assert count_moved(here, gone) == 1
        values[place] = -1
        other = run_blocks(aggregate.start(noise=FixedBlocks(blocks), launcher=InlineLauncher()), values)
        assert count_moved(here, other) == 1


def test_one_user_moves_one_block_and_replaced_users_two() -> None:
    aggregate = build_aggregate(unit=sg.User(3, 1))
    names = np.array([f"user {place % 40}" for place in range(100)])

    def build(users: Any, values: Any) -> list[bytes]:
        return run_blocks(aggregate.start(launcher=InlineLauncher(), key=KEY), values, users)

    values, moved = np.arange(100.0), set()
    here = build(names, values)
    for place in range(40):
        alone = names == f"user {place}"
        assert count_moved(here, build(names[~alone], values[~alone])) == 1
        moved.add(count_moved(here, build(np.where(alone, f"other {place}", names), values)))
    assert moved <= {1, 2}
    assert 2 in moved


def test_a_user_is_in_one_block_with_bounded_rows() -> None:
    aggregate = build_aggregate(unit=sg.User(2, 1))
    run = aggregate.start(launcher=InlineLauncher(), key=KEY)
    found = [block for block in run_blocks(run, np.arange(9.0), ["a"] * 9) if block]
    assert [len(block) for block in found] == [16]
    assert not any(run_blocks(run, np.arange(9.0), ["a"] * 9))  # the window after: its one tick is used
    with pytest.raises(ValueError, match="users must be given, since they are the unit"):
        run.step({"x": [1.0]})


def test_events_draw_their_blocks_uniformly() -> None:
    run = build_aggregate(blocks=300).start(launcher=InlineLauncher())
    sizes = np.array([len(block) // 8 for block in run_blocks(run, np.zeros(60_000))])
    assert sizes.sum() == 60_000
    assert ((sizes - 200) ** 2 / 200).sum() < chi2.isf(1e-9, 299)


@pytest.mark.parametrize(("blocks", "points"), [(4, 3), (4, 4), (5, 4)])
def test_worst_loss_of_a_median_is_at_most_epsilon(blocks: int, points: int) -> None:
    assert 0.4 < find_worst_loss(blocks, points, 1 / 4) <= 1


def test_broken_twin_with_the_whole_exponent_is_caught() -> None:
    assert find_worst_loss(4, 4, 1 / 2) > 1.4


def find_worst_loss(blocks: int, points: int, rate: float) -> float:
    """Return the largest log ratio over all lists of outputs that differ in one block."""
    laws = {
        places: selection_law(median_scores(np.array(places), points).tolist(), rate)
        for places in product(range(points), repeat=blocks)
    }
    worst = 0.0
    for places, law in laws.items():
        for block, place in product(range(blocks), range(points)):
            other = laws[(*places[:block], place, *places[block + 1 :])]
            worst = max(worst, *(abs(log(p / q)) if min(p, q) > 0 else inf for p, q in zip(law, other, strict=True)))
    return worst


@pytest.mark.parametrize(("rate", "passes"), [(Fraction(1, 4), True), (Fraction(1, 2), False)])
def test_medians_follow_the_enumerated_law(rate: Fraction, passes: bool) -> None:
    grid, places, runs = build_grid(0, 4, 1), np.array([0, 1, 1, 4]), 4000
    source = InsecureNoise(5)
    found = Counter(combine_median(places, grid, sg.Pure(2), source) for _ in range(runs))
    law = [runs * each for each in selection_law(median_scores(places, 5).tolist(), 2 * float(rate))]
    statistic = sum((found[place] - each) ** 2 / each for place, each in enumerate(law))
    assert (statistic < chi2.isf(1e-9, 4)) == passes


@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/2")])
def test_noise_of_a_mean_has_the_scale_of_its_loss(loss: Any) -> None:
    aggregate = build_aggregate(loss=loss, combine="mean", unit=sg.User(1, 5), blocks=10)
    assert aggregate.output_loss == loss.part(Fraction(1, 10))
    distribution = aggregate.output_loss.calibrate(l1=100, l2_squared=100**2)
    pure = isinstance(distribution, DiscreteLaplace)
    assert (distribution.scale if pure else distribution.parameter) == (1000 if pure else 10**5)


def test_draws_of_a_mean_spread_as_predicted() -> None:
    grid, loss, source = build_grid(0, 50, 0.5), sg.Pure(2), InsecureNoise(3)
    found = [combine_mean(np.full(20, 60), grid, loss, source) for _ in range(4000)]
    assert np.mean(found) == pytest.approx(30, abs=0.3)
    assert np.std(found) == pytest.approx(predict_mean_error(grid, loss, 20), rel=0.15)


@pytest.mark.parametrize("blocks", [60, 200])
def test_errors_of_medians_are_at_most_predicted(blocks: int) -> None:
    grid, loss, draws = build_grid(-10, 10, 0.1), sg.Pure(2), np.random.default_rng(1)
    source = InsecureNoise(4)
    outputs = (find_places(grid, draws.normal(0, 1, blocks)) for _ in range(600))
    found = sqrt(np.mean([combine_median(places, grid, loss, source) ** 2 for places in outputs]))
    assert 0.6 < found / predict_median_error(grid, loss, blocks, 1.0) < 1.15


def test_failed_blocks_count_as_the_middle() -> None:
    grid = build_grid(-60, 61, 0.5)
    outputs = np.array([np.nan, -inf, inf, 3.3, 1e300])
    assert (grid.first + find_places(grid, outputs)).tolist() == [1, -120, 122, 7, 122]
    failing = "def run(rows):\n    raise ValueError"
    aggregate = SampleAggregate(failing, {"x": "number"}, [(0, 10, 1)], sg.Pure(500), blocks=5)
    launcher = InlineLauncher()
    assert aggregate.start(launcher=launcher, clock=launcher.clock).step({"x": [1.0]}).values == [5.0]


def test_windows_give_medians_near_the_truth() -> None:
    launcher = InlineLauncher()
    run = build_aggregate(loss=sg.Pure(4)).start(noise=InsecureNoise(1), launcher=launcher, clock=launcher.clock)
    for window in (1, 2):
        found = run.step({"x": np.full(8000, 42.0)})
        assert (found.window, found.values[0]) == (window, 42.0)
        assert abs(found.values[1] - 20) <= 3
    assert launcher.clock.steady() == 2 * 401 * 2_000_000
    assert len(launcher.blocks) == 800


def test_empty_windows_run_all_blocks() -> None:
    launcher = InlineLauncher()
    with np.errstate(invalid="ignore"), pytest.warns(RuntimeWarning, match="empty slice"):
        build_aggregate().start(launcher=launcher, clock=launcher.clock).step({"x": []})
    assert len(launcher.blocks) == 400


def test_plans_say_how_many_units_a_window_needs() -> None:
    settings: dict[str, Any] = {"outputs": [(-60, 60, 0.5)], "loss": sg.Pure("1/3"), "blocks": None}
    with pytest.raises(ValueError, match="blocks must be at least 132 for this grid and loss, got 45: declare 7,"):
        build_aggregate(**settings, units=1000)
    plan = build_aggregate(**settings, units=30_000).plan([2.0])
    assert (plan.blocks, plan.min_blocks, plan.window_seconds) == (290, 132, 582)
    assert plan.errors is not None
    assert 0.1 < plan.errors[0] < 1
    assert "at least 132 blocks" in str(plan)
    assert "rank off by at most" in str(plan)
    means = build_aggregate(combine="mean", blocks=3).plan()
    assert (means.min_blocks, means.rank_errors) == (1, None)


def test_impossible_settings_are_refused(tmp_path: Path) -> None:
    for settings, message in (
        ({"outputs": []}, "outputs must be 1 to 1,024 ranges, got 0"),
        ({"outputs": [(0, 0, 1)]}, r"outputs must have 2 to 2\*\*20 points each, got 1"),
        ({"combine": "mode"}, "combine must be median or mean, got 'mode'"),
        ({"loss": sg.Zcdp(1)}, "loss must be Pure and above 0 for a median"),
        ({"unit": sg.Tick(5)}, "unit must be an Event, a WEvent or a User with bounds"),
        ({"blocks": None}, "units must be declared unless blocks are"),
    ):
        with pytest.raises(ValueError, match=message):
            build_aggregate(**settings)
    with pytest.raises(FileNotFoundError):
        SampleAggregate(tmp_path / "none.py", {}, [(0, 9, 1)], sg.Pure(1), blocks=99)
    with pytest.raises(ValueError, match="parallel must be at most the"):
        build_aggregate(parallel=10_000).start()


def test_loss_of_all_windows_fits_a_ledger() -> None:
    """Each window has its part: as many as a unit touches add up to the loss."""
    unit = sg.User(3, 5)
    aggregate = build_aggregate(unit=unit, combine="mean")
    ledger = sg.Ledger(sg.Pure(1), unit)
    ledger.charge("program", aggregate.loss, native=True)
    assert ledger.spent_loss() == sg.Pure(1)
    assert aggregate.output_loss.group(len(OUTPUTS) * unit.ticks) == aggregate.loss
