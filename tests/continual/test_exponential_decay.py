"""ExponentialDecay: its three implementations, their errors, and the tree of p-sums."""

from fractions import Fraction
from math import sqrt

import numpy as np
import pytest

from streamgauge.continual.decay.exponential import ExponentialDecay, find_best_tree, predict_variance
from streamgauge.continual.decay.tree import DecayTree, group_weights, sum_powers
from streamgauge.continual.run import LimitExceededError
from streamgauge.noise import laplace_variance
from streamgauge.privacy import Approx, Event, Pure, User, WEvent, Zcdp
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.saved_states import live_state

HALF = Zcdp("1/2")
WAYS = [
    ExponentialDecay(Pure(1), decay="9/10"),
    ExponentialDecay(Pure(1), decay=0.99),
    ExponentialDecay(Pure(1), decay=0.999, horizon=10**6),
    ExponentialDecay(HALF, decay=0.9),
    ExponentialDecay(Approx(1, 1e-6), half_life=100),
    ExponentialDecay(HALF, decay=0.01),
    ExponentialDecay(HALF, decay=0.97, pan_private=True),
    DecayTree(Pure(1), decay=Fraction(19, 20), branching=2, levels=5),
    DecayTree(Pure(2), decay=Fraction(1, 3), branching=3, levels=3),
]


def decay_of(claim):
    return float(claim.decay_factor if isinstance(claim, ExponentialDecay) else claim.decay)


def truth(values, decay):
    sums, total = [], np.zeros(values.shape[1])
    for row in values:
        total = decay * total + row
        sums.append(total)
    return np.array(sums)


@pytest.mark.parametrize("claim", WAYS)
@pytest.mark.parametrize("width", [2, 30])
def test_silent_noise_gives_decayed_sums_up_to_the_deviation(claim, width):
    values = np.random.default_rng(1).integers(-50, 50, (500, width))
    releases = claim.start(width, SilentNoise()).feed(values)
    off = np.abs(releases - truth(values, decay_of(claim))).max()
    assert off <= claim.deviation(500) * np.abs(values).sum(axis=0).max()


@pytest.mark.parametrize("claim", WAYS)
@pytest.mark.parametrize("width", [1, 30])
def test_feeding_equals_stepping_and_loading_bit_for_bit(claim, width):
    values = np.random.default_rng(2).integers(0, 9, (150, width))
    noise = InsecureNoise(3)
    fed, stepped = claim.start(width, noise), claim.start(width, InsecureNoise(3))
    first = np.concatenate([fed.feed(values[:70]), fed.feed(values[70:70])])
    again = claim.load(fed.save(), noise.clone())
    releases = np.concatenate([first, again.feed(values[70:])])
    assert np.array_equal(releases, np.array([stepped.step(row) for row in values]))
    stepped.saves = again.saves
    assert again.save() == stepped.save()


@pytest.mark.parametrize("claim", WAYS)
def test_the_matrices_multiply_to_the_decayed_workload(claim):
    lags = np.subtract.outer(np.arange(80), np.arange(80))
    workload = np.where(lags >= 0, decay_of(claim) ** np.maximum(lags, 0), 0)
    assert np.allclose(claim.strategy(80).workload, workload, atol=1e-8)


@pytest.mark.parametrize("claim", WAYS)
def test_predicted_errors_are_those_of_the_matrices(claim):
    strategy = claim.strategy(120)
    variances = (strategy.decode**2).sum(axis=1) * strategy.distributions[0].variance / strategy.grid**2
    assert [claim.stddev(t) for t in range(1, 121)] == pytest.approx(np.sqrt(variances), rel=1e-8)
    assert [claim.noise_at(t).stddev for t in (1, 64, 119)] == pytest.approx(np.sqrt(variances)[[0, 63, 118]], rel=1e-8)
    for ticks in (1, 2, 63, 64, 120):
        assert claim.mean_variance(ticks) == pytest.approx(variances[:ticks].mean(), rel=1e-8)


@pytest.mark.parametrize("branching", [2, 3, 5])
@pytest.mark.parametrize("levels", [1, 2, 3, 4])
def test_largest_item_weight_equals_the_claimed_one(branching, levels):
    claim = DecayTree(Pure(1), decay=Fraction(9, 10), branching=branching, levels=levels)
    ticks = 3 * branching ** (levels - 1)
    columns = claim.strategy(ticks).measure.sum(axis=0) * 2**claim.grid_bits
    assert columns.max() == claim.max_weight <= levels * 2**claim.grid_bits
    assert claim.distribution.scale == claim.max_weight


def test_twin_that_omits_a_level_is_caught():
    claim = DecayTree(Pure(1), decay=Fraction(99, 100), branching=3, levels=4)
    columns = claim.strategy(81).measure.sum(axis=0) * 2**claim.grid_bits
    assert columns.max() > claim.max_weight * 3 / 4


@pytest.mark.parametrize(("decay", "published"), [(0.9, 1.45), (0.99, 2.14), (0.999, 2.86)])
def test_correlated_noise_has_the_published_error(decay, published):
    assert sqrt(ExponentialDecay(HALF, decay=decay).mean_variance(2**40)) == pytest.approx(published, rel=0.01)


@pytest.mark.parametrize("decay", [0.5, 0.9, 0.95])
def test_fast_decay_with_pure_loss_uses_noisy_items(decay):
    claim = ExponentialDecay(Pure("1/2"), decay=decay)
    variance = laplace_variance(Fraction(2))
    for tick in (1, 10, 10**6):
        exact = variance * (1 - decay ** (2 * tick)) / (1 - decay**2)
        assert claim.stddev(tick) ** 2 == pytest.approx(exact, rel=1e-9)


@pytest.mark.parametrize(("decay", "gain"), [(0.99, 1.1), (0.999, 1.9), (0.9999, 4), (0.999999, 22)])
def test_trees_win_for_slow_decays(decay, gain):
    items = DecayTree(Pure(1), decay=Fraction(str(decay)))
    tree = ExponentialDecay(Pure(1), decay=decay)
    assert items.mean_variance(2**40) > gain**2 * tree.mean_variance(2**40)


@pytest.mark.parametrize("horizon", [None, 5000])
def test_predicted_variance_ratio_of_tree_to_items_is_right(horizon):
    decay, ticks = Fraction(999, 1000), horizon or 2**30
    branching, levels = find_best_tree(decay, horizon)
    tree = DecayTree(Pure("1/50"), decay=decay, branching=branching, levels=levels)
    items = DecayTree(Pure("1/50"), decay=decay)
    ratio = tree.mean_variance(ticks) / DecayTree(Pure("1/50"), decay=decay).mean_variance(2**30)
    assert predict_variance(decay, (branching, levels), horizon) == pytest.approx(ratio, rel=0.05)
    assert tree.mean_variance(ticks) < items.mean_variance(ticks)


@pytest.mark.parametrize("claim", WAYS[:5])
def test_simulated_errors_are_the_predicted_ones(claim):
    errors = claim.start(4000, InsecureNoise(5)).feed(np.zeros((40, 4000), np.int64))
    for tick in (1, 9, 40):
        assert 0.8 < errors[tick - 1].var() / claim.stddev(tick) ** 2 < 1.2
        assert (np.abs(errors[tick - 1]) <= claim.noise_at(tick).half_width(0.95)).mean() > 0.93


def test_units_of_many_ticks_scale_noise_by_loss_kind():
    event = ExponentialDecay(Pure(1), decay=0.5)
    assert ExponentialDecay(Pure(1), decay=0.5, bound=2, unit=User(2, 3)).stddev(1) > 5.9 * event.stddev(1)
    private = ExponentialDecay(HALF, decay=0.5, pan_private=True, unit=WEvent(9))
    assert private.stddev(1) == pytest.approx(3, rel=1e-6)
    moved = ExponentialDecay(HALF, decay=0.5, unit=Event(replace=True, moves=True))
    columns = moved.strategy(40).measure
    assert float(moved.implementation.sensitivity) == pytest.approx(
        np.linalg.norm(columns[:, :2].sum(axis=1)), rel=1e-9
    )


def test_pan_private_run_stores_only_its_last_release():
    claim = ExponentialDecay(Pure(1), decay=0.9999, pan_private=True)
    run = claim.start(3, InsecureNoise(6))
    release = run.step([5, 6, 7])
    view = run.intrude()
    assert np.array_equal(view.entries, release[None])
    assert view.sums.size == 0
    assert claim.memory() == 1
    with pytest.raises(TypeError, match="pan_private must be True"):
        ExponentialDecay(Pure(1), decay=0.5).start().intrude()


def test_many_or_faint_weights_keep_their_sum_of_squares():
    for decay, size, count in ((Fraction(1, 2), 1, 10**6), (Fraction(10**6 - 1, 10**6), 1, 10**9)):
        weights = group_weights(decay, size, count)
        assert len(weights) <= 2**14 + 2
        assert (weights**2).sum() == pytest.approx(sum_powers(decay, size, count), rel=1e-9)


def test_a_half_life_is_a_decay():
    claim = ExponentialDecay(HALF, half_life=10)
    assert claim.decay_factor == Fraction(2.0**-0.1)
    assert ExponentialDecay(HALF, half_life=1).decay_factor == Fraction(1, 2)
    assert repr(claim) != repr(ExponentialDecay(HALF, half_life=11))


def test_past_its_horizon_a_run_refuses():
    run = ExponentialDecay(HALF, decay=0.9, horizon=2).start()
    run.feed([1, 1])
    with pytest.raises(LimitExceededError, match="tick must be at most"):
        run.step([1])


def test_correlated_noise_without_horizon_stops_at_last_tick():
    claim = ExponentialDecay(HALF, decay=0.9)
    run = claim.start()
    live_state(run).tick = 2**48
    with pytest.raises(LimitExceededError, match="tick must be at most the last tick"):
        run.step([1])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "decay must be given, or else half_life"),
        ({"decay": 0.5, "half_life": 3}, "decay must be given, or else half_life"),
        ({"decay": 1}, r"decay must be above 0 and at most 1 - 2\*\*-40, got 1"),
        ({"decay": 0}, "decay must be above 0"),
        ({"decay": "x"}, "decay must be a finite number"),
        ({"half_life": -2}, "half_life must be positive, got -2"),
        ({"decay": 0.5, "bound": 0}, "bound must be a whole number"),
        ({"decay": 0.5, "horizon": 0}, "horizon must be a whole number"),
    ],
)
def test_invalid_settings_are_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        ExponentialDecay(**{"loss": HALF, **settings})
