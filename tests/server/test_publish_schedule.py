"""What was committed leaves on the clock: by hand, exactly."""

from streamgauge.server.publishing.clock import PublishSchedule

START, EVERY = 1_000, 100


class WhenReady(PublishSchedule):
    """A twin that lets things out as soon as they are there."""

    def find_publish_time(self, ready: int) -> int:
        return ready


def observed(kind: type[PublishSchedule], committed: list[int], closed: int = 0) -> list[tuple[int, int]]:
    """When each entry is first seen by who looks at every moment."""
    departures, found = kind(START, EVERY), list[tuple[int, int]]()
    for now in range(START, START + 1_000):
        for entry, moment in enumerate(committed, 1):
            if moment == now:
                departures.add(entry, committed=now, closed=closed)
        found += [(entry, now) for entry in range((found or [(0, 0)])[-1][0] + 1, departures.advance(now) + 1)]
    return found


def test_what_is_committed_leaves_at_the_next_multiple_since_the_start():
    assert observed(PublishSchedule, [1_003, 1_100, 1_101]) == [(1, 1_100), (2, 1_100), (3, 1_200)]


def test_moments_of_commits_between_two_multiples_cannot_be_shown_apart():
    assert observed(PublishSchedule, [1_003, 1_250]) == observed(PublishSchedule, [1_099, 1_201])
    assert observed(WhenReady, [1_003, 1_250]) != observed(WhenReady, [1_099, 1_201])


def test_a_commit_has_a_whole_delay_from_where_its_tick_closed():
    """Wherever that lies: also shortly before a multiple."""
    for closed, leaves in ((1_300, 1_400), (1_301, 1_500), (1_399, 1_500)):
        quick, slow = (observed(PublishSchedule, [closed + took], closed) for took in (1, EVERY))
        assert quick == slow == [(1, leaves)]
        assert observed(PublishSchedule, [closed + 2 * EVERY + 1], closed)[0][1] > leaves


class AtNext(PublishSchedule):
    """A twin that lets a tick out at the first multiple after its commit, however near that is."""

    def add(self, entry: int, *, committed: int, closed: int = 0) -> int:
        return self.add_at(entry, self.find_publish_time(max(committed, closed)))


def test_a_twin_without_a_whole_delay_tells_how_long_a_commit_took():
    assert observed(AtNext, [1_399], 1_398) != observed(AtNext, [1_401], 1_398)


def test_what_was_committed_later_never_leaves_earlier():
    departures = PublishSchedule(START, EVERY)
    departures.add(1, committed=1_250)
    departures.add(2, committed=1_050)
    assert [departures.advance(now) for now in (1_100, 1_299, 1_300)] == [0, 0, 2]


def test_what_is_public_at_once_waits_for_what_was_committed_before():
    departures = PublishSchedule(START, EVERY)
    departures.add_at(1, 1_001)
    assert departures.advance(1_001) == 1
    departures.add(2, committed=1_010)
    departures.add_at(3, 1_011)
    assert [departures.advance(now) for now in (1_011, 1_100)] == [1, 3]


def test_what_has_left_stays_where_the_clock_is_set_back():
    departures = PublishSchedule(START, EVERY)
    departures.add(1, committed=1_010)
    assert [departures.advance(now) for now in (1_100, 900)] == [1, 1]


def test_the_wait_is_until_the_next_departure():
    departures = PublishSchedule(START, EVERY)
    assert departures.find_wait(1_000) is None
    departures.add(1, committed=1_010)
    assert [departures.find_wait(now) for now in (1_010, 1_100, 1_200)] == [90, 0, 0]
