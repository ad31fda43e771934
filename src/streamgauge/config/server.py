"""[server]: settings of `streamgauge serve`. All are optional and may change.

The curator may edit them between runs.

key                       default
anonymous                 readers need a token
https                     no TLS in front: cookies travel in the clear, as on loopback
publish_delay             "1s": late releases are published at its next multiple
max_body                  "8MB" of one request
max_buffer                "64MB" of events that are not committed yet
max_reports               64 records of one message, if anyone may send reports
rate                      50 requests a second of one client, and twice as many at once
max_streams               1000 connections that wait for releases
max_streams_per_client    20 of them
max_downloads             100 downloads of CSV or Arrow at a time
max_downloads_per_client  4 of them
show_intruder             the rehearsal of an intrusion is shown only if memory is pan-private
hosts                     any name if a proxy or other machines send requests, else localhost alone

[server.adhoc]: limits of releases that analysts request.

key                       default
max_groups                10000 groups of one release
max_active                200 active releases
max_active_per_analyst    50 of them
max_total                 500 releases that one analyst ever requests
max_requests_per_minute   30 of one analyst, ends too
max_plans_per_minute      60 of one analyst, requests too
max_memory                "64MB" of all active releases together
max_cpu_ms                200 units, about a millisecond each, that they add to a round
"""

import re
from fractions import Fraction
from typing import Any

from streamgauge.config.rules import LENGTH, MAX_COUNT, SWITCH, build_int_rule, build_number_rule
from streamgauge.config.settings import ServerSettings
from streamgauge.config.toml_table import Rule, TomlTable

SERVER_KEYS = (
    *("anonymous", "https", "publish_delay", "max_body", "max_buffer", "show_intruder"),
    *("rate", "max_streams", "max_streams_per_client", "hosts", "max_reports"),
    *("max_downloads", "max_downloads_per_client", "adhoc"),
)
ADHOC_KEYS = (
    *("max_groups", "max_active", "max_active_per_analyst", "max_total"),
    *("max_requests_per_minute", "max_plans_per_minute", "max_memory", "max_cpu_ms"),
)
SIZE_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
MAX_BODY_BYTES = 64 * 2**20  # bytes that an engine gets at once
MAX_CONNECTIONS = 100_000
MAX_ADHOC_RELEASES = 10_000
MAX_REPORT_RECORDS = 500_000  # of a message of reports, for every sender

_HOST_PATTERN = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_SIZE_PATTERN = re.compile(r"([1-9][0-9]{0,8}) ?([KMG]I?B)", re.IGNORECASE)


def parse_size(text: Any) -> int | None:
    """Return the bytes of a size, or None if it is not a size.

    >>> parse_size("8MB"), parse_size("1 MiB"), parse_size(8), parse_size("many MB")
    (8000000, 1048576, None, None)
    """
    match = _SIZE_PATTERN.fullmatch(text) if isinstance(text, str) else None
    return None if match is None else int(match[1]) * SIZE_UNITS[match[2].upper()]


def build_size_rule(most: int) -> Rule[int]:
    def parse(value: Any) -> int | None:
        found = parse_size(value)
        return found if found is not None and found <= most else None

    words = f'a size such as "8MB", at most {most // 2**20}MiB'
    return Rule(words, parse, bare_number_hint="a number alone has no unit")


def parse_hosts(value: Any) -> tuple[str, ...] | None:
    """Return names of hosts, in lower case.

    >>> parse_hosts(["Clinic.example"]), parse_hosts("clinic.example"), parse_hosts(["clinic.example:443"])
    (('clinic.example',), None, None)
    """
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        return None
    found = tuple(name.lower() for name in value)
    return found if found and all(len(name) < 254 and _HOST_PATTERN.fullmatch(name) for name in found) else None


HOSTS_RULE = Rule('names of hosts without a port, such as ["clinic.example"]', parse_hosts)
BODY_RULE = build_size_rule(MAX_BODY_BYTES)
BUFFER_RULE = build_size_rule(2**32)
RATE_RULE = build_number_rule("0.01", "1e6")
CONNECTIONS_RULE = build_int_rule(maximum=MAX_CONNECTIONS)
GROUPS_RULE = build_int_rule(maximum=MAX_COUNT)
CPU_RULE = build_int_rule(minimum=0, maximum=MAX_COUNT)
RELEASES_RULE = build_int_rule(minimum=0, maximum=MAX_ADHOC_RELEASES)
REQUESTS_RULE = build_int_rule(maximum=MAX_ADHOC_RELEASES)
RECORDS_RULE = build_int_rule(maximum=MAX_REPORT_RECORDS)


def parse_server(top: TomlTable) -> ServerSettings:
    """Return the server settings of a pipeline file, with defaults for the rest."""
    usual = ServerSettings()
    if "server" not in top:
        return usual
    table = top.get_table("server", SERVER_KEYS)
    settings = ServerSettings(
        anonymous=table.get_optional("anonymous", SWITCH, usual.anonymous),
        https=table.get_optional("https", SWITCH, usual.https),
        publish_delay=table.get_optional("publish_delay", LENGTH, usual.publish_delay),
        max_body=table.get_optional("max_body", BODY_RULE, usual.max_body),
        max_buffer=table.get_optional("max_buffer", BUFFER_RULE, usual.max_buffer),
        rate=float(table.get_optional("rate", RATE_RULE, Fraction(usual.rate))),
        max_reports=table.get_optional("max_reports", RECORDS_RULE, usual.max_reports),
        max_streams=table.get_optional("max_streams", CONNECTIONS_RULE, usual.max_streams),
        max_streams_per_client=table.get_optional(
            "max_streams_per_client", CONNECTIONS_RULE, usual.max_streams_per_client
        ),
        max_downloads=table.get_optional("max_downloads", CONNECTIONS_RULE, usual.max_downloads),
        max_downloads_per_client=table.get_optional(
            "max_downloads_per_client", CONNECTIONS_RULE, usual.max_downloads_per_client
        ),
        **_parse_adhoc_limits(table, usual),
        hosts=table.get_optional("hosts", HOSTS_RULE, usual.hosts),
        show_intruder=table.get_optional("show_intruder", SWITCH, usual.show_intruder),
    )
    if settings.max_buffer < settings.max_body:
        raise table.build_error("max_buffer", "at least max_body, or one request could never be taken")
    return settings


def _parse_adhoc_limits(server: TomlTable, usual: ServerSettings) -> dict[str, int]:
    """Return the limits of [server.adhoc], by their names in `ServerSettings`."""
    if "adhoc" not in server:
        return {}
    table = server.get_table("adhoc", ADHOC_KEYS)
    return {
        "adhoc_max_groups": table.get_optional("max_groups", GROUPS_RULE, usual.adhoc_max_groups),
        "adhoc_max_active": table.get_optional("max_active", RELEASES_RULE, usual.adhoc_max_active),
        "adhoc_max_active_per_analyst": table.get_optional(
            "max_active_per_analyst", RELEASES_RULE, usual.adhoc_max_active_per_analyst
        ),
        "adhoc_max_total": table.get_optional("max_total", RELEASES_RULE, usual.adhoc_max_total),
        "adhoc_max_requests_per_minute": table.get_optional(
            "max_requests_per_minute", REQUESTS_RULE, usual.adhoc_max_requests_per_minute
        ),
        "adhoc_max_plans_per_minute": table.get_optional(
            "max_plans_per_minute", REQUESTS_RULE, usual.adhoc_max_plans_per_minute
        ),
        "adhoc_max_memory": table.get_optional("max_memory", BUFFER_RULE, usual.adhoc_max_memory),
        "adhoc_max_cpu_ms": table.get_optional("max_cpu_ms", CPU_RULE, usual.adhoc_max_cpu_ms),
    }
