"""Limits of one client: bounded, and independent of other clients."""

import pytest

from streamgauge.config.settings import ServerSettings
from streamgauge.server.http.errors import HttpError
from streamgauge.server.http.limits import Limits, RateLimiter


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def accepted(limits: Limits, client: str, count: int) -> int:
    """Return how many of `count` requests are accepted."""
    found, refused = 0, list[HttpError]()
    for _ in range(count):
        try:
            limits.count_request(client)
            found += 1
        except HttpError as refusal:
            refused.append(refusal)
    assert all(each.status == 429 and int((each.headers or {})["Retry-After"]) >= 1 for each in refused)
    return found


def test_client_has_its_rate_and_twice_that_as_burst() -> None:
    clock = Clock()
    limits = Limits(ServerSettings(rate=5), now=clock)
    assert accepted(limits, "a", 100) == 10
    clock.now = 1.0
    assert accepted(limits, "a", 100) == 5
    clock.now = 1000.0
    assert accepted(limits, "a", 100) == 10


def test_fast_client_does_not_limit_others() -> None:
    limits = Limits(ServerSettings(rate=5), now=Clock())
    accepted(limits, "a", 100)
    assert accepted(limits, "b", 10) == 10


def test_number_of_remembered_clients_is_bounded() -> None:
    limiter = RateLimiter(5, 10, Clock(), max_clients=4)
    for client in range(100):
        limiter.reserve(str(client))
    assert len(limiter.allowances) == 4


def test_live_connections_are_bounded_per_client_and_in_total() -> None:
    limits = Limits(ServerSettings(max_streams=3, max_streams_per_client=2))
    with limits.admit_live("a"), limits.admit_live("a"):
        with pytest.raises(HttpError, match="at most 2 of one client") as own, limits.admit_live("a"):
            pass
        with limits.admit_live("b"):
            with pytest.raises(HttpError, match="at most 3, got one more") as all_of_them, limits.admit_live("c"):
                pass
            assert limits.live_connections == 3
    assert (own.value.status, all_of_them.value.status) == (429, 503)
    assert limits.live_connections == 0
    with limits.admit_live("a"), limits.admit_live("a"):
        assert limits.live_connections == 2


def test_buffered_bytes_are_bounded_and_released() -> None:
    limits = Limits(ServerSettings(max_buffer=100))
    with limits.reserve_body() as hold:
        hold(60)
        with limits.reserve_body() as other:
            other(30)
            with pytest.raises(HttpError, match="capacity"):
                other(30)
        assert limits.buffered_bytes == 60
        hold(40)
    assert limits.buffered_bytes == 0
