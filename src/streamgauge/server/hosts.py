"""Hosts: the names under which the server is asked for.

A page of another site can have its own name lead to this machine (DNS rebinding): its browser then takes what
it asks here for its own. It says that name as Host, so a server that knows its names refuses it.

    [server] hosts = ["clinic.example"]    these
    left out, on loopback                  no names but localhost
    left out, behind a proxy or beyond     any: what is in front knows the names

Addresses in numbers are always good, since no name leads there; so are requests that name no host.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit

from streamgauge.query.settings import ServerSettings
from streamgauge.server.addresses import numeric
from streamgauge.server.errors import HttpRefusal

LOCAL = "localhost"


@dataclass(frozen=True)
class Hosts:
    """The names that are good; None is any."""

    names: frozenset[str] | None = None

    def check(self, told: str) -> None:
        """Refuses a Host that is another's."""
        if not self.knows(told):
            rule = "host must be localhost, an address or one of [server] hosts, got another"
            raise HttpRefusal(403, "host", rule)

    def knows(self, told: str) -> bool:
        """
        >>> ours = Hosts(frozenset({"clinic.example"}))
        >>> [ours.knows(host) for host in ("Clinic.example:8765", "[::1]:8765", "evil.example")]
        [True, True, False]
        """
        name = name_of(told)
        local = name == LOCAL or name.endswith(f".{LOCAL}")
        return self.names is None or not told or local or name in self.names or numeric(name) is not None

    def same(self, origin: str, told: str) -> bool:
        """Whether an origin is of the host that was asked, whichever its port."""
        name = name_of(urlsplit_host(origin))
        return bool(name) and (name == name_of(told) or name in (self.names or ()))


def hosts_of(settings: ServerSettings, listening: str, *, proxied: bool) -> Hosts:
    """The names of a server that listens at an address."""
    found = numeric(listening)
    alone = found is not None and found.is_loopback and not (proxied or settings.https)
    return Hosts(frozenset(settings.hosts)) if settings.hosts or alone else Hosts()


def name_of(told: str) -> str:
    """The name in a Host, without its port; nothing of what is none."""
    try:
        return (urlsplit(f"//{told}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def urlsplit_host(origin: str) -> str:
    """Host and port of an origin, nothing of what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
