"""Verdicts: an exact loss or an interval, and the measured bounds."""

from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import MechanismSubject, Verdict, WorstCase, audit
from streamgauge.audit.attack.measure import CURVE_DELTAS, RESERVED_DOUBT_SHARE, MeasurementGoal, measure
from streamgauge.audit.exact.approx_dp import bound_epsilon
from streamgauge.audit.exact.worst_case import combine_worst_cases
from streamgauge.audit.report import Finding
from streamgauge.audit.verdict import CurvePoint, Measurement
from streamgauge.continual import Binary, SimpleII, SquareRoot
from streamgauge.noise import Ints
from streamgauge.testing.noise import InsecureNoise

SURE = 1 - 1e-9


def on(least: float, most: float) -> Verdict:
    return Verdict("a", sg.Pure(1), WorstCase((2,), most, lower_bound=least))


def test_bounds_on_both_sides_of_the_claim_are_undecided() -> None:
    verdict = on(0.5, 2.0)
    assert (verdict.exact, verdict.computed_bounds, verdict.computed_text) == (None, (0.5, 2.0), "0.5-2")
    assert verdict.is_undecided
    assert not verdict.is_proved
    assert not verdict.is_condemned
    result = verdict.to_json()
    assert (result["exact_loss"], result["exact_bounds"], result["is_undecided"]) == (None, [0.5, 2.0], True)
    assert Finding("counter", "a", verdict).summary == "holds (undecided by computation)"


def test_the_lower_end_condemns_and_the_upper_one_acquits() -> None:
    assert on(1.5, 2.0).reasons == ("computed 1.5-2 > 1 for a unit in tick 2",)
    assert on(0.5, 1.0).is_proved
    assert on(1.0, 1.0).exact == 1.0
    assert on(float("inf"), float("inf")).is_condemned


def test_bounds_of_several_neighbours_are_both_maximal() -> None:
    """A broken twin would take the one with the largest upper end, and acquit."""
    worst = combine_worst_cases([WorstCase((1,), 2.0, lower_bound=0.5), WorstCase((2,), 1.9, lower_bound=1.8)])
    assert (worst.pattern, worst.floor, worst.amount) == ((2,), 1.8, 2.0)
    assert Verdict("a", sg.Pure(1), worst).is_condemned


class Leaky(MechanismSubject):
    """A broken twin: two runs in a hundred show the data, which rho permits."""

    def views(self, data: Ints, runs: int) -> Any:
        views = super().views(data, runs)
        every = np.random.default_rng(len(views)).random(runs) < 0.02
        views[every] = 1e6 * data.sum()
        return views


def test_rare_leak_hidden_from_rho_is_condemned_by_delta() -> None:
    claim, noise = SimpleII(sg.Zcdp("1/20")), InsecureNoise(1)
    leaky, honest = Leaky(claim, 1, stated=sg.Zcdp("1/2"), noise=noise), MechanismSubject(claim, 1, noise=noise)
    found = measure(leaky, 60_000)
    assert found.amount < 0.5, "the mean of bounded evidence hardly moves"
    assert [point.delta for point in found.refuted_points] == [0.01, 0.001] or len(found.refuted_points) > 2
    verdict = Verdict("leaky", sg.Zcdp("1/2"), measurement=found)
    assert verdict.is_condemned
    assert "measured delta" in verdict.reasons[0]
    assert not measure(honest, 60_000).refuted_points


def test_all_bounds_of_a_verdict_share_one_doubt() -> None:
    sought = MeasurementGoal(sg.Zcdp("1/2"), 1000, 0.01)
    assert len(sought.curve) == len(CURVE_DELTAS)
    assert 0 < RESERVED_DOUBT_SHARE <= 0.1, "rho has most of it: what is left is 1 - 2 RESERVED_DOUBT_SHARE"
    assert MeasurementGoal(sg.Pure(1), 1000, 0.01).curve == ()


def test_approx_claim_with_wrong_conversion_is_condemned_as_stated() -> None:
    """The broken twin uses four times the rho that the claim permits."""
    claim = sg.Approx(1, "1/100")
    honest, wrong = SimpleII(claim), SimpleII(claim.additive_loss.group(2))
    acquitted = audit(MechanismSubject(honest, 1, stated=claim, noise=InsecureNoise(2)), 40_000, SURE)
    assert not acquitted.is_condemned
    assert acquitted.is_proved
    assert acquitted.loss == claim
    condemned = audit(MechanismSubject(wrong, 1, stated=claim, noise=InsecureNoise(2)), 40_000, SURE)
    assert len(condemned.reasons) == 2
    assert not audit(MechanismSubject(wrong, 1), runs=0).is_condemned, "its rho is what it says"


@pytest.mark.parametrize("claim", [Binary(sg.Approx(1, 1e-6), horizon=15), SquareRoot(sg.Approx(2, 1e-3), horizon=15)])
def test_stated_approx_claim_exceeds_loss_computed_from_rho(claim: Any) -> None:
    verdict = audit(MechanismSubject(claim, 15, stated=claim.loss), runs=0)
    assert verdict.is_proved
    low, high = verdict.loss_bounds or (0.0, 0.0)
    assert 0.8 < low / verdict.claimed <= high / verdict.claimed < 1
    assert high - low < 0.01 * high


def test_epsilon_bounds_of_a_curve_contain_the_enumerated_epsilon() -> None:
    drawn = np.arange(-400, 401)
    weights = np.exp(-(drawn**2) / 40.0)
    one, other = weights / weights.sum(), np.roll(weights, 1) / weights.sum()
    for epsilon in (0.1, 0.3):
        delta = float(np.maximum(one - np.exp(epsilon) * other, 0).sum())
        low, high = bound_epsilon([(1, 20.0)], delta)
        assert low - 1e-9 <= epsilon <= high + 1e-9
        assert high - low < 0.001


class Late(SimpleII):
    """A broken twin: honest for a while, and then without noise."""

    def feed(self, state: Any, block: Ints, noise: Any) -> Any:
        releases = super().feed(state, block, noise)
        releases[19:20] = block[19:20]
        return releases


@pytest.mark.slow
def test_leak_at_a_late_tick_is_found_and_attacked() -> None:
    subject = MechanismSubject(Late(sg.Pure(1)), 40, noise=InsecureNoise(3))
    worst = subject.worst()
    assert (worst.pattern, worst.amount) == ((20,), float("inf"))
    assert worst.computed_from.startswith(
        "matrices of 40 ticks; the code of 40 was tried; by step, which releases other numbers, "
    )
    assert any(pair.name == "a unit in tick 20" for pair in subject.pairs())
    assert audit(subject, 4000, SURE).measurement.amount > 1  # type: ignore[union-attr]
    assert audit(subject, runs=0).to_json()["computed_from"] == worst.computed_from


def test_score_is_named_likelihood_ratio_only_if_exact() -> None:
    def score(claim: Any) -> str:
        evidence: Any = MechanismSubject(claim, 7).pairs()[0].evidence
        return str(evidence.name)

    assert score(Binary(sg.Pure(1), horizon=7)) == "likelihood ratio"
    assert score(Binary(sg.Pure(1), horizon=7, refine=True)) == "best linear score"
    assert score(Binary(sg.Zcdp(1), horizon=7, refine=True)) == "likelihood ratio"


def test_claim_with_a_low_ratio_holds_weakly() -> None:
    def words(amount: float, shown: float = 0.0) -> str:
        points = (CurvePoint(1.0, 0.1, shown),)
        measured = Measurement("p", "s", 9, 0.9, amount, 0.0, 0.0, 0.0, 0.1, points, "q")
        return Finding("counter", "a", Verdict("a", sg.Zcdp(1), measurement=measured)).summary

    assert words(0.6) == "holds"
    assert words(0.4) == "holds (weak: the audit saw little)"
    assert words(1.4) == words(0.4, 0.2) == "condemned"
