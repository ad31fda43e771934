"""The mechanisms of w-event privacy: their releases, memory and error bounds."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from streamgauge import Event, Pure, User, WEvent
from streamgauge.adaptive import AdaptiveRelease, UnknownErrorBound
from streamgauge.adaptive.w_event.absorption import BudgetAbsorption
from streamgauge.adaptive.w_event.budget import single_draw_noise
from streamgauge.adaptive.w_event.distribution import BudgetDistribution
from streamgauge.adaptive.w_event.republish import (
    MAX_DISTANCE,
    FreshErrorBound,
    StaleErrorBound,
    State,
    clipped_distance,
    max_coordinate,
)
from streamgauge.adaptive.w_event.sample import WEventSample
from streamgauge.adaptive.w_event.uniform import WEventUniform
from streamgauge.continual import WindowSum
from streamgauge.noise import DiscreteLaplace, Ints, Noise, NoiseSum
from streamgauge.privacy import Tick
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.commanded import FAR, CommandedNoise
from tests.support.saved_states import live_state

KINDS: list[type[Any]] = [WEventUniform, WEventSample, BudgetDistribution, BudgetAbsorption]
every_kind = pytest.mark.parametrize("kind", KINDS)
both = pytest.mark.parametrize("kind", [BudgetDistribution, BudgetAbsorption])
int64 = st.integers(-(2**63), 2**63 - 1)


@every_kind
def test_units_of_nonconsecutive_ticks_are_refused(kind: type[Any]) -> None:
    for unit in (User(1, 3), User(2, 1), Event(replace=True, moves=True)):
        with pytest.raises(ValueError, match=r"^unit must be an Event that stays in its tick, a Tick or a W"):
            kind(Pure(1), unit=unit, bound=2)
    with pytest.raises(ValueError, match=r"^unit must be of at most 2\*\*20 ticks, got WEvent"):
        kind(Pure(1), unit=WEvent(2**20 + 1))


@every_kind
def test_events_and_ticks_are_windows_of_one_tick(kind: type[Any]) -> None:
    assert kind(Pure(1)).w == kind(Pure(1), unit=Tick(4), bound=4).w == 1


@every_kind
def test_group_size_shares_epsilon_among_the_steps_of_a_window(kind: type[Any]) -> None:
    claim = kind(Pure("3/4"), unit=WEvent(6), bound=2)
    assert claim.max_unit_steps == 12
    assert claim.step_loss.group(12) == claim.loss


def test_uniform_equals_window_sum_of_one_tick() -> None:
    for w in (1, 4, 9):
        ours = WEventUniform(Pure("1/3"), unit=WEvent(w), bound=5)
        theirs = WindowSum(Pure("1/3"), window=1, unit=WEvent(w), bound=5)
        assert ours.distribution == theirs.distribution
        assert ours.error_bound(3) == theirs.noise_at(3)
        block = np.arange(12).reshape(4, 3)
        same = ours.start(3, InsecureNoise(1)).feed(block).value
        assert (same == theirs.start(3, InsecureNoise(1)).feed(block)).all()


def test_sample_publishes_one_tick_in_w_and_bounds_no_other() -> None:
    released = WEventSample(Pure(1), unit=WEvent(3)).start(1, SilentNoise()).feed(np.arange(10, 17))
    assert released.value.tolist() == [10, 10, 10, 13, 13, 13, 16]
    assert np.isnan(released.stddev).tolist() == [False, True, True] * 2 + [False]
    assert np.isinf(released.interval()[1]).tolist() == [False, True, True] * 2 + [False]


@pytest.mark.parametrize("kind", [WEventUniform, WEventSample])
def test_groups_can_be_added_if_decisions_are_separate(kind: type[Any]) -> None:
    run = kind(Pure(1), unit=WEvent(4)).start(1, InsecureNoise(3))
    run.widen(2)
    run.feed([[1, 2, 3]] * 6)
    run.widen(2000)
    late = run.step(np.zeros(2003, np.int64))
    assert np.ptp(late.value[3:]) > 0, "late groups have noise from the start"


@both
def test_groups_cannot_be_added_if_decisions_are_joint(kind: type[Any]) -> None:
    with pytest.raises(TypeError, match=r"^width must stay as it is for Budget"):
        kind(Pure(1)).start(1, SilentNoise()).widen(1)


@both
def test_data_that_move_far_are_published_and_others_repeated(kind: type[Any]) -> None:
    claim = kind(Pure(1), unit=WEvent(3))
    released = claim.start(2, SilentNoise()).feed([[5, 7]] * 3 + [[5, 8]] * 3 + [[900, 8]] * 3)
    assert released.value.tolist() == [[5, 7]] * 6 + [[900, 8]] * 3
    assert [type(bar) for bar in released.error_bounds] == [
        NoiseSum,
        *[StaleErrorBound] * 5,
        FreshErrorBound,
        StaleErrorBound,
        StaleErrorBound,
    ]
    assert (released.value == released.centre).all()
    assert isinstance(claim.error_bound(2), UnknownErrorBound)
    assert claim.error_bound(1) == released.error_bounds[0]


@both
def test_a_comparison_is_exact_at_the_threshold(kind: type[Any]) -> None:
    """A publication at tick 2 has noise of scale s; two groups must have moved by more than 2 s."""
    claim = kind(Pure(Fraction(1, 3)), unit=WEvent(3), bound=7)
    scale = {BudgetDistribution: Fraction(7 * 3 * 8), BudgetAbsorption: Fraction(7 * 3 * 6)}[kind]
    for beyond in (0, 1):
        run = claim.start(2, SilentNoise())
        run.step([0, 0])
        assert run.step([int(2 * scale) + beyond, 0]).value.any() == bool(beyond)


@both
@given(numbers=st.lists(st.tuples(int64, int64), min_size=1, max_size=6), look=int64)
@examples(max_examples=30)
def test_any_integers_are_data(kind: type[Any], numbers: list[tuple[int, int]], look: int) -> None:
    released = kind(Pure(1), unit=WEvent(2)).start(2, CommandedNoise(0, 0, 0, look)).feed(numbers)
    low, high = released.interval(0.9)
    assert (low <= high).all()


@given(published=st.lists(int64, min_size=2, max_size=2), values=st.lists(int64, min_size=2, max_size=2))
def test_distance_moves_no_farther_than_data(published: list[int], values: list[int]) -> None:
    """64-bit integers wrap: a unit move can lead from the largest to the smallest value."""
    assert steepest(clipped_distance, published, values) <= 1


def steepest(measure: Any, published: list[int], values: list[int]) -> int:
    here, there = np.array(values), np.array(values) + np.array([0, 1])
    return abs(measure(np.array(published), here) - measure(np.array(published), there))


def test_a_distance_that_is_not_around_the_circle_is_caught() -> None:
    def straight(published: Ints, values: Ints) -> int:
        exact = abs(published.astype(object) - values.astype(object))
        return int(np.minimum(exact, max_coordinate(2)).sum())

    edge = [0, 2**63 - 1]
    assert steepest(straight, edge, edge) > 1 >= steepest(clipped_distance, edge, edge)


def test_no_distance_overflows() -> None:
    for width in (1, 2, 1000):
        far = np.full(width, -(2**63))
        assert MAX_DISTANCE - width < clipped_distance(np.zeros(width, np.int64), far) <= MAX_DISTANCE


def rebuilt(claim: Any, released: AdaptiveRelease) -> State:
    """Rebuild the memory of a run from its releases alone."""
    state = claim.initial(released.value.shape[1], SilentNoise())
    for value, bar in zip(released.value, released.error_bounds, strict=True):
        noise = getattr(bar, "noise", bar)
        part = claim.tick_sensitivity.l1 / noise.terms[0].distribution.scale / claim.to_budget(1)
        state.history = np.append(state.history[1:], 0 if isinstance(bar, StaleErrorBound) else int(part))
        state.last_published, state.tick = value.astype(np.int64), state.tick + 1
    return state


def answer(claim: Any) -> bool:
    """Return whether the memory of a run follows from its releases, at every tick."""
    block, noise = np.repeat([[0, 3], [900, 7], [5000, 1]], 5, axis=0), InsecureNoise(8)
    state, release = claim.initial(2, noise), []
    for row in block:
        release.append(claim.step(state, row, noise))
        past = rebuilt(
            claim,
            AdaptiveRelease(np.stack([s.value for s in release]), block, tuple(s.error_bounds[0] for s in release)),
        )
        if not all(np.array_equal(getattr(past, name), getattr(state, name)) for name in State.__slots__):
            return False
    return True


@both
def test_the_memory_is_a_function_of_the_releases(kind: type[Any]) -> None:
    assert answer(kind(Pure(1), unit=WEvent(4), pan_private=True))


class Remembering(BudgetDistribution):
    """A broken twin: it compares with the previous data, not with its release."""

    def step(self, state: State, values: Ints, noise: Noise) -> AdaptiveRelease:
        released = super().step(state, values, noise)
        state.last_published = values
        return released


def test_a_twin_that_remembers_data_is_caught() -> None:
    assert not answer(Remembering(Pure(1), unit=WEvent(4), pan_private=True))


@every_kind
def test_announced_intrusion_copies_memory_without_drawing_noise(kind: type[Any]) -> None:
    noise = CommandedNoise()
    run = kind(Pure(1), unit=WEvent(4), pan_private=True).start(2, noise)
    run.step([3, 4])
    request = len(noise.scales)
    assert run.intrude() is not live_state(run)
    assert (run.intrusions, len(noise.scales)) == (1, request)
    with pytest.raises(TypeError, match=r"^pan_private must be True"):
        kind(Pure(1)).start(1, SilentNoise()).intrude()


def missed(apart: int, beta: float, fresh: type[Any] = FreshErrorBound) -> float:
    """Return the exact probability that the next interval misses a truth `apart` from the release."""
    claim = BudgetDistribution(Pure(1), unit=WEvent(2))
    law = claim.build_law(claim.epsilon / 8)
    published = fresh(single_draw_noise(law)).half_width(1 - beta)
    if_published, chance = 2 * law.tail(int(published) + 1), 0.0
    for noise in range(-160, 161):
        moved = apart + noise
        stale = StaleErrorBound(moved, single_draw_noise(claim.distance_noise), max_coordinate(1)).half_width(1 - beta)
        miss = if_published if moved > law.scale else float(stale < apart)
        chance += claim.distance_noise.pmf(noise) * miss
    return chance


@pytest.mark.parametrize("beta", [0.5, 0.05, 0.01])
def test_truth_at_any_distance_is_missed_at_most_beta(beta: float) -> None:
    assert max(missed(apart, beta) for apart in range(0, 60, 6)) <= beta


def test_bound_without_share_for_comparison_misses_too_often() -> None:
    class Whole(FreshErrorBound):
        def half_width(self, confidence: float) -> float:
            return self.noise.half_width(confidence)

    assert max(missed(apart, 0.01, Whole) for apart in range(0, 60, 6)) > 0.01


def test_bounds_are_infinite_if_distances_cannot_be_distinguished() -> None:
    noise = single_draw_noise(DiscreteLaplace(Fraction(2)))
    assert StaleErrorBound(10, noise, 10).half_width(0.9) == np.inf
    assert StaleErrorBound(-FAR, noise, max_coordinate(1)).half_width(0.9) == 0.0
    assert 10 < StaleErrorBound(10, noise, max_coordinate(1)).half_width(0.9) < 30
