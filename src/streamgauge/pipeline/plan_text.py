"""A plan, as text, as JSON and as HTML."""

import html
from collections.abc import Iterable, Sequence
from typing import Any

from streamgauge.pipeline.book import loss_as_json
from streamgauge.pipeline.planning import Choice, Plan, PlannedRelease
from streamgauge.privacy import Loss
from streamgauge.query.predicted import Error

Rows = Sequence[Sequence[str]]


def plan_as_json(plan: Plan) -> dict[str, Any]:
    """
    The keys: file, releases (name, sql, window, loss, ticks, groups, parts, errors), ledger, edits, refused.
    """
    return {
        "file": plan.file.path.name,
        "releases": [_release_as_json(release) for release in plan.releases],
        "ledger": {
            "budget": loss_as_json(plan.file.stream.budget),
            "before": _ledger_as_json(plan.spent[0], plan.left[0]),
            "after": _ledger_as_json(plan.spent[1], plan.left[1]),
        },
        "edits": {"new": plan.edits.new, "kept": plan.edits.kept, "ended": plan.edits.ended},
        "refused": list(plan.refused),
        "notes": list(plan.notes),
    }


def _ledger_as_json(spent: Loss | None, left: Loss | None) -> dict[str, Any]:
    return {
        "spent": None if spent is None else loss_as_json(spent),
        "left": None if left is None else loss_as_json(left),
    }


def _release_as_json(release: PlannedRelease) -> dict[str, Any]:
    return {
        "name": release.name,
        "sql": release.sql,
        "window": release.window,
        "loss": loss_as_json(release.loss),
        "first_tick": release.first,
        "last_tick": release.last,
        "groups": release.groups,
        "parts": [_choice_as_json(choice) for choice in release.choices],
        "errors": [_error_as_json(error) for error in release.errors],
    }


def _choice_as_json(choice: Choice) -> dict[str, Any]:
    others = [{"mechanism": name, "error_ratio": ratio} for name, ratio in choice.runners_up]
    return {
        "measures": choice.measures,
        "level": choice.level,
        "loss": loss_as_json(choice.loss),
        "mechanism": choice.mechanism,
        "runners_up": others,
    }


def _error_as_json(error: Error) -> dict[str, Any]:
    names = ("measure", "tick", "stddev", "half_width", "level", "relative", "note")
    return {name: finite(getattr(error, name)) for name in names}


def finite(value: Any) -> Any:
    """Numbers that JSON has no word for are none."""
    return None if isinstance(value, float) and value != value else value


def plan_as_text(plan: Plan) -> str:
    lines = [f"{plan.file.path.name}: {plan.file.stream.budget} for each {plan.file.stream.unit}"]
    for release in plan.releases:
        lines += ["", *_release_as_text(release)]
    lines += ["", *ledger_lines(plan)]
    if plan.edits.new or plan.edits.ended or plan.edits.budget or plan.edits.refused:
        lines += ["", "changes", *(f"  {line}" for line in str(plan.edits).splitlines())]
    if plan.refused:
        lines += ["", "refused", *(f"  {reason}" for reason in plan.refused)]
    if plan.notes:
        lines += ["", "before it can run", *(f"  {note}" for note in plan.notes)]
    return "\n".join(lines)


def ledger_lines(plan: Plan) -> list[str]:
    before, after = plan.spent
    return [
        f"ledger: {shown(before)} spent before, {shown(after)} after",
        f"        {shown(plan.left[1])} left for every later release",
    ]


def shown(loss: Loss | None) -> str:
    return "nothing" if loss is None else str(loss)


def _release_as_text(release: PlannedRelease) -> list[str]:
    last = "on" if release.last is None else f"to {release.last}"
    lines = [
        f"{release.name}: {release.window}, {release.loss}, ticks {release.first} {last}, {release.groups} groups",
        f"  {release.sql}",
    ]
    for choice in release.choices:
        others = ", ".join(f"{name} ({ratio:.2f} x)" for name, ratio in choice.runners_up)
        level = f" level {choice.level}" if len({each.level for each in release.choices}) > 1 else ""
        lines.append(
            f"  {', '.join(choice.measures)}{level}: {choice.mechanism} at {choice.loss}"
            + (f"; next best {others}" if others else "")
        )
    return lines + [f"  {line}" for line in table(error_rows(release.errors))]


def error_rows(errors: Iterable[Error]) -> list[tuple[str, ...]]:
    """A line for each measure and tick, under a heading."""
    rows = [("measure", "tick", "std error", "95 % half width", "relative", "")]
    for error in errors:
        relative = "" if error.relative is None else f"{error.relative:.1%}"
        spread = "" if error.stddev != error.stddev else f"{error.stddev:.4g}"
        rows.append(
            (error.measure, f"{error.tick:,}", spread, f"{error.half_width:.4g}", relative, error.note)
        )
    return rows


def table(rows: Rows) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def plan_as_html(plan: Plan) -> str:
    """A small table for notebooks; everything is escaped."""
    parts = []
    for release in plan.releases:
        heading, *rows = error_rows(release.errors)
        cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in heading)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
        )
        title = html.escape(f"{release.name}: {release.window}, {release.loss}")
        parts.append(f"<table><caption>{title}</caption><tr>{cells}</tr>{body}</table>")
    parts += [f"<p>{html.escape(line)}</p>" for line in (*ledger_lines(plan), *plan.refused)]
    return "".join(parts)
