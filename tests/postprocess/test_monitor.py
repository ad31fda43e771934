"""Alerts: their definition, and errors as often as predicted."""

from dataclasses import replace
from fractions import Fraction
from math import inf, nan, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamgauge.continual import Binary, SimpleII, SquareRoot
from streamgauge.noise import DiscreteLaplace, NoiseSum, Term
from streamgauge.postprocess import EventMonitor, MonitorRun, NormalTail, UnionTail
from streamgauge.postprocess.monitor import split_point
from streamgauge.privacy import Pure, Zcdp
from streamgauge.statistics import Sum
from streamgauge.testing.noise import InsecureNoise

SCALE = Fraction(4)
LAPLACE = DiscreteLaplace(SCALE)
JUMP, DROP = EventMonitor("jump", 16, 4), EventMonitor("drop", 16, 4)
LOW, HIGH = EventMonitor("low", 9, 3), EventMonitor("threshold", 12)
SIDE = {"jump": 1, "drop": -1, "low": -1, "threshold": 1}  # direction of alerts from the level
MONITORS = [JUMP, DROP, LOW, HIGH]
every_monitor = pytest.mark.parametrize("monitor", MONITORS, ids=lambda monitor: monitor.kind)


def draws(count):
    """Return the noise of `count` independent releases, added or subtracted."""
    return NoiseSum((Term(count, 1, LAPLACE),))


NOISE = {"jump": draws(2), "drop": draws(2), "low": draws(3), "threshold": draws(1)}


def by_the_letter(monitor, c):
    """Compute the definition, with ticks counted from 1."""
    w, size = monitor.window, monitor.size
    says = {
        "jump": lambda t: c[t - 1] - c[t - w] >= size,
        "drop": lambda t: c[t - 1] - c[t - w] <= -size,
        "low": lambda t: sum(c[t - w : t]) <= size,
        "threshold": lambda t: c[t - 1] >= size,
    }
    return [bool(t >= w and says[monitor.kind](t)) for t in range(1, len(c) + 1)]


@every_monitor
@given(stream=st.lists(st.integers(-30, 30), max_size=30))
def test_alerts_match_the_definition(monitor, stream):
    assert monitor.start().feed(stream).tolist() == by_the_letter(monitor, stream)


@every_monitor
def test_alerts_start_exactly_at_the_size(monitor):
    quantity = {"jump": [0, 9, 9], "drop": [0, 9, 9], "low": [9, 9], "threshold": []}[monitor.kind]
    last = monitor.level - (18 if monitor.kind == "low" else 0)
    for beyond, alert in [(0, True), (1, True), (-1, False)]:
        assert monitor.start().feed([*quantity, last + SIDE[monitor.kind] * beyond])[-1] == alert


@every_monitor
@given(
    block=arrays(np.float64, st.tuples(st.integers(0, 12), st.just(3)), elements=st.floats(-30, 30)),
    cuts=st.lists(st.integers(0, 12), max_size=3),
)
def test_blocks_and_steps_equal_the_whole_stream(monitor, block, cuts):
    whole = monitor.start(3).feed(block)
    watch, stepped = monitor.start(3), monitor.start(3)
    pieces = [watch.feed(piece) for piece in np.split(block, sorted(cuts))]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    steps = [stepped.step(row) for row in block]
    np.testing.assert_array_equal(np.array(steps, bool).reshape(whole.shape), whole)
    np.testing.assert_array_equal(watch.tail, stepped.tail)


@every_monitor
def test_monitor_stores_only_the_tail(monitor):
    block = np.random.default_rng(1).integers(-30, 30, (40, 2))
    watch = monitor.start(2)
    watch.feed(block[:25])
    assert watch.tail.shape == (monitor.window - 1, 2)
    again = MonitorRun(monitor, watch.tail.copy())
    np.testing.assert_array_equal(again.feed(block[25:]), watch.feed(block[25:]))


@every_monitor
def test_alerts_do_not_modify_releases_or_raise(monitor):
    block = np.array([[1.0, nan], [inf, -inf], [inf, inf], [-inf, 1e308], [1e308, 1e308]])
    before = block.copy()
    monitor.start(2).feed(block)
    np.testing.assert_array_equal(block, before)


def truth_of(monitor, quantity, ticks):
    """Return a stream with a constant monitored quantity: a ramp or a level."""
    if monitor.kind in ("jump", "drop"):
        return np.arange(ticks) * quantity / (monitor.window - 1)
    return np.full(ticks, quantity / monitor.window)


def alert_rate(monitor, observer, quantity, runs=200_000):
    """Return the alert rate of `observer` on noisy releases with this quantity of `monitor`."""
    ticks = observer.window
    noise = InsecureNoise(12).laplace(SCALE, ticks * runs).reshape(ticks, runs)
    releases = truth_of(monitor, quantity, ticks)[:, None] + noise
    return float(observer.start(runs).feed(releases)[-1].mean())


def agrees(rate, predicted, runs=200_000):
    """Return True if rates differ by at most 6.5 standard errors (p = 1e-10)."""
    return abs(rate - predicted) <= 6.5 * sqrt(predicted * (1 - predicted) / runs) + 1e-4 * predicted


QUIET = {"jump": 0, "drop": 0, "low": 30, "threshold": 0}
LOUD = {"jump": 30, "drop": -30, "low": -12, "threshold": 24}


def predictions_hold(monitor, observer):
    noise, quiet, loud = NOISE[monitor.kind], QUIET[monitor.kind], LOUD[monitor.kind]
    false_alarms = agrees(alert_rate(monitor, observer, quiet), monitor.false_alarm_probability(noise, quiet))
    misses = agrees(1 - alert_rate(monitor, observer, loud), monitor.miss_probability(noise, loud))
    return false_alarms and misses


@every_monitor
def test_false_alarms_and_misses_are_as_frequent_as_predicted(monitor):
    assert predictions_hold(monitor, monitor)


TWINS = [replace(monitor, size=monitor.size + by) for monitor in MONITORS for by in (-1, 1)]
TWINS += [replace(monitor, window=monitor.window + by) for monitor in (JUMP, DROP, LOW) for by in (-1, 1)]


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_a_monitor_of_another_size_or_window_is_caught(twin):
    monitor = next(monitor for monitor in MONITORS if monitor.kind == twin.kind)
    assert not predictions_hold(monitor, twin)


def test_a_monitor_of_the_wrong_sign_is_caught():
    assert not predictions_hold(JUMP, DROP)
    assert not predictions_hold(DROP, JUMP)


@every_monitor
def test_noise_of_another_scale_is_caught(monitor):
    for factor in (Fraction(7, 10), Fraction(13, 10)):
        terms = NOISE[monitor.kind].terms
        other = NoiseSum((replace(terms[0], distribution=DiscreteLaplace(SCALE * factor)),))
        quiet = QUIET[monitor.kind]
        assert not agrees(alert_rate(monitor, monitor, quiet), monitor.false_alarm_probability(other, quiet))


@pytest.mark.parametrize("size", [1, 2, 30, 100])
@pytest.mark.parametrize("truth", [-20, -1, 0, 1, 5, 29, 30, 31, 99])
def test_for_one_draw_the_rates_are_exact(size, truth):
    monitor = EventMonitor("threshold", size)
    alert = LAPLACE.tail(size - truth)
    if truth < size:
        assert alert <= monitor.false_alarm_probability(draws(1), truth) <= alert * (1 + 1e-4)
    else:
        assert 1 - alert <= monitor.miss_probability(draws(1), truth) * (1 + 1e-12) <= (1 - alert) * (1 + 1e-4)
        assert monitor.false_alarm_probability(draws(1), truth) == 1
    low = EventMonitor("low", -size)
    assert low.false_alarm_probability(draws(1), -truth) == monitor.false_alarm_probability(draws(1), truth)
    assert low.miss_probability(draws(1), -truth) == monitor.miss_probability(draws(1), truth)


@every_monitor
@pytest.mark.parametrize("beta", [0.3, 0.01, 1e-6])
def test_detectable_change_is_the_nearest_one(monitor, beta):
    noise, quiet = NOISE[monitor.kind], QUIET[monitor.kind]
    size, loud = monitor.find_detectable(noise, beta, quiet)
    fitted, side = replace(monitor, size=size), SIDE[monitor.kind]
    assert fitted.false_alarm_probability(noise, quiet) <= beta
    assert fitted.miss_probability(noise, loud) <= beta
    assert fitted.miss_probability(noise, loud - side) > beta
    nearer = replace(monitor, size=abs(fitted.level - side))
    assert nearer.false_alarm_probability(noise, quiet) > beta


@pytest.mark.parametrize("monitor", [JUMP, DROP], ids=repr)
def test_detectable_size_is_positive_for_any_quiet_level(monitor):
    noise, side = draws(2), SIDE[monitor.kind]
    for quiet in (-100 * side, -100.5 * side, -33 * side):
        size, loud = monitor.find_detectable(noise, 0.05, quiet)
        fitted = replace(monitor, size=size)
        assert fitted.false_alarm_probability(noise, quiet) <= 0.05
        assert fitted.miss_probability(noise, loud) <= 0.05 < fitted.miss_probability(noise, loud - side)
        assert size <= 1 or fitted.false_alarm_probability(noise, quiet + side) > 0.05  # no larger than it has to be


def test_finer_grid_finds_nearer_truth_for_fractional_noise():
    noise = NoiseSum((Term(1, 0.25, LAPLACE),))
    coarse, fine = (HIGH.find_detectable(noise, 0.01, grid=grid) for grid in (1.0, 0.25))
    assert fine.loud < coarse.loud
    assert fine.loud * 4 == HIGH.find_detectable(draws(1), 0.01).loud


def test_alerts_without_noise_never_err():
    silent = NoiseSum(())
    assert JUMP.false_alarm_probability(silent, 15) == 0 == JUMP.miss_probability(silent, 16)
    assert JUMP.false_alarm_probability(silent, 16) == 1 == JUMP.miss_probability(silent, 15)
    assert JUMP.find_detectable(silent, 0.01) == (1, 1)


def partners(one, other):
    """Yield draws of the same law: equal, opposite, independent and sorted."""
    order = np.argsort(np.argsort(one))
    shifted = np.sort(other)[(order + len(one) // 2) % len(one)]
    return [one, -one, other, np.sort(other)[order], np.sort(other)[order[::-1]], shifted]


def test_union_tail_bounds_sum_of_dependent_noises():
    one, other = InsecureNoise(3).laplace(SCALE, 400_000).reshape(2, -1)
    both = UnionTail(draws(1), draws(1))
    for x in (1, 2, 7, 16, 17, 32):
        bound = both.upper_tail(x)
        rates = [float((one + partner >= x).mean()) for partner in partners(one, other)]
        assert max(rates) <= bound + 6.5 * sqrt(bound / len(one))
        assert max(rates) >= bound / 3


def test_a_bound_without_the_union_is_caught():
    one = InsecureNoise(3).laplace(SCALE, 200_000)
    assert float((one + one >= 16).mean()) > 1.5 * draws(2).upper_tail(16)


def test_either_tail_is_the_exact_union_at_its_best_split():
    best = LAPLACE.tail(8) + LAPLACE.tail(9)
    assert best <= UnionTail(draws(1), draws(1)).upper_tail(16) <= best * (1 + 1e-4)


@given(x=st.floats(5e-324, 1e300), part=st.sampled_from([1 / 4, 3 / 8, 1 / 2, 5 / 8, 3 / 4]))
def test_split_parts_never_exceed_the_whole(x, part):
    p, q = split_point(x, part)
    assert Fraction(p) + Fraction(q) <= Fraction(x)


def test_either_tail_is_a_tail():
    both = UnionTail(draws(1), NoiseSum(()))
    assert both.upper_tail(0) == both.upper_tail(-inf) == 1
    assert 0 <= both.upper_tail(inf) < 1e-300
    falling = [both.upper_tail(x) for x in range(60)]
    assert falling == sorted(falling, reverse=True)
    with pytest.raises(ValueError, match="x must be a number"):
        both.upper_tail(nan)


def test_jumps_of_running_counts_obey_the_union_bound():
    claim, runs = Binary(Pure(1), horizon=64), 50_000
    releases = claim.start(runs, InsecureNoise(7)).feed(np.zeros((64, runs), np.int64))
    noise = UnionTail(claim.noise_at(60), claim.noise_at(56))
    monitor = EventMonitor("jump", 20, 5)
    rate = float(monitor.start(runs).feed(releases[55:60])[-1].mean())
    bound = monitor.false_alarm_probability(noise, 0)
    assert 0 < rate <= bound < 1
    exact = difference(claim, 60, 56)
    assert agrees(rate, monitor.false_alarm_probability(exact, 0), runs)


def difference(claim, late, early):
    """Return the noise of a difference of two releases, as in docs/postprocess.md."""
    strategy = claim.strategy(late)
    weights = strategy.decode[late - 1] - strategy.decode[early - 1]
    rows = [row for row in strategy.draws if weights[row]]
    laws = strategy.distributions
    return NoiseSum(tuple(Term(1, weights[row] / strategy.grids[row], laws[row]) for row in rows))


@pytest.mark.parametrize("claim", [Binary(Pure(1), horizon=40, pan_private=True), SquareRoot(Zcdp(1), horizon=40)])
def test_noise_of_a_difference_matches_the_strategy(claim):
    releases = claim.start(50_000, InsecureNoise(2)).feed(np.zeros((40, 50_000), np.int64))
    found = float((releases[38] - releases[33]).std())
    assert difference(claim, 39, 34).stddev == pytest.approx(found, rel=0.03)


def test_increments_of_simple_counts_are_independent_draws():
    claim = SimpleII(Pure(1))
    assert difference(claim, 9, 5).variance == pytest.approx(4 * claim.noise_at(1).variance)


def test_settings_and_shapes_that_make_no_sense_are_refused():
    for kind, size, window, rule in [
        ("leap", 1, 2, "kind must be one of jump, drop, low, threshold"),
        ("jump", nan, 2, "size must be finite"),
        ("jump", 0, 2, "size must be above 0 for a jump"),
        ("drop", -5, 2, "size must be above 0 for a drop"),
        ("jump", 5, 1, "window must be at least 2 for kind jump"),
        ("low", 5, 0, "window must be at least 1 for kind low"),
        ("low", 5, 2.5, "window must be a whole number, got 2.5"),
        ("low", 5, True, "window must be a whole number, got True"),
        ("low", "1", 1, "size must be a number, got '1'"),
        ("low", True, 1, "size must be a number, got True"),
        ("low", None, 1, "size must be a number, got None"),
        ("low", 10**400, 1, "size must be finite"),
        ("low", -inf, 1, "size must be finite"),
        ("threshold", 5, 2, "window must be 1 for kind threshold"),
    ]:
        with pytest.raises(ValueError, match=rule):
            EventMonitor(kind, size, window)
    for use, rule in [
        (lambda: JUMP.start(0), "width must be at least 1"),
        (lambda: JUMP.start("1"), "width must be at least 1, got '1'"),
        (lambda: JUMP.find_detectable(draws(2), 0.1, quiet=nan), "quiet must be finite"),
        (lambda: JUMP.start(2).step([1]), "values must be one number per group"),
        (lambda: JUMP.start(2).feed([1, 2]), "block must be of shape"),
        (lambda: JUMP.find_detectable(draws(2), 0.5), "beta must be above 0 and below 1/2"),
        (lambda: JUMP.find_detectable(draws(2), 0.1, grid=0), "grid must be above 0"),
        (lambda: MonitorRun(JUMP, np.zeros((4, 1))), "tail must be at most 3 rows"),
    ]:
        with pytest.raises(ValueError, match=rule):
            use()


def test_a_normal_tail_is_that_of_the_normal_law() -> None:
    tail = NormalTail(2.0)
    assert tail.upper_tail(0) == 0.5
    assert tail.upper_tail(2 * NormalDist().inv_cdf(0.975)) == pytest.approx(0.025)
    for wrong in (0.0, -1.0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=r"^stddev must be positive, got"):
            NormalTail(wrong)


def test_rates_of_a_sum_match_simulation() -> None:
    claim = Sum(Pure(1), lower=0, upper=3, step=0.01, window="each")
    monitor, runs = EventMonitor("threshold", size=10), 40_000
    released = claim.start(runs, InsecureNoise(3)).step_totals(np.full((1, runs), 300)).value
    predicted = monitor.false_alarm_probability(claim.noise_at(1), quiet=3)
    assert abs(np.mean(released >= 10) - predicted) < 6 * (predicted / runs) ** 0.5
    assert abs(monitor.false_alarm_probability(claim.counter.noise_at(1), quiet=3) - predicted) > 0.1
