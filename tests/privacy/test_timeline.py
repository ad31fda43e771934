"""Timelines are steps in order of time, and can be truncated at a tick."""

from fractions import Fraction

import pytest

from streamgauge.privacy import Pure, Step, Timeline, Zcdp
from streamgauge.privacy.timeline import TickWeight

HALF, ONE = Pure("1/2"), Pure(1)


def test_weights_are_epsilon_ratios_or_roots_of_rho_ratios() -> None:
    pure = Timeline((Step(1, 4, HALF), Step(7, None, ONE))).to_term(ONE, events=3, native=False)
    assert (pure.peak, pure.weights) == (3, (TickWeight(1, 4, Fraction(1, 2)), TickWeight(7, None, Fraction(1))))
    zcdp = Timeline((Step(1, 4, Zcdp("1/4")), Step(7, None, Zcdp(1)))).to_term(Zcdp(1), events=3, native=False)
    assert (zcdp.peak, zcdp.weights) == (9, pure.weights)


def test_irrational_roots_are_rounded_up() -> None:
    term = Timeline((Step(1, 1, Zcdp(1)), Step(2, 2, Zcdp(2)))).to_term(Zcdp(1), events=1, native=False)
    assert Fraction(1, 2) < term.weights[0].q ** 2 < Fraction(1, 2) + Fraction(1, 2**60)
    assert term.weights[1].q == 1


def test_native_term_has_its_peak_for_its_whole_span() -> None:
    term = Timeline((Step(1, 4, HALF), Step(7, None, ONE))).to_term(ONE, events=3, native=True)
    assert (term.peak, term.weights, term.is_native) == (1, (TickWeight(1, None, Fraction(1)),), True)


def test_it_ends_with_the_given_tick() -> None:
    steps = (Step(2, 4, HALF), Step(7, None, ONE))
    assert Timeline(steps).truncate(1) is None
    assert Timeline(steps).truncate(3) == Timeline((Step(2, 3, HALF),))
    assert Timeline(steps).truncate(5) == Timeline((Step(2, 4, HALF),))
    assert Timeline(steps).truncate(9) == Timeline((Step(2, 4, HALF), Step(7, 9, ONE)))
    assert Timeline(steps[:1]).truncate(99) == Timeline(steps[:1])


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: Step(0, 1, ONE), "first must be at least 1, got 0"),
        (lambda: Step(3, 2, ONE), "last must be at least first = 3, got 2"),
        (lambda: Step(1.5, 2, ONE), "first must be a whole number, got 1.5"),
        (lambda: Timeline(()), "steps must be at least one, got none"),
        (lambda: Timeline((Step(1, 4, ONE), Step(4, 9, ONE))), "steps must follow each other, got Step.*"),
        (lambda: Timeline((Step(1, None, ONE), Step(4, 9, ONE))), "steps must follow each other, got Step.*"),
    ],
)
def test_invalid_settings_are_refused(build: object, text: str) -> None:
    with pytest.raises(ValueError, match=rf"^{text}$"):
        build()
