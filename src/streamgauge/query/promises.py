"""Whom a stream protects, and how much they may lose in all: `unit` and `budget`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamgauge.privacy import Approx, Event, Loss, Pure, Unit, User, WEvent, XAdjacent, Zcdp
from streamgauge.query.durations import DAY, HOUR, MINUTE, SECOND, WEEK, microseconds, spelled, ticks_of
from streamgauge.query.formats import REPORTS
from streamgauge.query.pan_private import WITH, is_private
from streamgauge.query.report_stream import is_reported
from streamgauge.query.settings import Stream
from streamgauge.query.toml_keys import BadFile, Rule, Table
from streamgauge.query.toml_rules import COLUMN, DELTA, EPSILON, MOST, whole

USER_KEYS = ("user", "max_events_per_tick", "max_ticks", "max_users")
UNIT_KEYS = (*USER_KEYS, "w_event")
BUDGET_KEYS = ("epsilon", "delta", "rho")
REPORT = "report"
UNIT_FORMS = '"event", { user = ..., max_events_per_tick = ..., max_ticks = ... } or { w_event = ... }'
BUDGET_FORMS = "{ epsilon }, { epsilon, delta } or { rho }"
TICK_NAMES = {SECOND: "a second", MINUTE: "a minute", HOUR: "an hour", DAY: "a day", WEEK: "a week"}
NOT_COUNTED = "events beyond that are not counted, and the band does not include that"


@dataclass(frozen=True)
class Protected:
    """The unit of privacy and, where it is a person, the column that names people."""

    unit: Unit
    user: str | None = None
    max_users: int | None = None


def protected(stream: Table, tick: int) -> Protected:
    """Whom the stream protects. It must be said: there is no default."""
    value = stream.entries.get("unit")
    if is_reported(stream) or value == REPORT:
        return _report(stream, value)
    if value == "event":
        return Protected(Event())
    if not isinstance(value, Mapping):
        raise stream.bad("unit", UNIT_FORMS, ("event",))
    unit = stream.table("unit", UNIT_KEYS)
    if ("w_event" in unit) == ("user" in unit) or ("w_event" in unit and len(unit.entries) > 1):
        raise BadFile(f"{unit.where} must be {UNIT_FORMS}, got {_keys(unit)}")
    if "w_event" in unit:
        return _window(unit, tick)
    return _unbounded(unit) if is_private(stream) else _user(unit)


def _report(stream: Table, value: Any) -> Protected:
    """What one report says; that it came, and when, is public."""
    if not is_reported(stream):
        raise stream.bad("source", f'"{REPORTS}" where unit = "{REPORT}"')
    if value != REPORT:
        raise stream.bad("unit", f'"{REPORT}" where source = "{REPORTS}"')
    return Protected(Event(replace=True))


def _window(unit: Table, tick: int) -> Protected:
    def parse(value: Any) -> int | None:
        length = microseconds(value)
        return whole().parse(value) if length is None else ticks_of(length, tick)

    rule = Rule("a number of ticks, or a duration that is a whole number of them", parse)
    return Protected(WEvent(unit.required("w_event", rule)))


def _user(unit: Table) -> Protected:
    bounds = User(unit.required("max_events_per_tick", whole()), unit.required("max_ticks", whole()))
    max_users = unit.optional("max_users", whole(most=MOST))
    return Protected(bounds, unit.required("user", COLUMN), max_users)


def _unbounded(unit: Table) -> Protected:
    """A user, however often: for tables that need no bound, and so no memory of users."""
    for key in USER_KEYS[1:]:
        if key in unit:
            why = "bounds take an exact memory of users"
            raise BadFile(f"{unit.at(key)} must be left out {WITH} ({why}), got one")
    return Protected(XAdjacent(), unit.required("user", COLUMN))


def budget_of(stream: Table) -> Loss:
    """What one unit may lose in all, in the currency that it is declared in."""
    budget = stream.table("budget", BUDGET_KEYS)
    if "rho" in budget and len(budget.entries) == 1:
        return Zcdp(budget.required("rho", EPSILON))
    if "rho" in budget or "epsilon" not in budget:
        raise BadFile(f"{budget.where} must be {BUDGET_FORMS}, got {_keys(budget)}")
    epsilon = budget.required("epsilon", EPSILON)
    return Approx(epsilon, budget.required("delta", DELTA)) if "delta" in budget else Pure(epsilon)


def describe_contributions(stream: Stream) -> str:
    """Return which events of a user count, if others are dropped; an empty text for other units."""
    unit = stream.unit
    if not isinstance(unit, User):
        return ""
    each, several = _tick_words(stream.tick, unit.max_ticks)
    events = f"{unit.max_events_per_tick:,} event" + ("s" if unit.max_events_per_tick > 1 else "")
    return f"at most {events} {each} and {several} for each {stream.user}; {NOT_COUNTED}"


def _tick_words(tick: int, count: int) -> tuple[str, str]:
    """Return one tick and several of them in words.

    >>> _tick_words(HOUR, 60), _tick_words(6 * HOUR, 1)
    (('an hour', '60 hours'), ('in 6h', '1 tick of 6h'))
    """
    plural = "" if count == 1 else "s"
    if tick in TICK_NAMES:
        return TICK_NAMES[tick], f"{count:,} {TICK_NAMES[tick].split()[1]}{plural}"
    return f"in {spelled(tick)}", f"{count:,} tick{plural} of {spelled(tick)}"


def describe_assumption(stream: Stream) -> str:
    """Return what the budget takes for granted of people; an empty text if nothing."""
    believed = "if a person has at most one event a tick, which is not checked"
    return believed if isinstance(stream.unit, WEvent) else ""


def _keys(table: Table) -> str:
    return f"{{ {', '.join(table)} }}" if table.entries else "{ }"
