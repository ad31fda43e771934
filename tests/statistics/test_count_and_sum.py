"""Counts and sums: event and tick units, every window, and external vectors."""

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.continual import Binary, ExponentialDecay, LimitExceededError, UnboundedToeplitz, WindowSum
from streamgauge.statistics import Count, Mean, Sum
from streamgauge.testing.noise import InsecureNoise, SilentNoise

EVENTS = [3, 0, 5, 1, 2, 2]


def counted(claim: Count) -> list[float]:
    run = claim.start(noise=SilentNoise())
    return [float(run.step(np.zeros(n)).value[0]) for n in EVENTS]


def test_windows_count_the_stated_ticks() -> None:
    sums = np.cumsum(EVENTS)
    assert counted(Count(sg.Pure(1), horizon=6)) == sums.tolist()
    assert counted(Count(sg.Pure(1))) == sums.tolist()
    assert counted(Count(sg.Pure(1), window="each")) == EVENTS
    assert counted(Count(sg.Pure(1), window="sliding 3")) == [3, 3, 8, 6, 8, 5]
    decayed = [sum(n * 0.5 ** ((t - s) / 2) for s, n in enumerate(EVENTS[: t + 1])) for t in range(6)]
    np.testing.assert_allclose(counted(Count(sg.Pure(1), window="decayed 2")), decayed, atol=1e-6)


def test_a_mechanism_can_be_named_if_it_answers_the_window() -> None:
    assert isinstance(Count(sg.Pure(1), horizon=9, mechanism=Binary).counter, Binary)
    assert isinstance(Count(sg.Pure(1), window="sliding 4", mechanism=WindowSum).counter, WindowSum)
    decay = Count(sg.Zcdp(1), window="decayed 4", mechanism=ExponentialDecay).counter
    assert isinstance(decay, ExponentialDecay)
    for window, mechanism in (("each", Binary), ("running", WindowSum), ("decayed 3", WindowSum)):
        with pytest.raises(
            ValueError, match=rf"^mechanism must be one that answers '{window}', got {mechanism.__name__}$"
        ):
            Count(sg.Pure(1), horizon=9, window=window, mechanism=mechanism)


def test_tick_unit_scales_noise_with_its_events() -> None:
    event, tick = Count(sg.Pure(1), horizon=64), Count(sg.Pure(1), horizon=64, unit=sg.Tick(10))
    assert tick.stddev(40) == pytest.approx(10 * event.stddev(40), rel=2e-2)
    run = tick.start(groups=["a", "b"], noise=SilentNoise())
    assert run.step(groups=["a"] * 7 + ["b"] * 7).value.tolist() == [7, 3]
    fed = tick.start(groups=["a", "b"], noise=SilentNoise())
    many = fed.feed(ticks=[1] * 14 + [2] * 3, groups=["a"] * 7 + ["b"] * 10, until=2)
    assert many.value.tolist() == [[7, 3], [7, 6]]


def test_external_vectors_are_clipped_to_the_tick_sensitivity() -> None:
    run = Count(sg.Pure(1), horizon=64, unit=sg.Tick(10)).start(3, SilentNoise())
    assert run.step_totals([4, 9, 1]).value.tolist() == [4, 6, 0]
    assert run.step_totals([-(2**63), 2**62, 5]).value.tolist() == [-6, 6, 0]
    plain = Count(sg.Pure(1), horizon=64).start(3, SilentNoise())
    assert plain.step_totals([4, 9, 1]).value.tolist() == [4, 9, 1]
    for shape in ([1, 2], [[1], [2], [3]], [[1, 2, 3], [4, 5, 6]]):
        with pytest.raises(ValueError, match=r"^totals must be of shape \(1, 3\), got \("):
            plain.step_totals(shape)
    with pytest.raises(ValueError, match=r"^counts must be given just where they are public, got the contrary$"):
        plain.step_totals([1, 2, 3], counts=[1, 2, 3])


def test_external_tick_stays_inside_sensitivity_in_all_norms() -> None:
    """Any vector, for every claim with one number an event. Other claims are refused."""
    rng = np.random.default_rng(2)
    for claim in (
        Count(sg.Zcdp(1), horizon=4, unit=sg.Tick(3)),
        Sum(sg.Zcdp(1), lower=-2, upper=9, step=1, horizon=4, unit=sg.Tick(3)),
    ):
        for _ in range(300):
            move = claim.clip_vector(rng.integers(-20, 20, 6) * rng.integers(0, 2, 6)).astype(object)
            assert abs(move).sum() <= claim.tick_sensitivity.l1
            assert (move**2).sum() <= claim.tick_sensitivity.l2_squared
            assert (move != 0).sum() <= claim.tick_sensitivity.coordinates
    mean = Mean(sg.Zcdp(1), lower=0, upper=1, horizon=4, unit=sg.Tick(3)).start(noise=SilentNoise())
    with pytest.raises(ValueError, match=r"^totals must be of one number an event where ticks are units, got others"):
        mean.step_totals([[1], [2]])


def test_feed_without_ticks_releases_nothing_and_changes_nothing() -> None:
    for unit in (sg.Event(), sg.User(1, 3)):
        run = Count(sg.Pure(1), horizon=4, unit=unit).start(noise=SilentNoise())
        run.step([1], users=["a"])
        for _ in range(2):
            assert run.feed([1], users=["a"], ticks=[1], until=1).value.shape == (0, 1)
        assert run.step([1], users=["a"]).value == 2


def test_claim_horizon_holds_if_mechanism_has_none() -> None:
    run = Count(sg.Zcdp(1), horizon=3, mechanism=UnboundedToeplitz).start(noise=SilentNoise())
    run.feed([], ticks=[], until=3)
    with pytest.raises(LimitExceededError, match=r"^tick must be at most the horizon 3, got 4$"):
        run.step([])


def test_a_pan_private_run_remembers_no_user() -> None:
    for ticks in (1, 2):
        with pytest.raises(ValueError, match=r"^pan_private must be False for users, whose ticks someone"):
            Count(sg.Pure(1), horizon=4, unit=sg.User(1, ticks), pan_private=True)


def test_an_undeclared_step_fits_whole_numbers() -> None:
    run = Sum(sg.Pure(1), lower=0, upper=10).start(noise=SilentNoise())
    assert run.step([1] * 1000).value == 1000
    assert Sum(sg.Pure(1), lower=0, upper=10).stddev(1) == pytest.approx(10 * Count(sg.Pure(1)).stddev(1), rel=0.05)


def test_sum_sensitivity_covers_range_and_missing_bounds_are_refused() -> None:
    claim = Sum(sg.Pure(1), lower=-2, upper=5, step=0.5, horizon=100)
    assert claim.tick_sensitivity.l1 == 10
    assert Sum(sg.Pure(1), lower=-2, upper=5, step=0.5, unit=sg.Event(replace=True)).tick_sensitivity.l1 == 20
    public = Sum(sg.Pure(1), lower=-2, upper=5, step=0.5, unit=sg.Event(replace=True), public_counts=True)
    assert public.tick_sensitivity.l1 == 14
    for missing in ("lower", "upper"):
        settings = {"lower": 0, "upper": 1, missing: None}
        with pytest.raises(
            ValueError, match=rf"^{missing} must be declared \(.*\), got None; declare it: it must be public"
        ):
            Sum(sg.Pure(1), **settings)
    with pytest.raises(ValueError, match=r"^upper must be above lower, got 0 and 0$"):
        Sum(sg.Pure(1), lower=0, upper=0)
    with pytest.raises(ValueError, match=r"^public_counts must be False unless units are events replaced in place"):
        Sum(sg.Pure(1), lower=0, upper=1, public_counts=True)


def test_the_standard_error_and_the_interval_are_those_of_simulation() -> None:
    claim = Sum(sg.Pure(1), lower=0, upper=5, step=0.1, horizon=32)
    width, ticks = 4000, 20
    run = claim.start(width, InsecureNoise(3))
    values = np.random.default_rng(1).uniform(0, 5, 50)
    exact = claim.grid.reals(claim.grid.integers(values))
    many = run.feed(np.tile(values, width), ticks=np.tile(np.arange(50) % ticks + 1, width), until=ticks,
                    groups=np.repeat(np.arange(width), 50))  # fmt: skip
    for tick in (1, 7, ticks):
        release = many.select_tick(tick - 1)
        truth = exact[np.arange(50) % ticks + 1 <= tick].sum()
        errors = release.value - truth
        ratio = (errors**2).mean() / release.stddev[0] ** 2
        assert abs(ratio - 1) < 0.2
        assert abs((errors**2).mean() / (0.7 * release.stddev[0]) ** 2 - 1) > 0.2
        low, high = release.interval(0.9)
        covered = ((low <= truth) & (truth <= high)).mean()
        assert 0.87 < covered < 0.95


def test_pan_private_run_survives_intrusion_with_larger_error() -> None:
    claim = Count(sg.Pure(1), horizon=64, pan_private=True)
    run = claim.start(2, SilentNoise())
    before = run.step([1, 1, 1], groups=[0, 1, 1]).stddev[0]
    run.intrude()
    after = run.step([], groups=[])
    assert after.value.tolist() == [1, 2]
    assert after.stddev[0] > before
    assert run.record["intrusions"] == 1
    fed = run.feed([], ticks=[], groups=[], until=9)
    assert fed.value.shape == (7, 2)
    with pytest.raises(TypeError, match="pan_private must be True to survive an intrusion"):
        Count(sg.Pure(1), horizon=64).start().intrude()
