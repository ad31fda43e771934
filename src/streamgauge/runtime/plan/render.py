"""A plan as text and as JSON.

In JSON, losses are exact fractions. Keys are only ever added.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite, isnan
from typing import Any

from streamgauge.config.rules import format_duration
from streamgauge.config.settings import Stream
from streamgauge.config.stream import describe_assumption, describe_contributions, describe_renewal
from streamgauge.config.windows import format_window
from streamgauge.plan.aggregates.prediction import ErrorPrediction
from streamgauge.runtime.format import cost_text, groups_text, loss_text, ticks_text, unit_text
from streamgauge.runtime.ledger.log import loss_as_json, reports_as_json
from streamgauge.runtime.plan.limits import size_text
from streamgauge.runtime.plan.plan import PartChoice, Plan, ReleaseForecast
from streamgauge.runtime.plan.prices import Price

Rows = Sequence[Sequence[str]]
MAX_SHOWN_RATIO = 10.0  # of the expected value
MIN_SHOWN_BYTES = 2**20  # smaller sizes are not shown
NUMBER_COLUMNS = ("tick", "std error", "95 % within", "relative")  # right-aligned columns

PRIVATE_MEMORY_TEXT = "private too: a look at it, at any moment, is within the budget"


def plan_as_text(plan: Plan) -> str:
    stream = plan.file.stream
    lines = [plan.file.path.name, *(f"  {name:<8}  {text}" for name, text in describe_stream(stream))]
    for release in plan.releases:
        lines += ["", title(release, stream), *(f"  {line}" for line in describe_release(release, stream))]
        lines += ["", *(f"  {line}" for line in format_table(error_rows(release.errors)))]
    lines += ["", *format_table(ledger_rows(plan))]
    for heading, own in sections(plan):
        lines += ["", heading, *(f"  {line}" for line in own)]
    return "\n".join(lines)


def describe_stream(stream: Stream) -> list[tuple[str, str]]:
    """Return the facts that apply to all releases."""
    counts = describe_contributions(stream)
    return [
        ("protects", unit_text(stream.unit)),
        *([("counts", counts)] if counts else []),
        *([("renews", renewal)] if (renewal := describe_renewal(stream)) else []),
        ("budget", ", ".join(filter(None, (loss_text(stream.budget), describe_assumption(stream))))),
        ("ticks", f"of {format_duration(stream.tick)} {ticks_text(stream, 1, stream.ticks)}"),
        *([("memory", PRIVATE_MEMORY_TEXT)] if stream.pan_private else []),
        *((name, f"local: {report}") for name, report in stream.reports.items()),
        *([("plugins", f"{', '.join(stream.plugins)}: may see raw events")] if stream.plugins else []),
    ]


def sections(plan: Plan) -> list[tuple[str, list[str]]]:
    """Return the other non-empty sections, with their headings."""
    memory = [f"all releases keep {size_text(plan.memory_bytes)}"] if plan.memory_bytes >= MIN_SHOWN_BYTES else []
    found = {
        "memory": memory if plan.intrusions is None else [*memory, str(plan.intrusions), *plan.growth],
        "changes since the last run": change_lines(plan),
        "refused": list(plan.refusals),
        "before it can run": list(plan.notes),
    }
    return [(heading, lines) for heading, lines in found.items() if lines]


def change_lines(plan: Plan) -> list[str]:
    """Return the effects of an edit. A file that never ran has no edits."""
    edits = plan.edits
    if not (edits.continued_releases or edits.ended_releases or edits.budget or edits.columns):
        return []
    starts = {release.name: release.first for release in plan.releases}
    lines = [f"{name} is new, and starts at tick {starts[name]:,}" for name in edits.new_releases if name in starts]
    frees = plan.file.stream.unit.frees_unused_ticks
    returns = "its budget returns for later ticks" if frees else "its budget does not return to anybody"
    stays = "what its reports have lost stays lost"
    lines += [f"{name} ends: {stays if name in plan.report_releases else returns}" for name in edits.ended_releases]
    ways = {"is new": edits.new_columns, "has changed": edits.changed_columns, "is removed": edits.removed_columns}
    if not plan.refusals:
        lines += [f"column {name} {way}: no charged release reads it" for way, names in ways.items() for name in names]
    if edits.budget:
        before, after = map(loss_text, edits.budget)
        lines.append(f"the budget {before} becomes {after}: run --change-budget records it")
    return lines


def ledger_rows(plan: Plan) -> list[tuple[str, ...]]:
    """Return the spent and remaining loss, before a run and after its charges."""
    rows: list[tuple[str, ...]] = [("ledger", "spent", "left")]
    for moment, spent, left in zip(("before", "after"), plan.spent, plan.remaining, strict=True):
        whole = plan.file.stream.budget if left is None else left
        rows.append((f"  {moment}", loss_text(spent), loss_text(whole)))
    return rows


def title(release: ReleaseForecast, stream: Stream) -> str:
    cost = cost_text(release.loss, release.delta)
    if release.column is not None:
        cost = f"nothing beside the reports of {release.column}"
    cost += "" if isinstance(release.window, str) else " for all windows together"
    return f"{release.name}: {format_window(release.window, stream.tick)}, {cost}"


def describe_release(release: ReleaseForecast, stream: Stream) -> list[str]:
    """Return the query, its groups and ticks, its mechanisms and its alerts."""
    groups = groups_text(release.groups, discovered=release.has_discovered_groups)
    ticks = ticks_text(stream, release.first, release.last)
    ranking = [] if release.ranking is None else release.ranking.lines
    periods = [] if release.periods is None else [str(release.periods)]
    adjusted = [f"adjusted after noise, for nothing: {rule}" for rule in release.consistent]
    return [release.sql, f"{groups}, {ticks}", *periods, *ranking, *choice_lines(release), *adjusted, *release.alerts]


def choice_lines(release: ReleaseForecast) -> list[str]:
    """Return the mechanism of each measure, with the relative errors of the next best."""
    alike = list(dict.fromkeys(replace(choice, level=0) for choice in release.choices))
    levels = len(release.choices) // len(alike)
    each = f", at each of {levels} levels" if levels > 1 else ""
    lines = []
    for choice in alike:
        lines.append(f"{', '.join(choice.measures)}: {choice.mechanism}, {loss_text(choice.loss)}{each}")
        if choice.runners_up:
            others = ", ".join(f"{name} x {ratio:.2f}" for name, ratio in choice.runners_up)
            lines.append(f"  the next best and their errors: {others}")
        if choice.reason:
            lines.append(f"  {choice.reason}")
        if choice.error_depends_on:
            lines.append(f"  its error depends on {choice.error_depends_on}")
        lines += [f"  {hint}" for hint in choice.hints]
    return [*lines, *(f"for no more, {price}" for price in release.alternatives)]


def error_rows(errors: Iterable[ErrorPrediction]) -> list[tuple[str, ...]]:
    """Return a row per measure and tick, under a heading. A measure is named once."""
    rows = [("measure", *NUMBER_COLUMNS, "")]
    before = ""
    for error in errors:
        name, before = "" if error.measure == before else error.measure, error.measure
        relative = "" if error.relative is None else relative_text(error.relative)
        rows.append((name, f"{error.tick:,}", *_format_sizes(error), relative, error.note))
    return _drop_empty_columns(rows)


def relative_text(part: float) -> str:
    """Return an error relative to the expected value, or that it is very large.

    >>> relative_text(0.0213), relative_text(3e30)
    ('± 2.1%', 'above ± 1,000%')
    """
    return f"± {part:.1%}" if part <= MAX_SHOWN_RATIO else f"above ± {MAX_SHOWN_RATIO:,.0%}"


def _format_sizes(error: ErrorPrediction) -> tuple[str, str]:
    """Return standard error and half width, or `-` if they depend on the data."""
    if not isfinite(error.half_width):
        return "-", "-"
    if isnan(error.stddev):
        return "", f"{error.half_width:,.4g}"
    return f"{error.stddev:,.4g}", f"± {error.half_width:,.4g}"


def _drop_empty_columns(rows: Rows) -> list[tuple[str, ...]]:
    """Remove columns that are empty below their heading."""
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]
    return list(zip(*columns, strict=True))


def format_table(rows: Rows) -> list[str]:
    """Return the rows as lines of aligned columns, with numbers to the right."""
    columns = []
    for heading, *cells in zip(*rows, strict=True):
        width = max(map(len, (heading, *cells)))
        put = str.rjust if heading in NUMBER_COLUMNS else str.ljust
        columns.append([put(cell, width) for cell in (heading, *cells)])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """Return the plan as JSON.

    The keys: file, releases (name, sql, window, loss, first_tick, last_tick, groups, columns, parts, errors,
    delta, discovered, ranking, requested_by, alerts, column, contributions, periods, consistent, alternatives (loss,
    errors)), columns of reports (column, protocol, loss, on_repeat, reports_per_user, per_user), ledger (budget,
    before, after), edits (new_releases, continued_releases, ended_releases, new_columns, changed_columns,
    removed_columns, budget), refusals, notes, memory_bytes, intrusions (total, remaining; null if none can be
    survived), plugins, unit (protects, contributions, assumption; null if there is none).
    """
    return {
        "file": plan.file.path.name,
        "releases": [release_as_json(release) for release in plan.releases],
        "ledger": {
            "budget": loss_as_json(plan.file.stream.budget),
            "before": {"spent": loss_as_json(plan.spent[0]), "remaining": loss_as_json(plan.remaining[0])},
            "after": {"spent": loss_as_json(plan.spent[1]), "remaining": loss_as_json(plan.remaining[1])},
        },
        "edits": _edits_as_json(plan),
        "refusals": list(plan.refusals),
        "notes": list(plan.notes),
        "memory_bytes": plan.memory_bytes,
        "intrusions": None if plan.intrusions is None else plan.intrusions.to_json(),
        "columns": reports_as_json(plan.file.stream),
        "plugins": list(plan.file.plugins),
        "unit": {
            "protects": unit_text(plan.file.stream.unit),
            "contributions": describe_contributions(plan.file.stream) or None,
            "renewal": describe_renewal(plan.file.stream) or None,
            "assumption": describe_assumption(plan.file.stream) or None,
        },
    }


def _edits_as_json(plan: Plan) -> dict[str, Any]:
    names = [f"{kind}_releases" for kind in ("new", "continued", "ended")]
    names += [f"{kind}_columns" for kind in ("new", "changed", "removed")]
    budget = plan.edits.budget and dict(zip(("before", "after"), map(loss_as_json, plan.edits.budget), strict=True))
    return {**{name: list(getattr(plan.edits, name)) for name in names}, "budget": budget}


def release_as_json(release: ReleaseForecast) -> dict[str, Any]:
    """Return one release of a plan."""
    return {
        "name": release.name,
        "sql": release.sql,
        "window": release.window,
        "loss": loss_as_json(release.loss),
        "first_tick": release.first,
        "last_tick": release.last,
        "groups": release.groups,
        "columns": list(release.columns),
        "parts": [_choice_as_json(choice) for choice in release.choices],
        "errors": [_error_as_json(error) for error in release.errors],
        "delta": None if release.delta is None else str(release.delta),
        "discovered": release.has_discovered_groups,
        "ranking": None if release.ranking is None else release.ranking.to_json(),
        "requested_by": release.requested_by,
        "alerts": list(release.alerts),
        "column": release.column,
        "contributions": release.contributions or None,
        "periods": None if release.periods is None else release.periods.to_json(),
        "consistent": list(release.consistent),
        "alternatives": [price_as_json(price) for price in release.alternatives],
    }


def price_as_json(price: Price) -> dict[str, Any]:
    """Return a loss with the errors that it buys."""
    return {"loss": loss_as_json(price.loss), "errors": [_error_as_json(error) for error in price.errors]}


def _choice_as_json(choice: PartChoice) -> dict[str, Any]:
    others = [{"mechanism": name, "error_ratio": ratio} for name, ratio in choice.runners_up]
    lists = {"measures": list(choice.measures), "runners_up": others, "hints": list(choice.hints)}
    return vars(choice) | lists | {"loss": loss_as_json(choice.loss)}


def _error_as_json(error: ErrorPrediction) -> dict[str, Any]:
    names = ("measure", "tick", "stddev", "half_width", "level", "relative", "note", "threshold")
    return {name: to_finite(getattr(error, name)) for name in names}


def to_finite(value: Any) -> Any:
    """Return None for numbers that JSON cannot write."""
    return None if isinstance(value, float) and not isfinite(value) else value
