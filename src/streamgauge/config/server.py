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
from typing import Any

from streamgauge.config.rules import LENGTH, MAX_COUNT, SWITCH, build_int_rule, build_number_rule
from streamgauge.config.settings import ServerSettings
from streamgauge.config.toml_table import Rule, TomlTable

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


BUFFER_RULE = build_size_rule(2**32)
CONNECTIONS_RULE = build_int_rule(maximum=MAX_CONNECTIONS)
RELEASES_RULE = build_int_rule(minimum=0, maximum=MAX_ADHOC_RELEASES)
REQUESTS_RULE = build_int_rule(maximum=MAX_ADHOC_RELEASES)

SERVER_RULES: dict[str, Rule[Any]] = {
    "anonymous": SWITCH,
    "https": SWITCH,
    "publish_delay": LENGTH,
    "max_body": build_size_rule(MAX_BODY_BYTES),
    "max_buffer": BUFFER_RULE,
    "rate": build_number_rule("0.01", "1e6"),
    "max_reports": build_int_rule(maximum=MAX_REPORT_RECORDS),
    "max_streams": CONNECTIONS_RULE,
    "max_streams_per_client": CONNECTIONS_RULE,
    "max_downloads": CONNECTIONS_RULE,
    "max_downloads_per_client": CONNECTIONS_RULE,
    "hosts": Rule('names of hosts without a port, such as ["clinic.example"]', parse_hosts),
    "show_intruder": SWITCH,
}
ADHOC_RULES: dict[str, Rule[Any]] = {
    "max_groups": build_int_rule(maximum=MAX_COUNT),
    "max_active": RELEASES_RULE,
    "max_active_per_analyst": RELEASES_RULE,
    "max_total": RELEASES_RULE,
    "max_requests_per_minute": REQUESTS_RULE,
    "max_plans_per_minute": REQUESTS_RULE,
    "max_memory": BUFFER_RULE,
    "max_cpu_ms": build_int_rule(minimum=0, maximum=MAX_COUNT),
}


def parse_server(top: TomlTable) -> ServerSettings:
    """Return the server settings of a pipeline file, with defaults for the rest."""
    if "server" not in top:
        return ServerSettings()
    table = top.get_table("server", (*SERVER_RULES, "adhoc"))
    given = {key: table.get_required(key, rule) for key, rule in SERVER_RULES.items() if key in table}
    if "rate" in given:
        given["rate"] = float(given["rate"])
    if "adhoc" in table:
        limits = table.get_table("adhoc", ADHOC_RULES)
        given |= {f"adhoc_{key}": limits.get_required(key, ADHOC_RULES[key]) for key in ADHOC_RULES if key in limits}
    settings = ServerSettings(**given)
    if settings.max_buffer < settings.max_body:
        raise table.build_error("max_buffer", "at least max_body, or one request could never be taken")
    return settings
