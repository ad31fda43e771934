"""Publish times of commits, calculated by hand."""

from streamgauge.server.publishing.clock import PublishSchedule

START, EVERY = 1_000, 100


class WhenReady(PublishSchedule):
    """A twin that publishes entries as soon as they are committed."""

    def find_publish_time(self, ready: int) -> int:
        return ready


def observed(kind: type[PublishSchedule], committed: list[int], closed: int = 0) -> list[tuple[int, int]]:
    """Return the first moment at which each entry is published."""
    departures, found = kind(START, EVERY), list[tuple[int, int]]()
    for now in range(START, START + 1_000):
        for entry, moment in enumerate(committed, 1):
            if moment == now:
                departures.add(entry, committed=now, closed=closed)
        found += [(entry, now) for entry in range((found or [(0, 0)])[-1][0] + 1, departures.advance(now) + 1)]
    return found


def test_commit_is_published_at_next_multiple_of_the_delay():
    assert observed(PublishSchedule, [1_003, 1_100, 1_101]) == [(1, 1_100), (2, 1_100), (3, 1_200)]


def test_commit_times_between_two_multiples_are_indistinguishable():
    assert observed(PublishSchedule, [1_003, 1_250]) == observed(PublishSchedule, [1_099, 1_201])
    assert observed(WhenReady, [1_003, 1_250]) != observed(WhenReady, [1_099, 1_201])


def test_commit_has_a_whole_delay_after_its_tick_closes():
    """This also holds shortly before a multiple."""
    for closed, leaves in ((1_300, 1_400), (1_301, 1_500), (1_399, 1_500)):
        quick, slow = (observed(PublishSchedule, [closed + took], closed) for took in (1, EVERY))
        assert quick == slow == [(1, leaves)]
        assert observed(PublishSchedule, [closed + 2 * EVERY + 1], closed)[0][1] > leaves


class AtNext(PublishSchedule):
    """A twin that publishes a tick at the first multiple after its commit, even if that is near."""

    def add(self, entry: int, *, committed: int, closed: int = 0) -> int:
        return self.add_at(entry, self.find_publish_time(max(committed, closed)))


def test_twin_without_whole_delay_reveals_duration_of_commit():
    assert observed(AtNext, [1_399], 1_398) != observed(AtNext, [1_401], 1_398)


def test_later_entry_is_never_published_earlier():
    departures = PublishSchedule(START, EVERY)
    departures.add(1, committed=1_250)
    departures.add(2, committed=1_050)
    assert [departures.advance(now) for now in (1_100, 1_299, 1_300)] == [0, 0, 2]


def test_immediate_entry_waits_for_earlier_commits():
    departures = PublishSchedule(START, EVERY)
    departures.add_at(1, 1_001)
    assert departures.advance(1_001) == 1
    departures.add(2, committed=1_010)
    departures.add_at(3, 1_011)
    assert [departures.advance(now) for now in (1_011, 1_100)] == [1, 3]


def test_published_entry_stays_public_when_clock_is_set_back():
    departures = PublishSchedule(START, EVERY)
    departures.add(1, committed=1_010)
    assert [departures.advance(now) for now in (1_100, 900)] == [1, 1]


def test_wait_lasts_until_next_publish_time():
    departures = PublishSchedule(START, EVERY)
    assert departures.find_wait(1_000) is None
    departures.add(1, committed=1_010)
    assert [departures.find_wait(now) for now in (1_010, 1_100, 1_200)] == [90, 0, 0]
