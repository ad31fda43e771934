"""Extremes: beyond the data only with the stated doubt, monotone, with rank bounds."""

from typing import Any

import numpy as np
import pytest

from streamgauge import Event, Pure, Zcdp
from streamgauge.privacy import Sensitivity
from streamgauge.statistics.ordered.axis import AxisProfile
from streamgauge.statistics.ordered.extremes import Extremes, estimate_extremes
from streamgauge.testing.noise import InsecureNoise, SilentNoise

Z = 6.5


def claim(**settings: Any) -> Extremes:
    made: dict[str, Any] = {"lower": 0, "upper": 50, "step": 1, "horizon": 8, **settings}
    return Extremes(made.pop("loss", Pure(1)), **made)


def crowd(*cells: int, size: int = 1000) -> np.ndarray:
    return np.repeat(cells, size)


@pytest.mark.parametrize("pan_private", [False, True])
@pytest.mark.parametrize("branching", [0, 2, 3])
def test_extremes_without_noise_are_outermost_cells_with_enough_events(branching: int, pan_private: bool) -> None:
    statistic = claim(branching=branching, pan_private=pan_private)
    run = statistic.start(noise=SilentNoise())
    assert run.step().value.tolist() == [[50], [0]]
    first = run.step(crowd(20, 30))
    assert first.value.tolist() == [[20], [30]]
    assert first.reliable.all()
    few = int(first.rank.min()) // 4
    assert run.step(np.append(crowd(25), [45] * few)).maximum.tolist() == [30]
    assert run.step(crowd(10, 44)).value.tolist() == [[10], [44]]


def test_extreme_requires_more_events_than_its_rank() -> None:
    statistic = claim(window="each")
    for cell in range(50):
        run = statistic.start(noise=SilentNoise())
        rank = run.step(crowd(cell, size=10_000)).rank
        assert (rank <= statistic.max_rank_error(1)).all()
        for events, view in ((int(rank[1, 0]), False), (int(rank[1, 0]) + 1, True)):
            release = statistic.start(noise=SilentNoise()).step([cell] * events)
            assert (release.maximum[0] == cell) == (view or cell == 0)
            assert release.maximum[0] <= cell


def test_running_extremes_are_monotone() -> None:
    run = claim(doubt=0.5).start(200, InsecureNoise(1))
    rng, releases = np.random.default_rng(2), []
    for _ in range(8):
        events = np.repeat(np.clip(rng.normal(25, 5, 40), 0, 49), 200)
        releases.append(run.step(events, groups=np.tile(np.arange(200), 40)))
    minima, maxima = (np.stack([getattr(r, name) for r in releases]) for name in ("minimum", "maximum"))
    assert (np.diff(minima, axis=0) <= 0).all()
    assert (np.diff(maxima, axis=0) >= 0).all()
    assert (minima[-1] < minima[0]).any()


def test_extremes_of_other_windows_can_shrink() -> None:
    run = claim(window="each").start(noise=SilentNoise())
    assert run.step(crowd(5, 45)).value.tolist() == [[5], [45]]
    assert run.step(crowd(20)).value.tolist() == [[20], [20]]
    assert run.step().value.tolist() == [[50], [0]]


def overshoots(statistic: Extremes) -> float:
    """Return the share of groups with an extreme from noise alone, in 8 ticks."""
    groups = 1500
    release = statistic.start(groups, InsecureNoise(5)).feed(ticks=[], values=[], groups=[], until=8)
    return float(release.reliable.any(axis=0).mean())


@pytest.mark.parametrize("loss", [Pure(1), Zcdp(1)])
def test_noise_makes_an_extreme_as_seldom_as_doubt(loss: Pure | Zcdp) -> None:
    for doubt in (0.05, 0.5):
        assert overshoots(claim(loss=loss, doubt=doubt)) < doubt + Z * np.sqrt(doubt / 3000)
    assert overshoots(claim(loss=loss, doubt=0.5, branching=2)) > 0.005


def test_three_standard_deviations_are_not_enough() -> None:
    statistic, groups = claim(loss=Zcdp(1)), 500
    nodes = statistic.counter.start(statistic.channels * groups, InsecureNoise(6)).feed(
        np.zeros((8, statistic.channels * groups), int)
    )
    noises = [statistic.counter.noise_at(tick) for tick in range(1, 9)]
    profile = AxisProfile(statistic.axis, statistic.tree, np.asarray(nodes, float).reshape(8, -1, groups), noises)
    blocks = statistic.tree.blocks_below_top + statistic.tree.top_blocks - statistic.tree.top_blocks_before
    spread = np.sqrt(profile.variances[:, None] * blocks)
    high = (profile.total[:, None] - profile.ranks)[:, :-1] > 3 * spread[:, :-1, None]
    assert high.any(axis=(0, 1)).mean() > 0.05
    assert estimate_extremes(profile, 0.05, [8] * 8).reliable[:, 1].any(axis=0).mean() < 0.05


@pytest.mark.parametrize("loss", [Pure(1), Zcdp(1)])
def test_bounds_on_events_beyond_extremes_hold(loss: Pure | Zcdp) -> None:
    values = np.clip(np.random.default_rng(7).normal(25, 6, 3000), 0, 49.9)
    statistic, groups = claim(loss=loss, window="each"), 1000
    exact = np.repeat(statistic.compute_totals(values), groups)
    nodes = statistic.counter.start(len(exact), InsecureNoise(9)).step(exact)
    shape = 1, statistic.channels, groups
    profile = AxisProfile(
        statistic.axis, statistic.tree, np.asarray(nodes, float).reshape(shape), [statistic.counter.noise_at(1)]
    )
    release = estimate_extremes(profile)
    low, high = release.count_beyond(0.9)
    cells = np.floor(values)
    below = (cells[:, None] < release.minimum[0]).sum(axis=0)
    above = (cells[:, None] > release.maximum[0]).sum(axis=0)
    assert release.reliable.all()
    for side, true in enumerate((below, above)):
        inside = (low[0, side] <= true) & (true <= high[0, side])
        assert inside.mean() > 0.9 - Z * np.sqrt(0.09 / groups)
        assert high[0, side].mean() < 3 * release.rank[0, side].mean()
    assert (release.maximum <= cells.max()).mean() > 0.9
    assert (release.minimum >= cells.min()).mean() > 0.9


@pytest.mark.parametrize("unit", [Event(), Event(replace=True)])
def test_no_event_moves_the_vector_farther_than_the_reach(unit: Event) -> None:
    statistic = claim(upper=9, branching=3, unit=unit)
    added = [statistic.compute_totals([v], [g], width=2) for v in range(9) for g in (0, 1)]
    vectors = [a - b for a in added for b in added] if unit.replace else added
    sizes = [(int(np.abs(v).sum()), int((v**2).sum()), int((v != 0).sum())) for v in vectors]
    assert statistic.tick_sensitivity == Sensitivity(*(max(column) for column in zip(*sizes, strict=True)))


@pytest.mark.parametrize("window", ["running", "each", "sliding 2", "decayed 2"])
@pytest.mark.parametrize("horizon", [8, None])
def test_feeding_equals_stepping(window: str, horizon: int | None) -> None:
    statistic = claim(window=window, horizon=horizon, loss=Zcdp(10))
    values = np.clip(np.random.default_rng(1).normal(25, 5, 3000), 0, 49)
    ticks, groups = np.arange(3000) % 4 + 1, np.arange(3000) // 4 % 3
    block = statistic.start(3, InsecureNoise(3)).feed(values, ticks=ticks, until=4, groups=groups)
    run = statistic.start(3, InsecureNoise(3))
    steps = [run.step(values[ticks == t], groups=groups[ticks == t]) for t in range(1, 5)]
    for name in ("value", "rank", "reliable"):
        assert np.allclose(getattr(block, name), [getattr(step, name) for step in steps])
    assert np.allclose(block.count_beyond(0.9), np.stack([step.count_beyond(0.9) for step in steps], axis=1))
    assert block.reliable.any()


def test_saved_run_preserves_its_published_extremes() -> None:
    noise = InsecureNoise(4)
    run = claim().start(groups=["a", "b"], noise=noise)
    run.step(crowd(5, 45), groups=["a"] * 2000)
    twin = claim().load(run.save(), noise.clone())
    one, two = (r.step(crowd(20), groups=["b"] * 1000) for r in (run, twin))
    assert (one.value == two.value).all()
    assert (one.rank == two.rank).all()
    assert one.maximum[0] >= 40
    assert run.save() == twin.save()


def test_without_a_horizon_later_ticks_require_more_events() -> None:
    endless = claim(horizon=None)
    parts = [1 / endless.chance_divisor(tick) for tick in range(1, 2000)]
    assert sum(parts) < 1
    assert endless.max_rank_error(100) > endless.max_rank_error(1)


def test_invalid_extremes_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"upper must be declared .* it must be public"):
        Extremes(Pure(1), lower=0, step=1, horizon=3)
    for wrong in (0, 0.6, True, -1, "x", None, (0, 1)):
        with pytest.raises(ValueError, match=r"doubt must be above 0 and at most 0.5, got"):
            claim(doubt=wrong)
    with pytest.raises(ValueError, match="confidence must be above 0 and below 1, got 0"):
        claim().start().step().count_beyond(0)
    with pytest.raises(ValueError, match="confidence must be above 0 and below 1, got 'x'"):
        claim().start().step().count_beyond("x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^step must make at most 2\*\*26 places .take a larger one, or fewer"):
        claim(upper=2**20).start(100)


def test_extremes_are_the_beginnings_of_cells_of_clipped_values() -> None:
    settings = {"step": 10, "loss": Pure(10)}
    for value, answer in ((19.5, [[10], [10]]), (-100, [[0], [0]]), (1000, [[40], [40]])):
        assert claim(**settings).start(noise=SilentNoise()).step([value] * 1000).value.tolist() == answer
