"""Cascading buffers satisfy their corrected loss, also for intruders, and their bounds hold.

Values far above the threshold force the flushes. The view is then linear in data and draws. The tests find
both maps by probing, and compute the least cost of hiding an event.
"""

from math import inf
from typing import Any

import numpy as np
import pytest

from streamgauge import Event, Pure, User
from streamgauge.adaptive.sparse.cascading_buffers import CascadingBuffers, State
from streamgauge.audit.exact.costs import compute_cost
from streamgauge.audit.exact.probe import probe_view
from streamgauge.noise import Ints, Noise
from streamgauge.noise.coerce import Floats
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.commanded import CommandedNoise
from tests.support.saved_states import live_state, read_state

FAR = 2**40  # reaches any threshold
TICKS = 5
FORCED = [(0, 0, 0, 0, FAR), (0, FAR, 0, 0, 0), (0, 0, FAR, -FAR, FAR)]


def claim(cls: type[CascadingBuffers] = CascadingBuffers, **settings: Any) -> CascadingBuffers:
    return cls(Pure(1), **{"horizon": 64, "levels": 2, "pan_private": True, **settings})


def worst(made: CascadingBuffers, peek: int | None, intrusion_level: int | None = None) -> float:
    """Return the worst loss of one event, given all messages and the memory after these ticks."""

    def view(forced: tuple[int, ...], values: Ints, noise: Noise) -> Floats:
        state, shown_state = made.initial(1, noise), []
        for tick in range(TICKS + 1):
            if tick:
                made.step(state, values[tick - 1 : tick] + forced[tick - 1], noise)
                shown_state += [state.count.copy(), *state.buffers.copy()]
            shown_state += [*state.accumulators.copy()] if tick == peek else []
            shown_state += [*made.intrude(state, noise).accumulators] if tick == intrusion_level else []
        return np.concatenate(shown_state).astype(np.float64)

    views = [probe_view(lambda values, noise, f=forced: view(f, values, noise), TICKS) for forced in FORCED]
    return max(compute_cost(each, move, "pure").upper_bound for each in views for move in np.eye(TICKS))


@pytest.mark.parametrize("pan_private", [False, True])
def test_event_loses_exactly_the_claim_to_reader_of_messages(pan_private: bool) -> None:
    assert worst(claim(pan_private=pan_private), None) == pytest.approx(1)


@pytest.mark.one_of_each
@pytest.mark.parametrize("peek", range(TICKS + 1))
def test_reader_with_memory_access_learns_at_most_the_claim(peek: int) -> None:
    assert worst(claim(), peek) <= 1 + 1e-6


@pytest.mark.parametrize(("peek", "intrusion_level"), [(1, 3), (3, 1), (2, 2), (None, 2)])
def test_peek_and_announced_intrusion_lose_at_most_the_claim(peek: int | None, intrusion_level: int) -> None:
    assert worst(claim(), peek, intrusion_level) <= 1 + 1e-6


class TooFew(CascadingBuffers):
    """A broken twin: noise for d draws."""

    @property
    def memberships(self) -> int:
        return self.levels


class BareAgain(CascadingBuffers):
    """A broken twin: accumulators restart from 0 without noise."""

    def _begin_buffers(self, state: State, level: int, groups: Ints, noise: Noise) -> None:
        super()._begin_buffers(state, level, groups, noise)
        state.accumulators[level, groups] = 0


class LateNoise(CascadingBuffers):
    """A broken twin: it adds the noise only after the intruder has copied the state."""

    def intrude(self, state: State, noise: Noise) -> State:
        shown_state = super().intrude(state, SilentNoise())
        self._rerandomize(state, noise)
        return shown_state


def test_twin_with_noise_for_d_draws_is_caught() -> None:
    assert worst(claim(TooFew), None) == pytest.approx(3 / 2)


def test_twin_that_restarts_accumulators_from_zero_is_caught() -> None:
    assert max(worst(claim(BareAgain), peek) for peek in (2, 4)) == inf


def test_twin_with_noise_only_after_intrusion_is_caught() -> None:
    assert worst(claim(LateNoise), 1, 2) > 1 + 1e-6


def test_value_wrapping_around_64_bits_is_hidden_by_unit_draw() -> None:
    made, shown_state = claim(), []
    for value, moved in ((2**63 - 1, 1), (-(2**63), 0)):
        state = made.initial(1, CommandedNoise(moved, moved))
        made.step(state, np.array([value]), CommandedNoise(moved))
        shown_state.append([state.accumulators.tolist(), state.buffers.tolist(), state.count.tolist()])
    assert shown_state[0] == shown_state[1]


def test_centre_without_noise_equals_truth_for_any_data() -> None:
    values = np.array([[0, 1, -5, FAR], [3, 0, 7, -FAR], [0, 1, 0, 2]] * 9)
    for pan_private in (False, True):
        run = claim(kappa=1, pan_private=pan_private).start(4, SilentNoise())
        releases = run.feed(values)
        assert (releases.centre == np.cumsum(values, axis=0)).all()
        assert releases.value[0, [0, 1, 3]].tolist() == [0, 0, FAR], "what is far is passed on at once"


def test_groups_flush_independently_as_in_single_runs() -> None:
    values = InsecureNoise(3).laplace(claim().distribution.scale, 160).reshape(40, 4) * 40
    whole = claim(kappa=1).start(4, SilentNoise()).feed(values)
    for group in range(4):
        alone = claim(kappa=1).start(1, SilentNoise()).feed(values[:, group])
        assert (alone.value == whole.value[:, group]).all()
        assert (alone.interval(0.9) == np.stack(whole.select_group(group).interval(0.9))).all()
    assert len({tuple(bar.draws_inside[-1, group] for bar in whole.error_bounds) for group in range(4)}) == 4


STREAMS = {
    "nothing": np.zeros(20, int),
    "an event each": np.ones(20, int),
    "a burst": np.where(np.arange(20) == 11, 90, 0),
    "below nothing": np.full(20, -7),
    "to and fro": np.where(np.arange(20) % 2, 200, -190),
}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("pan_private", [False, True])
def test_intervals_hold_the_truth_as_often_as_stated(name: str, pan_private: bool) -> None:
    made, width, confidence = claim(kappa=1, pan_private=pan_private), 1500, 0.6
    run, truth = made.start(width, InsecureNoise(6)), np.cumsum(STREAMS[name])
    for tick, value in enumerate(STREAMS[name]):
        if tick == 9 and pan_private:
            run.intrude()
        release = run.step(np.full(width, value))
        low, high = release.interval(confidence)
        assert ((low <= truth[tick]) & (truth[tick] <= high)).mean() > confidence - 6.5 * 0.5 / width**0.5
        assert (
            tick >= 9 or (release.error_bounds[0].half_width(0.9) <= made.error_bound(tick + 1).half_width(0.9)).all()
        )


def test_count_noise_has_number_of_draws_in_its_bound() -> None:
    made, width = claim(kappa=1), 20_000
    run = made.start(width, InsecureNoise(2))
    run.step(np.zeros(width, int))
    run.intrude()
    run.step(np.full(width, FAR))
    draws, state = live_state(run).draws_inside[-1], live_state(run)
    assert set(draws) == {4}, "the first, two of the intrusion, and the message's own"
    assert abs((state.count - FAR).var() / (4 * made.distribution.variance) - 1) < 6.5 * (5 / width) ** 0.5


def test_the_error_of_the_count_obeys_the_theorem() -> None:
    made, width = CascadingBuffers(Pure(1), horizon=256), 200
    values = np.full((256, width), 40)
    errors = made.start(width, InsecureNoise(1)).feed(values).value - np.cumsum(values, axis=0)
    assert np.abs(errors).max() < made.theorem_bound(256, 40 * 256)
    assert made.threshold == 4 * 64 * 2 * (made.levels + 1)
    assert made.max_messages**made.levels >= 256


def test_saved_run_continues_after_load() -> None:
    made, values = claim(kappa=1), np.arange(24).reshape(12, 2)
    noise = InsecureNoise(5)
    run = made.start(2, noise)
    run.feed(values[:7])
    again = made.load(run.save(), noise=noise.clone())
    assert (run.feed(values[7:]).value == again.feed(values[7:]).value).all()
    assert read_state(again.mechanism.load(again.save())).draws_inside.shape == (3, 2)


REFUSED = [
    ({"ratio": 1}, r"^ratio must be a whole number of at least 2, got 1$"),
    ({"levels": -1}, r"^levels must be a whole number of at least 1, got -1$"),
    ({"kappa": -2}, r"^kappa must be a whole number of at least 1, got -2$"),
    ({"horizon": None}, r"^horizon must be given for this mechanism, got None$"),
    ({"unit": User(1, 3)}, r"^pan_private must be False for users"),
]


@pytest.mark.parametrize(("settings", "words"), REFUSED)
def test_settings_that_make_no_claim_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        claim(**settings)


def test_run_without_pan_privacy_refuses_announced_intrusion() -> None:
    with pytest.raises(TypeError, match="pan_private must be True"):
        claim(pan_private=False, unit=Event()).start(1, SilentNoise()).intrude()


def test_claim_without_a_horizon_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^horizon must be given for this mechanism, got None$"):
        CascadingBuffers(Pure(1))


def test_value_includes_buffered_events_before_the_count_moves() -> None:
    made, width = CascadingBuffers(Pure(1), horizon=256), 60
    run, truth, off = made.start(width, InsecureNoise(4)), 0, []
    for _ in range(120):
        release, truth = run.step(np.full(width, 3)), truth + 3
        off.append([release.value - truth, read_state(run).count - truth, release.centre - truth])
    value, count, centre = np.sqrt(np.square(off).mean(axis=(0, 2)))
    assert value < 1.1 * centre
    assert value < count / 4


def test_value_without_events_has_less_noise_than_centre() -> None:
    made, width = claim(kappa=1), 400
    release = made.start(width, InsecureNoise(4)).feed(np.zeros((3, width), int))
    assert np.square(release.value).mean() < 0.5 * np.square(release.centre).mean()
    assert (release.value * release.centre >= 0).all()
    low, high = release.interval(0.95)
    assert ((low <= release.value) & (release.value <= high)).all()
