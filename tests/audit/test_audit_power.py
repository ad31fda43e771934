"""Power of the audit: measured bounds are close to tight claims."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import AdversarySubject, MechanismSubject, Pair, PanPrivateSubject, measure
from streamgauge.continual import Binary, LinearMechanism, SimpleI, SimpleII, SquareRoot
from streamgauge.testing.noise import InsecureKeystream, InsecureNoise

MANY, FEWER = 10**6, 200_000
TIGHT = [
    (SimpleII(sg.Pure(1)), 1, 0.9),
    (SimpleI(sg.Pure("1/2"), horizon=1), 1, 0.9),
    (Binary(sg.Pure(1), horizon=15), 15, 0.8),
    (SimpleII(sg.Zcdp(Fraction(1, 8))), 1, 0.9),
    (Binary(sg.Zcdp(Fraction(1, 8)), horizon=15), 15, 0.85),
    (SquareRoot(sg.Zcdp(Fraction(1, 2)), horizon=8), 8, 0.9),
]


@pytest.mark.one_of_each
@pytest.mark.parametrize(("claim", "ticks", "share"), TIGHT, ids=lambda value: str(value)[:40])
def test_many_runs_show_most_of_a_tight_claim(claim: LinearMechanism[Any], ticks: int, share: float) -> None:
    found = measure(MechanismSubject(claim, ticks, noise=InsecureNoise(5)), MANY if ticks == 1 else FEWER)
    assert share * float(claim.loss.amount) < found.amount <= float(claim.loss.amount)
    as_good = ticks == 1 or claim.loss.currency != "pure"  # a sum is
    assert found.score == "likelihood ratio" or as_good


@pytest.mark.one_of_each
@pytest.mark.parametrize("seed", range(4))
def test_higher_confidence_still_shows_most_of_the_claim(seed: int) -> None:
    """The confidence applies to the bound only, not to the choice of pair and score."""
    subject = MechanismSubject(Binary(sg.Pure(1), horizon=15), 15, noise=InsecureNoise(60 + seed))
    assert 0.65 < measure(subject, 100_000, 1 - 1e-9).amount <= 1


UNITS = [sg.WEvent(3), sg.User(2, 2), sg.Event(replace=True, moves=True), sg.Tick(4)]


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_attacks_on_other_units_measure_half_their_loss(unit: Any) -> None:
    claim = Binary(sg.Pure(1), horizon=7, bound=unit.events, unit=unit)
    subject = MechanismSubject(claim, 7, noise=InsecureNoise(6))
    worst = float(subject.worst().amount)
    assert 0.5 * worst < measure(subject, 100_000).amount <= worst < 1 + 1e-9


def test_move_of_several_numbers_uses_as_many_groups() -> None:
    claim = SimpleII(sg.Pure(1), bound=sg.privacy.Sensitivity(3, 3, 3))
    subject = MechanismSubject(claim, 2, noise=InsecureNoise(7))
    assert subject.pairs()[0].one.shape == (3, 2)
    assert 0.8 < measure(subject, 100_000).amount <= 1


def test_adaptively_chosen_streams_show_most_of_the_claim() -> None:
    for loss in (sg.Pure(1), sg.Zcdp(Fraction(1, 2))):
        subject = AdversarySubject(Binary(loss, horizon=7), 7, noise=InsecureNoise(8))
        assert 0.75 * float(loss.amount) < measure(subject, 100_000).amount <= float(loss.amount)


@pytest.mark.parametrize("by_lot", [False, True])
def test_memory_of_pan_private_run_shows_part_of_claim(by_lot: bool) -> None:
    claim = Binary(sg.Pure(1), horizon=7, pan_private=True)
    subject = PanPrivateSubject(
        claim, 7, has_random_peek=by_lot, noise=InsecureNoise(9), entropy=InsecureKeystream("lots")
    )
    assert subject.worst().amount == pytest.approx(1)
    assert 0.4 < measure(subject, 100_000).amount <= 1


def test_single_tick_claim_is_measured_without_likelihood_ratio() -> None:
    """Trained or scanned scores find as much as the likelihood ratio."""

    class Unaided(MechanismSubject):
        def pairs(self) -> Any:
            return [Pair(p.name, p.one, p.other) for p in super().pairs()[:1]]

    found = measure(Unaided(SimpleII(sg.Pure(1)), 1, noise=InsecureNoise(10)), 200_000)
    assert found.amount > 0.9
    assert found.score != "likelihood ratio"


def test_views_are_independent_and_have_mean_of_stream() -> None:
    subject = MechanismSubject(Binary(sg.Pure(1), horizon=4), 4, noise=InsecureNoise(11))
    stream = np.array([[1, 2, 3, 4], [0, 0, 10, 0]])
    views = subject.views(stream, 20_000)
    assert views.shape == (20_000, 8)
    np.testing.assert_allclose(views.mean(axis=0), np.cumsum(stream, axis=1).ravel(), atol=0.3)
    assert abs(np.corrcoef(views[:-1, 3], views[1:, 3])[0, 1]) < 0.05
    assert abs(np.corrcoef(views[:, 3], views[:, 7])[0, 1]) < 0.05
