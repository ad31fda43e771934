"""Exact laws of adaptive mechanisms: what is certain holds without noise, and what is drawn is public.

Where draws depend on anything but releases, how much was drawn would tell of the data.
"""

import inspect
import re
from collections import defaultdict
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge import adaptive
from streamgauge.adaptive.pegasus.pegasus import Pegasus
from streamgauge.adaptive.w_event.budget import WEventMechanism
from streamgauge.audit.subjects.adaptive import find_worst_window
from streamgauge.continual.state_io import BlankNoise
from streamgauge.noise import Ints, Noise, NoiseSum
from streamgauge.privacy import Loss
from streamgauge.testing.noise import CountedNoise, SilentNoise
from tests.laws.test_adaptive_runs import stream
from tests.support.adaptive_catalogue import CASES, HALF, Adapting, adapting, every_adapting, truth

TICKS = 24
SHORT = 3
STREAMS = 50
KNOWN = re.compile(r"# (exact|noisy|public|noise alone)\b")
SECRET = ("exact", "noise alone")


def test_every_mechanism_is_exported() -> None:
    assert {cls.__name__ for cls in adapting()} <= {*adaptive.__all__}


def test_all_kinds_of_windows_are_tried() -> None:
    tried = {getattr(case.claim(TICKS), "window", case.cls.WINDOWS[0]).split()[0] for case in CASES}
    assert tried == {"each", "sliding", "running"}


@every_adapting
def test_without_noise_the_truth_is_inside_every_interval(case: Adapting) -> None:
    claim, values = case.claim(TICKS), stream(case.width)
    release = claim.start(case.width, SilentNoise()).feed(values)
    low, high = release.interval(0.5)
    exact = truth(claim, values, release.lowest)
    assert (low <= exact).all()
    assert (exact <= high).all()


@every_adapting
def test_without_noise_a_centre_under_noise_alone_is_the_truth(case: Adapting) -> None:
    claim, values = case.claim(TICKS), stream(case.width)
    release = claim.start(case.width, SilentNoise()).feed(values)
    exact = truth(claim, values, release.lowest)
    for tick, bar in enumerate(release.error_bounds):
        if isinstance(bar, NoiseSum):
            np.testing.assert_array_equal(release.centre[tick], exact[tick])


@every_adapting
def test_what_is_said_before_there_are_data_says_something_or_that_it_does_not(case: Adapting) -> None:
    claim = case.claim(TICKS)
    for tick in (1, 7, TICKS):
        widths = np.asarray(claim.error_bound(tick).half_width(0.9))
        assert (widths > 0).all()
    with pytest.raises(ValueError, match=rf"^tick must be at most the horizon {TICKS}, got {TICKS + 1}$"):
        claim.error_bound(TICKS + 1)


@every_adapting
def test_the_releases_of_one_group_are_its_columns(case: Adapting) -> None:
    release = case.claim(TICKS).start(case.width, SilentNoise()).feed(stream(case.width))
    for column in range(release.value.shape[1]):
        one = release.select_group(column)
        np.testing.assert_array_equal(one.stddev, release.stddev[:, column])
        np.testing.assert_array_equal(one.interval(0.8), [end[:, column] for end in release.interval(0.8)])


@every_adapting
def test_intervals_hold_whole_numbers_that_are_no_floats(case: Adapting) -> None:
    claim, values = case.claim(TICKS), np.full((1, case.width), 2**60 + 255)
    release = claim.start(case.width, SilentNoise()).feed(values)
    exact = truth(claim, values, release.lowest).ravel().tolist()
    low, high = (end.ravel().tolist() for end in release.interval(0.1))
    for place, number in enumerate(exact):  # Python compares whole numbers and floats exactly
        assert low[place] <= number <= high[place]


def decided(release: Any) -> Any:
    """What a run has decided, tick by tick: all flags, and all whole numbers of bars but noisy distances."""
    flags = [getattr(release, name).tobytes() for name in release.array_names if getattr(release, name).dtype == bool]
    return tuple(flags), tuple((type(bar).__name__, repr(public_parts(bar))) for bar in release.error_bounds)


def public_parts(bar: Any) -> list[Any]:
    names = ("draws", "ordinal", "is_waiting", "draws_inside", "unread_ticks", "noise")
    return [getattr(bar, name) for name in names if hasattr(bar, name)]


def draws_by_decision(claim: Any, width: int) -> dict[Any, set[Any]]:
    """Of many streams: what was drawn, for each way in which decisions went."""
    random, found = np.random.default_rng(5), defaultdict(set)
    for _ in range(STREAMS):
        values = random.choice([0, 0, 1, 60], (SHORT, width))
        noise = CountedNoise(SilentNoise())
        release = claim.start(width, noise).feed(values)
        found[decided(release)].add(tuple(noise.requests))
    return found


@every_adapting
def test_what_is_drawn_depends_on_what_was_released_alone(case: Adapting) -> None:
    found = draws_by_decision(case.claim(SHORT), case.width)
    assert all(len(requests) == 1 for requests in found.values())


class DrawsWhereSomebodyIs(Pegasus):
    """A broken twin: the noise of a count is drawn where there is one."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        self.perturber.draw(noise, int((values != 0).sum()))
        return super().step(state, values, noise)


def test_a_twin_that_draws_where_somebody_is_is_caught() -> None:
    found = draws_by_decision(DrawsWhereSomebodyIs(HALF), 3)
    assert any(len(requests) > 1 for requests in found.values())


@every_adapting
def test_no_draw_is_narrower_than_the_whole_loss_and_all_are_wider_for_less(case: Adapting) -> None:
    for width, scales in ((1, drawn(case, HALF)), (2, drawn(case, sg.Pure(Fraction(1, 4))))):
        assert min(scales) >= 2 * width
    assert [2 * scale for scale in drawn(case, HALF)] == drawn(case, sg.Pure(Fraction(1, 4)))


def drawn(case: Adapting, loss: Loss, **more: Any) -> list[Fraction]:
    """The scales of the first tick, of a silent stream."""
    noise = CountedNoise(SilentNoise())
    case.claim(SHORT, loss, **more).start(case.width, noise).step(np.zeros(case.width, int))
    return [scale for _, scale, size in noise.requests if size]


@every_adapting
def test_a_unit_of_several_steps_is_as_one_of_a_part_of_the_loss(case: Adapting) -> None:
    """But for windows, which have a budget of their own: there every window spends epsilon at most."""
    claim = case.claim(SHORT, unit=sg.WEvent(3), bound=2)
    assert claim.max_unit_steps == 6
    assert claim.step_loss == sg.Pure(Fraction(1, 12))
    if isinstance(claim, WEventMechanism):
        assert find_worst_window(case.claim(7, unit=sg.WEvent(3), bound=2), 7).amount <= HALF.amount
        return
    assert drawn(case, HALF, unit=sg.WEvent(3), bound=2) == drawn(case, sg.Pure(Fraction(1, 12)))


def states(state: Any) -> list[Any]:
    """A state, and all that it holds."""
    if not is_dataclass(state):
        return []
    return [state, *(inner for each in fields(state) for inner in states(getattr(state, each.name)))]


def unsaid(state: Any) -> list[str]:
    """Arrays of a state whose line does not say what they are, or that are secret and are shown."""
    source, found = inspect.getsource(type(state)), []
    for each in fields(state):
        if not isinstance(getattr(state, each.name), np.ndarray):
            continue
        line = next(line for line in source.splitlines() if re.match(rf"\s+{each.name}\s*:", line))
        said = KNOWN.search(line)
        if said is None or (said[1] in SECRET and each.repr):
            found.append(each.name)
    return found


@every_adapting
def test_every_array_of_a_state_says_whether_it_is_exact_and_what_is_is_not_shown(case: Adapting) -> None:
    for state in states(case.claim(SHORT).initial(case.width, BlankNoise())):
        assert unsaid(state) == [], type(state)


def test_a_state_that_says_nothing_is_caught() -> None:
    from dataclasses import dataclass

    @dataclass
    class Silent:
        tick: int
        counts: Ints
        totals: Ints  # exact: and shown

    assert unsaid(Silent(0, np.zeros(1, int), np.zeros(1, int))) == ["counts", "totals"]
