"""Groups, measures and saved runs share no draw and forget none; twins that do are condemned."""

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import audit
from streamgauge.audit.broken.noise import PairedGroupNoise, SeededCounter, SharedGroupNoise
from streamgauge.audit.subjects.layouts import RunLayout
from streamgauge.audit.subjects.mechanisms import (
    OTHER_GROUPS,
    SAVED_AND_LOADED,
    SINGLE_FEED,
    ExecutionModeSubject,
    append_differences,
    run_saved_and_loaded,
)
from streamgauge.continual import Binary, SimpleII, SquareRoot
from streamgauge.testing.noise import InsecureNoise, SilentNoise
from tests.support.catalogue import Case, every_case

SURE = 1 - 1e-9
TICKS = 3
FEW = 400


def verdict(claim: Any, way: RunLayout, runs: int = FEW) -> Any:
    return audit(ExecutionModeSubject(claim, TICKS, way, noise=InsecureNoise(71)), runs, SURE)


@pytest.mark.one_of_each("case")
@every_case
def test_execution_modes_lose_at_most_the_claim(case: Case) -> None:
    for way, ticks in ((SAVED_AND_LOADED, TICKS), (OTHER_GROUPS, 2)):
        assert not audit(ExecutionModeSubject(case.claim(TICKS), ticks, way), runs=0).is_condemned


@pytest.mark.one_of_each
@pytest.mark.parametrize("way", [SAVED_AND_LOADED, OTHER_GROUPS], ids=lambda way: way.name)
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp(Fraction(1, 8))], ids=repr)
def test_an_experiment_acquits_as_well(way: RunLayout, loss: Any) -> None:
    for kind in (SimpleII, SquareRoot if loss.currency == "zCDP" else Binary):
        found = verdict(kind(loss, horizon=TICKS), way)
        assert not found.is_condemned, found.reasons


@pytest.mark.parametrize("kind", [SharedGroupNoise, PairedGroupNoise, SeededCounter])
def test_shared_noise_is_found_only_with_other_groups(kind: Any) -> None:
    """Groups of one start, counted as separate runs, do not show it."""
    claim = kind(sg.Pure(1), horizon=TICKS)
    found = verdict(claim, OTHER_GROUPS)
    assert found.exact == inf
    assert found.measurement.amount > 1
    if kind is not SeededCounter:  # this one draws without a request
        assert not verdict(claim, SINGLE_FEED, 4000).is_condemned


class EditedOnLoad(Binary):
    """A counter whose state is changed when a run is loaded."""

    def edit(self, entries: Any, noise: Any) -> None: ...

    def load(self, saved: bytes, noise: Any = None) -> Any:
        run = super().load(saved, noise)
        with run._locked() as state:
            self.edit(state.entries, noise)
        return run


class Forgetful(EditedOnLoad):
    """A broken twin: noise that must stay in later releases is not saved."""

    def edit(self, entries: Any, noise: Any) -> None:
        entries[:] = 0


class Redrawn(EditedOnLoad):
    """A broken twin: it is drawn again when a run is loaded."""

    def edit(self, entries: Any, noise: Any) -> None:
        entries[1:] = self.distribution.draw(noise, entries[1:].size).reshape(entries[1:].shape)


@pytest.mark.parametrize("kind", [Forgetful, Redrawn])
def test_noise_lost_or_redrawn_on_load_is_condemned(kind: Any) -> None:
    claim = kind(sg.Pure(1), horizon=7)
    assert audit(ExecutionModeSubject(claim, 7, SAVED_AND_LOADED), runs=0).is_condemned
    assert not audit(ExecutionModeSubject(claim, 7, SINGLE_FEED), runs=0).is_condemned


def test_one_unit_moves_the_first_group_alone() -> None:
    subject = ExecutionModeSubject(SimpleII(sg.Pure(1), horizon=TICKS), TICKS, OTHER_GROUPS, noise=SilentNoise())
    pair = subject.pairs()[0]
    assert (pair.one - pair.other).sum() == (pair.one - pair.other)[0].sum() == 1
    assert subject.views(pair.one, 2).shape == (2, (2 * (1 + OTHER_GROUPS.other_groups) - 1) * TICKS)
    assert append_differences(np.array([[1.0, 2.0], [5.0, 5.0]])).tolist() == [1, 2, 5, 5, 4, 3]


def test_repeated_release_is_in_the_view_twice() -> None:
    class Behind(SimpleII):
        """Return to the first tick once."""

        def load(self, saved: bytes, noise: Any = None) -> Any:
            run = super().load(saved, noise)
            return self.start(run.width, noise) if run.tick == 2 else run

    shown = run_saved_and_loaded(Behind(sg.Pure(1), horizon=TICKS), np.array([[1], [0], [5]]), SilentNoise()).T
    assert shown.tolist() == [[1, 1, 1, 1, 6]]
