"""The plan of a pipeline: cost and error of each release, and effects of an edit.

Reads the file, the headers or schemas of its source, which are public, and the public part of the store, if there is
one. Reads no record, needs no key, spends nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from html import escape
from itertools import islice
from math import isfinite
from typing import Any

from streamgauge.config.mechanism import AUTO
from streamgauge.config.periods import Periods
from streamgauge.config.release import find_row_length
from streamgauge.config.settings import PipelineFile
from streamgauge.config.stream import describe_contributions
from streamgauge.continual import compare
from streamgauge.plan.aggregates.prediction import ErrorPrediction
from streamgauge.plan.few_events import compute_expected, explain_choice
from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import ReleasePlan
from streamgauge.plan.predict import build_hints, describe_dependence, find_crowding, find_lost_events, predict_errors
from streamgauge.privacy import Loss, Remainder
from streamgauge.records.source_schema import find_refusals, select_unread
from streamgauge.runtime.adhoc.releases import add_adhoc_releases, compute_last_tick
from streamgauge.runtime.edits import Edits, find_edits, plan_as_charged
from streamgauge.runtime.format import format_ordinal, refusal_text
from streamgauge.runtime.intrusion.count import IntrusionCount, growth_lines
from streamgauge.runtime.ledger.log import LedgerLog, describe_charge_key
from streamgauge.runtime.plan.gaussian_hints import find_gaussian_hints
from streamgauge.runtime.plan.limits import find_memory_refusal, needed_bytes
from streamgauge.runtime.plan.prices import Price, find_alternatives
from streamgauge.runtime.published import read_last_released, read_ledger_entries, read_opened_tick, read_tick
from streamgauge.runtime.publisher import outline_schemas
from streamgauge.sinks import SinkError, open_sink
from streamgauge.sources import SourceError, open_batch_source, open_streaming_source
from streamgauge.statistics import Count
from streamgauge.store.reader import LedgerEntry

MAX_RUNNERS_UP = 3
MAX_FILES = 100  # files of a source whose headers a plan reads
SHOWN_SETTINGS: tuple[str, ...] = (
    "branching",
    "radices",
    "refine",
    "window",
    "half_life",
    "exponent",
    "buffers",
    "inner",
    "split",
)
SHOWN_SETTINGS += ("theta", "smoother", "prune", "threshold", "segments", "ratio")


@dataclass(frozen=True)
class PartChoice:
    """The mechanism of one part, and the next best ones."""

    measures: tuple[str, ...]
    level: int
    loss: Loss
    mechanism: str
    runners_up: tuple[tuple[str, float], ...]  # names, and mean errors relative to this one's
    error_depends_on: str = ""  # properties of the data that its error depends on
    reason: str = ""  # reason of the choice, if it depends on expected data
    hints: tuple[str, ...] = ()  # for mechanisms whose error depends on data


@dataclass(frozen=True)
class RankingForecast:
    """The groups that a release lists, and the distance at which noise cannot hide one."""

    measure: str
    places: int
    groups: int
    tick: int  # of the margin
    margin: float | None  # None if no group is left out; infinite if it depends on the data
    is_discovered: bool = False

    @classmethod
    def from_plan(cls, plan: ReleasePlan, errors: Sequence[ErrorPrediction]) -> "RankingForecast | None":
        """Return the forecast, or None if the release ranks nothing.

        All noisy numbers of a tick are within one half width of the true ones, with 95 % certainty. Then no number of
        a group that is not among the true k largest is above the (k+1)-th largest by more than a half width.
        """
        if plan.query.top is None:
            return None
        ranked = plan.layout["ranked"]
        last = [error for error in errors if error.measure == ranked["measure"]][-1]
        most, discovered = plan.groups, plan.query.key is not None
        margin = 2 * last.half_width if discovered or ranked["places"] < most else None
        return cls(ranked["measure"], ranked["places"], most, last.tick, margin, discovered)

    @property
    def lines(self) -> list[str]:
        """The forecast in words."""
        of = "of those that were published" if self.is_discovered else f"of {self.groups:,}"
        known = "" if self.is_discovered else "; all are counted, and ranking them costs nothing more"
        lines = [f"lists the {self.places:,} largest {of} by {self.measure}{known}"]
        if self.margin is not None and isfinite(self.margin):
            rule = f"whose {self.measure} is {self.margin:,.4g} above that of the {format_ordinal(self.places + 1)}"
            passed = "published group" if self.is_discovered else "group"
            lines.append(f"with 95 % certainty, tick {self.tick:,} lists every {passed} {rule}")
        return [*lines, "its 95 % bounds hold for all groups at once, so also for those that noise lifts into the list"]

    def to_json(self) -> dict[str, Any]:
        margin = self.margin if self.margin is not None and isfinite(self.margin) else None
        return {"measure": self.measure, "places": self.places, "margin": margin, "text": self.lines}


@dataclass(frozen=True)
class PeriodForecast:
    """Periods of a tumbling window, from the first tick of its release."""

    longest: int  # ticks
    first_row: int  # tick of the first row
    is_first_cut: bool  # True if the first period began before the release
    partial: bool  # True if each tick has the figure so far

    @classmethod
    def from_plan(cls, plan: ReleasePlan, periods: Periods, first: int) -> "PeriodForecast":
        """Return the periods of a release that begins at a tick."""
        last, partial = plan.last_tick(first), plan.release.partial
        row = first if partial else periods.find_last_tick(first)
        row, cut = row if last is None else min(row, last), periods.find_first_tick(first) < first
        return cls(periods.survey.longest, row, cut, partial)

    def __str__(self) -> str:
        cut = ", of a period that began before the release" if self.is_first_cut else ""
        rows = (
            "the figure so far of a period at each tick" if self.partial else "a row for each period, at its last tick"
        )
        return f"{rows}; the first at tick {self.first_row:,}{cut}"

    def to_json(self) -> dict[str, Any]:
        names = {"longest_ticks": self.longest, "first_row_tick": self.first_row, "is_first_cut": self.is_first_cut}
        return names | {"partial": self.partial}


@dataclass(frozen=True)
class ReleaseForecast:
    """Cost and predicted error of one release."""

    name: str
    sql: str
    window: str | list[str]
    loss: Loss
    first: int
    last: int | None
    groups: int
    columns: tuple[str, ...]  # columns of the groups
    choices: tuple[PartChoice, ...]
    errors: tuple[ErrorPrediction, ...]
    delta: Fraction | None = None  # of discovered groups
    requested_by: str | None = None  # the analyst of an ad hoc release
    alerts: tuple[str, ...] = ()  # a description of each alert
    column: str | None = None  # column of reports, whose loss is this one's
    contributions: str = ""  # rule for the counted events of a user, if others are dropped
    ranking: RankingForecast | None = None  # if it lists its largest groups
    periods: PeriodForecast | None = None  # of a tumbling window
    consistent: tuple[str, ...] = ()  # rules that the numbers of each measure obey after noise
    alternatives: tuple[Price, ...] = ()  # other currencies, for no higher price

    @property
    def has_discovered_groups(self) -> bool:
        return self.delta is not None


@dataclass(frozen=True)
class Plan:
    """The plan of a file, printable and available as JSON."""

    file: PipelineFile
    releases: tuple[ReleaseForecast, ...]
    refusals: tuple[str, ...]
    edits: Edits
    spent: tuple[Loss | None, Loss | None]  # before and after
    remaining: tuple[Loss | Remainder | None, Loss | Remainder | None]
    notes: tuple[str, ...] = field(default=())
    memory_bytes: int = 0  # of all releases, for any data
    intrusions: IntrusionCount | None = None  # announced intrusions, if they can be survived
    growth: tuple[str, ...] = ()  # their effects on errors
    report_releases: frozenset[str] = frozenset()  # releases of reports, including ended ones

    def to_json(self) -> dict[str, Any]:
        """Return the plan, ready for `json.dumps`."""
        from streamgauge.runtime.plan.render import plan_as_json

        return plan_as_json(self)

    def __str__(self) -> str:
        from streamgauge.runtime.plan.render import plan_as_text

        return plan_as_text(self)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"


def plan_pipeline(file: PipelineFile) -> Plan:
    """Plan all releases of a file and its ad hoc releases.

    Refusals are part of the plan, not raised.
    """
    acts = read_ledger_entries(file)
    ledger_log = LedgerLog.read(acts, file.stream.unit)
    file = add_adhoc_releases(file, ledger_log)
    plans, refused = list[ReleasePlan](), list[str]()
    for release in file.releases:
        try:
            plans.append(plan_as_charged(file, release, ledger_log))
        except ValueError as refusal:
            refused.append(str(refusal))
    refused = refused or _check_sinks(file, acts)
    changed = find_edits(file, plans, ledger_log)
    before = _find_balance(ledger_log)
    first = first_tick(file)
    refused += _try_charges(file, plans, ledger_log, changed, first)
    after = _find_balance(ledger_log)
    hints = find_gaussian_hints([plan for plan in plans if plan.name in changed.new_releases], ledger_log)
    priced = {plan.name: find_alternatives(plan, ledger_log) for plan in plans if plan.name in changed.new_releases}
    forecasts = tuple(
        replace(
            forecast_release(plan, ledger_log, first, hints.get(plan.name, "")), alternatives=priced.get(plan.name, ())
        )
        for plan in plans
    )
    notes = tuple(f"confirm {key}" for key in file.unconfirmed_keys)
    if changed.new_releases and (shortage := find_memory_refusal(plans)):
        refused.append(f"{file.path.name}: {shortage}")
    if changed.new_releases or changed.new_columns:
        lacking, missing = _check_source(file, has_read=bool(changed.continued_releases or changed.ended_releases))
        refused += lacking
        notes += missing
    return Plan(
        file,
        forecasts,
        (*refused, *changed.refusals),
        changed,
        (before[0], after[0]),
        (before[1], after[1]),
        notes,
        needed_bytes(plans),
        IntrusionCount.from_ledger_log(ledger_log, file.stream, read_tick(file)) if file.stream.pan_private else None,
        tuple(growth_lines(plans)),
        frozenset(name for name, entry in ledger_log.releases.items() if entry.column is not None),
    )


def _check_source(file: PipelineFile, *, has_read: bool) -> tuple[list[str], tuple[str, ...]]:
    """Return refusals by headers and schemas of the source, and a note if unreadable."""
    stream, base = file.stream, file.path.parent
    if not stream.source_facts.is_path:
        return [], ()
    try:
        source = open_batch_source(stream, base) if stream.mode == "batch" else open_streaming_source(stream, base)
        schemas = select_unread(source.schemas(), has_read=has_read and stream.mode == "streaming")
        refusals = find_refusals(stream, islice(schemas, MAX_FILES))
    except SourceError as refusal:
        return [], (str(refusal),)
    return [f"{file.path.name}: {refusal}" for refusal in refusals], ()


def _check_sinks(file: PipelineFile, acts: Sequence[LedgerEntry]) -> list[str]:
    """Return refusals of CSV sinks with inconsistent columns or another header."""
    refused = []
    for sink in (each for each in file.sinks if each.facts.is_path or each.facts.is_console):
        try:
            open_sink(sink, file.path.parent, shapes=outline_schemas(file, acts, sink)).check_columns()
        except SinkError as refusal:
            if refusal.code != "columns":
                raise
            refused.append(f"{file.path.name}: {refusal}")
    return refused


def _find_balance(ledger_log: LedgerLog) -> tuple[Loss | None, Loss | Remainder | None]:
    ledger = ledger_log.ledger
    return (None, None) if ledger is None else (ledger.spent_loss(), ledger.remainder())


def first_tick(file: PipelineFile) -> int:
    """Return the first tick of a new release."""
    return 1 if file.stream.mode == "batch" else read_opened_tick(file) + 1


def _try_charges(
    file: PipelineFile, plans: Sequence[ReleasePlan], ledger_log: LedgerLog, changed: Edits, first: int
) -> list[str]:
    """Apply the charges of a run to a copy of the ledger, and return the refusals."""
    refused = []

    def refuse(what: str, refusal: ValueError) -> None:
        refused.append(f"{file.path.name}: {what}: {refusal_text(refusal)}")

    try:
        if ledger_log.ledger is None or changed.budget:
            ledger_log.declare_budget(file.stream.budget)
    except ValueError as refusal:
        refuse("stream.budget", refusal)
    ended = {name: read_last_released(file, name) for name in changed.ended_releases}
    for name in sorted(ended, key=ended.__getitem__):  # a live release runs on by the clock of the start
        last = compute_last_tick(file.stream, ledger_log.releases[name], file.stream.start, ended[name], first - 1)
        ledger_log.end(name, max(ended[name], last))
    try:
        if ledger_log.ledger is not None:
            ledger_log.charge_columns(file.stream.reports)
    except ValueError as refusal:
        refuse(describe_charge_key("stream.columns", file.stream.budget), refusal)
    for plan in plans:
        is_charged = plan.query.report is None or plan.query.report.column in ledger_log.columns
        if plan.name in changed.new_releases and ledger_log.ledger is not None and is_charged:
            try:
                ledger_log.charge(plan.name, plan, first)
            except ValueError as refusal:
                refuse(f"release {plan.name}", refusal)
    return refused


def forecast_release(plan: ReleasePlan, ledger_log: LedgerLog, first: int, hint: str = "") -> ReleaseForecast:
    """Return the forecast of a planned release.

    It begins at `first` unless it is charged already.
    """
    entry = ledger_log.latest_releases().get(plan.name)
    begin, found = first if entry is None else entry.first, tuple(predict_errors(plan))
    choices = tuple(_build_choice(plan, part, found) for part in plan.parts)
    names = [aggregate.name for aggregate in plan.query.aggregates]
    row_length = find_row_length(plan.release.window, plan.stream, partial=plan.release.partial)
    if hint:
        choices = (replace(choices[0], hints=(*choices[0].hints, hint)), *choices[1:])
    return ReleaseForecast(
        plan.name,
        plan.query.text,
        plan.release.windows,
        plan.charged_loss,
        begin,
        plan.last_tick(begin),
        plan.groups,
        plan.columns,
        choices,
        found,
        plan.release.delta,
        plan.release.requested_by,
        tuple(alert.describe(names, row_length, plan.release.window) for alert in plan.alerts),
        None if plan.query.report is None else plan.query.report.column,
        describe_contributions(plan.stream),
        RankingForecast.from_plan(plan, found),
        None if plan.periods is None else PeriodForecast.from_plan(plan, plan.periods, begin),
        tuple(plan.layout.get("consistent", ())),
    )


def _build_choice(plan: ReleasePlan, part: CounterPart, found: Sequence[ErrorPrediction]) -> PartChoice:
    statistic = part.statistic
    names = tuple(plan.query.aggregates[output.aggregate].name for output in part.outputs)
    others = () if statistic.error_depends_on else tuple(_find_runners_up(part))
    mechanism = describe_mechanism(statistic.counter)
    certain = any(isfinite(error.half_width) for error in found if error.measure in names)
    hints = [*find_lost_events(statistic, plan.query), *build_hints(statistic, certain=certain)]
    reason = ""
    if plan.release.mechanism == AUTO and isinstance(statistic, Count) and statistic.error_depends_on:
        reason = explain_choice(statistic, compute_expected(plan.release, plan.query, part.level))
    texts = describe_dependence(statistic), reason, (*hints, *find_crowding(plan, part))
    return PartChoice(names, part.level, part.charged_loss, mechanism, others[:MAX_RUNNERS_UP], *texts)


def _find_runners_up(part: CounterPart) -> Iterator[tuple[str, float]]:
    """Yield the next best mechanisms, if errors do not depend on data."""
    statistic = part.statistic
    if statistic.windows:
        return
    found = compare(
        statistic.loss,
        horizon=statistic.horizon,
        window=statistic.window,
        bound=statistic.tick_sensitivity,
        unit=statistic.counter_unit,
        pan_private=statistic.pan_private,
        open_ticks=statistic.open_ticks,
    )
    chosen = statistic.linear_counter
    own = chosen.rmse(found.ticks)
    for each in found.candidates if own else ():
        if not each.refusal and each.mechanism != chosen and (part.measure.key is None or each.rmse >= own):
            yield each.name, float(each.rmse / own)


def describe_mechanism(mechanism: Any) -> str:
    """Return the name of a mechanism with its own settings."""
    own = {name: getattr(mechanism, name) for name in SHOWN_SETTINGS if getattr(mechanism, name, None)}
    settings = ", ".join(f"{name}={getattr(value, '__name__', value)}" for name, value in own.items())
    return f"{type(mechanism).__name__}({settings})" if settings else type(mechanism).__name__
