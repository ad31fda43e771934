"""Node estimates: consistent sums, obeyed bounds and small errors in long windows."""

import numpy as np
import pytest

from streamgauge import Pure
from streamgauge.adaptive import PegasusHierarchy
from streamgauge.adaptive.pegasus.node_estimates import MAX_STANDARD_ERRORS, fit_to_bounds
from streamgauge.plan.aggregates.prediction import DATA_INDEPENDENT_NOTE, PredictionRequest, predict_counter
from streamgauge.postprocess import Hierarchy
from streamgauge.statistics import Count, MechanismConfig
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.pruning_twins import TickPrunedHierarchy

TREE = Hierarchy.build_complete(3, 3)
WINDOWS = ("each", "sliding 8", "running")
EVEN, UNEVEN = np.repeat([30.0, 2.0, 0.05], 3), np.tile([3.0, 0.05, 0.05], 3)


def claim(kind=PegasusHierarchy, **settings):
    return kind(Pure(1), **{"hierarchy": TREE, **settings})


def stream(ticks=80, rates=EVEN):
    return np.random.default_rng(5).poisson(rates, (ticks, 9))


@pytest.mark.parametrize("consistent", [True, False])
@pytest.mark.parametrize("window", WINDOWS)
def test_value_is_inside_its_interval_at_any_confidence(window, consistent):
    release = claim(window=window, consistent=consistent).start(noise=InsecureNoise(1)).feed(stream())
    assert (release.value >= 0).all()
    release = release.select_ticks(slice(-8, None))
    for confidence in (0.0, 0.5, 0.95):
        low, high = release.interval(confidence)
        assert ((low <= release.value) & (release.value <= high)).all()


@pytest.mark.parametrize("window", WINDOWS)
def test_root_is_near_readings_and_interval_matches_their_noise(window):
    made = claim(window=window)
    release = made.start(noise=InsecureNoise(2)).feed(stream())
    off = np.abs(release.value - release.centre)[:, 0]
    assert (off <= MAX_STANDARD_ERRORS * release.stddev[:, 0] + 1e-9).all()
    for tick in (1, 2, 80):
        half, last = made.error_bound(tick).half_width(0.95)[0], release.select_tick(tick - 1)
        ends = np.maximum(last.centre[0] + np.array([-half, half]), 0)
        assert np.stack(last.interval(0.95))[:, 0].tolist() == ends.tolist()


def errors(made, rates=EVEN, groups=24):
    """Return the last tick's RMSE of values and centres for each level, from many trees."""
    nodes = TREE.parents
    many = Hierarchy([-1 if up < 0 else up + k * len(nodes) for k in range(groups) for up in nodes])
    values = np.tile(stream(120, rates), (1, groups))
    wide = claim(type(made), hierarchy=many, window=made.window, smoother=made.smoother, prune=made.prune)
    release = wide.start(noise=InsecureNoise(3)).feed(values).select_tick(-1)
    off = np.stack([release.value, release.centre]) - many.sum_leaves(values.sum(axis=0))
    return [[float(np.sqrt((each[wide.depths == d] ** 2).mean())) for d in range(3)] for each in off]


@pytest.mark.parametrize("rates", [EVEN, UNEVEN])
def test_running_totals_are_no_worse_than_sums_of_readings(rates):
    value, centre = errors(claim(window="running"), rates)
    assert all(own < 1.05 * sums for own, sums in zip(value, centre, strict=True))


def test_medians_and_per_tick_pruning_have_larger_running_errors():
    good, _ = errors(claim(window="running"), UNEVEN)
    average, median = (errors(claim(window="running", smoother=name, prune=0))[0][0] for name in ("average", "median"))
    assert median > 1.15 * average
    assert errors(claim(TickPrunedHierarchy, window="running"), UNEVEN)[0][2] > 1.5 * good[2]


def test_default_smoother_depends_on_the_window():
    assert [claim(window=window).smoother for window in WINDOWS] == ["median", "average", "average"]
    assert claim(window="running", smoother="quiet").smoother == "quiet"


def test_small_counts_that_accumulate_are_read_in_long_windows():
    little = int(claim().tiers[1].pruner.threshold[0] / 3)
    values = np.zeros((30, 9), int)
    values[:, 0] = little
    read = {w: claim(window=w).start(noise=SilentNoise()).feed(values).was_read[:, 1] for w in WINDOWS}
    assert not read["each"].any()
    assert not read["sliding 8"].any(), "3 times sqrt(8) is less than 9"
    assert read["running"].tolist() == [False] * 9 + [True] * 21


def test_zero_prune_setting_disables_pruning():
    assert claim(prune=0) == claim(prune=None) != claim()
    assert claim(prune=0).start().feed(np.zeros((5, 9), int)).was_read.all()
    count = Count(Pure(1), window="each", mechanism=MechanismConfig.build(PegasusHierarchy, hierarchy=TREE, prune=0))
    assert dict(MechanismConfig.from_mechanism(count.counter).settings)["prune"] == 0


def test_plan_note_states_bound_of_topmost_level():
    certain = f"{claim(window='running').error_bound(50).half_width(0.95)[0]:,.4g}"
    for prune, words in (
        (1, f"no bound before there are data, but +-{certain} at the topmost level"),
        (0, DATA_INDEPENDENT_NOTE),
    ):
        counted = MechanismConfig.build(PegasusHierarchy, hierarchy=TREE, prune=prune)
        count = Count(Pure(1), window="running", mechanism=counted)
        assert predict_counter(PredictionRequest("count", count, "value", 50)).note == words


def boxes(seed):
    rng = np.random.default_rng(seed)
    values = TREE.sum_leaves(rng.normal(0, 9, 9))
    low = np.where(rng.random(13) < 0.3, -np.inf, values + rng.normal(0, 6, 13))
    return values, low, np.where(rng.random(13) < 0.3, np.inf, np.maximum(low, -99) + rng.exponential(9, 13))


@pytest.mark.parametrize("lowest", [0.0, -np.inf])
@pytest.mark.parametrize("seed", range(10))
def test_fitted_values_are_consistent_and_roots_obey_bounds(seed, lowest):
    values, *bounds = boxes(seed)
    low, high = (np.maximum(bound, lowest) for bound in bounds)
    brought = fit_to_bounds(TREE, values, low, high, lowest)
    assert np.allclose(TREE.sum_leaves(brought[TREE.leaves]), brought, rtol=0, atol=1e-6)
    assert (brought >= lowest).all()
    assert low[0] <= brought[0] <= high[0]


def test_conflicting_children_yield_evenly_but_not_below_lowest():
    tree, low = Hierarchy([None, 0, 0, 0]), np.array([0.0, 10.0, 5.0, 1.0])
    values, high = np.array([12.0, 12.0, 6.0, 2.0]), np.array([12.0, 99.0, 99.0, 99.0])
    assert np.allclose(fit_to_bounds(tree, values, low, high, 0.0), [12, 8.5, 3.5, 0])
    signed = fit_to_bounds(tree, -values, -high, -low)
    assert np.allclose(signed, [-12, -26 / 3, -11 / 3, 1 / 3]), "no highest"


@pytest.mark.parametrize("busy", [10, 10_000])
def test_a_root_of_many_leaves_is_near_its_readings(busy):
    tree = Hierarchy([None] + [0] * 10_000)
    counts = np.zeros((3, 10_000), int)
    counts[:, :busy] = 10_000 // busy
    release = claim(hierarchy=tree).start(noise=InsecureNoise(3)).feed(counts).select_tick(-1)
    assert release.was_read.all()
    assert abs(release.value[0] - release.centre[0]) <= MAX_STANDARD_ERRORS * release.stddev[0]
    assert release.value[1:].sum() == pytest.approx(release.value[0])
    assert (release.value >= 0).all()
    low, high = release.interval(0.95)
    assert high[0] - low[0] == 2 * release.error_bounds[0].half_width(0.95)[0], "not widened"
    if busy == 10:
        assert (np.abs(release.value - release.centre)[1:11] < 6 * release.stddev[1]).all()


@pytest.mark.parametrize("seed", range(10))
def test_feasible_bounds_are_obeyed_by_all_nodes(seed):
    rng = np.random.default_rng(seed)
    truth, values = TREE.sum_leaves(rng.normal(0, 5, 9)), TREE.sum_leaves(rng.normal(0, 20, 9))
    low, high = truth - rng.exponential(4, 13), truth + rng.exponential(4, 13)
    brought = fit_to_bounds(TREE, values, low, high)
    assert ((low - 1e-9 <= brought) & (brought <= high + 1e-9)).all()
    assert np.allclose(fit_to_bounds(TREE, truth, low, high), truth)
