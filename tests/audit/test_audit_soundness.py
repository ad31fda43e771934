"""Soundness: an audit condemns an honest claim no more often than its confidence allows."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import streamgauge as sg
from streamgauge.audit import MechanismSubject, Pair, measure
from streamgauge.audit.attack.attack import fit_scores
from streamgauge.audit.attack.measure import MeasurementGoal, validate_request
from streamgauge.continual import SimpleII
from streamgauge.testing.noise import InsecureNoise

CONFIDENCE = 0.95


def allowed(audits: int) -> int:
    """Return the number of audits that may fail, except with probability 1e-9."""
    return int(binom.ppf(1 - 1e-9, audits, 1 - CONFIDENCE))


@pytest.mark.one_of_each
@pytest.mark.parametrize(
    ("loss", "audits"), [(sg.Pure(1), 100), (sg.Zcdp(Fraction(1, 2)), 50), (sg.Approx(1, 0.01), 30)], ids=str
)
def test_bounds_exceed_the_truth_as_seldom_as_stated(loss: Any, audits: int) -> None:
    """For (epsilon, delta), the noise satisfies pure epsilon, so the true loss is lower."""
    claim = SimpleII(loss if loss.currency != "approximate" else sg.Pure(1))
    noise = InsecureNoise(12)
    subject = MechanismSubject(claim, 1, stated=loss, noise=noise)
    amounts = [measure(subject, 600, CONFIDENCE).amount for _ in range(audits)]
    assert sum(amount > float(loss.amount) for amount in amounts) <= allowed(audits)
    assert max(amounts) > 0


def test_equal_views_show_nothing() -> None:
    """With equal neighbours, hardly any audit may show a loss."""
    noise = InsecureNoise(13)

    class Same(MechanismSubject):
        def pairs(self) -> list[Pair]:
            nothing = np.zeros((1, 3), np.int64)
            return [Pair("nothing and nothing", nothing, nothing)]

    subject = Same(SimpleII(sg.Pure(1)), 3, noise=noise)
    shown = sum(measure(subject, 600, CONFIDENCE).amount > 0 for _ in range(60))
    assert shown <= allowed(60)


def test_twin_that_measures_on_training_runs_shows_false_loss() -> None:
    noise = InsecureNoise(14)
    subject = MechanismSubject(SimpleII(sg.Pure(1)), 3, noise=noise)
    nothing = np.zeros((1, 3), np.int64)
    wrong = 0
    for _ in range(40):
        one, other = subject.views(nothing, 300), subject.views(nothing, 300)
        goal = MeasurementGoal(sg.Pure(1), 300, 0.05)
        attacks = [goal.learn(name, score, one, other) for name, score in fit_scores(one, other)]
        wrong += max(attack.add_runs(one, other).epsilon(0.05) for attack in attacks) > 0
    assert wrong > binom.ppf(1 - 1e-9, 40, 0.05)


def test_a_scan_that_finds_nothing_bounds_by_nothing() -> None:
    found = measure(MechanismSubject(SimpleII(sg.Pure(Fraction(1, 10**6))), 1, noise=InsecureNoise(15)), 1000)
    assert found.amount == found.delta_at_claim == 0


def test_too_few_runs_and_impossible_confidence_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^runs must be at least 100, got 99$"):
        validate_request(99, 0.9)
    with pytest.raises(ValueError, match=r"^confidence must be between 0 and 1, got 1$"):
        validate_request(1000, 1)
