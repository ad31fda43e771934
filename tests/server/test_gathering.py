"""When turns begin and are heard of: by the clock and the moment of asking, on the grid of departures."""

from itertools import pairwise

import pytest

from streamgauge.server import turns
from streamgauge.server.departures import Departures
from streamgauge.server.gathering import Gathering

START, SECOND = 7_000, 10**6


@pytest.mark.parametrize("every", [SECOND // 4, SECOND, 3 * SECOND // 2, 10 * SECOND])
def test_turns_are_a_while_apart_and_heard_of_a_whole_delay_after_they_begin(every: int) -> None:
    gathering = Gathering(Departures(START, every))
    asked = range(START, START + 30 * SECOND, SECOND // 7)
    begun = sorted({gathering.begins(moment) for moment in asked})
    assert all(after - before >= turns.PACE * SECOND for before, after in pairwise(begun))
    for moment in asked:
        begins, heard = gathering.begins(moment), gathering.heard(moment)
        assert moment <= begins == heard - every
        assert (heard - START) % every == 0


def test_all_who_ask_between_two_multiples_are_heard_of_together() -> None:
    gathering = Gathering(Departures(0, SECOND))
    assert [gathering.heard(moment) for moment in (1, SECOND, SECOND + 1)] == [
        2 * SECOND,
        2 * SECOND,
        3 * SECOND,
    ]
