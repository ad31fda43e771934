"""Layouts of a run: widths, lengths of feeds and added groups must release what one long feed does."""

import warnings
from math import inf
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import MechanismSubject
from streamgauge.audit.broken.noise import BareAtTwoGroups, BareInTwoTicks, BareWhenAdded, PredrawnCounter
from streamgauge.audit.report import audit, audit_mechanism
from streamgauge.audit.subjects.layouts import (
    ALL_TICKS,
    LONG_FEEDS,
    SHORT_FEEDS,
    WIDTHS,
    GroupNoise,
    find_unlike,
    list_additions,
    list_layouts,
)
from streamgauge.continual import Binary, Kary, SimpleI, Strategy, SubtractiveTree
from streamgauge.noise import Ints, Noise
from streamgauge.testing.noise import InsecureNoise, SilentNoise

FEW = 4000
SURE = 1 - 1e-9


def bare_when(condition: Any) -> type[SimpleI]:
    """Simple I without noise in every `feed` or `step` of (ticks, groups) that meets a condition."""

    class Bare(SimpleI):
        def feed(self, state: Any, block: Ints, noise: Noise) -> Any:
            return super().feed(state, block, SilentNoise() if condition(*block.shape) else noise)

        def step(self, state: Any, values: Ints, noise: Noise) -> Any:
            return super().step(state, values, SilentNoise() if condition(1, len(values)) else noise)

    return Bare


@pytest.mark.parametrize("kind", [BareAtTwoGroups, BareInTwoTicks, BareWhenAdded])
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp("1/2"), sg.Approx(1, "1/1000")], ids=repr)
def test_noise_missing_in_one_layout_is_condemned_by_computation(kind: Any, loss: Any) -> None:
    verdict = audit_mechanism(kind(loss, horizon=5), 5, runs=0)
    assert verdict.is_condemned
    assert verdict.loss_bounds == (inf, inf)


@pytest.mark.parametrize("kind", [BareAtTwoGroups, BareInTwoTicks, BareWhenAdded])
def test_noise_missing_in_one_layout_is_condemned_by_experiment(kind: Any) -> None:
    subject = MechanismSubject(kind(sg.Pure(1), horizon=4), 4, noise=InsecureNoise(1))
    verdict = audit(subject, FEW, SURE)
    assert verdict.measurement
    assert verdict.measurement.amount > 2
    assert verdict.measurement.pair.endswith(subject.unlike_layouts[0].name)


def test_honest_twins_of_these_are_proved() -> None:
    for kind in (SimpleI, PredrawnCounter):
        subject = MechanismSubject(kind(sg.Pure(1), horizon=5), 5)
        assert subject.unlike_layouts == ()
        assert audit(subject, runs=0).is_proved


@pytest.mark.parametrize("width", WIDTHS)
def test_noise_missing_at_any_tried_width_is_found(width: int) -> None:
    kind = bare_when(lambda ticks, groups: groups == width)
    assert audit_mechanism(kind(sg.Pure(1), horizon=3), 3, runs=0).exact == inf


@pytest.mark.one_of_each
@pytest.mark.parametrize("length", [*SHORT_FEEDS, 11, 13, 15, 17, 31, 33, 63, 65])
def test_noise_missing_in_any_tried_length_of_feed_is_found(length: int) -> None:
    kind = bare_when(lambda ticks, groups: ticks == length)
    assert find_unlike(kind(sg.Pure(1), horizon=ALL_TICKS), ALL_TICKS)
    if length > 1:  # a feed of one tick is a step here
        ticks = length + 1
        verdict = audit_mechanism(kind(sg.Pure(1), horizon=ticks), ticks, runs=0)
        assert verdict.exact == inf or verdict.is_undecided


@pytest.mark.one_of_each
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(("length", "ticks"), [(3, 5), (2, 16), (9, 9), (7, ALL_TICKS)])
def test_noise_missing_at_one_width_and_length_together_is_found(width: int, length: int, ticks: int) -> None:
    kind = bare_when(lambda each, groups: (each, groups) == (length, width))
    subject = MechanismSubject(kind(sg.Pure(1), horizon=ticks), ticks)
    assert width in {layout.width for layout in subject.unlike_layouts}
    if ticks < ALL_TICKS and width < 20:
        assert audit(subject, runs=0).loss_bounds == (inf, inf)


@pytest.mark.parametrize("ticks", [5, 16])
def test_noise_that_two_groups_share_is_condemned(ticks: int) -> None:
    """Each group has its noise, and their difference has none."""

    class Shared(SimpleI):
        def feed(self, state: Any, block: Ints, noise: Noise) -> Any:
            exact = super().feed(state, block, SilentNoise())
            drawn = self.distribution.draw(noise, block.size).reshape(block.shape)
            return exact + (drawn[:, :1] if block.shape[1] == 2 else drawn)

    verdict = audit_mechanism(Shared(sg.Pure(1), horizon=ticks), ticks, runs=0)
    assert verdict.loss_bounds == (inf, inf)


@pytest.mark.parametrize("more", [1, 2, 3])
def test_noise_missing_for_one_number_of_added_groups_is_condemned(more: int) -> None:
    class Bare(PredrawnCounter):
        def zero_state(self, width: int, tick: int, noise: Noise) -> Any:
            return super().zero_state(width, tick, SilentNoise() if width == more else noise)

    assert audit_mechanism(Bare(sg.Pure(1), horizon=5), 5, runs=0).exact == inf


@pytest.mark.parametrize("by_step", [False, True])
def test_first_groups_without_noise_after_added_groups_are_condemned(by_step: bool) -> None:
    class Bare(SimpleI):
        def append_groups(self, state: Any, more: Any) -> None:
            super().append_groups(state, more)
            grown.append(state.tick)

        def feed(self, state: Any, block: Ints, noise: Noise) -> Any:
            return super().feed(state, block, self._forget(block.shape[1], noise, in_step=False))

        def step(self, state: Any, values: Ints, noise: Noise) -> Any:
            return super().step(state, values, self._forget(len(values), noise, in_step=True))

        def initial(self, width: int, noise: Noise) -> Any:
            grown.clear()
            return super().initial(width, noise)

        def _forget(self, width: int, noise: Noise, *, in_step: bool) -> Noise:
            return FirstIsBare(noise, width) if grown and in_step == by_step else noise

    grown: list[int] = []
    assert audit_mechanism(Bare(sg.Pure(1), horizon=5), 5, runs=0).exact == inf


class FirstIsBare:
    """Noise that leaves the first group without any."""

    def __init__(self, inner: Noise, width: int) -> None:
        self.inner, self.width = inner, width

    def laplace(self, scale: Any, size: int) -> Ints:
        drawn = self.inner.laplace(scale, size).copy()
        drawn[:: self.width] = 0
        return drawn

    gaussian = laplace


def test_all_named_widths_and_lengths_are_tried() -> None:
    assert {1, 2, 3, 5, 15, 16, 17, 33, 65} <= set(WIDTHS)
    names = {layout.name for layout, _, _ in list_layouts(ALL_TICKS)}
    lengths = [*range(1, 10), *(n for n in LONG_FEEDS if n <= ALL_TICKS)]
    assert {f"width 3, feeds of {n}" for n in lengths} <= names
    assert {f"width {width}, feeds of 1 to 9 in turn" for width in WIDTHS} <= names
    few = {layout.name for layout, _, _ in list_layouts(9)}
    assert {f"width {width}, feeds of {n}" for width in WIDTHS for n in range(1, 10)} <= few
    assert len(list(list_additions(Binary(sg.Pure(1), horizon=8), 8))) == 5
    assert not list(list_additions(Binary(sg.Pure(1), horizon=8, pan_private=True), 8))


def test_a_group_has_the_same_noise_at_every_width() -> None:
    wide = GroupNoise(70).laplace(sg.Pure(1).calibrate(l1=8, l2_squared=8).scale, 140).reshape(2, 70)
    narrow = GroupNoise(3, position=5).laplace(sg.Pure(1).calibrate(l1=8, l2_squared=8).scale, 6).reshape(2, 3)
    np.testing.assert_array_equal(narrow, wide[:, 5:8])
    assert len(np.unique(wide)) > 10


def test_code_that_draws_in_another_order_is_computed_and_holds() -> None:
    """The last tick of a block first: other numbers of the same law."""

    class LastTickFirst(SimpleI):
        def feed(self, state: Any, block: Ints, noise: Noise) -> Any:
            exact = super().feed(state, block, SilentNoise())
            return exact + self.distribution.draw(noise, block.size).reshape(block.shape)[::-1]

    subject = MechanismSubject(LastTickFirst(sg.Pure(1), horizon=3), 3)
    assert {"by step", "width 3, feeds of 2"} <= {layout.name for layout in subject.unlike_layouts}
    assert audit(subject, runs=0).is_proved


def test_added_groups_without_past_noise_keep_the_claim() -> None:
    """Groups that are added without the noise of past ticks have less error, and lose no more."""

    class NoPast(Kary):
        def zero_state(self, width: int, tick: int, noise: Noise) -> Any:
            return super().zero_state(width, tick, SilentNoise())

    subject = MechanismSubject(NoPast(sg.Pure(1), horizon=5, branching=2), 5)
    assert {layout.first_tick for layout in subject.unlike_layouts} == {3}
    assert not audit(subject, runs=0).is_condemned


def test_added_groups_need_draws_that_are_subtracted_later() -> None:
    """`SubtractiveTree` releases items under draws that it made before: without them, items are bare."""

    class NoDrawsAhead(SubtractiveTree):
        def zero_state(self, width: int, tick: int, noise: Noise) -> Any:
            return super().zero_state(width, tick, SilentNoise())

    claim = NoDrawsAhead(sg.Pure(1), horizon=5, branching=3)
    assert audit_mechanism(claim, 5, runs=0).exact == inf
    assert audit_mechanism(SubtractiveTree(sg.Pure(1), horizon=5, branching=3), 5, runs=0).is_proved


def test_decoded_row_without_draws_raises_no_warning() -> None:
    class Undrawn(SimpleI):
        def matrices(self, ticks: int) -> Strategy:
            honest = super().matrices(ticks)
            return Strategy(honest.measure, honest.decode, honest.distributions, draws=())

        def feed(self, state: Any, block: Ints, noise: Noise) -> Any:
            draws = self.distribution.draw(noise, 2 * block.size).reshape(2, *block.shape)
            return super().feed(state, block, SilentNoise()) + draws.sum(axis=0)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        verdict = audit_mechanism(Undrawn(sg.Pure(1), horizon=3), 3, runs=1000, noise=InsecureNoise(2))
    assert verdict.measurement


def test_verdict_text_begins_with_its_outcome() -> None:
    stored = audit_mechanism(SimpleI(sg.Pure(1), horizon=2), 2, runs=2000, noise=InsecureNoise(3))
    assert str(stored).startswith("holds: SimpleI(")
    assert "claimed Pure(epsilon=1), computed 1, measured at least 0." in repr(stored)
    assert repr(stored).endswith("with confidence 0.999")
    lost = audit_mechanism(BareInTwoTicks(sg.Pure(1), horizon=3), 3, runs=0)
    first, reason = str(lost).splitlines()
    assert first.startswith("condemned: BareInTwoTicks(")
    assert reason == "  computed infinite > 1 for a unit in tick 1, width 1, feeds of 2"
