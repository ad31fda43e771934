"""Every mechanism of the package is acquitted: by computation at small horizons, and by experiment."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from catalogue import KEPT, Case, every_kept_case

import streamgauge as sg
from streamgauge.audit import (
    AdaptiveSubject,
    MechanismSubject,
    Verdict,
    audit,
    audit_mechanism,
    worst_neighbour,
)
from streamgauge.audit.adaptive import within
from streamgauge.audit.costs import cost_of
from streamgauge.audit.exact import exact_loss, patterns
from streamgauge.audit.linear import written
from streamgauge.audit.neighbours import spread
from streamgauge.continual import Binary, Kary, SimpleII
from streamgauge.noise import DiscreteLaplace, Ints
from streamgauge.privacy import Reach
from streamgauge.testing import InsecureNoise

SURE = 1 - 1e-9
HORIZONS = (1, 3, 4, 8)


@every_kept_case
def test_the_computed_loss_is_the_claim_at_most(case: Case) -> None:
    for ticks in HORIZONS:
        subject = MechanismSubject(case.claim(ticks), ticks)
        assert not audit(subject, runs=0).condemned


@every_kept_case
def test_what_a_mechanism_writes_down_is_what_it_does(case: Case) -> None:
    claim = case.claim(7)
    subject, currency = MechanismSubject(claim, 7), claim.loss.kept_as.currency
    read, done = written(claim.strategy(7)), subject.tried
    assert done is not None
    assert not done.odd
    assert not subject.unlike
    np.testing.assert_allclose(done.by_data, read.by_data, atol=1e-6)
    for move in np.eye(7):
        expected = cost_of(read, move, currency)
        assert cost_of(done, move, currency).most == pytest.approx(expected.most, rel=1e-6)
        assert expected.most < float("inf")


ATTACKED = [case for case in KEPT if not dict(case.settings).get("pan_private")]


@pytest.mark.parametrize("case", ATTACKED, ids=str)
def test_an_attack_does_not_condemn(case: Case) -> None:
    """Others are the same in zCDP; `make audit` attacks those that are pan-private, each with its memory."""
    verdict = audit_mechanism(case.claim(5), 5, runs=3_000, confidence=SURE, noise=InsecureNoise(16))
    assert not verdict.condemned, verdict.reasons


def test_an_attack_by_an_adversary_does_not_condemn() -> None:
    for loss in (sg.Pure(1), sg.Zcdp(Fraction(1, 8))):
        subject = AdaptiveSubject(Kary(loss, horizon=6, branching=2), 6, noise=InsecureNoise(17))
        verdict = audit(subject, 20_000, SURE)
        assert not verdict.condemned
        assert verdict.exact is None


class Halved(Binary):
    """A broken twin: matrices of honest noise, draws of half of it."""

    def start(self, width: int = 1, noise: Any = None) -> Any:
        return super().start(width, HalfNoise(noise or sg.noise.SecureNoise()))


class HalfNoise:
    """Noise of half the width that was asked for."""

    def __init__(self, noise: Any) -> None:
        self.noise = noise

    def laplace(self, scale: Fraction, size: int) -> Ints:
        drawn: Ints = self.noise.laplace(scale / 2, size)
        return drawn

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        drawn: Ints = self.noise.gaussian(variance / 4, size)
        return drawn


@pytest.mark.parametrize("loss", [sg.Pure(1), sg.Zcdp(Fraction(1, 8))], ids=repr)
def test_code_that_is_not_what_it_writes_down_is_condemned_by_trying_and_by_experiment(loss: Any) -> None:
    claim = Halved(loss, horizon=7)
    assert float(worst_neighbour(claim, 7).amount) <= float(loss.amount)
    verdict = audit(MechanismSubject(claim, 7, InsecureNoise(18)), 20_000, SURE)
    assert verdict.exact == pytest.approx(2 ** (1 if loss.currency == "pure" else 2) * float(loss.amount))
    assert {reason.split()[0] for reason in verdict.reasons} == {"computed", "measured"}
    assert verdict.as_json()["condemned"]


def test_noise_that_every_second_tick_lacks_is_an_infinite_loss() -> None:
    class Bare(SimpleII):
        def feed(self, state: Any, block: Ints, noise: Any) -> Ints:
            releases: Ints = super().feed(state, block, noise)
            releases[1::2] = releases[:-1:2][: len(releases[1::2])] + block[1::2]
            return releases

    verdict = audit(MechanismSubject(Bare(sg.Pure(1)), 4, InsecureNoise(19)), 20_000, SURE)
    assert verdict.exact == float("inf")
    assert verdict.measured is not None
    assert verdict.measured.amount > 3
    assert "infinite" in verdict.reasons[0]


def test_the_dearest_pattern_is_the_dearest_of_all() -> None:
    claim = Binary(sg.Zcdp(1), horizon=8, unit=sg.User(1, 3))
    strategy, worst = claim.strategy(8), worst_neighbour(claim, 8)
    every = [exact_loss(strategy, claim.reach, pattern) for pattern in patterns(claim.unit, 8)]
    assert worst.amount == max(every) <= 1
    with pytest.raises(ValueError, match=r"^ticks must leave at most 200,000 sets of 20 ticks, got"):
        list(patterns(sg.User(1, 20), 40))


def test_moves_stay_within_the_reach() -> None:
    for reach in (Reach(1, 1), Reach(13, 91, 3), Reach(5, 7, 4), Reach(200, 400, 100)):
        for laplace in (True, False):
            move = spread(reach, laplace).astype(object)
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
            audit(AdaptiveSubject(claim, 3, [adversary], InsecureNoise(20)), 1000)
    assert within(np.array([[True, False, True]]), sg.User(1, 2))
    assert not within(np.array([[True, False, True]]), sg.WEvent(2))


def test_what_cannot_be_computed_must_be_run() -> None:
    with pytest.raises(ValueError, match=r"^runs must be above 0 for a subject that cannot be computed"):
        audit(AdaptiveSubject(SimpleII(sg.Pure(1)), 2), runs=0)


def test_a_verdict_needs_more_than_rounding_to_condemn() -> None:
    assert not Verdict("a", sg.Pure(1), exact=1 + 1e-12).condemned
    assert Verdict("a", sg.Pure(1), exact=1.001, exact_pair="b").reasons == ("computed 1.001 > 1 for b",)


def test_a_law_that_is_unknown_has_no_price() -> None:
    from streamgauge.audit.exact import price

    assert price(DiscreteLaplace(4)) == Fraction(1, 4)
    with pytest.raises(TypeError, match=r"^law must be DiscreteLaplace or DiscreteGaussian, got int$"):
        price(7)  # type: ignore[arg-type]
