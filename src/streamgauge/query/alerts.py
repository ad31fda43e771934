"""Alerts of a release: whether what it publishes jumps, drops, is low, or reaches a threshold.

    alerts = { kind = "jump", size = 20, window = "1h" }

An alert is one more measure of its release, in every sink, page and reply: `count_jump` is 1 where it alerts
and 0 where it does not, of every group at every tick. It has no standard error and no bounds, for it is what
became of published numbers; until it has seen its window there is not `enough` to go on.

Privacy
    None is spent: alerts are functions of what was released before and is released with them. They are never
    fed back into a mechanism.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from streamgauge.postprocess import EventMonitor
from streamgauge.query.durations import spelled
from streamgauge.query.query import Query, Refused
from streamgauge.query.toml_keys import BadFile, Table
from streamgauge.query.toml_rules import LINE, NUMBER, one_of
from streamgauge.query.windows import ticks_rule

KEYS = ("kind", "size", "window", "of", "name")
SHORTEST = {"jump": 2, "drop": 2, "low": 1, "threshold": 1}  # ticks, where no window is given
MOST = 16  # alerts of a release
LONGEST = 1024  # ticks, all of which are added up at each
ENDINGS = {"low": "low_signal"}  # for count_low is a bound of a count
SAID = {
    "jump": "{of} has risen by {size:g} or more within {window}",
    "drop": "{of} has fallen by {size:g} or more within {window}",
    "low": "{of} adds up to {size:g} or less over {window}",
    "threshold": "{of} is {size:g} or more",
}


@dataclass(frozen=True)
class Alert:
    """What is watched for, in ticks."""

    kind: str
    size: Fraction
    window: int
    of: str | None = None  # the measure; none where there is only one
    name: str | None = None  # of the measure that it is; by default of both

    @property
    def monitor(self) -> EventMonitor:
        return EventMonitor(self.kind, float(self.size), self.window)

    def as_json(self) -> dict[str, Any]:
        """What was declared, exact numbers as they are."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def of_json(cls, told: Mapping[str, Any]) -> "Alert":
        return cls(**{**told, "size": Fraction(told["size"])})


@dataclass(frozen=True)
class Watched:
    """An alert, and the place of the measure that it watches."""

    alert: Alert
    place: int

    def name(self, measures: Sequence[str]) -> str:
        ending = ENDINGS.get(self.alert.kind, self.alert.kind)
        return self.alert.name or f"{measures[self.place]}_{ending}"

    def said(self, measures: Sequence[str], tick: int) -> str:
        """What it means, for the plan."""
        words = SAID[self.alert.kind].format(
            of=measures[self.place], size=float(self.alert.size), window=spelled(self.alert.window * tick)
        )
        return f"{self.name(measures)}: 1 where {words}, else 0; costs nothing"


def alerts_of(release: Table, tick: int) -> tuple[Alert, ...]:
    """One alert, or an array of them."""
    if "alerts" not in release:
        return ()
    told = release.entries["alerts"]
    where, many = release.at("alerts"), isinstance(told, list | tuple)
    if many and len(told) > MOST:
        raise BadFile(f"{where} must be at most {MOST} alerts, got {len(told)}")
    named = [(f"{where} {i}", each) for i, each in enumerate(told, 1)] if many else [(where, told)]
    return tuple(_alert(Table.of(name, each, KEYS), tick) for name, each in named)


def _alert(table: Table, tick: int) -> Alert:
    kind = table.required("kind", one_of(*SHORTEST))
    window = table.optional("window", ticks_rule(tick, None), SHORTEST[kind])
    if window > LONGEST:
        raise table.bad("window", f"at most {LONGEST} ticks of {spelled(tick)}")
    asked = table.optional("of", LINE), table.optional("name", LINE)
    alert = Alert(kind, table.required("size", NUMBER), window, *asked)
    try:
        alert.monitor  # noqa: B018 - made now, so that what cannot be watched for is refused now
    except ValueError as refusal:
        raise BadFile(f"{table.where}.{refusal}") from None
    return alert


def watched_of(query: Query, alerts: Sequence[Alert]) -> tuple[Watched, ...]:
    """The alerts of a query, which must have what they watch."""
    if alerts and query.key is not None:
        raise Refused("alerts must be left out where groups are discovered, got some")
    return tuple(Watched(alert, _place(query, alert)) for alert in alerts)


def _place(query: Query, alert: Alert) -> int:
    names = [aggregate.name for aggregate in query.aggregates]
    if alert.of is None and len(names) > 1:
        raise Refused(f"of must be given for an alert, one of {', '.join(names)}, got none")
    if alert.of is not None and alert.of not in names:
        raise Refused(f"of must be one of {', '.join(names)} for an alert, got {alert.of}")
    return 0 if alert.of is None else names.index(alert.of)
