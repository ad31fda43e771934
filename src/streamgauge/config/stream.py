"""[stream]: the source, time, unit and budget of the events.

    key                default
    mode               "batch"; standard input must say; "streaming" if events are sent to the server
    format             by the suffix of the source; "jsonl" if events are sent to the server
    time_format        "iso"
    timezone           "UTC"
    allowed_lateness   nothing: a tick closes at its end
    allowed_earliness  one tick: clocks that run ahead by less lose nothing; nothing with pan_private = true
    late               "drop"
    end                the stream continues; a batch must say
    adjacency          "add_remove"; "replace" (an event is replaced by another, at any time)
    time               required, unless records are reports of devices (see below)
    pan_private        false: memory is exact, and encrypted on disk (for true see below)
    weight             every event counts once; else the column that is +1 or -1 (see below)

Nothing else has a default: the curator must declare the unit of privacy (`unit`) and its total loss (`budget`).

**pan_private = true** restricts a stream and its releases, because memory must be private too.

    mode               "streaming"          a batch is an exact memory already
    source             "http" or "-"        so is a file that can be read again, and a position in it; a source of
                                            another package must declare that it stores nothing
    allowed_lateness   nothing              one tick is open at a time: its sums rest under noise, in one register
    allowed_earliness  nothing              each
    unit               "event", w_event     every release is a counter whose ticks are open (`continual`)
                       { user = ... }       without bounds, which would need a memory: releases are estimates
                                            from the tables of `panprivate`

`reserved_intrusions` is the number of announced intrusions that the plan reserves. It applies to tables, because each
intrusion spends of their loss. Counters survive any number, and reserve none.

**weight = "change"**: a stream whose events may be taken back. The column must be declared with `values = [-1, 1]`. Any
other value is dropped from every count, by its record alone, and counted for the curator as an undeclared value.

    COUNT(*), COUNT(x)    sum of the weights
    SUM(x)                sum of x times the weight
    COUNT(DISTINCT x)     values whose weights add up to more than 0; each comes or leaves `max_changes` times at most
    APPROX_FREQUENCY(x, "item")   sum of the weights of events whose x is the item
    others                refused

**source = "reports"**: records that devices send, with columns that were made private on the device.

    allow_reports_from = "anyone"      no token: any device, or page of another site, may send (`server.routes.reports`)
    allow_reports_from = "sender"      a gateway with a sender's token sends for them
    allow_reports_from = "curator"     a gateway with a curator's token sends for them

Devices' clocks are not used: a record's time is its arrival. So nothing is late, and the server's clock alone
decides the tick. A record that arrived as its tick closed counts in the next.

Privacy
    Neighbours: streams that differ in the content of *one* record (unit = "report"). That it came, when, and which
    of its columns it has, is public: participation is not protected. A column of reports has lost its epsilon
    before anyone read it. Releases protect the content of other columns, as for any stream.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, Literal
from zoneinfo import available_timezones

from streamgauge.config.columns import parse_columns
from streamgauge.config.endpoints import (
    SOURCES,
    Format,
    SourceFacts,
    check_url,
    find_source_kind,
    is_url,
    load_facts,
    parse_options,
)
from streamgauge.config.errors import InvalidReleaseError, PipelineFileError
from streamgauge.config.mechanism import AUTO
from streamgauge.config.paths import find_compression, find_format
from streamgauge.config.rules import (
    COLUMN,
    DAY,
    DELTA,
    DURATION,
    EPSILON,
    HOUR,
    IDENTIFIER,
    LENGTH,
    MAX_COUNT,
    MINUTE,
    PATH,
    SECOND,
    SWITCH,
    WEEK,
    ZONE_RULE,
    build_choice_rule,
    build_instant_rule,
    build_int_rule,
    count_ticks,
    format_duration,
    is_line,
    parse_duration,
)
from streamgauge.config.settings import Column, Release, Stream
from streamgauge.config.toml_table import Rule, TomlTable, join_key
from streamgauge.privacy import Approx, Event, Loss, Pure, Tick, Unit, User, WEvent, XAdjacent, Zcdp

PAN_PRIVATE_CLAUSE = "with pan_private = true"
OPEN_COUNTERS = ("Hybrid", "Kary", "SimpleII", "TwoPart", "WindowSum")
MAX_INTRUSIONS = 1000


def is_pan_private(table: TomlTable) -> bool:
    """Return whether the whole pipeline is pan-private."""
    return table.get_optional("pan_private", SWITCH, False)


def parse_pan_private(table: TomlTable, source: dict[str, Any], unit: Unit, facts: SourceFacts) -> dict[str, Any]:
    """Return the settings that pan-privacy determines; reject incompatible ones."""
    if not is_pan_private(table):
        if "reserved_intrusions" in table:
            raise table.build_error("reserved_intrusions", "left out unless pan_private = true", got="some")
        return {}
    _check_pan_private_source(table, source, facts)
    for name in ("allowed_lateness", "allowed_earliness"):
        if length := table.get_optional(name, DURATION, 0):
            rule = f'"0s" {PAN_PRIVATE_CLAUSE} (one tick is open at a time)'
            raise table.build_error(name, rule, got=f'"{format_duration(length)}"')
    reserved = table.get_optional("reserved_intrusions", build_int_rule(minimum=0, maximum=MAX_INTRUSIONS), 0)
    if reserved and not isinstance(unit, XAdjacent):
        rule = "left out unless unit = { user = ... } (counters survive any number)"
        raise table.build_error("reserved_intrusions", rule, got=str(reserved))
    return {"pan_private": True, "allowed_earliness": 0, "reserved_intrusions": reserved}


def _check_pan_private_source(table: TomlTable, source: dict[str, Any], facts: SourceFacts) -> None:
    if not facts.supports_pan_private:
        rule = f'"http" or "-" {PAN_PRIVATE_CLAUSE} (what can be read again is an exact memory)'
        raise table.build_error("source", rule, got="a file or folder" if facts.is_path else "another source")
    if source["mode"] != "streaming":
        rule = f'"streaming" {PAN_PRIVATE_CLAUSE} (all of a batch would be held exactly)'
        raise table.build_error("mode", rule, got=f'"{source["mode"]}"')


def check_pan_private_release(release: Release, stream: Stream) -> None:
    """Reject a release whose memory could not be private in the middle of a tick."""
    if not stream.pan_private or isinstance(stream.unit, XAdjacent):
        return
    if release.window.startswith("decayed"):
        raise InvalidReleaseError(
            f'window must be "running", "each" or "sliding ..." {PAN_PRIVATE_CLAUSE}, got a decayed one'
        )
    if release.mechanism not in (AUTO, *OPEN_COUNTERS):
        known = ", ".join(f'"{name}"' for name in OPEN_COUNTERS)
        raise InvalidReleaseError(
            f'mechanism must be "{AUTO}" or one of {known} {PAN_PRIVATE_CLAUSE}, got "{release.mechanism}"'
        )


ARRIVAL_COLUMN = "arrived"  # column that the server writes
SENDERS_RULE: Rule[Literal["anyone", "sender", "curator"]] = build_choice_rule("anyone", "sender", "curator")
ARRIVAL_HINT = "a report's time is when it arrived"
UNSUPPORTED_KEYS = dict.fromkeys(("time", "time_format", "allowed_lateness", "allowed_earliness", "late"), ARRIVAL_HINT)
UNSUPPORTED_KEYS["pan_private"] = "reports are private already, and sums of other columns are kept exactly"


REPORTS = "reports"  # the name of the source, for messages


def load_source_facts(stream: TomlTable, plugins: tuple[str, ...]) -> SourceFacts:
    """Return the facts about the source's kind."""
    check_url(stream, "source", SOURCES)
    kind = find_source_kind(stream.get_required("source", PATH))
    facts: SourceFacts = load_facts(SOURCES, kind, plugins, stream.key_path("source"))
    return facts


def parse_report_source(stream: TomlTable) -> dict[str, Any]:
    """Return the settings of a stream of reports; reject those that arrival decides."""
    for key, why in UNSUPPORTED_KEYS.items():
        if key in stream:
            raise stream.build_error(key, f'left out where source = "{REPORTS}" ({why})', got="one")
    return {"allow_reports_from": stream.get_required("allow_reports_from", SENDERS_RULE)}


def check_no_reports(stream: TomlTable, facts: SourceFacts) -> None:
    """Reject columns of reports and `allow_reports_from` for a source without reports.

    This check precedes the requirements of any other source.
    """
    if facts.has_reports:
        return
    for name, column in stream.get_tables("columns").items():
        if isinstance(column, Mapping) and "report" in column:
            where = join_key(stream.key_path("columns"), name)
            raise stream.build_error("source", f'"{REPORTS}" where a column has reports ({where})', (REPORTS,))
    if "allow_reports_from" in stream:
        raise stream.build_error("allow_reports_from", f'left out unless source = "{REPORTS}"', got="some")


USER_KEYS = ("user", "max_events_per_tick", "max_ticks", "per", "renewal", "max_users")
UNIT_KEYS = (*USER_KEYS, "w_event", "tick")
ADJACENCY_RULE: Rule[Literal["add_remove", "replace"]] = build_choice_rule("add_remove", "replace")
BUDGET_KEYS = ("epsilon", "delta", "rho")
REPORT_UNIT = "report"
UNIT_FORMS = '"event", { user = ..., max_events_per_tick = ..., max_ticks = ... }, { w_event = ... } or { tick = ... }'
USER_KEYS_REASON = "of users only: add user = ..., the column that names them"
BUDGET_FORMS = "{ epsilon }, { epsilon, delta } or { rho }"
BUDGET_EXAMPLES = "a table such as { epsilon = 1 }, { epsilon = 1, delta = 1e-6 } or { rho = 0.05 }"
TICK_NAMES = {SECOND: "a second", MINUTE: "a minute", HOUR: "an hour", DAY: "a day", WEEK: "a week"}
NOT_COUNTED_NOTE = "events beyond that are not counted, and the band does not include that"


@dataclass(frozen=True)
class ProtectedUnit:
    """Unit of privacy and, if it is a person, the column that names people."""

    unit: Unit
    user: str | None = None
    max_users: int | None = None


def parse_unit(stream: TomlTable, tick: int, facts: SourceFacts) -> ProtectedUnit:
    """Return the unit that the stream protects. There is no default."""
    value = stream.entries.get("unit")
    if facts.has_reports or value == REPORT_UNIT:
        return _parse_report_unit(stream, value, facts)
    if value == "event":
        return ProtectedUnit(Event())
    if not isinstance(value, Mapping):
        raise stream.build_error("unit", UNIT_FORMS, ("event",))
    unit = stream.get_table("unit", UNIT_KEYS)
    kinds = [key for key in ("user", "w_event", "tick") if key in unit]
    renewing = [key for key in ("per", "renewal") if key in unit]
    if renewing and "user" not in unit:
        raise PipelineFileError(f"{unit.path}.{renewing[0]} must be {USER_KEYS_REASON}, got {_format_keys(unit)}")
    if len(kinds) != 1 or (kinds != ["user"] and len(unit.entries) > 1):
        raise PipelineFileError(f"{unit.path} must be {UNIT_FORMS}, got {_format_keys(unit)}")
    if "w_event" in unit:
        return _parse_w_event(unit, tick)
    if "tick" in unit:
        return _parse_tick(stream, unit)
    return _parse_unbounded_user(unit) if is_pan_private(stream) else _parse_user(unit, tick)


def _parse_adjacency(stream: TomlTable, who: ProtectedUnit) -> ProtectedUnit:
    """Return the unit, of which one is replaced by another if the file says so."""
    if stream.get_optional("adjacency", ADJACENCY_RULE, "add_remove") == "add_remove":
        return who
    if who.unit != Event():
        rule = 'left out unless unit = "event" (its presence is what a unit of several events hides)'
        raise stream.build_error("adjacency", rule, got='"replace"')
    return ProtectedUnit(Event(replace=True, moves=True))


def _parse_report_unit(stream: TomlTable, value: Any, facts: SourceFacts) -> ProtectedUnit:
    """Return the unit of one report: its content is protected, its arrival is public."""
    if not facts.has_reports:
        raise stream.build_error("source", f'"{REPORTS}" where unit = "{REPORT_UNIT}"')
    if value != REPORT_UNIT:
        raise stream.build_error("unit", f'"{REPORT_UNIT}" where source = "{REPORTS}"')
    return ProtectedUnit(Event(replace=True))


def _build_tick_count_rule(tick: int) -> Rule[int]:
    def parse(value: Any) -> int | None:
        length = parse_duration(value)
        return build_int_rule().parse(value) if length is None else count_ticks(length, tick) or None

    return Rule("a number of ticks, or a duration that is a whole number of them", parse)


def _parse_w_event(unit: TomlTable, tick: int) -> ProtectedUnit:
    return ProtectedUnit(WEvent(unit.get_required("w_event", _build_tick_count_rule(tick))))


def _parse_tick(stream: TomlTable, unit: TomlTable) -> ProtectedUnit:
    """Return the unit of all events of a tick, whose number must be known while it is open."""
    if is_pan_private(stream):
        rule = f'"event" or {{ w_event = ... }} {PAN_PRIVATE_CLAUSE} (events of an open tick would be counted exactly)'
        raise stream.build_error("unit", rule, got="{ tick }")
    return ProtectedUnit(Tick(unit.get_required("tick", build_int_rule())))


def _parse_user(unit: TomlTable, tick: int) -> ProtectedUnit:
    max_users = unit.get_optional("max_users", build_int_rule(maximum=MAX_COUNT))
    events = unit.get_required("max_events_per_tick", build_int_rule())
    if "per" not in unit:
        if "renewal" in unit:
            raise unit.build_error("renewal", "left out without per (contributions that do not renew)", got="one")
        return ProtectedUnit(
            User(events, unit.get_required("max_ticks", build_int_rule())), unit.get_required("user", COLUMN), max_users
        )
    rule = _build_tick_count_rule(tick)
    per = unit.get_required("per", rule)
    renewal = unit.get_optional("renewal", rule, per)
    most = unit.get_optional("max_ticks", build_int_rule(), per)
    if per % renewal:
        raise unit.build_error("renewal", "a duration that divides per", got=f"{renewal:,} of {per:,} ticks")
    if most > per:
        raise unit.build_error("max_ticks", f"at most the {per:,} ticks of per", got=f"{most:,}")
    if most % (per // renewal):
        each = f"a multiple of {per // renewal:,}, so that each renewal has as many ticks"
        raise unit.build_error("max_ticks", each, got=f"{most:,}")
    return ProtectedUnit(User(events, most, per=per, renewal=renewal), unit.get_required("user", COLUMN), max_users)


def _parse_unbounded_user(unit: TomlTable) -> ProtectedUnit:
    """Return a user without bounds, for tables that need no memory of users."""
    for key in USER_KEYS[1:]:
        if key in unit:
            rule = f"left out {PAN_PRIVATE_CLAUSE} (bounds take an exact memory of users)"
            raise unit.build_error(key, rule, got="one")
    return ProtectedUnit(XAdjacent(), unit.get_required("user", COLUMN))


def parse_budget(stream: TomlTable) -> Loss:
    """Return the total loss of one unit, in the currency of its declaration."""
    if not isinstance(stream.entries.get("budget"), Mapping):
        raise stream.build_error("budget", BUDGET_EXAMPLES)
    budget = stream.get_table("budget", BUDGET_KEYS)
    if "rho" in budget and len(budget.entries) == 1:
        return Zcdp(budget.get_required("rho", EPSILON))
    if "rho" in budget or "epsilon" not in budget:
        raise PipelineFileError(f"{budget.path} must be {BUDGET_FORMS}, got {_format_keys(budget)}")
    epsilon = budget.get_required("epsilon", EPSILON)
    return Approx(epsilon, budget.get_required("delta", DELTA)) if "delta" in budget else Pure(epsilon)


def describe_contributions(stream: Stream) -> str:
    """Return which events of a user or a tick count, or an empty text for other units."""
    unit = stream.unit
    if not isinstance(unit, User | Tick):
        return ""
    each, several = _describe_ticks(stream.tick, unit.ticks_per_block)
    events = f"{unit.events:,} event" + ("s" if unit.events > 1 else "")
    if isinstance(unit, Tick):
        return f"at most {events} {each}, of all people together; {NOT_COUNTED_NOTE}"
    if unit.consecutive:
        return f"at most {events} {each} for each {stream.user}; {NOT_COUNTED_NOTE}"
    block = "" if unit.block_ticks is None else f" of each {_format_span(unit.block_ticks * stream.tick)}"
    return f"at most {events} {each} and {several}{block} for each {stream.user}; {NOT_COUNTED_NOTE}"


def describe_renewal(stream: Stream) -> str:
    """Return which promise renews, and which ticks it is charged for; an empty text for other units."""
    unit = stream.unit
    if not isinstance(unit, User) or unit.per is None or unit.renewal is None:
        return ""
    window = _format_span(unit.per * stream.tick)
    text = f"a {stream.user} over any {window}, charged as {unit.ticks:,} ticks"
    finest = unit.per // gcd(unit.ticks_per_block * (unit.per // unit.renewal), unit.per)
    if not unit.consecutive and finest < unit.renewal:
        finer = User(unit.events, unit.max_ticks, per=unit.per, renewal=finest)
        text += f' (renewal = "{_format_span(finest * stream.tick)}" would be charged as {finer.ticks:,})'
    return f"{text}; n times {window} lose n times the epsilon, or n^2 times the rho"


def _format_span(length: int) -> str:
    """Return a duration in days where it is a whole number of them."""
    return f"{length // DAY}d" if length % DAY == 0 else format_duration(length)


def _describe_ticks(tick: int, count: int) -> tuple[str, str]:
    """Return one tick and several of them in words.

    >>> _describe_ticks(HOUR, 60), _describe_ticks(6 * HOUR, 1)
    (('an hour', '60 hours'), ('in 6h', '1 tick of 6h'))
    """
    plural = "" if count == 1 else "s"
    if tick in TICK_NAMES:
        return TICK_NAMES[tick], f"{count:,} {TICK_NAMES[tick].split()[1]}{plural}"
    return f"in {format_duration(tick)}", f"{count:,} tick{plural} of {format_duration(tick)}"


def describe_assumption(stream: Stream) -> str:
    """Return the assumption about people that the budget rests on, or an empty text."""
    believed = "if a person has at most one event a tick, which is not checked"
    return believed if isinstance(stream.unit, WEvent) else ""


def _format_keys(table: TomlTable) -> str:
    return f"{{ {', '.join(table)} }}" if table.entries else "{ }"


STREAM_KEYS = (
    *("name", "source", "mode", "format", "time", "time_format", "timezone", "tick", "start", "end"),
    *("allowed_lateness", "allowed_earliness", "late", "unit", "adjacency", "budget", "key", "store", "columns"),
    *("pan_private", "reserved_intrusions", "allow_reports_from", "options", "weight"),
)
STORE_URL = re.compile(r"[a-z][a-z0-9+.-]*://(?:[^/?#@:]*@)?[^@]*")
FORMAT_RULE: Rule[Format] = build_choice_rule("jsonl", "csv", "parquet")
MODE_RULE: Rule[Literal["batch", "streaming"]] = build_choice_rule("batch", "streaming")
TIME_FORMAT_RULE = build_choice_rule("iso", "epoch s", "epoch ms", "epoch us", "epoch ns")
LATE_RULE: Rule[Literal["drop", "next_tick"]] = build_choice_rule("drop", "next_tick")


def _parse_key(value: Any) -> str | None:
    kind, _, rest = value.partition(":") if is_line(value, 4096) else ("", "", "")
    return value if kind in ("file", "env", "command") and rest.strip() else None


def _parse_key_location(table: TomlTable) -> str | None:
    """Return the place of the key. A bad one is never shown: it may be the key itself."""
    key = _parse_key(table.entries.get("key"))
    if key is None and "key" in table:
        raise table.build_error("key", '"file:PATH", "env:NAME" or "command:..."', got="none of them")
    return key


def _parse_store(table: TomlTable) -> str | None:
    """Return the URL of the store, never shown: it may have a password by mistake."""
    url = table.entries.get("store")
    if url is None:
        return None
    if not is_line(url, 4096) or not STORE_URL.fullmatch(url):
        raise table.build_error("store", "a URL without a password", got="something else")
    return str(url)


def parse_stream(top: TomlTable, plugins: tuple[str, ...] = ()) -> Stream:
    """Return the stream of a pipeline file. `plugins` are the allowed packages."""
    table = top.get_table("stream", STREAM_KEYS)
    name = table.get_required("name", IDENTIFIER)
    tick = table.get_required("tick", LENGTH)
    facts = load_source_facts(table, plugins)
    who = _parse_adjacency(table, parse_unit(table, tick, facts))
    check_no_reports(table, facts)
    time = ARRIVAL_COLUMN if facts.has_reports else table.get_required("time", COLUMN)
    if who.user == time:
        raise PipelineFileError(f"{table.key_path('unit')}.user must be another column than the time, got {time}")
    reserved = {"time": time} | ({"user": who.user} if who.user else {})
    _check_late(table, who.unit)
    source = _parse_source(table, facts)
    private = parse_pan_private(table, source, who.unit, facts)
    columns = parse_columns(table, reserved)
    return Stream(
        name=name,
        **source,
        time=time,
        **_parse_clock(table, tick, source["mode"], facts),
        tick=tick,
        allowed_lateness=table.get_optional("allowed_lateness", DURATION, 0),
        **{"allowed_earliness": table.get_optional("allowed_earliness", DURATION, tick), **private},
        late=table.get_optional("late", LATE_RULE, "next_tick" if facts.has_reports else "drop"),
        unit=who.unit,
        user=who.user,
        max_users=who.max_users,
        budget=parse_budget(table),
        key=_parse_key_location(table),
        columns=columns,
        weight=_parse_weight(table, columns, facts),
        store=_parse_store(table),
        options=parse_options(table, facts),
        plugins=plugins,
    )


def _check_late(table: TomlTable, unit: Unit) -> None:
    """Reject carried events where the unit is all events of some ticks: they would count in other ticks."""
    if table.entries.get("late") != "next_tick":
        return
    if isinstance(unit, WEvent):
        rule = '"drop" under a w-event unit (events of several ticks would be carried into one)'
        raise table.build_error("late", rule, got='"next_tick"')
    if isinstance(unit, Tick) or (isinstance(unit, User) and unit.per is not None):
        what = "unit = { tick = ... }" if isinstance(unit, Tick) else "unit = { ..., per = ... }"
        rule = f'"drop" with {what} (late events of one unit would count in any number of later ticks)'
        raise table.build_error("late", rule, got='"next_tick"')


def _parse_weight(table: TomlTable, columns: Mapping[str, Column], facts: SourceFacts) -> str | None:
    """Return the column of weights; reject one that could have other values than +1 and -1."""
    if "weight" not in table:
        for other in (each.name for each in columns.values() if each.max_changes is not None):
            where = join_key(table.key_path("columns"), other)
            raise PipelineFileError(f"{where}.max_changes must be left out unless the stream has a weight, got one")
        return None
    where, name = table.key_path("weight"), table.get_required("weight", COLUMN)
    for unfit, words in (
        (is_pan_private(table), f"{PAN_PRIVATE_CLAUSE} (what is taken back is remembered exactly)"),
        (facts.has_reports, f'where source = "{REPORTS}"'),
    ):
        if unfit:
            raise PipelineFileError(f"{where} must be left out {words}, got {name}")
    column = columns.get(name)
    if column is None or column.kind != "number" or {*(column.values or ())} != {-1, 1}:
        raise PipelineFileError(f"{where} must be a column that is declared with values = [-1, 1], got {name}")
    return name


def _parse_source(table: TomlTable, facts: SourceFacts) -> dict[str, Any]:
    source = table.get_required("source", PATH)
    mode_rule, format_rule = build_choice_rule(*facts.modes), build_choice_rule(*facts.formats)
    if facts.default_mode is None and "mode" not in table:
        described = "this source" if is_url(source) else "standard input"
        raise table.build_error("mode", f"{MODE_RULE.words} for {described}")
    mode = table.get_optional("mode", mode_rule, facts.default_mode or facts.modes[0])
    known = find_format(source) if facts.is_path else None
    if known is None and len(facts.formats) == 1:
        known = facts.formats[0]
    if known is None:
        format = table.get_required("format", FORMAT_RULE)
    else:
        format = table.get_optional("format", FORMAT_RULE if facts.is_path else format_rule, known)
    compression = find_compression(source) if facts.is_path else None
    if format not in facts.formats or (
        facts.is_path and format == "parquet" and (compression or (known and mode == "streaming"))
    ):
        raise table.build_error("format", '"jsonl" or "csv" for this source', got=f'"{format}"')
    reports = parse_report_source(table) if facts.has_reports else {}
    return {"source": source, "mode": mode, "format": format, "compression": compression, **reports}


def _parse_clock(table: TomlTable, tick: int, mode: str, facts: SourceFacts) -> dict[str, Any]:
    zone = _parse_zone(table)
    start = table.get_required("start", build_instant_rule(zone))
    end = table.get_optional("end", build_instant_rule(zone))
    if end is None and mode == "batch":
        raise table.build_error("end", "given for a batch source: an instant")
    if end is not None and end <= start:
        raise table.build_error("end", "after the start")
    if end is not None and count_ticks(end - start, tick) is None:
        raise table.build_error("end", f"the start plus a whole number of ticks of {format_duration(tick)}")
    time_format = table.get_optional("time_format", TIME_FORMAT_RULE, "epoch us" if facts.has_reports else "iso")
    return {"timezone": zone, "start": start, "end": end, "time_format": time_format}


def _parse_zone(table: TomlTable) -> str:
    zone = table.entries.get("timezone", "UTC")
    if ZONE_RULE.parse(zone) is None:
        raise table.build_error("timezone", ZONE_RULE.words, available_timezones())
    return str(zone)
