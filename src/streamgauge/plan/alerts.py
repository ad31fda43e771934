"""Alert columns of a release, resolved against the measures of its query."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from streamgauge.config.errors import InvalidReleaseError
from streamgauge.config.periods import TUMBLING
from streamgauge.config.release import DESCRIPTIONS, NAME_SUFFIXES, OVERLAP_HINT, Alert
from streamgauge.config.rules import format_duration
from streamgauge.config.toml_table import quote_toml, suggest
from streamgauge.sql.query import Query


@dataclass(frozen=True)
class AlertColumn:
    """Alert, and the index of its measure."""

    alert: Alert
    measure_index: int

    def build_name(self, measures: Sequence[str]) -> str:
        ending = NAME_SUFFIXES.get(self.alert.kind, self.alert.kind)
        return self.alert.name or f"{measures[self.measure_index]}_{ending}"

    def normalize(self, measures: Sequence[str]) -> "AlertColumn":
        """Return the same alert without default settings."""
        bare = replace(self, alert=replace(self.alert, name=None))
        name = None if self.alert.name == bare.build_name(measures) else self.alert.name
        measure = measures[self.measure_index] if len(measures) > 1 else None
        return replace(self, alert=replace(self.alert, measure=measure, name=name))

    def describe(self, measures: Sequence[str], tick: int | None, window: str = "each") -> str:
        """Return the alert in words, for the plan of a release with this window.

        `tick` is the time from one row to the next, None if rows are of months.
        """
        months = f"{self.alert.window} month{'s' if self.alert.window > 1 else ''}"
        words = DESCRIPTIONS[self.alert.kind].format(
            measure=measures[self.measure_index],
            size=float(self.alert.size),
            window=months if tick is None else format_duration(self.alert.window * tick),
        )
        adds, kind = self.alert.kind == "low" and self.alert.window > 1, window.partition(" ")[0]
        more = f"; {OVERLAP_HINT.format(kind=kind)}" if adds and kind not in ("each", TUMBLING) else ""
        return f"{self.build_name(measures)}: 1 where {words}, else 0; costs nothing{more}"


def build_alert_columns(query: Query, alerts: Sequence[Alert]) -> tuple[AlertColumn, ...]:
    """Return the alerts of a query, which must have the alerts' measures."""
    if alerts and query.key is not None:
        raise InvalidReleaseError("alerts must be left out where groups are discovered, got some")
    if alerts and query.top is not None:
        raise InvalidReleaseError("alerts must be left out with ORDER BY, since each tick has its own groups, got some")
    names = [aggregate.name for aggregate in query.aggregates]
    return tuple(AlertColumn(alert, _find_measure(names, alert)).normalize(names) for alert in alerts)


def _find_measure(names: Sequence[str], alert: Alert) -> int:
    known = ", ".join(names)
    if alert.measure is None and len(names) > 1:
        raise InvalidReleaseError(
            f"alerts.measure must be given where there are several measures, one of {known}, got none"
        )
    if alert.measure is not None and alert.measure not in names:
        got = f"{quote_toml(alert.measure)}{suggest(alert.measure, names)}"
        raise InvalidReleaseError(f"alerts.measure must be a measure, one of {known}, got {got}")
    return 0 if alert.measure is None else names.index(alert.measure)
