"""Alerts of a release: whether what it publishes jumps, drops, is low, or reaches a threshold.

    alerts = { kind = "jump", size = 20, window = "1h" }

An alert is one more measure of its release, in every sink, page and reply: `count_jump` is 1 where it alerts
and 0 where it does not, of every group at every tick. It has no standard error and no bounds, for it is what
became of published numbers; there is `enough` to go on where all numbers of its window have enough.

What is left out and what is written out mean the same: `of` where there is one measure, and the `name` that
an alert would have anyway, are no part of what is pinned.

Privacy
    None is spent: alerts are functions of what was released before and is released with them. They are never
    fed back into a mechanism.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from typing import Any

from streamgauge.postprocess import EventMonitor
from streamgauge.query.durations import spelled
from streamgauge.query.query import Query, Refused
from streamgauge.query.toml_keys import BadFile, Rule, Table, quoted, suggestion
from streamgauge.query.toml_rules import LINE, NAME, one_of, rational
from streamgauge.query.windows import ticks_rule

KEYS = ("kind", "size", "window", "of", "name")
SHORTEST = {"jump": 2, "drop": 2, "low": 1, "threshold": 1}  # ticks, where no window is given
MOST = 16  # alerts of a release
LONGEST = 1024  # ticks, all of which are added up at each
USUAL = 12  # ticks of a window, as an example
SIZE = Rule('a number such as 20 or "1/2"', rational)
ENDINGS = {"low": "low_signal"}  # for count_low is a bound of a count
SAID = {
    "jump": "{of} has risen by {size:g} or more within {window}",
    "drop": "{of} has fallen by {size:g} or more within {window}",
    "low": "{of} adds up to {size:g} or less over {window}",
    "threshold": "{of} is {size:g} or more",
}
OVERLAP = 'mind that its numbers, of window = "{kind}", overlap and are added up as they are'


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

    def resolved(self, measures: Sequence[str]) -> "Watched":
        """The same without what goes without saying."""
        bare = replace(self, alert=replace(self.alert, name=None))
        name = None if self.alert.name == bare.name(measures) else self.alert.name
        of = measures[self.place] if len(measures) > 1 else None
        return replace(self, alert=replace(self.alert, of=of, name=name))

    def said(self, measures: Sequence[str], tick: int, window: str = "each") -> str:
        """What it means for a release with this window, for the plan."""
        words = SAID[self.alert.kind].format(
            of=measures[self.place], size=float(self.alert.size), window=spelled(self.alert.window * tick)
        )
        adds, kind = self.alert.kind == "low" and self.alert.window > 1, window.partition(" ")[0]
        more = f"; {OVERLAP.format(kind=kind)}" if adds and kind != "each" else ""
        return f"{self.name(measures)}: 1 where {words}, else 0; costs nothing{more}"


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
    size = table.required("size", SIZE)
    if size <= 0 and kind in ("jump", "drop"):
        raise table.bad("size", f"above 0 for a {kind}")
    return Alert(
        kind, size, _window(table, kind, tick), table.optional("of", LINE), table.optional("name", NAME)
    )


def _window(table: Table, kind: str, tick: int) -> int:
    """Its window in ticks; a threshold is about one."""
    window = table.optional("window", ticks_rule(tick, None, spelled(USUAL * tick)), SHORTEST[kind])
    if kind == "threshold" and window > 1:
        raise table.bad("window", "left out for a threshold")
    if window < SHORTEST[kind]:
        raise table.bad("window", f'at least "{spelled(SHORTEST[kind] * tick)}", two ticks, for a {kind}')
    if window > LONGEST:
        raise table.bad("window", f'at most "{spelled(LONGEST * tick)}", {LONGEST} ticks of {spelled(tick)}')
    return window


def watched_of(query: Query, alerts: Sequence[Alert]) -> tuple[Watched, ...]:
    """The alerts of a query, which must have what they watch."""
    if alerts and query.key is not None:
        raise Refused("alerts must be left out where groups are discovered, got some")
    names = [aggregate.name for aggregate in query.aggregates]
    return tuple(Watched(alert, _place(names, alert)).resolved(names) for alert in alerts)


def _place(names: Sequence[str], alert: Alert) -> int:
    known = ", ".join(names)
    if alert.of is None and len(names) > 1:
        raise Refused(f"alerts.of must be given where there are several measures, one of {known}, got none")
    if alert.of is not None and alert.of not in names:
        got = f"{quoted(alert.of)}{suggestion(alert.of, names)}"
        raise Refused(f"alerts.of must be a measure, one of {known}, got {got}")
    return 0 if alert.of is None else names.index(alert.of)
