"""Groups, measures and saved runs share no draw and forget none; twins that do are condemned."""

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest
from catalogue import Case, every_case

import streamgauge as sg
from streamgauge.audit import audit
from streamgauge.audit.driven import BESIDE, FED, SAVED, DrivenSubject, Way, compared, stopped
from streamgauge.audit.mutants.reuse import OneForAllGroups, OneForTwoGroups, Seeded
from streamgauge.continual import Binary, SimpleII, SquareRoot
from streamgauge.testing import InsecureNoise, SilentNoise

SURE = 1 - 1e-9
TICKS = 3
FEW = 400


def verdict(claim: Any, way: Way, runs: int = FEW) -> Any:
    return audit(DrivenSubject(claim, TICKS, way, InsecureNoise(71)), runs, SURE)


@every_case
def test_saved_runs_and_groups_beside_others_lose_what_is_claimed_at_most(case: Case) -> None:
    for way, ticks in ((SAVED, TICKS), (BESIDE, 2)):
        assert not audit(DrivenSubject(case.claim(TICKS), ticks, way), runs=0).condemned


@pytest.mark.parametrize("way", [SAVED, BESIDE], ids=lambda way: way.name)
@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp(Fraction(1, 8))], ids=repr)
def test_an_experiment_acquits_as_well(way: Way, loss: Any) -> None:
    for kind in (SimpleII, SquareRoot if loss.currency == "zCDP" else Binary):
        found = verdict(kind(loss, horizon=TICKS), way)
        assert not found.condemned, found.reasons


@pytest.mark.parametrize("kind", [OneForAllGroups, OneForTwoGroups, Seeded])
def test_noise_that_groups_or_measures_share_is_found_beside_them_and_not_before(kind: Any) -> None:
    """Many groups of one start, taken for runs, see nothing of it."""
    claim = kind(sg.Pure(1), horizon=TICKS)
    found = verdict(claim, BESIDE)
    assert found.exact == inf
    assert found.measured.amount > 1
    if kind is not Seeded:  # whose draws nobody asked for
        assert not verdict(claim, FED, 4000).condemned


class Forgetful(Binary):
    """A broken twin: noise that must stay in later releases is not saved."""

    def load(self, saved: bytes, noise: Any = None) -> Any:
        run = super().load(saved, noise)
        with run._alone() as state:
            state.entries[:] = 0
        return run


class Redrawn(Binary):
    """A broken twin: it is drawn again when a run is loaded."""

    def load(self, saved: bytes, noise: Any = None) -> Any:
        run = super().load(saved, noise)
        with run._alone() as state:
            state.entries[1:] = self.distribution.draw(noise, state.entries[1:].size).reshape(
                state.entries[1:].shape
            )
        return run


@pytest.mark.parametrize("kind", [Forgetful, Redrawn])
def test_noise_that_is_forgotten_or_drawn_again_when_loaded_is_condemned(kind: Any) -> None:
    claim = kind(sg.Pure(1), horizon=7)
    assert audit(DrivenSubject(claim, 7, SAVED), runs=0).condemned
    assert not audit(DrivenSubject(claim, 7, FED), runs=0).condemned


def test_one_unit_moves_the_first_group_alone_and_all_differences_are_seen() -> None:
    subject = DrivenSubject(SimpleII(sg.Pure(1), horizon=TICKS), TICKS, BESIDE, SilentNoise())
    pair = subject.pairs()[0]
    assert (pair.one - pair.other).sum() == (pair.one - pair.other)[0].sum() == 1
    assert subject.views(pair.one, 2).shape == (2, (2 * (1 + BESIDE.others) - 1) * TICKS)
    assert compared(np.array([[1.0, 2.0], [5.0, 5.0]])).tolist() == [1, 2, 5, 5, 4, 3]


def test_what_a_run_releases_again_is_seen_again() -> None:
    class Behind(SimpleII):
        """Goes back to the beginning once."""

        def load(self, saved: bytes, noise: Any = None) -> Any:
            run = super().load(saved, noise)
            return self.start(run.width, noise) if run.tick == 2 else run

    seen = stopped(Behind(sg.Pure(1), horizon=TICKS), np.array([[1, 0, 5]]), SilentNoise())
    assert seen.tolist() == [[1, 1, 1, 1, 6]]
