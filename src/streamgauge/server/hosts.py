"""Hosts: the names under which the server is asked for.

A page of another site can have its own name lead to this machine (DNS rebinding): its browser then takes what
it asks here for its own. It says that name as Host, so a server that knows its names refuses it.

    [server] hosts = ["clinic.example"]    these
    left out, on loopback                  no names but localhost
    left out, behind a proxy or beyond     any: what is in front knows the names

Addresses in numbers are always good, since no name leads there; so are requests that name no host.

A Host is a name, an IPv4 address or `[IPv6]`, with a port or without. Anything else in it (a user, blanks, a
path, an empty port) makes it malformed. Such a Host is refused wherever the server listens, since parsers
disagree on whose name `evil@localhost` is.
"""

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from urllib.parse import urlsplit

from streamgauge.query.settings import ServerSettings
from streamgauge.server.addresses import numeric
from streamgauge.server.errors import HttpRefusal

LOCAL = "localhost"
MAX_NAME = 253  # characters
MAX_PORT = 65535
LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
HOST = re.compile(
    rf"(?:(?P<name>{LABEL}(?:\.{LABEL})*)\.?|\[(?P<six>[0-9a-f:.]{{2,45}})\])(?::(?P<port>[0-9]{{1,5}}))?",
    re.ASCII | re.IGNORECASE,
)
NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)  # a last label that makes a name an address


@dataclass(frozen=True)
class Hosts:
    """The names that are good; None is any."""

    names: frozenset[str] | None = None

    def check(self, told: str | None) -> None:
        """Refuses a Host that is malformed, or another's; None is a request of HTTP/1.0 without one."""
        if told is not None and not name_of(told):
            rule = "host must be a name or an address, with a port or without, got something else"
            raise HttpRefusal(400, "malformed", rule)
        if not self.knows(told or ""):
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
    """Return the name or address in a Host, without its port; empty if it is malformed.

    >>> [name_of(host) for host in ("Clinic.example.:443", "[::1]:80", "127.0.0.1")]
    ['clinic.example', '::1', '127.0.0.1']
    >>> [name_of(host) for host in ("evil@localhost", "127.1", "")]
    ['', '', '']
    """
    found = HOST.fullmatch(told)
    if found is None or int(found["port"] or 0) > MAX_PORT:
        return ""
    try:
        if found["six"] is not None:
            return str(IPv6Address(found["six"]))
        name = found["name"].lower()
        if NUMBER.fullmatch(name.rpartition(".")[2]):
            return str(IPv4Address(name))
    except ValueError:
        return ""
    return name if len(name) <= MAX_NAME else ""


def urlsplit_host(origin: str) -> str:
    """Host and port of an origin, nothing of what is none."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
