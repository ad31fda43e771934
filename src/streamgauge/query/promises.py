"""Whom a stream protects, and how much they may lose in all: `unit` and `budget`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from streamgauge.privacy import Approx, Event, Loss, Pure, Unit, User, WEvent, XAdjacent, Zcdp
from streamgauge.query.durations import microseconds, ticks_of
from streamgauge.query.formats import REPORTS
from streamgauge.query.pan_private import WITH, is_private
from streamgauge.query.report_stream import is_reported
from streamgauge.query.toml_keys import BadFile, Rule, Table
from streamgauge.query.toml_rules import COLUMN, DELTA, EPSILON, MOST, whole

USER_KEYS = ("user", "max_events_per_tick", "max_ticks", "max_users")
UNIT_KEYS = (*USER_KEYS, "w_event")
BUDGET_KEYS = ("epsilon", "delta", "rho")
REPORT = "report"
UNIT_FORMS = '"event", { user = ..., max_events_per_tick = ..., max_ticks = ... } or { w_event = ... }'
BUDGET_FORMS = "{ epsilon }, { epsilon, delta } or { rho }"


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


def _keys(table: Table) -> str:
    return f"{{ {', '.join(table)} }}" if table.entries else "{ }"
