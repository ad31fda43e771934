"""The probe judges code by its behaviour: twins with correct matrices only are condemned."""

from fractions import Fraction
from math import inf
from typing import Any

import numpy as np
import pytest

import streamgauge as sg
from streamgauge.audit import MechanismSubject, audit, audit_mechanism
from streamgauge.audit.attack.attack import fit_scores
from streamgauge.audit.exact.approx_dp import drop_dominated
from streamgauge.audit.exact.costs import compute_cost
from streamgauge.audit.exact.linear import LikelihoodRatio, LinearView, NoiseTerm, build_lattice, fix_streams
from streamgauge.audit.report import Finding
from streamgauge.audit.subjects.mechanisms import OTHER_GROUPS, SAVED_AND_LOADED, ExecutionModeSubject
from streamgauge.continual import Binary, SimpleI
from streamgauge.noise import DiscreteGaussian, DiscreteLaplace, Ints, Noise
from streamgauge.testing.noise import InsecureNoise, SilentNoise

SURE = 1 - 1e-9
FEW = 4000
APPROX = sg.Approx(1, "1/1000")


class Drawn(SimpleI):
    """Running counts with the twin's noise, in `step` and in `feed`."""

    def drawn(self, noise: Noise, size: int) -> Ints:
        return self.distribution.draw(noise, size)

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        return super().step(state, values, SilentNoise()) + self.drawn(noise, len(values))

    def feed(self, state: Any, block: Ints, noise: Noise) -> Any:
        return super().feed(state, block, SilentNoise()) + self.drawn(noise, block.size).reshape(block.shape)


class Narrow(Drawn):
    def drawn(self, noise: Noise, size: int) -> Ints:
        law: Any = self.distribution
        return type(law)(law.parameter / 16).draw(noise, size)


class Bare(Drawn):
    def drawn(self, noise: Noise, size: int) -> Ints:
        return np.zeros(size, np.int64)


class Coarse(Drawn):
    """Wide enough, in steps of 3: a count modulo 3 is published."""

    def drawn(self, noise: Noise, size: int) -> Ints:
        return 3 * super().drawn(noise, size)


class Laplace(Drawn):
    def drawn(self, noise: Noise, size: int) -> Ints:
        return DiscreteLaplace(1).draw(noise, size)


class Gaussian(Drawn):
    """As wide as the Laplace noise of the claim."""

    def drawn(self, noise: Noise, size: int) -> Ints:
        return DiscreteGaussian(Fraction(round(self.distribution.variance))).draw(noise, size)


class Mixed(Drawn):
    def drawn(self, noise: Noise, size: int) -> Ints:
        half = size // 2
        return np.concatenate([Laplace.drawn(self, noise, half), Gaussian.drawn(self, noise, size - half)])


class OffAtTwo(SimpleI):
    """No noise if the count is 2."""

    def feed(self, state: Any, block: Ints, noise: Noise) -> Any:
        before = state.total.copy()
        releases = super().feed(state, block, noise)
        exact = before + np.cumsum(block, axis=0)
        return np.where(exact == 2, exact, releases)

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        release = super().step(state, values, noise)
        return np.where(state.total == 2, state.total, release)


class BareStep(SimpleI):
    """Draws no noise in `step`."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        return super().step(state, values, SilentNoise())


def test_an_honest_twin_of_these_is_acquitted() -> None:
    for loss in (sg.Pure(1), sg.Zcdp("1/2"), APPROX):
        verdict = audit_mechanism(Drawn(loss, horizon=3), 3, runs=0)
        assert verdict.is_proved, verdict.computed_from
        assert verdict.loss_bounds


@pytest.mark.parametrize(("kind", "least"), [(Narrow, 3.0), (Bare, inf)])
def test_approx_claim_is_computed_from_draws_of_the_code(kind: Any, least: float) -> None:
    verdict = audit(MechanismSubject(kind(APPROX, horizon=4), 4, stated=APPROX), runs=0)
    assert not verdict.is_proved
    assert verdict.is_condemned
    assert verdict.loss_bounds
    assert verdict.loss_bounds[0] >= least


def test_epsilon_at_a_delta_is_bounded_for_all_units() -> None:
    """If patterns are too many to price one by one, their largest rho bounds them."""
    users = Binary(APPROX, horizon=9, unit=sg.User(1, 4))
    verdict = audit(MechanismSubject(users, 9, stated=APPROX), runs=0)
    assert verdict.is_proved
    assert not audit(MechanismSubject(OffAtTwo(APPROX, horizon=4), 4, stated=APPROX), runs=0).is_proved
    assert drop_dominated(iter([{1.0: (2.0,)}, {1.0: (3.0, 1.0)}, {2.0: (1.0,)}])) == [{1.0: (3.0, 1.0)}, {2.0: (1.0,)}]


def test_laplace_noise_keeps_a_rho_of_half_its_epsilon_squared() -> None:
    assert audit(MechanismSubject(Laplace(sg.Zcdp("6/10"), horizon=1), 1), runs=0).is_proved
    verdict = audit(MechanismSubject(Laplace(sg.Zcdp("1/4"), horizon=1), 1), runs=0)
    assert verdict.loss_bounds
    assert verdict.loss_bounds[0] == pytest.approx(divergence_of(DiscreteLaplace(1)))
    assert verdict.is_condemned, "even the divergence is above a quarter"


def divergence_of(law: DiscreteLaplace) -> float:
    """KL between a draw and the same plus one, by enumeration."""
    drawn = np.arange(-200, 201)
    weights = np.exp(-np.abs(drawn) / float(law.scale))
    return float((weights * (np.abs(drawn + 1) - np.abs(drawn))).sum() / weights.sum() / float(law.scale))


@pytest.mark.parametrize("kind", [Gaussian, Mixed])
@pytest.mark.parametrize("ticks", [2, 18])
def test_gaussian_noise_keeps_no_pure_epsilon(kind: Any, ticks: int) -> None:
    verdict = audit(MechanismSubject(kind(sg.Pure(ticks), horizon=ticks), ticks), runs=0)
    assert verdict.exact == inf
    assert verdict.is_condemned


def test_laplace_noise_with_gaussian_noise_pays_pure_epsilon() -> None:
    laws = NoiseTerm(DiscreteLaplace(2)), NoiseTerm(DiscreteGaussian(9))
    mixed = LinearView(np.ones((1, 1)), np.ones((1, 2)), laws)
    assert compute_cost(mixed, np.ones(1), "pure").upper_bound == pytest.approx(0.5)
    apart = LinearView(np.ones((2, 1)), np.eye(2), laws)
    assert compute_cost(apart, np.ones(1), "pure").lower_bound == inf
    rho = compute_cost(apart, np.ones(1), "zCDP")
    assert rho.upper_bound == pytest.approx(1 / 8 + 1 / 18)
    assert 1 / 18 < rho.lower_bound < rho.upper_bound


@pytest.mark.parametrize("loss", [sg.Pure("1/100"), sg.Zcdp("1/1000")], ids=repr)
def test_noise_in_large_steps_is_an_infinite_loss(loss: Any) -> None:
    verdict = audit_mechanism(Coarse(loss, horizon=3), 3, runs=FEW, confidence=SURE, noise=InsecureNoise(3))
    assert verdict.exact == inf
    assert verdict.measurement
    assert verdict.measurement.amount > 1


def test_lattice_has_only_whole_combinations_of_draws() -> None:
    lattice = build_lattice(np.array([[6.0, 10.0, 0.0], [0.0, 1.0, 0.5]]))
    assert lattice
    assert [lattice.has_point(np.array(target)) for target in ([2.0, 0.5], [1.0, 0.0], [30.0, 0.0], [0, 0.25])] == [
        True,
        False,
        True,
        False,
    ]
    assert build_lattice(np.array([[np.pi]])) is None


def test_a_shift_that_is_not_whole_is_not_rounded_away() -> None:
    for law in (DiscreteLaplace(100), DiscreteGaussian(10**4)):
        view = LinearView(np.ones((1, 1)), np.full((1, 1), 3.0), (NoiseTerm(law),))
        ratio = LikelihoodRatio(view, 1, fix_streams(np.ones((1, 1)), np.zeros((1, 1))))
        one, other = ratio(np.array([[7.0]])), ratio(np.array([[6.0]]))
        assert one > 1e6
        assert other < -1e6
    names = [name for name, _ in fit_scores(3.0 * np.arange(80)[:, None] + 1, 3.0 * np.arange(80)[:, None])]
    assert "place 0 modulo 3" in names


def test_nonlinear_code_is_attacked_but_not_computed() -> None:
    subject = MechanismSubject(OffAtTwo(sg.Pure(1), horizon=4), 4, noise=InsecureNoise(4))
    verdict = audit(subject, FEW, SURE)
    assert verdict.computed_from.startswith("not computed: the code is not linear, as a stream of ")
    assert not verdict.is_proved
    assert not any(reason.startswith("computed") for reason in verdict.reasons)
    assert verdict.is_condemned
    unmeasured = audit(subject, runs=0)
    assert Finding("counter", "a", unmeasured).summary == "holds (not computed: the code is not linear)"
    long = audit(MechanismSubject(OffAtTwo(sg.Pure(1), horizon=20), 20), runs=0)
    saved = audit(ExecutionModeSubject(OffAtTwo(sg.Pure(1), horizon=4), 4, SAVED_AND_LOADED), runs=0)
    assert long.is_undecided
    assert saved.is_undecided


def test_a_step_without_noise_is_condemned_though_blocks_have_it() -> None:
    for loss in (sg.Pure(1), APPROX):
        verdict = audit_mechanism(BareStep(loss, horizon=3), 3, runs=FEW, confidence=SURE, noise=InsecureNoise(5))
        assert verdict.exact == inf
        assert len(verdict.reasons) == 2
        assert "by step" in verdict.reasons[1]


def test_block_without_noise_is_condemned_despite_noisy_pan_private_step() -> None:
    class BareFeed(Binary):
        def feed(self, state: Any, block: Ints, noise: Noise) -> Any:
            return super().feed(state, block, noise) * 0 + np.cumsum(block, axis=0)

    claim = BareFeed(sg.Pure(1), horizon=3, pan_private=True)
    assert audit_mechanism(claim, 3, runs=0).exact == inf
    honest = Binary(sg.Pure(1), horizon=3, pan_private=True)
    assert audit_mechanism(honest, 3, runs=0).is_proved


def test_verdict_reports_its_tried_and_computed_ticks() -> None:
    driven = audit(
        ExecutionModeSubject(Binary(sg.Pure(1), horizon=5), 2, OTHER_GROUPS, requested_ticks=5), runs=0
    ).to_json()
    assert driven["computed_from"] == "the code of 2 ticks was tried"
    assert driven["computed_part"] == "2 of 5 ticks"
    assert driven["exact_pair"].startswith("a unit in tick")


def test_more_ticks_are_computed_than_tried_and_run() -> None:
    claim, noise = Binary(sg.Pure(1), horizon=20), InsecureNoise(6)
    subject = MechanismSubject(claim, 20, noise=noise, max_run_ticks=4, max_probe_ticks=17)
    verdict = audit(subject, 400)
    assert verdict.is_proved
    assert verdict.computed_from == "matrices of 20 ticks; the code of 17 was tried"
    assert subject.views(subject.pairs()[0].one, 2).shape == (2, 4)
