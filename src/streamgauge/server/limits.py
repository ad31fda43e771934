"""Limits: how much one client, and all of them, may take of the server.

    the rate of requests       by client: a token, or an address where there is none
    the rate of plans          the same: each takes the processor from the run
    the rate of asks and ends  the same: the run is stopped for each, and the book keeps each for ever
    live connections           by client, and in all
    the length of a body       and the time that it may take
    bodies that are held       in all, of events only: batches on their way into the inbox

**Privacy.** What a reader or analyst is refused for depends on what readers and analysts did, never on how
much the curator sends: bodies of events have a bound of their own.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import ceil

from streamgauge.query.settings import ServerSettings
from streamgauge.server.errors import HttpRefusal, later

BODY_SECONDS = 30.0
LARGEST_HEAD = 2**14  # bytes
MOST_CLIENTS = 10_000  # whose rates are remembered
BURST = 2.0  # seconds' worth of requests that may come at once


class Rates:
    """How fast each client may go on: so many a second, and so many at once."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float]) -> None:
        self.rate, self.burst, self._now = rate, max(1.0, burst), now
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # what is left, as of when

    def wait(self, client: str) -> int:
        """Counts one of a client; seconds to wait for it, 0 if it may be now."""
        now = self._now()
        left, when = self._left.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - when) * self.rate)
        self._left[client] = (max(0.0, left - 1), now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return 0 if left >= 1 else max(1, ceil((1 - left) / self.rate))


class Limits:
    """What is taken now."""

    def __init__(self, settings: ServerSettings, *, now: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.body, self.body_seconds = settings.max_body, BODY_SECONDS
        self._requests = Rates(settings.rate, settings.rate * BURST, now)
        self._asks = Rates(settings.max_asks_per_minute / 60, settings.max_asks_per_minute, now)
        self._plans = Rates(settings.max_plans_per_minute / 60, settings.max_plans_per_minute, now)
        self._live: Counter[str] = Counter()
        self._held = 0

    @property
    def live_connections(self) -> int:
        return self._live.total()

    @property
    def held_bytes(self) -> int:
        return self._held

    def turn(self, client: str) -> None:
        """Counts a request; one beyond the rate is refused."""
        if wait := self._requests.wait(client):
            rule = f"requests must be at most {self._requests.rate:g} a second, got more"
            raise later("rate", rule, status=429, seconds=wait)

    def plan(self, client: str) -> None:
        """Counts what is planned, for an ask too."""
        if wait := self._plans.wait(client):
            most = self.settings.max_plans_per_minute
            rule = f"releases that are planned must be at most {most} a minute, got more"
            raise later("rate", rule, status=429, seconds=wait)

    def ask(self, client: str) -> None:
        """Counts what the run has to be stopped for."""
        if wait := self._asks.wait(client):
            most = self.settings.max_asks_per_minute
            rule = f"releases that are asked for or ended must be at most {most} a minute, got more"
            raise later("rate", rule, status=429, seconds=wait)

    @contextmanager
    def live(self, client: str) -> Iterator[None]:
        """A live connection, counted while it lasts."""
        most, each = self.settings.max_live, self.settings.max_live_per_client
        if self._live[client] >= each:
            rule = f"live connections must be at most {each} of one client, got one more"
            raise later("live", rule, status=429, seconds=5)
        if self._live.total() >= most:
            raise later("live", f"live connections must be at most {most}, got one more", seconds=5)
        self._live[client] += 1
        try:
            yield
        finally:
            self._live[client] -= 1
            if not self._live[client]:
                del self._live[client]

    @contextmanager
    def holding(self) -> Iterator[Callable[[int], None]]:
        """Around a batch on its way: the function that is given counts its bytes."""
        own = 0

        def hold(size: int) -> None:
            nonlocal own
            if self._held + size > self.settings.max_waiting:
                raise later("busy", "the inbox must have room, got too many batches at once")
            self._held += size
            own += size

        try:
            yield hold
        finally:
            self._held -= own


def too_large(most: int) -> HttpRefusal:
    return HttpRefusal(413, "too_large", f"body must be at most {most} bytes, got more")
