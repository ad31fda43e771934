"""Addresses of clients, as far as one customer has them to himself; and the names that a host goes by."""

from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network


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
