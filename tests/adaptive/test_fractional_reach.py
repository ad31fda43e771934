"""A fractional reach is rounded down to whole steps, which no neighbours exceed."""

from fractions import Fraction
from itertools import product

import pytest

import streamgauge as sg
from streamgauge.adaptive import Pegasus
from streamgauge.privacy import Sensitivity


@pytest.mark.parametrize("reach", [Fraction(3, 2), Fraction(8, 3), Fraction(5, 2)])
@pytest.mark.parametrize("ticks", [1, 2, 3])
def test_no_whole_move_of_a_fractional_reach_exceeds_the_steps(reach: Fraction, ticks: int) -> None:
    claim = Pegasus(sg.Pure(1), horizon=9, bound=Sensitivity(reach, reach**2), unit=sg.WEvent(ticks))
    moves = [abs(a) + abs(b) for a, b in product(range(-3, 4), repeat=2) if abs(a) + abs(b) <= reach]
    assert max(sum(chosen) for chosen in product(moves, repeat=ticks)) <= claim.max_unit_steps
    assert claim.step_loss.epsilon * claim.max_unit_steps == 1


def test_moves_that_are_no_whole_numbers_are_refused() -> None:
    run = Pegasus(sg.Pure(1), horizon=9, bound=Sensitivity("5/2", "25/4")).start()
    with pytest.raises(ValueError, match=r"^values must be integers, got float64$"):
        run.step([2.5])
