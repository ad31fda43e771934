"""Addresses of clients, as far as one customer has them to himself; and the names that a host goes by."""

from collections.abc import Iterable
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network


def neighbourhood(host: str) -> str:
    """What limits are counted by: of the sixth version the half that one customer has.

    >>> neighbourhood("2001:db8::7"), neighbourhood("::ffff:10.0.0.7"), neighbourhood("10.0.0.7")
    ('2001:db8::', '10.0.0.7', '10.0.0.7')
    """
    found = numeric(host)
    if found is None:
        return host
    if found.version == 4:
        return str(found)
    return str(found.ipv4_mapped or ip_network((found, 64), strict=False).network_address)


def numeric(host: str) -> IPv4Address | IPv6Address | None:
    """An address in numbers, or nothing if it is a name."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        return None


class Networks:
    """Addresses, and ranges of them; what is neither is nobody's.

    >>> proxies = Networks(["10.0.0.0/24", "::1", "10.9.0.0/99"])
    >>> [host in proxies for host in ("10.0.0.7", "10.0.1.7", "::1", "::2", "10.9.0.0", "unix")]
    [True, False, True, False, False, False]
    """

    def __init__(self, hosts: Iterable[str]) -> None:
        self._found: list[IPv4Network | IPv6Network] = []
        for host in hosts:
            with suppress(ValueError):
                self._found.append(ip_network(host))

    def __contains__(self, host: str) -> bool:
        found = numeric(host)
        return found is not None and any(found in network for network in self._found)
