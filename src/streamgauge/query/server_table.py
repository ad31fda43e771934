"""[server]: how `streamgauge serve` behaves. All of it may be left out, and edited between runs.

left out               means
anonymous              readers need a token
https                  no TLS in front: cookies travel in the clear, as on loopback
publish_delay          "1s": what is late leaves at the next multiple of it
max_body               "8MB" of one request
max_waiting            "64MB" of events that are not committed yet
max_reports            64 records of one message, where anyone sends reports
rate                   50 requests a second of one client, and twice as many at once
max_live               1000 connections that wait for releases
max_live_per_client    20 of them
max_downloads          100 downloads of CSV or Arrow at a time
max_downloads_per_client  4 of them
max_groups             10000 groups of one release that is asked for
max_asked              200 releases that were asked for and are at work
max_asked_per_analyst  50 of them
max_asks_per_analyst   500 releases that one analyst ever asks for
max_asks_per_minute    30 of one analyst, ends too
max_plans_per_minute   60 of one analyst, asks too
max_asked_memory       "64MB" that they keep in all
max_asked_work         200 units, about a millisecond each, that they add to a round
show_intruder          the rehearsal of an intrusion is shown where memory is pan-private alone
hosts                  any name where a proxy or other machines ask, else localhost alone
"""

import re
from fractions import Fraction
from typing import Any

from streamgauge.query.settings import ServerSettings
from streamgauge.query.toml_keys import Rule, Table
from streamgauge.query.toml_rules import LENGTH, MOST, SWITCH, amount, whole

SERVER_KEYS = (
    *("anonymous", "https", "publish_delay", "max_body", "max_waiting", "show_intruder"),
    *("rate", "max_live", "max_live_per_client", "hosts", "max_reports"),
    *("max_downloads", "max_downloads_per_client"),
    *("max_groups", "max_asked", "max_asked_per_analyst", "max_asked_memory", "max_asked_work"),
    *("max_asks_per_analyst", "max_asks_per_minute", "max_plans_per_minute"),
)
SIZES = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
LARGEST = 64 * 2**20  # bytes that an engine is given at once
MOST_LIVE = 100_000
MOST_ASKED = 10_000
MOST_RECORDS = 500_000  # of a message of reports, whoever sends it

_HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_SIZE = re.compile(r"([1-9][0-9]{0,8}) ?([KMG]I?B)", re.IGNORECASE)


def size(text: Any) -> int | None:
    """How many bytes a size is, or None for what is none.

    >>> size("8MB"), size("1 MiB"), size(8), size("many MB")
    (8000000, 1048576, None, None)
    """
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else int(match[1]) * SIZES[match[2].upper()]


def size_rule(most: int) -> Rule[int]:
    def parse(value: Any) -> int | None:
        found = size(value)
        return found if found is not None and found <= most else None

    words = f'a size such as "8MB", at most {most // 2**20}MiB'
    return Rule(words, parse, number="a number alone has no unit")


def names(value: Any) -> tuple[str, ...] | None:
    """Names of hosts, in small letters.

    >>> names(["Clinic.example"]), names("clinic.example"), names(["clinic.example:443"])
    (('clinic.example',), None, None)
    """
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return None
    found = tuple(name.lower() for name in value)
    return found if found and all(len(name) < 254 and _HOST.fullmatch(name) for name in found) else None


HOSTS = Rule('names of hosts without a port, such as ["clinic.example"]', names)
BODY = size_rule(LARGEST)
WAITING = size_rule(2**32)
RATE = amount("0.01", "1e6")
CONNECTIONS = whole(most=MOST_LIVE)
GROUPS = whole(most=MOST)
ASKED_WORK = whole(least=0, most=MOST)
RELEASES = whole(least=0, most=MOST_ASKED)
ASKS = whole(most=MOST_ASKED)
RECORDS = whole(most=MOST_RECORDS)


def server_of(top: Table) -> ServerSettings:
    """The server of a pipeline file, which says what differs from the usual."""
    usual = ServerSettings()
    if "server" not in top:
        return usual
    table = top.table("server", SERVER_KEYS)
    settings = ServerSettings(
        anonymous=table.optional("anonymous", SWITCH, usual.anonymous),
        https=table.optional("https", SWITCH, usual.https),
        publish_delay=table.optional("publish_delay", LENGTH, usual.publish_delay),
        max_body=table.optional("max_body", BODY, usual.max_body),
        max_waiting=table.optional("max_waiting", WAITING, usual.max_waiting),
        rate=float(table.optional("rate", RATE, Fraction(usual.rate))),
        max_reports=table.optional("max_reports", RECORDS, usual.max_reports),
        max_live=table.optional("max_live", CONNECTIONS, usual.max_live),
        max_live_per_client=table.optional("max_live_per_client", CONNECTIONS, usual.max_live_per_client),
        max_downloads=table.optional("max_downloads", CONNECTIONS, usual.max_downloads),
        max_downloads_per_client=table.optional(
            "max_downloads_per_client", CONNECTIONS, usual.max_downloads_per_client
        ),
        max_groups=table.optional("max_groups", GROUPS, usual.max_groups),
        max_asked=table.optional("max_asked", RELEASES, usual.max_asked),
        max_asked_per_analyst=table.optional("max_asked_per_analyst", RELEASES, usual.max_asked_per_analyst),
        max_asks_per_analyst=table.optional("max_asks_per_analyst", RELEASES, usual.max_asks_per_analyst),
        max_asks_per_minute=table.optional("max_asks_per_minute", ASKS, usual.max_asks_per_minute),
        max_plans_per_minute=table.optional("max_plans_per_minute", ASKS, usual.max_plans_per_minute),
        max_asked_memory=table.optional("max_asked_memory", WAITING, usual.max_asked_memory),
        max_asked_work=table.optional("max_asked_work", ASKED_WORK, usual.max_asked_work),
        hosts=table.optional("hosts", HOSTS, usual.hosts),
        show_intruder=table.optional("show_intruder", SWITCH, usual.show_intruder),
    )
    if settings.max_waiting < settings.max_body:
        raise table.bad("max_waiting", "at least max_body, or one request could never be taken")
    return settings
