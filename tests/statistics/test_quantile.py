"""Quantiles: exact without noise, never crossing, with rank errors and intervals that hold."""

from itertools import product
from math import ceil
from typing import Any

import numpy as np
import pytest

from streamgauge import Event, Pure, Zcdp
from streamgauge.continual import Kary
from streamgauge.privacy import Sensitivity
from streamgauge.statistics.ordered.axis import Axis, AxisProfile
from streamgauge.statistics.ordered.quantile import (
    Quantile,
    compute_variance_blocks,
    find_cell_range,
    find_crossing,
    make_monotone,
    parse_fractions,
)
from streamgauge.testing.noise import InsecureNoise, SilentNoise

MANY = (0.05, 0.25, 0.5, 0.75, 0.95)
WIDTH, Z = 4000, 6.5


def claim(**settings: Any) -> Quantile:
    made: dict[str, Any] = {"lower": 0, "upper": 40, "step": 1, "horizon": 6, **settings}
    return Quantile(made.pop("loss", Pure(1)), **made)


def order_statistic(values: np.ndarray, q: float) -> float:
    """Return the least value with at least a share q of all values up to it."""
    return float(np.sort(values)[ceil(parse_fractions(q)[0] * len(values)) - 1])


@pytest.mark.parametrize("branching", [0, 2, 3])
@pytest.mark.parametrize("pan_private", [False, True])
def test_without_noise_quantiles_are_order_statistics(branching: int, pan_private: bool) -> None:
    run = claim(q=MANY, branching=branching, pan_private=pan_private).start(noise=SilentNoise())
    view = np.zeros(0)
    for tick in range(6):
        new = np.random.default_rng(tick).integers(0, 40, 1 + 7 * tick)
        view = np.append(view, new)
        assert run.step(new).value[:, 0].tolist() == [order_statistic(view, q) for q in MANY]


def test_decimal_rank_is_exact_in_spite_of_floats() -> None:
    release = claim(q=0.07, upper=100).start(noise=SilentNoise()).step(np.arange(100))
    assert release.value.tolist() == [6]


@pytest.mark.parametrize("unit", [Event(), Event(replace=True)])
def test_sensitivity_is_the_largest_move_of_an_event(unit: Event) -> None:
    statistic = claim(upper=9, branching=2, unit=unit)
    added = [statistic.compute_totals([v], [g], width=2) for v, g in product(range(9), (0, 1))]
    vectors = [a - b for a, b in product(added, added)] if unit.replace else added
    sizes = [(int(np.abs(v).sum()), int((v**2).sum()), int((v != 0).sum())) for v in vectors]
    assert statistic.tick_sensitivity == Sensitivity(*(max(column) for column in zip(*sizes, strict=True)))
    assert max(sizes)[0] > statistic.tick_sensitivity.l1 - 1


def test_quantiles_never_cross_and_ranks_never_fall() -> None:
    events = np.random.default_rng(1).integers(0, 40, 300)
    run = claim(q=MANY).start(300, InsecureNoise(2))
    for _ in range(4):
        release = run.step(events, groups=np.arange(300))
        assert (np.diff(release.value, axis=0) >= 0).all()
        assert (release.value >= 0).all()
        assert (release.value < 40).all()
    noisy = np.random.default_rng(2).normal(0, 9, (3, 41, 50)).cumsum(axis=1)
    assert (np.diff(make_monotone(noisy), axis=1) >= 0).all()


def test_monotone_ranks_do_not_increase_the_largest_error() -> None:
    rng = np.random.default_rng(3)
    truth = np.sort(rng.integers(0, 100, (200, 30, 1)), axis=1).astype(float)
    truth[:, 0], truth[:, -1] = 0, 100
    noisy = truth + rng.normal(0, 30, truth.shape)
    noisy[:, -1] = np.maximum(noisy[:, -1], 1)
    error = np.abs(noisy - truth).max(axis=1)
    assert (np.abs(make_monotone(noisy) - truth).max(axis=1) <= error + 1e-9).all()


def test_without_events_quantiles_are_those_of_the_axis() -> None:
    release = claim(q=(0.25, 0.5)).start(noise=SilentNoise()).step()
    assert release.value.tolist() == [[9], [19]]
    assert not release.reliable.any()


def profile_of(statistic: Quantile, seed: int) -> AxisProfile:
    """Pure noise: an empty tick of many groups."""
    counter = statistic.counter.start(statistic.channels * WIDTH, InsecureNoise(seed))
    nodes = np.asarray(counter.step(np.zeros(statistic.channels * WIDTH, int)), float)
    shape = 1, statistic.channels, WIDTH
    return AxisProfile(statistic.axis, statistic.tree, nodes.reshape(shape), [statistic.counter.noise_at(1)])


def agrees(errors: np.ndarray, variance: np.ndarray) -> bool:
    scaled = errors / np.sqrt(variance)[:, None]
    second, fourth = (scaled**2).mean(axis=1), (scaled**4).mean(axis=1)
    uncertainty = np.sqrt(np.maximum(fourth - second**2, 0.5) / WIDTH)
    return bool((np.abs(second - 1) < Z * uncertainty).all())


@pytest.mark.parametrize("loss", [Pure(1), Zcdp(1)])
@pytest.mark.parametrize("q", [0.5, 0.9])
def test_rank_error_matches_simulation(loss: Pure | Zcdp, q: float) -> None:
    statistic = claim(loss=loss, q=q, branching=4)
    profile, (part,) = profile_of(statistic, 31), parse_fractions(q)
    errors = (profile.ranks - q * profile.total[:, None])[0]
    blocks = compute_variance_blocks(statistic.tree, part)
    variance = blocks * statistic.counter.stddev(1) ** 2
    assert agrees(errors, variance)
    assert not agrees(errors, 0.49 * variance)
    assert not agrees(errors, 1.69 * variance)
    uncorrelated = (
        statistic.tree.blocks_below_top + statistic.tree.top_blocks_before + q * q * statistic.tree.top_blocks
    )
    assert not agrees(errors, uncorrelated * statistic.counter.stddev(1) ** 2)
    assert statistic.max_rank_stddev(1) == pytest.approx(np.sqrt(variance.max()))


def test_the_released_rank_error_is_that_of_the_published_cell() -> None:
    statistic = claim(branching=4)
    release = statistic.start(noise=SilentNoise()).step([17, 17, 17])
    blocks = compute_variance_blocks(statistic.tree, parse_fractions(0.5)[0])
    assert release.rank_stddev[0] == pytest.approx(np.sqrt(blocks[17:19].max()) * statistic.counter.stddev(1))
    assert release.fraction_stddev[0] == pytest.approx(release.rank_stddev[0] / 3)


@pytest.mark.parametrize("loss", [Pure(1), Zcdp(0.5)])
@pytest.mark.parametrize("events", [20, 200, 5000])
def test_intervals_hold_true_quantile_at_stated_confidence(loss: Pure | Zcdp, events: int) -> None:
    values = np.clip(np.random.default_rng(7).normal(20, 6, events), 0, 39.9)
    statistic, groups = claim(loss=loss, q=(0.5, 0.9)), 1000
    truth = [order_statistic(np.floor(values), q) for q in (0.5, 0.9)]
    counter = statistic.counter.start(statistic.channels * groups, InsecureNoise(8))
    exact = np.repeat(statistic.compute_totals(values), groups)
    nodes = np.asarray(counter.step(exact), float).reshape(1, -1, groups)
    profile = AxisProfile(statistic.axis, statistic.tree, nodes, [statistic.counter.noise_at(1)])
    for q, true in zip((0.5, 0.9), truth, strict=True):
        (part,) = parse_fractions(q)
        cells = find_crossing(make_monotone(profile.ranks), part)
        low, high = find_cell_range(profile, part, cells, 0.95)
        covered = ((low <= true) & (true < high)).mean()
        assert covered > 0.95 - Z * np.sqrt(0.0475 / groups)
        if events == 5000:
            assert (high - low).mean() < 20


def test_intervals_without_their_half_widths_miss() -> None:
    values = np.clip(np.random.default_rng(7).normal(20, 6, 200), 0, 39.9)
    release = claim().start(1, InsecureNoise(8)).feed(values, ticks=np.arange(200) % 6 + 1, until=6)
    low, high = release.interval(1e-9)
    wide_low, wide_high = release.interval(0.95)
    assert (low >= wide_low).all()
    assert (high <= wide_high).all()
    assert (high - low).sum() < (wide_high - wide_low).sum()


def test_reliability_is_decided_from_noisy_counts() -> None:
    statistic = claim(q=(0.5, 0.99))
    few, many = ([20] * count for count in (3, 1000))
    assert statistic.start(noise=SilentNoise()).step(few).reliable.tolist() == [[False], [False]]
    assert statistic.start(noise=SilentNoise()).step(many).reliable.tolist() == [[True], [False]]


@pytest.mark.one_of_each
@pytest.mark.parametrize("window", ["running", "each", "sliding 2", "decayed 2"])
@pytest.mark.parametrize("q", [0.5, (0.1, 0.9)])
def test_feeding_equals_stepping(window: str, q: Any) -> None:
    statistic = claim(q=q, window=window, loss=Zcdp(1))
    values = np.random.default_rng(1).integers(0, 40, 80)
    ticks, groups = np.arange(80) % 4 + 1, np.arange(80) // 4 % 3
    block = statistic.start(3, InsecureNoise(3)).feed(values, ticks=ticks, until=4, groups=groups)
    run = statistic.start(3, InsecureNoise(3))
    steps = [run.step(values[ticks == t], groups=groups[ticks == t]) for t in range(1, 5)]
    for name in ("value", "rank_stddev", "reliable", "fraction_stddev"):
        assert np.allclose(getattr(block, name), [getattr(step, name) for step in steps])
    assert np.allclose(block.interval(0.9), np.stack([step.interval(0.9) for step in steps], axis=1))
    assert block.select_tick(2).value.tolist() == steps[2].value.tolist()
    assert steps[0].value.shape == ((3,) if q == 0.5 else (2, 3))


def test_saved_run_continues_bit_for_bit() -> None:
    noise = InsecureNoise(4)
    run = claim().start(groups=["a", "b"], noise=noise)
    run.step([3, 5], groups=["a", "b"])
    twin = claim().load(run.save(), noise.clone())
    one, two = run.step([4], groups=["b"]), twin.step([4], groups=["b"])
    assert (one.value == two.value).all()
    assert (one.count == two.count).all()


def test_a_pan_private_run_survives_an_intrusion() -> None:
    statistic: Any = claim(pan_private=True, mechanism=Kary, horizon=4096, branching=4)
    run = statistic.start(noise=SilentNoise())
    run.step([3, 5, 5])
    run.intrude()
    for _ in range(statistic.counter.branching - 1):
        release = run.step([3, 5, 5])
    assert release.value.tolist() == [5]
    blocks = compute_variance_blocks(statistic.tree, parse_fractions(0.5)[0])[5:7].max()
    assert release.rank_stddev[0] == pytest.approx(np.sqrt(blocks) * run.noise().stddev)
    assert run.noise().stddev > statistic.counter.stddev(run.tick)


def test_invalid_quantile_settings_are_refused() -> None:
    with pytest.raises(ValueError, match=r"lower must be declared .* it must be public"):
        Quantile(Pure(1), upper=1, step=1, horizon=3)
    with pytest.raises(ValueError, match="step must be declared"):
        claim(step=None)
    for wrong in (0, 1, 1.5, -0.1):
        with pytest.raises(ValueError, match=r"q must be above 0 and below 1 \(Extremes has the ends\), got"):
            claim(q=wrong)
    with pytest.raises(ValueError, match="q must be a number or several, got none"):
        claim(q=())
    with pytest.raises(ValueError, match="q must be a finite number, got half"):
        claim(q="half")
    with pytest.raises(ValueError, match="confidence must be above 0 and below 1, got 1"):
        claim().start().step().interval(1)
    for wrong in ("x", None, True):
        with pytest.raises(ValueError, match="confidence must be above 0 and below 1, got"):
            claim().start().step().interval(wrong)
    with pytest.raises(ValueError, match=r"^step must make at most 2\*\*26 places .take a larger one, or fewer"):
        claim(upper=2**20).start(100)
    with pytest.raises(ValueError, match=r"^step must make at most 2\*\*26 places"):
        claim(upper=2**26)
    assert claim(q=[0.1, 0.2]) == claim(q=(0.1, 0.2))
    assert claim().axis == Axis(0, 40, 1)
