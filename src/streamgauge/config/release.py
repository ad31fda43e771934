"""[[release]]: a query to publish at every tick, its cost and its alerts.

**Cost.** It is an `epsilon`, a `rho`, or a `share` of the whole budget, in the currency of the budget.
A pure budget accepts no rho, which implies no epsilon. Groups that are discovered need a `delta` in addition, out
of the budget's. Under an (epsilon, delta) budget a share is a rho. It is a part of the budget that all deltas and
epsilons in the file leave: shares that sum to 1 use the rest. A release of a batch or pan-private
stream ends with it. One of another live stream continues for ever unless it has a `horizon`. The planner decides
whether the SQL can be answered. It also decides whether a release without a cost reads reports, which have their own.

**Alerts.** An alert says whether a published measure jumps, drops, is low, or reaches a threshold.

    alerts = { kind = "jump", size = 20, window = "1h" }

An alert is one more measure of its release, in every sink, page and reply. `count_jump` is 1 if it alerts
and 0 if it does not, for every group at every tick. It has no standard error and no bounds, because it is a function
of published numbers. It is `reliable` if all numbers of its window are.

Omitting a default and writing it out mean the same. So neither the only `measure` nor the default `name` of an alert
is pinned.

Privacy
    None is spent: alerts are functions of earlier releases and of the one that contains them. They are never
    fed back into a mechanism.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any

from streamgauge.config.errors import PipelineFileError
from streamgauge.config.mapper import MapperSettings, parse_map
from streamgauge.config.mechanism import parse_mechanism
from streamgauge.config.periods import Periods
from streamgauge.config.rules import (
    DELTA,
    EPSILON,
    LINE,
    MAX_COUNT,
    NAME,
    SHARE,
    SQL,
    SWITCH,
    TEXT,
    build_choice_rule,
    build_int_rule,
    format_duration,
    parse_fraction,
)
from streamgauge.config.settings import Release, Stream
from streamgauge.config.toml_table import Rule, TomlTable
from streamgauge.config.windows import build_ticks_rule, build_window_list_rule, build_window_rule, split_windows
from streamgauge.postprocess import EventMonitor
from streamgauge.privacy import (
    AdditiveLoss,
    Approx,
    BudgetExceededError,
    Ledger,
    Loss,
    Pure,
    Tick,
    Zcdp,
    is_charged_whole,
)

ALERT_KEYS = ("kind", "size", "window", "measure", "name")
MIN_WINDOW_TICKS = {"jump": 2, "drop": 2, "low": 1, "threshold": 1}  # ticks, if no window is given
MAX_ALERTS = 16  # alerts of a release
MAX_WINDOW_TICKS = 1024  # ticks, all of which are added up at each tick
EXAMPLE_WINDOW_TICKS = 12  # ticks of a window in an example
SIZE_RULE = Rule('a number such as 20 or "1/2"', parse_fraction)
NAME_SUFFIXES = {"low": "low_signal"}  # because count_low is a bound of a count
DESCRIPTIONS = {
    "jump": "{measure} has risen by {size:g} or more within {window}",
    "drop": "{measure} has fallen by {size:g} or more within {window}",
    "low": "{measure} adds up to {size:g} or less over {window}",
    "threshold": "{measure} is {size:g} or more",
}
OVERLAP_HINT = 'mind that its numbers, of window = "{kind}", overlap and are added up as they are'


@dataclass(frozen=True)
class Alert:
    """Condition that is checked at every tick."""

    kind: str
    size: Fraction
    window: int
    measure: str | None = None  # None if the release has only one
    name: str | None = None  # of the alert's measure; the default combines measure and kind

    @property
    def monitor(self) -> EventMonitor:
        return EventMonitor(self.kind, float(self.size), self.window)

    def to_json(self) -> dict[str, Any]:
        """Return the declaration, with exact numbers unchanged."""
        return {key: value for key, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Alert":
        return cls(**{**data, "size": Fraction(data["size"])})


def parse_alerts(release: TomlTable, tick: int | None) -> tuple[Alert, ...]:
    """Return the alerts from one table or an array of them.

    `tick` is the time from one row of the release to the next, None if it differs.
    """
    if "alerts" not in release:
        return ()
    alerts_entry = release.entries["alerts"]
    where, many = release.key_path("alerts"), isinstance(alerts_entry, list | tuple)
    if many and len(alerts_entry) > MAX_ALERTS:
        raise PipelineFileError(f"{where} must be at most {MAX_ALERTS} alerts, got {len(alerts_entry)}")
    named = [(f"{where} {i}", each) for i, each in enumerate(alerts_entry, 1)] if many else [(where, alerts_entry)]
    return tuple(_parse_alert(TomlTable.parse(name, each, ALERT_KEYS), tick) for name, each in named)


def _parse_alert(table: TomlTable, tick: int | None) -> Alert:
    kind = table.get_required("kind", build_choice_rule(*MIN_WINDOW_TICKS))
    size = table.get_required("size", SIZE_RULE)
    if size <= 0 and kind in ("jump", "drop"):
        raise table.build_error("size", f"above 0 for a {kind}")
    return Alert(
        kind,
        size,
        _parse_window(table, kind, tick),
        table.get_optional("measure", LINE),
        table.get_optional("name", NAME),
    )


def _parse_window(table: TomlTable, kind: str, tick: int | None) -> int:
    """Return the window in ticks or periods. The window of a threshold is one of them."""
    if tick is None:
        if "window" in table:
            raise table.build_error("window", "left out where the periods are months")
        return MIN_WINDOW_TICKS[kind]
    window = table.get_optional(
        "window", build_ticks_rule(tick, None, format_duration(EXAMPLE_WINDOW_TICKS * tick)), MIN_WINDOW_TICKS[kind]
    )
    if kind == "threshold" and window > 1:
        raise table.build_error("window", "left out for a threshold")
    if window < MIN_WINDOW_TICKS[kind]:
        raise table.build_error(
            "window", f'at least "{format_duration(MIN_WINDOW_TICKS[kind] * tick)}", two ticks, for a {kind}'
        )
    if window > MAX_WINDOW_TICKS:
        raise table.build_error(
            "window",
            f'at most "{format_duration(MAX_WINDOW_TICKS * tick)}", '
            f"{MAX_WINDOW_TICKS} ticks of {format_duration(tick)}",
        )
    return window


RELEASE_KEYS = (
    *(
        "name",
        "sql",
        "map",
        "reduce",
        "window",
        "partial",
        "epsilon",
        "rho",
        "share",
        "horizon",
        "mechanism",
        "max_groups",
        "delta",
    ),
    *("expected_events", "alerts", "consistent", "title", "description"),
)
COST_KEYS = ("epsilon", "rho", "share")


def parse_releases(
    top: TomlTable, stream: Stream, mappers: Mapping[str, MapperSettings] | None = None
) -> tuple[Release, ...]:
    """Return all releases of the file, in its order."""
    tables = top.get_array("release", "tables")
    if not tables:
        raise PipelineFileError("release must be given at least once, got nothing (write [[release]])")
    named = [_open_table(f"release {i}", value) for i, value in enumerate(tables, 1)]
    declared_delta = sum((_parse_delta(table, stream.budget) or Fraction(0) for table in named), Fraction(0))
    pure = [Pure(table.get_required("epsilon", EPSILON)) for table in named if "epsilon" in table]
    shared = _compute_shared_loss(stream, declared_delta, pure) if any("share" in table for table in named) else None
    releases = tuple(_build_release(table, stream, shared, mappers) for table in named)
    names_so_far: set[str] = set()
    for release in releases:
        if release.name.lower() in names_so_far:
            raise PipelineFileError(
                f"release.{release.name}.name must differ from all others in more than case, got it again"
            )
        names_so_far.add(release.name.lower())
    return releases


def parse_release(value: Any, stream: Stream, mappers: Mapping[str, MapperSettings] | None = None) -> Release:
    """Return one release that is not in a file."""
    table = _open_table("release", value)
    spent_delta = _parse_delta(table, stream.budget) or Fraction(0)
    if not stream.allows_integer_orders:
        return _build_release(table, stream, stream.budget.additive_loss_after_delta(spent_delta), mappers)
    ledger = Ledger(stream.budget, stream.unit, integer_orders=True)
    return _build_release(table, stream, ledger.remaining_loss(delta=spent_delta), mappers)


def _compute_shared_loss(stream: Stream, spent_delta: Fraction, pure: Sequence[Pure]) -> AdditiveLoss:
    """Return the loss that shares divide.

    It is the budget minus deltas and, if the budget has a delta itself, minus pure losses. If the stream may have
    noise that looks ahead, all of it can be charged at integer orders.
    """
    budget, unit = stream.budget, stream.unit
    if not isinstance(budget, Approx):
        return budget.additive_loss_after_delta(spent_delta)
    ledger = Ledger(budget, unit, integer_orders=stream.allows_integer_orders)
    native = is_charged_whole(unit)
    try:
        for report in stream.reports.values():
            ledger.charge("column", report.loss)
        for loss in pure:
            ledger.charge("release", loss, native=native, per_tick=isinstance(unit, Tick))
    except BudgetExceededError:
        return Zcdp.zero()
    return ledger.remaining_loss(delta=spent_delta)


def _open_table(where: str, value: Any) -> TomlTable:
    """Return a release's table, named by the release if it has a name."""
    table = TomlTable.parse_open(where, value)
    name = table.entries.get("name")
    where = table.path if NAME.parse(name) is None else f"release.{name}"
    return TomlTable.parse(where, value, RELEASE_KEYS)


def _build_release(
    table: TomlTable, stream: Stream, shared: AdditiveLoss | None, mappers: Mapping[str, MapperSettings] | None
) -> Release:
    mapper, query = parse_map(table, stream, mappers or {})
    mechanism, settings = parse_mechanism(table, stream.plugins)
    window, shorter_windows = _parse_windows(table, stream)
    partial = table.get_optional("partial", SWITCH, False)
    if partial and Periods.from_window(window, stream) is None:
        raise table.build_error("partial", "left out unless window is a tumbling one of several ticks")
    ends = stream.ticks if stream.mode == "batch" or stream.pan_private else None
    return Release(
        name=table.get_required("name", NAME),
        sql=query or table.get_required("sql", SQL),
        mapper=mapper,
        loss=_parse_loss(table, stream, shared),
        window=window,
        shorter_windows=shorter_windows,
        partial=partial,
        horizon=table.get_optional("horizon", build_ticks_rule(stream.tick, stream.ticks)) or ends,
        mechanism=mechanism,
        settings=settings,
        max_groups=table.get_optional("max_groups", build_int_rule(maximum=MAX_COUNT), 10**6),
        delta=_parse_delta(table, stream.budget),
        share=table.get_optional("share", SHARE),
        expected_events=table.get_optional("expected_events", LEVEL_RULE),
        alerts=parse_alerts(table, find_row_length(window, stream, partial=partial)),
        consistent=table.get_optional("consistent", SWITCH, False),
        title=table.get_optional("title", LINE, ""),
        description=table.get_optional("description", TEXT, ""),
    )


def _parse_windows(table: TomlTable, stream: Stream) -> tuple[str, tuple[int, ...]]:
    """Return the window, or the longest of an array, and the ticks of the others."""
    if isinstance(table.entries.get("window"), list | tuple):
        return split_windows(table.get_required("window", build_window_list_rule(stream.tick)))
    rule = build_window_rule(stream.tick, stream.timezone, table.entries.get("window"))
    return table.get_optional("window", rule, "running"), ()


def find_row_length(window: str, stream: Stream, *, partial: bool = False) -> int | None:
    """Return the microseconds from one row of a release to the next; None if months differ."""
    periods = Periods.from_window(window, stream)
    if periods is None or partial:
        return stream.tick
    return None if periods.unit == "month" else periods.nominal_length


def _parse_loss(table: TomlTable, stream: Stream, shared: AdditiveLoss | None) -> Loss:
    budget, given = stream.budget, [key for key in COST_KEYS if key in table]
    if not given and stream.reports:
        return Pure.zero()  # its SQL decides whether it must have a cost (`build_report_parts`)
    if len(given) != 1:
        got = " and ".join(given) or "none of them"
        raise PipelineFileError(f"{table.path} must be given exactly one of epsilon, rho and share, got {got}")
    if shared is not None and "share" in table:
        if not shared.amount:
            raise table.build_error("share", "left out where epsilons or deltas in the file leave nothing")
        return shared.part(table.get_required("share", SHARE))
    if "epsilon" in table:
        return Pure(table.get_required("epsilon", EPSILON))
    if isinstance(budget, Pure):
        rule = "left out under a pure budget, since zCDP implies no epsilon without a delta"
        raise table.build_error("rho", f"{rule} (write epsilon or share, or give the budget a delta)")
    return Zcdp(table.get_required("rho", EPSILON))


def _parse_delta(table: TomlTable, budget: Loss) -> Fraction | None:
    delta = table.get_optional("delta", DELTA)
    if delta is None:
        return None
    if not isinstance(budget, Approx):
        raise table.build_error("delta", "left out unless the budget has a delta: { epsilon = ..., delta = ... }")
    if delta >= budget.delta:
        raise table.build_error("delta", "below the budget's delta")
    return delta


def _parse_level(value: Any) -> float | None:
    number = parse_fraction(value)
    return float(number) if number is not None and number > 0 else None


LEVEL_RULE = Rule('a number above 0, such as 0.5 or "1/200"', _parse_level)
