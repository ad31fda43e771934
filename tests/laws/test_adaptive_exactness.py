"""Exact laws of adaptive mechanisms: bounds hold without noise, and the number of draws is public.

If draws depended on more than releases, their number would reveal data.
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
def test_bound_before_data_is_positive_up_to_the_horizon(case: Adapting) -> None:
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
    """Return a run's public decisions: flags and integers of bounds, except noisy distances."""
    flags = [getattr(release, name).tobytes() for name in release.array_names if getattr(release, name).dtype == bool]
    return tuple(flags), tuple((type(bar).__name__, repr(public_parts(bar))) for bar in release.error_bounds)


def public_parts(bar: Any) -> list[Any]:
    names = ("draws", "ordinal", "is_waiting", "draws_inside", "unread_ticks", "noise")
    return [getattr(bar, name) for name in names if hasattr(bar, name)]


def draws_by_decision(claim: Any, width: int) -> dict[Any, set[Any]]:
    """Return the sets of noise requests of many streams, by their decisions."""
    random, found = np.random.default_rng(5), defaultdict(set)
    for _ in range(STREAMS):
        values = random.choice([0, 0, 1, 60], (SHORT, width))
        noise = CountedNoise(SilentNoise())
        release = claim.start(width, noise).feed(values)
        found[decided(release)].add(tuple(noise.requests))
    return found


@every_adapting
def test_noise_requests_depend_on_releases_alone(case: Adapting) -> None:
    found = draws_by_decision(case.claim(SHORT), case.width)
    assert all(len(requests) == 1 for requests in found.values())


class DrawsWhereSomebodyIs(Pegasus):
    """A broken twin: it draws noise only if there is an event."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        self.perturber.draw(noise, int((values != 0).sum()))
        return super().step(state, values, noise)


def test_twin_that_draws_only_for_events_is_caught() -> None:
    found = draws_by_decision(DrawsWhereSomebodyIs(HALF), 3)
    assert any(len(requests) > 1 for requests in found.values())


@every_adapting
def test_draw_scales_cover_full_loss_and_grow_with_less(case: Adapting) -> None:
    for width, scales in ((1, drawn(case, HALF)), (2, drawn(case, sg.Pure(Fraction(1, 4))))):
        assert min(scales) >= 2 * width
    assert [2 * scale for scale in drawn(case, HALF)] == drawn(case, sg.Pure(Fraction(1, 4)))


def drawn(case: Adapting, loss: Loss, **more: Any) -> list[Fraction]:
    """Return the noise scales of the first tick of a silent stream."""
    noise = CountedNoise(SilentNoise())
    case.claim(SHORT, loss, **more).start(case.width, noise).step(np.zeros(case.width, int))
    return [scale for _, scale, size in noise.requests if size]


@every_adapting
def test_unit_of_several_steps_scales_noise_like_smaller_loss(case: Adapting) -> None:
    """Window mechanisms are the exception: each of their windows spends at most epsilon."""
    claim = case.claim(SHORT, unit=sg.WEvent(3), bound=2)
    assert claim.max_unit_steps == 6
    assert claim.step_loss == sg.Pure(Fraction(1, 12))
    if isinstance(claim, WEventMechanism):
        assert find_worst_window(case.claim(7, unit=sg.WEvent(3), bound=2), 7).amount <= HALF.amount
        return
    assert drawn(case, HALF, unit=sg.WEvent(3), bound=2) == drawn(case, sg.Pure(Fraction(1, 12)))


def states(state: Any) -> list[Any]:
    """Return a state and all nested states."""
    if not is_dataclass(state):
        return []
    return [state, *(inner for each in fields(state) for inner in states(getattr(state, each.name)))]


def unsaid(state: Any) -> list[str]:
    """Return the arrays of a state without a label, and the exact ones that are shown."""
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
def test_every_state_array_is_labelled_and_exact_ones_hidden(case: Adapting) -> None:
    for state in states(case.claim(SHORT).initial(case.width, BlankNoise())):
        assert unsaid(state) == [], type(state)


def test_state_without_labels_is_caught() -> None:
    from dataclasses import dataclass

    @dataclass
    class Silent:
        tick: int
        counts: Ints
        totals: Ints  # exact: and shown

    assert unsaid(Silent(0, np.zeros(1, int), np.zeros(1, int))) == ["counts", "totals"]
