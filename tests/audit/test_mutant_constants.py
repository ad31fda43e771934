"""Counters under wrong constants are condemned by computation, at every horizon at which they are wrong."""

from fractions import Fraction
from math import ceil, log2

import pytest

from streamgauge import Pure, Zcdp
from streamgauge.audit.broken import ExperimentNoise, constants
from streamgauge.audit.broken.pairs import TwinPair, build_claimed_subject, replace_noise
from streamgauge.audit.report import audit
from streamgauge.continual import Kary, SimpleI, SimpleII

CHANCE = ExperimentNoise.from_label("exact")
HORIZONS = (2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64)
every_horizon = pytest.mark.parametrize("horizon", HORIZONS)


def computed(twins: TwinPair) -> tuple[float, float]:
    """Return the enumerated losses of the broken and the honest twin."""
    broken, honest = (audit(subject, runs=0) for subject in (twins.broken, twins.honest))
    assert not honest.is_condemned
    assert broken.is_condemned == (twins.truth > 1 + 1e-9)
    assert broken.exact is not None
    assert honest.exact is not None
    return broken.exact, honest.exact


@pytest.mark.one_of_each
@every_horizon
def test_log_t_levels_are_too_few_at_every_horizon(horizon: int) -> None:
    levels = horizon.bit_length()
    assert computed(constants.build_log_levels(CHANCE, horizon)) == pytest.approx((levels / log2(horizon), 1))


@pytest.mark.one_of_each
@every_horizon
def test_rounded_up_levels_are_wrong_at_powers_of_two(horizon: int) -> None:
    broken, _ = computed(constants.build_rounded_levels(CHANCE, horizon))
    assert broken == pytest.approx(horizon.bit_length() / ceil(log2(horizon)))
    assert (broken > 1 + 1e-9) == (horizon.bit_count() == 1)


def test_at_four_ticks_log_t_loses_half_as_much_again() -> None:
    assert computed(constants.build_log_levels(CHANCE, 4))[0] == pytest.approx(1.5)


@pytest.mark.one_of_each
@every_horizon
def test_counts_with_noise_scale_1_by_epsilon_lose_t_epsilon(horizon: int) -> None:
    assert computed(constants.build_simple_counts(CHANCE, horizon)) == pytest.approx((horizon, 1))
    assert computed(constants.build_short_horizon(CHANCE, horizon)) == pytest.approx((horizon / (horizon - 1), 1))
    assert computed(constants.build_two_levels(CHANCE, horizon)) == pytest.approx((2, 1))


@pytest.mark.one_of_each
@pytest.mark.parametrize("times", [2, 3, 5])
def test_single_charge_for_several_uses_loses_as_many_times(times: int) -> None:
    assert computed(constants.build_event_for_user(CHANCE, times)) == pytest.approx((times, 1))
    assert computed(constants.build_unsplit_budget(CHANCE, "Sums", times)) == pytest.approx((times, 1))


def test_wrong_zcdp_constants_are_condemned() -> None:
    for twins in (constants.build_summed_rho(CHANCE, 6), constants.build_deviation_for_variance(CHANCE)):
        broken, honest = audit(twins.broken, runs=0), audit(twins.honest, runs=0)
        assert broken.is_condemned
        assert broken.exact == pytest.approx(twins.truth)
        assert not honest.is_condemned


def test_the_noise_is_as_printed() -> None:
    assert replace_noise(constants.build_dyadic_tree(4), Fraction(1, 2)).distribution.scale == 2
    assert replace_noise(SimpleI(Pure("1/2"), horizon=9), Fraction(1, 2)).distribution.scale == 2
    assert replace_noise(SimpleII(Zcdp("1/32"), horizon=1), Fraction(1, 8)).distribution.parameter == 4


def test_verdict_judges_the_stated_claim_not_the_mechanisms_own() -> None:
    counter = Kary(Pure(2), branching=2, levels=2, horizon=3)
    fates = {
        e: audit(build_claimed_subject(counter, loss=Pure(e), noise=CHANCE), runs=0).is_condemned for e in (1, 2, 3)
    }
    assert fates == {1: True, 2: False, 3: False}
