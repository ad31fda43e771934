"""[stream]: the events, where they come from, when they happened, whom they are about.

    left out       means
    arrival        "finished"; standard input must say; "live" where events are sent to the server
    format         what the suffix of the source says; "jsonl" where events are sent
    time_format    "iso"
    timezone       "UTC"
    lateness       nothing: a tick closes at its end
    earliness      one tick: clocks that run ahead by less lose nothing; nothing with pan_private = true
    late           "drop"
    end            the stream goes on; a finished one must say
    time           nothing, unless records are reports of devices (`report_stream`)
    pan_private    false: memory is exact, and encrypted on disk (see `pan_private` for what true takes)

Nothing else has a default: the unit of privacy and the budget are the curator's to say.
"""

from typing import Any, Literal
from zoneinfo import available_timezones

from streamgauge.privacy import WEvent
from streamgauge.query.columns import columns_of
from streamgauge.query.durations import spelled, ticks_of
from streamgauge.query.formats import HTTP, REPORTS, STANDARD, Format, compression_of, format_of
from streamgauge.query.instants import ZONE, instant
from streamgauge.query.pan_private import private_settings
from streamgauge.query.promises import budget_of, protected
from streamgauge.query.report_stream import ARRIVED, check_source, is_reported, reported
from streamgauge.query.settings import Stream
from streamgauge.query.toml_keys import BadFile, Rule, Table
from streamgauge.query.toml_rules import COLUMN, DURATION, IDENTIFIER, LENGTH, PATH, is_line, one_of

STREAM_KEYS = (
    *("name", "source", "arrival", "format", "time", "time_format", "timezone", "tick", "start", "end"),
    *("lateness", "earliness", "late", "unit", "budget", "key", "columns", "pan_private", "intrusions"),
    "senders",
)
FORMAT: Rule[Format] = one_of("jsonl", "csv", "parquet")
ARRIVAL: Rule[Literal["finished", "live"]] = one_of("finished", "live")
TIME_FORMAT = one_of("iso", "epoch s", "epoch ms", "epoch us", "epoch ns")
LATE: Rule[Literal["drop", "carry"]] = one_of("drop", "carry")


def _key(value: Any) -> str | None:
    kind, _, rest = value.partition(":") if is_line(value, 4096) else ("", "", "")
    return value if kind in ("file", "env", "command") and rest.strip() else None


def _key_named(table: Table) -> str | None:
    """Where the key is. What it is not is never shown: it may be the key itself."""
    key = _key(table.entries.get("key"))
    if key is None and "key" in table:
        raise BadFile(f'{table.at("key")} must be "file:PATH", "env:NAME" or "command:...", got none of them')
    return key


def stream_of(top: Table) -> Stream:
    """The stream of a pipeline file."""
    table = top.table("stream", STREAM_KEYS)
    name = table.required("name", IDENTIFIER)
    tick = table.required("tick", LENGTH)
    who = protected(table, tick)
    check_source(table)
    time = ARRIVED if is_reported(table) else table.required("time", COLUMN)
    if who.user == time:
        raise BadFile(f"{table.at('unit')}.user must be another column than the time, got {time}")
    reserved = {"time": time} | ({"user": who.user} if who.user else {})
    if table.entries.get("late") == "carry" and isinstance(who.unit, WEvent):
        why = "events of several ticks would be carried into one"
        raise BadFile(f'{table.at("late")} must be "drop" under a w-event unit ({why}), got "carry"')
    source = _source(table)
    private = private_settings(table, source, who.unit)
    columns = columns_of(table, reserved)
    return Stream(
        name=name,
        **source,
        time=time,
        **_clock(table, tick, source["arrival"]),
        tick=tick,
        lateness=table.optional("lateness", DURATION, 0),
        **{"earliness": table.optional("earliness", DURATION, tick), **private},
        late=table.optional("late", LATE, "carry" if is_reported(table) else "drop"),
        unit=who.unit,
        user=who.user,
        max_users=who.max_users,
        budget=budget_of(table),
        key=_key_named(table),
        columns=columns,
    )


def _source(table: Table) -> dict[str, Any]:
    source = table.required("source", PATH)
    if source == REPORTS:
        return _sent(table) | reported(table)
    if source == HTTP:
        return _sent(table)
    if source == STANDARD and "arrival" not in table:
        raise table.bad("arrival", f"{ARRIVAL.words} for standard input")
    arrival = table.optional("arrival", ARRIVAL, "finished")
    known = None if source == STANDARD else format_of(source)
    format = table.required("format", FORMAT) if known is None else table.optional("format", FORMAT, known)
    compression = None if source == STANDARD else compression_of(source)
    if format == "parquet" and (source == STANDARD or compression or (known and arrival == "live")):
        raise BadFile(f'{table.at("format")} must be "jsonl" or "csv" for this source, got "parquet"')
    return {"source": source, "arrival": arrival, "format": format, "compression": compression}


def _sent(table: Table) -> dict[str, Any]:
    """Events that are sent to the server: they go on, and come as lines of JSON whatever they are sent as."""
    arrival: Rule[Literal["live"]] = one_of("live")
    format: Rule[Literal["jsonl"]] = one_of("jsonl")
    return {
        "source": HTTP,
        "arrival": table.optional("arrival", arrival, "live"),
        "format": table.optional("format", format, "jsonl"),
        "compression": None,
    }


def _clock(table: Table, tick: int, arrival: str) -> dict[str, Any]:
    zone = _zone(table)
    start = table.required("start", instant(zone))
    end = table.optional("end", instant(zone))
    if end is None and arrival == "finished":
        raise table.bad("end", "given for a finished source: an instant")
    if end is not None and (end <= start or ticks_of(end - start, tick) is None):
        raise table.bad("end", f"the start plus a whole number of ticks of {spelled(tick)}")
    time_format = table.optional("time_format", TIME_FORMAT, "epoch us" if is_reported(table) else "iso")
    return {"timezone": zone, "start": start, "end": end, "time_format": time_format}


def _zone(table: Table) -> str:
    zone = table.entries.get("timezone", "UTC")
    if ZONE.parse(zone) is None:
        raise table.bad("timezone", ZONE.words, available_timezones())
    return str(zone)
