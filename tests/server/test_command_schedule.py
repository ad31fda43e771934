"""Times of commands and replies: functions of the clock and of the request, at multiples of the delay."""

from itertools import pairwise

import pytest

from streamgauge.runtime.commands.queue import CommandSchedule, next_multiple

START, SECOND = 7_000, 10**6
REQUESTS = range(START, START + 30 * SECOND, SECOND // 7)


@pytest.mark.parametrize("interval", [SECOND // 4, SECOND, 3 * SECOND // 2, 10 * SECOND])
def test_replies_leave_four_fifths_of_a_delay_after_the_start(interval: int) -> None:
    schedule = CommandSchedule(START, interval)
    starts = sorted({schedule.find_start_time(moment) for moment in REQUESTS})
    assert all(after - before >= interval for before, after in pairwise(starts))
    for moment in REQUESTS:
        start, reply = schedule.find_start_time(moment), schedule.find_reply_time(moment)
        assert moment <= start == reply - interval + interval // 5
        assert start - moment < interval
        assert (reply - START) % interval == 0


def test_requests_of_one_interval_have_one_reply_time() -> None:
    schedule, last = CommandSchedule(0, SECOND), SECOND + SECOND // 5
    found = [schedule.find_reply_time(moment) for moment in (last - SECOND + 1, SECOND, last, last + 1)]
    assert found == [2 * SECOND, 2 * SECOND, 2 * SECOND, 3 * SECOND]


def test_unaligned_command_starts_at_once_and_its_reply_is_aligned() -> None:
    schedule = CommandSchedule(START, SECOND, is_aligned=False)
    for moment in REQUESTS:
        reply = schedule.find_reply_time(moment)
        assert schedule.find_start_time(moment) == moment
        assert 0.8 * SECOND <= reply - moment < 1.8 * SECOND
        assert (reply - START) % SECOND == 0


def test_without_a_delay_commands_and_replies_are_immediate() -> None:
    schedule = CommandSchedule(START)
    assert [schedule.find_start_time(5), schedule.find_reply_time(5), schedule.find_publish_time(5)] == [5, 5, 5]


def test_next_multiple_is_the_first_at_or_after_a_moment() -> None:
    for moment in range(-30, 30):
        found = next_multiple(4, 7, moment)
        assert (found - 4) % 7 == 0
        assert 0 <= found - moment < 7
