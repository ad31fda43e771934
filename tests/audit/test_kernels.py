"""Finite mechanisms lose what the papers state for all short streams. Twins lose more."""

from fractions import Fraction
from math import inf

import pytest

from streamgauge.audit.exact.kernels import compute_ratio, one_event, one_person, worst_ratio
from tests.support.finite_kernels import (
    Bare,
    Density,
    ExactCount,
    Memoised,
    NoiseAfterScaling,
    RandomisedResponse,
    Remembered,
    clamped_laplace,
)

PEOPLE = (None, 0, 1)
TOLD = 3  # the last tick
TABLE = {"people": 2, "bias": Fraction(1, 8), "told_at": TOLD, "quotient": Fraction(2, 3)}
STATE = Fraction(5, 8) / Fraction(1, 2)  # largest likelihood ratio of a redrawn bit, in both directions
STATE_DOWN = Fraction(1, 2) / Fraction(3, 8)
NOISE = 1 / Fraction(2, 3)
CLAIM = STATE_DOWN * NOISE


def test_randomised_response_loses_the_odds_of_telling_the_truth() -> None:
    worst = worst_ratio(RandomisedResponse(), (0, 1), 3)
    assert worst.ratio == 3
    assert worst.epsilon == pytest.approx(1.0986, abs=1e-4)
    assert sum(a != b for a, b in zip(worst.one, worst.other, strict=True)) == 1


def test_two_events_of_one_person_lose_twice() -> None:
    def both(stream, values):
        return [tuple(1 - bit for bit in stream)]

    assert worst_ratio(RandomisedResponse(), (0, 1), 2, both).ratio == 9


def test_broken_twin_that_draws_its_flip_once_loses_everything() -> None:
    assert worst_ratio(Memoised(), (0, 1), 1, peeks=False).ratio == 3
    assert worst_ratio(Memoised(), (0, 1), 2, peeks=False).ratio == inf


def test_clamped_laplace_sums_to_one_and_loses_its_quotient() -> None:
    for centre in range(4):
        assert sum(clamped_laplace(centre, Fraction(2, 3), 6).values()) == 1
    one, other = (clamped_laplace(centre, Fraction(2, 3), 6) for centre in (1, 2))
    assert max(one[k] / other[k] for k in one) == NOISE


def test_density_table_loses_at_most_bits_plus_noise() -> None:
    worst = worst_ratio(Density(**TABLE), PEOPLE, TOLD, one_person)
    assert 1 < worst.ratio <= CLAIM
    unseen = worst_ratio(Density(**TABLE), PEOPLE, TOLD, one_person, peeks=False)
    assert unseen.ratio < worst.ratio


def test_memory_alone_loses_as_much_as_one_bit() -> None:
    """Before publication, an intruder sees only the last draw of a person's bit."""
    table = Density(**{**TABLE, "told_at": 99})
    worst = worst_ratio(table, PEOPLE, TOLD, one_person)
    assert worst.ratio == max(STATE, STATE_DOWN)
    assert worst_ratio(table, PEOPLE, TOLD, one_person, peeks=False).ratio == 1


@pytest.mark.one_of_each
@pytest.mark.parametrize("known_at", [1, TOLD])
@pytest.mark.parametrize("requested", range(TOLD + 1))
def test_announced_intrusion_loses_one_more_bit(known_at: int, requested: int) -> None:
    table = Density(**{**TABLE, "people": 1, "told_at": known_at, "reach": 1})
    worst = worst_ratio(table, (None, 0), TOLD, one_person, announced_tick=requested)
    assert worst.ratio <= CLAIM * STATE_DOWN


def test_peek_at_announced_intrusion_may_precede_or_follow_it() -> None:
    """A peek after the intrusion shows the bit; the next count may use it or a new one."""
    table = Density(**{**TABLE, "people": 1, "told_at": 1})
    alone = compute_ratio(table, (0,), (None,), peek=0)
    assert alone == Fraction(5, 8) * NOISE + Fraction(3, 8)
    assert compute_ratio(table, (0,), (None,), peek=0, announced_tick=0) == alone
    assert compute_ratio(table, (0,), (None,), announced_tick=0) < alone


def test_kernel_without_announced_intrusions_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^kernel must answer announced intrusions, got RandomisedResponse$"):
        worst_ratio(RandomisedResponse(), (0, 1), 1, announced_tick=1)


@pytest.mark.parametrize("twin", [Bare, Remembered, ExactCount, NoiseAfterScaling])
def test_a_broken_table_loses_more_than_the_claim(twin: type[Density]) -> None:
    worst = worst_ratio(twin(**TABLE), PEOPLE, TOLD, one_person)
    assert worst.ratio > CLAIM


def test_neighbours_differ_in_one_event_or_one_person() -> None:
    assert set(one_event((0, 0), (0, 1))) == {(1, 0), (0, 1)}
    assert set(one_person((0, 1, 0), PEOPLE)) == {(None, 1, 0), (0, 1, None), (None, 1, None), (0, None, 0)}


def test_ratio_compares_the_two_given_streams() -> None:
    kernel = RandomisedResponse(Fraction(9, 10))
    assert compute_ratio(kernel, (0, 1), (0, 1)) == 1
    assert compute_ratio(kernel, (0, 1), (1, 1)) == 9
