"""When turns begin and are heard of: by the clock and the moment of asking, on the grid of departures."""

from itertools import pairwise

import pytest

from streamgauge.server.publishing.clock import PublishSchedule
from streamgauge.server.publishing.command_schedule import CommandSchedule
from streamgauge.server.tuning import DEFAULT_TUNING

START, SECOND = 7_000, 10**6


@pytest.mark.parametrize("every", [SECOND // 4, SECOND, 3 * SECOND // 2, 10 * SECOND])
def test_batches_are_apart_and_visible_a_whole_delay_later(every: int) -> None:
    gathering = CommandSchedule(PublishSchedule(START, every))
    requested = range(START, START + 30 * SECOND, SECOND // 7)
    begun = sorted({gathering.find_start_time(moment) for moment in requested})
    assert all(after - before >= DEFAULT_TUNING.batch_interval_seconds * SECOND for before, after in pairwise(begun))
    for moment in requested:
        begins, received = gathering.find_start_time(moment), gathering.find_reply_time(moment)
        assert moment <= begins == received - every
        assert (received - START) % every == 0


def test_all_who_ask_between_two_multiples_are_received_of_together() -> None:
    gathering = CommandSchedule(PublishSchedule(0, SECOND))
    assert [gathering.find_reply_time(moment) for moment in (1, SECOND, SECOND + 1)] == [
        2 * SECOND,
        2 * SECOND,
        3 * SECOND,
    ]
