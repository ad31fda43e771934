"""Limits of the server, by client and in total.

    rate of requests           by client: a token, or an address without one
    rate of plans              the same: each uses the processor of the run
    rate of commands           the same: the run applies each between two rounds, and the ledger stores each forever
    live connections           by client, and in total
    downloads                  the same
    length of a body           and its duration
    buffered bodies            in total, of events only: batches on their way into the inbox

**Privacy.** Refusals of readers and analysts depend on readers and analysts, never on the amount that the
curator sends: bodies of events have a separate limit.
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import ceil

from streamgauge.config.settings import ServerSettings
from streamgauge.server.http.errors import HttpError, build_retry_error

BODY_SECONDS = 30.0
MAX_HEAD_BYTES = 2**14  # bytes
MAX_CLIENTS = 10_000  # whose rates are remembered
BURST_SECONDS = 2.0  # seconds' worth of requests that may come at once


class RateLimiter:
    """Rate limit by client: a number per second, and a burst."""

    def __init__(self, rate: float, burst: float, now: Callable[[], float], max_clients: int = MAX_CLIENTS) -> None:
        self.rate, self.burst, self._now, self._max_clients = rate, max(1.0, burst), now, max_clients
        self.allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()  # rest, and its time

    def reserve(self, client: str) -> int:
        """Count a request of a client; return the seconds to wait, 0 if none."""
        now = self._now()
        left, when = self.allowances.pop(client, (self.burst, now))
        left = min(self.burst, left + (now - when) * self.rate)
        self.allowances[client] = (max(0.0, left - 1), now)
        if len(self.allowances) > self._max_clients:
            self.allowances.popitem(last=False)
        return 0 if left >= 1 else max(1, ceil((1 - left) / self.rate))


class Limits:
    """Limits of the server, and their current use."""

    def __init__(self, settings: ServerSettings, *, now: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.max_body_bytes, self.body_seconds = settings.max_body, BODY_SECONDS
        self._requests = RateLimiter(settings.rate, settings.rate * BURST_SECONDS, now)
        self._commands = RateLimiter(
            settings.adhoc_max_requests_per_minute / 60, settings.adhoc_max_requests_per_minute, now
        )
        self._plans = RateLimiter(settings.adhoc_max_plans_per_minute / 60, settings.adhoc_max_plans_per_minute, now)
        live, downloads = settings.max_streams, settings.max_downloads
        self._live = ConcurrencyLimit("too_many_streams", "live connections", live, settings.max_streams_per_client)
        self._downloads = ConcurrencyLimit("downloads", "downloads", downloads, settings.max_downloads_per_client)
        self.buffered_bytes = 0

    @property
    def live_connections(self) -> int:
        return self._live.counts.total()

    def count_request(self, client: str) -> None:
        """Count a request; refuse it above the rate."""
        check_rate(self._requests, client, f"requests must be at most {self._requests.rate:g} a second")

    def count_plan(self, client: str) -> None:
        """Count a plan; a request for a release counts as a plan too."""
        most = self.settings.adhoc_max_plans_per_minute
        check_rate(self._plans, client, f"releases that are planned must be at most {most} a minute")

    def count_command(self, client: str) -> None:
        """Count a command that interrupts the run."""
        most = self.settings.adhoc_max_requests_per_minute
        check_rate(self._commands, client, f"requests to add or end a release must be at most {most} a minute")

    def admit_live(self, client: str) -> AbstractContextManager[None]:
        """Count a live connection while it lasts."""
        return self._live.acquire(client)

    def admit_download(self, client: str) -> AbstractContextManager[None]:
        """Count a download while it lasts."""
        return self._downloads.acquire(client)

    @contextmanager
    def reserve_body(self) -> Iterator[Callable[[int], None]]:
        """Yield a function that counts the bytes of an incoming body."""
        own = 0

        def count_bytes(size: int) -> None:
            nonlocal own
            if self.buffered_bytes + size > self.settings.max_buffer:
                raise build_retry_error("busy", "the inbox must have capacity, got too many batches at once")
            self.buffered_bytes += size
            own += size

        try:
            yield count_bytes
        finally:
            self.buffered_bytes -= own


def check_rate(limiter: RateLimiter, client: str, rule: str) -> None:
    """Count a request of a client, and reject it if there are too many."""
    if wait := limiter.reserve(client):
        raise build_retry_error("rate_limited", f"{rule}, got more", status=429, seconds=wait)


@dataclass(frozen=True)
class ConcurrencyLimit:
    """A limit of concurrent connections, in total and by client."""

    code: str
    label: str
    max_total: int
    max_per_client: int
    counts: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def acquire(self, client: str) -> Iterator[None]:
        """Count one more of a client for as long as it lasts; refuse one too many."""
        if self.counts[client] >= self.max_per_client:
            rule = f"{self.label} must be at most {self.max_per_client} of one client, got one more"
            raise build_retry_error(self.code, rule, status=429, seconds=5)
        if self.counts.total() >= self.max_total:
            raise build_retry_error(
                self.code, f"{self.label} must be at most {self.max_total}, got one more", seconds=5
            )
        self.counts[client] += 1
        try:
            yield
        finally:
            self.counts[client] -= 1
            if not self.counts[client]:
                del self.counts[client]


def build_too_large_error(most: int) -> HttpError:
    return HttpError(413, "too_large", f"body must be at most {most} bytes, got more")


def to_client_network(host: str) -> str:
    """Return the key of limits: the IPv4 address, or the /64 network of an IPv6 address.

    >>> to_client_network("2001:db8::7"), to_client_network("::ffff:10.0.0.7"), to_client_network("10.0.0.7")
    ('2001:db8::', '10.0.0.7', '10.0.0.7')
    """
    found = parse_address(host)
    if found is None:
        return host
    if found.version == 4:
        return str(found)
    return str(found.ipv4_mapped or ip_network((found, 64), strict=False).network_address)


def parse_address(host: str) -> IPv4Address | IPv6Address | None:
    """Return a numeric address; None for a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


class Networks:
    """A set of addresses and networks. Other texts match nothing.

    >>> proxies = Networks(["10.0.0.0/24", "::1", "10.9.0.0/99"])
    >>> [host in proxies for host in ("10.0.0.7", "10.0.1.7", "::1", "::2", "10.9.0.0", "unix")]
    [True, False, True, False, False, False]
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self._networks: list[IPv4Network | IPv6Network] = []
        for host in hosts:
            with suppress(ValueError):
                self._networks.append(ip_network(host))

    def __contains__(self, host: str) -> bool:
        found = parse_address(host)
        return found is not None and any(found in network for network in self._networks)
