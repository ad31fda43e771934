"""A plan as text, and as HTML for notebooks."""

import html
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import isfinite, isnan

from streamgauge.pipeline.planning import Plan, PlannedRelease
from streamgauge.pipeline.room import size_text
from streamgauge.pipeline.words import cost_text, groups_text, loss_text, ticks_text, unit_text
from streamgauge.query.durations import spelled
from streamgauge.query.predicted import Error
from streamgauge.query.promises import describe_assumption, describe_contributions
from streamgauge.query.settings import Stream
from streamgauge.query.windows import window_text

Rows = Sequence[Sequence[str]]
HOPELESS = 10.0  # times as much as is expected
TOLD = 2**20  # bytes: less is not worth a word
NUMBERS = ("tick", "std error", "95 % within", "relative")  # columns that are set to the right

HEADINGS = ("protects", "counts", "budget")  # of a plan in a notebook
PRIVATE = "private too: a look at it, at any moment, is within the budget"


def plan_as_text(plan: Plan) -> str:
    lines = [plan.file.path.name, *(f"  {name:<8}  {told}" for name, told in declared(plan.file.stream))]
    for release in plan.releases:
        lines += [
            "",
            title(release, plan.file.stream),
            *(f"  {line}" for line in about(release, plan.file.stream)),
        ]
        lines += ["", *(f"  {line}" for line in table(error_rows(release.errors)))]
    lines += ["", *table(ledger_rows(plan))]
    for heading, told in sections(plan):
        lines += ["", heading, *(f"  {line}" for line in told)]
    return "\n".join(lines)


def declared(stream: Stream) -> list[tuple[str, str]]:
    """What holds for all releases."""
    counts = describe_contributions(stream)
    return [
        ("protects", unit_text(stream.unit)),
        *([("counts", counts)] if counts else []),
        ("budget", budget_text(stream)),
        ("ticks", f"of {spelled(stream.tick)} {ticks_text(stream, 1, stream.ticks)}"),
        *([("memory", PRIVATE)] if stream.pan_private else []),
        *((name, f"local: {report}") for name, report in stream.reports.items()),
    ]


def budget_text(stream: Stream) -> str:
    """Return the budget, and what it takes for granted."""
    return ", ".join(filter(None, (loss_text(stream.budget), describe_assumption(stream))))


def sections(plan: Plan) -> list[tuple[str, list[str]]]:
    """What else is to be said, under its headings; nothing that is empty."""
    told = [
        ("memory", memory_lines(plan)),
        ("changes since the last run", change_lines(plan)),
        ("refused", list(plan.refused)),
        ("before it can run", list(plan.notes)),
    ]
    return [(heading, lines) for heading, lines in told if lines]


def memory_lines(plan: Plan) -> list[str]:
    """How much is kept, and how often it can be seized with notice."""
    lines = [f"all releases keep {size_text(plan.keeps)}"] if plan.keeps >= TOLD else []
    return lines if plan.intrusions is None else [*lines, str(plan.intrusions), *plan.growth]


def change_lines(plan: Plan) -> list[str]:
    """What an edit changes; a file that never ran has no edits."""
    edits = plan.edits
    if not (edits.kept or edits.ended or edits.budget):
        return []
    starts = {release.name: release.first for release in plan.releases}
    lines = [f"{name} is new, and starts at tick {starts[name]:,}" for name in edits.new if name in starts]
    frees = plan.file.stream.unit.frees
    returns = "its budget returns for later ticks" if frees else "its budget does not return to anybody"
    stays = "what its reports have lost stays lost"
    lines += [f"{name} ends: {stays if name in plan.collected else returns}" for name in edits.ended]
    if edits.budget:
        before, after = map(loss_text, edits.budget)
        lines.append(f"the budget {before} becomes {after}: run --change-budget records it")
    return lines


def ledger_rows(plan: Plan) -> list[tuple[str, ...]]:
    """What is spent and left, before a run and after it was charged."""
    rows: list[tuple[str, ...]] = [("ledger", "spent", "left")]
    for moment, spent, left in zip(("before", "after"), plan.spent, plan.left, strict=True):
        whole = plan.file.stream.budget if left is None else left
        rows.append((f"  {moment}", loss_text(spent), loss_text(whole)))
    return rows


def title(release: PlannedRelease, stream: Stream) -> str:
    cost = cost_text(release.loss, release.delta)
    if release.column is not None:
        cost = f"nothing beside the reports of {release.column}"
    return f"{release.name}: {window_text(release.window, stream.tick)}, {cost}"


def about(release: PlannedRelease, stream: Stream) -> list[str]:
    """What is asked, of which groups and ticks, and what answers it."""
    groups = groups_text(release.groups, discovered=release.discovered)
    ticks = ticks_text(stream, release.first, release.last)
    return [release.sql, f"{groups}, {ticks}", *choice_lines(release), *release.alerts]


def choice_lines(release: PlannedRelease) -> list[str]:
    """Which mechanism answers which measures, and how far behind the next ones are."""
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
        if choice.depends:
            lines.append(f"  its error depends on {choice.depends}")
        lines += [f"  {hint}" for hint in choice.hints]
    return lines


def error_rows(errors: Iterable[Error]) -> list[tuple[str, ...]]:
    """A line for each measure and tick, under a heading; a measure is named once."""
    rows = [("measure", *NUMBERS, "")]
    before = ""
    for error in errors:
        name, before = "" if error.measure == before else error.measure, error.measure
        relative = "" if error.relative is None else relative_text(error.relative)
        rows.append((name, f"{error.tick:,}", *_sizes(error), relative, error.note))
    return _without_empty(rows)


def relative_text(part: float) -> str:
    """An error as a part of what is expected; how many times as much it is, is not worth many digits.

    >>> relative_text(0.0213), relative_text(3e30)
    ('± 2.1%', 'above ± 1,000%')
    """
    return f"± {part:.1%}" if part <= HOPELESS else f"above ± {HOPELESS:,.0%}"


def _sizes(error: Error) -> tuple[str, str]:
    """The standard error and the half width: `-` where it cannot be known before there are data."""
    if not isfinite(error.half_width):
        return "-", "-"
    if isnan(error.stddev):
        return "", f"{error.half_width:,.4g}"
    return f"{error.stddev:,.4g}", f"± {error.half_width:,.4g}"


def _without_empty(rows: Rows) -> list[tuple[str, ...]]:
    """Columns that have nothing below their heading are left out."""
    kept = [column for column in zip(*rows, strict=True) if any(column[1:])]
    return list(zip(*kept, strict=True))


def table(rows: Rows) -> list[str]:
    """Columns side by side, numbers to the right."""
    columns = []
    for heading, *cells in zip(*rows, strict=True):
        width = max(map(len, (heading, *cells)))
        put = str.rjust if heading in NUMBERS else str.ljust
        columns.append([put(cell, width) for cell in (heading, *cells)])
    return ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]


def plan_as_html(plan: Plan) -> str:
    """The same for notebooks; everything is escaped."""
    stream = plan.file.stream
    about_all = "; ".join(f"{name} {text}" for name, text in declared(stream) if name in HEADINGS)
    parts = [f"<p><b>{_escaped(plan.file.path.name)}</b>: {_escaped(about_all)}</p>"]
    for release in plan.releases:
        parts.append(html_table(title(release, stream), error_rows(release.errors)))
        parts.append("".join(f"<div>{_escaped(line)}</div>" for line in choice_lines(release)))
    parts.append(html_table("", ledger_rows(plan)))
    for heading, told in sections(plan):
        items = "".join(f"<li>{_escaped(line)}</li>" for line in told)
        parts.append(f"<p>{_escaped(heading)}</p><ul>{items}</ul>")
    return "".join(parts)


def html_table(caption: str, rows: Rows) -> str:
    heading, *others = ["".join(f"<td>{_escaped(cell)}</td>" for cell in row) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in others)
    named = f"<caption>{_escaped(caption)}</caption>" if caption else ""
    return f"<table>{named}<tr>{heading.replace('td>', 'th>')}</tr>{body}</table>"


def _escaped(text: str) -> str:
    return html.escape(text.strip())
