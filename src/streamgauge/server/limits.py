"""Limits: how much one client, and all of them, may take of the server.

    the rate of requests       by client: a token, or an address where there is none
    the rate of plans          the same: each takes the processor from the run
    the rate of asks and ends  the same: the run is stopped for each, and the book keeps each for ever
    live connections           by client, and in all
    downloads                  the same
    the length of a body       and the time that it may take
    bodies that are held       in all, of events only: batches on their way into the inbox

**Privacy.** What a reader or analyst is refused for depends on what readers and analysts did, never on how
much the curator sends: bodies of events have a bound of their own.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
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
        live, downloads = settings.max_live, settings.max_downloads
        self._live = Slots("live", "live connections", live, settings.max_live_per_client)
        self._downloads = Slots("downloads", "downloads", downloads, settings.max_downloads_per_client)
        self._held = 0

    @property
    def live_connections(self) -> int:
        return self._live.counts.total()

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

    def live(self, client: str) -> AbstractContextManager[None]:
        """A live connection, counted while it lasts."""
        return self._live.take(client)

    def download(self, client: str) -> AbstractContextManager[None]:
        """A download, counted while it lasts."""
        return self._downloads.take(client)

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


@dataclass(frozen=True)
class Slots:
    """Connections of a kind: so many in all, and of each client."""

    code: str
    words: str
    most: int
    each: int
    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def take(self, client: str) -> Iterator[None]:
        """Count one more of a client for as long as it lasts; refuse one too many."""
        if self.counts[client] >= self.each:
            rule = f"{self.words} must be at most {self.each} of one client, got one more"
            raise later(self.code, rule, status=429, seconds=5)
        if self.counts.total() >= self.most:
            raise later(self.code, f"{self.words} must be at most {self.most}, got one more", seconds=5)
        self.counts[client] += 1
        try:
            yield
        finally:
            self.counts[client] -= 1
            if not self.counts[client]:
                del self.counts[client]


def too_large(most: int) -> HttpRefusal:
    return HttpRefusal(413, "too_large", f"body must be at most {most} bytes, got more")
