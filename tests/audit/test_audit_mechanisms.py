"""Every mechanism of the package is acquitted: by computation at small horizons, and by experiment."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import AdversarySubject, MechanismSubject, Verdict, audit, audit_mechanism, worst_neighbour
from streamgauge.audit.exact.costs import compute_cost
from streamgauge.audit.exact.linear import build_view
from streamgauge.audit.exact.worst_case import WorstCase, exact_loss, list_patterns
from streamgauge.audit.neighbours import spread_unit
from streamgauge.audit.subjects.adversaries import are_one_unit
from streamgauge.continual import Binary, Kary, SimpleII
from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.privacy import Sensitivity
from streamgauge.testing.noise import InsecureNoise
from tests.support.catalogue import KEPT, Case, every_kept_case

SURE = 1 - 1e-9
HORIZONS = (1, 3, 4, 8)


@pytest.mark.one_of_each("case")
@every_kept_case
def test_the_computed_loss_is_the_claim_at_most(case: Case) -> None:
    for ticks in HORIZONS:
        subject = MechanismSubject(case.claim(ticks), ticks)
        assert not audit(subject, runs=0).is_condemned


@pytest.mark.one_of_each("case")
@every_kept_case
def test_matrices_of_a_mechanism_match_its_probed_code(case: Case) -> None:
    claim = case.claim(7)
    subject, currency = MechanismSubject(claim, 7), claim.loss.additive_loss.currency
    read, done = build_view(claim.strategy(7)), subject.probed_view
    assert done is not None
    assert not done.nonlinear_streams
    assert not subject.unlike_layouts
    np.testing.assert_allclose(done.by_data, read.by_data, atol=1e-6)
    for move in np.eye(7):
        expected = compute_cost(read, move, currency)
        assert compute_cost(done, move, currency).upper_bound == pytest.approx(expected.upper_bound, rel=1e-6)
        assert expected.upper_bound < float("inf")


ATTACKED = [case for case in KEPT if not dict(case.settings).get("pan_private")]


@pytest.mark.one_of_each("case")
@pytest.mark.parametrize("case", ATTACKED, ids=str)
def test_an_attack_does_not_condemn(case: Case) -> None:
    """Others are the same in zCDP; `make audit` attacks those that are pan-private, each with its memory."""
    verdict = audit_mechanism(case.claim(5), 5, runs=3_000, confidence=SURE, noise=InsecureNoise(16))
    assert not verdict.is_condemned, verdict.reasons


def test_an_attack_by_an_adversary_does_not_condemn() -> None:
    for loss in (sg.Pure(1), sg.Zcdp(Fraction(1, 8))):
        subject = AdversarySubject(Kary(loss, horizon=6, branching=2), 6, noise=InsecureNoise(17))
        verdict = audit(subject, 20_000, SURE)
        assert not verdict.is_condemned
        assert verdict.exact is None


class Halved(Binary):
    """A broken twin: matrices of honest noise, draws of half of it."""

    def start(self, width: int = 1, noise: Any = None) -> Any:
        return super().start(width, HalfNoise(noise or sg.noise.SecureNoise()))


class HalfNoise:
    """Noise of half the requested width."""

    def __init__(self, noise: Any) -> None:
        self.noise = noise

    def laplace(self, scale: Fraction, size: int) -> Ints:
        drawn: Ints = self.noise.laplace(scale / 2, size)
        return drawn

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        drawn: Ints = self.noise.gaussian(variance / 4, size)
        return drawn


@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp(Fraction(1, 8))], ids=repr)
def test_code_unlike_its_matrices_is_condemned_by_probe_and_experiment(loss: Any) -> None:
    claim = Halved(loss, horizon=7)
    assert float(worst_neighbour(claim, 7).amount) <= float(loss.amount)
    verdict = audit(MechanismSubject(claim, 7, noise=InsecureNoise(18)), 20_000, SURE)
    assert verdict.exact == pytest.approx(2 ** (1 if loss.currency == "pure" else 2) * float(loss.amount))
    assert {reason.split()[0] for reason in verdict.reasons} == {"computed", "measured"}
    assert verdict.to_json()["is_condemned"]


def test_noise_that_every_second_tick_lacks_is_an_infinite_loss() -> None:
    class Bare(SimpleII):
        def feed(self, state: Any, block: Ints, noise: Any) -> Ints:
            releases: Ints = super().feed(state, block, noise)
            releases[1::2] = releases[:-1:2][: len(releases[1::2])] + block[1::2]
            return releases

    verdict = audit(MechanismSubject(Bare(sg.Pure(1)), 4, noise=InsecureNoise(19)), 20_000, SURE)
    assert verdict.exact == float("inf")
    assert verdict.measurement is not None
    assert verdict.measurement.amount > 3
    assert "infinite" in verdict.reasons[0]


def test_worst_pattern_is_the_worst_of_all() -> None:
    claim = Binary(sg.Zcdp(1), horizon=8, unit=sg.User(1, 3))
    strategy, worst = claim.strategy(8), worst_neighbour(claim, 8)
    every = [exact_loss(strategy, claim.tick_sensitivity, pattern) for pattern in list_patterns(claim.unit, 8)]
    assert worst.amount == max(every) <= 1
    with pytest.raises(ValueError, match=r"^ticks must leave at most 200,000 sets of 20 ticks, got"):
        list(list_patterns(sg.User(1, 20), 40))


def test_moves_are_at_most_the_sensitivity() -> None:
    for reach in (Sensitivity(1, 1), Sensitivity(13, 91, 3), Sensitivity(5, 7, 4), Sensitivity(200, 400, 100)):
        for laplace in (True, False):
            move = spread_unit(reach, laplace).astype(object)
            assert abs(move).sum() <= reach.l1
            assert (move * move).sum() <= reach.l2_squared


def test_an_adversary_that_cheats_is_refused() -> None:
    class Greedy:
        name = "greedy"

        def choose(self, releases: Any) -> tuple[Ints, Ints]:
            nothing = np.zeros(len(releases), np.int64)
            return nothing + 1, nothing

    class Rough(Greedy):
        def choose(self, releases: Any) -> tuple[Ints, Ints]:
            one, other = super().choose(releases)
            return 2 * one, other

    claim = SimpleII(sg.Pure(1))
    for adversary, rule in ((Greedy(), "no more ticks than one unit"), (Rough(), "one tick by at most 1")):
        with pytest.raises(ValueError, match=f"^adversary must move {rule}"):
            audit(AdversarySubject(claim, 3, [adversary], noise=InsecureNoise(20)), 1000)
    assert are_one_unit(np.array([[True, False, True]]), sg.User(1, 2))
    assert not are_one_unit(np.array([[True, False, True]]), sg.WEvent(2))


def test_subject_without_computation_requires_runs() -> None:
    with pytest.raises(ValueError, match=r"^runs must be above 0 for a subject that cannot be computed"):
        audit(AdversarySubject(SimpleII(sg.Pure(1)), 2), runs=0)


def test_a_verdict_needs_more_than_rounding_to_condemn() -> None:
    assert not Verdict("a", sg.Pure(1), WorstCase((1,), 1 + 1e-12)).is_condemned
    assert Verdict("a", sg.Pure(1), WorstCase((), 1.001, "b")).reasons == ("computed 1.001 > 1 for b",)


def test_price_of_unknown_law_is_refused() -> None:
    from streamgauge.audit.exact.worst_case import price

    assert price(DiscreteLaplace(4)) == Fraction(1, 4)
    with pytest.raises(TypeError, match=r"^law must be DiscreteLaplace or DiscreteGaussian, got int$"):
        price(7)  # type: ignore[arg-type]
