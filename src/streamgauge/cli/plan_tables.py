"""A plan as tables."""

from math import isfinite

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from streamgauge.cli.losses import loss_text, ticks_text, unit_text
from streamgauge.cli.screens import add_row, cell, grid, heading
from streamgauge.pipeline.planning import Choice, Plan, PlannedRelease
from streamgauge.pipeline.words import cost_text, groups_text
from streamgauge.query.predicted import Error


def show_plan(console: Console, plan: Plan) -> None:
    stream = plan.file.stream
    span = "no end" if stream.ticks is None else f"{stream.ticks:,} ticks"
    what = f"{loss_text(stream.budget)} for each {unit_text(stream.unit)}, {span}"
    heading(console, plan.file.path.name, what)
    for release in plan.releases:
        console.print()
        console.print(_release(release))
    console.print()
    console.print(_ledger(plan))
    _changes(console, plan)
    _list(console, "refused", plan.refused, "red")
    _list(console, "before it can run", plan.notes, "yellow")


def _release(release: PlannedRelease) -> RenderableType:
    ticks = ticks_text(release.first, release.last)
    groups = groups_text(release.groups, discovered=release.discovered)
    told = f"{window_text(release.window)}, {cost_text(release.loss, release.delta)}, ticks {ticks}, {groups}"
    title = Text.assemble(cell(release.name, "bold cyan"), cell(f"  {told}"))
    parts = [cell(release.sql, "dim"), *(_choice(release, choice) for choice in release.choices)]
    return Group(title, Padding(Group(*parts, Text(), _errors(release)), (0, 0, 0, 2)))


def window_text(window: str) -> str:
    """
    >>> window_text("sliding 28"), window_text("running")
    ('sliding 28 ticks', 'running')
    """
    return f"{window} ticks" if " " in window else window


def _choice(release: PlannedRelease, choice: Choice) -> Text:
    several = len({each.level for each in release.choices}) > 1
    level = f" at level {choice.level}" if several else ""
    others = ", ".join(f"{name} {ratio:.2f} x" for name, ratio in choice.runners_up)
    measures = ", ".join(dict.fromkeys(choice.measures))
    return Text.assemble(
        cell(f"{measures}{level}: "),
        cell(choice.mechanism, "green"),
        cell(f" at {loss_text(choice.loss)}"),
        cell(f"; then {others} its error" if others else "", "dim"),
    )


def _errors(release: PlannedRelease) -> RenderableType:
    expected = any(error.relative is not None for error in release.errors)
    numbers = ("tick", "std error", "95 % half width", *(["relative"] if expected else []))
    table = grid("measure", *numbers, "", right=numbers)
    before = ""
    for error in release.errors:
        name = "" if error.measure == before else error.measure
        before = error.measure
        add_row(table, name, f"{error.tick:,}", *_sizes(error)[: len(numbers) - 1], cell(error.note, "dim"))
    return table


def _sizes(error: Error) -> tuple[str, ...]:
    relative = "" if error.relative is None else f"{error.relative:.1%}"
    return _number(error.stddev), _number(error.half_width), relative


def _number(value: float) -> str:
    return f"{value:,.4g}" if isfinite(value) else ""


def _ledger(plan: Plan) -> RenderableType:
    table = grid("ledger", "spent", "left")
    for moment, spent, left in zip(("before", "after"), plan.spent, plan.left, strict=True):
        whole = plan.file.stream.budget if left is None else left
        add_row(table, moment, loss_text(spent), loss_text(whole))
    return table


def _changes(console: Console, plan: Plan) -> None:
    """What an edit changes; a file that never ran has no edits."""
    edits = plan.edits
    if not (edits.kept or edits.ended or edits.budget) or edits.refused:
        return
    lines = [f"{name}: new" for name in edits.new] + [f"{name}: ends" for name in edits.ended]
    if edits.budget:
        before, after = (loss_text(budget) for budget in edits.budget)
        lines.append(f"budget: {before} becomes {after}; run --change-budget records it")
    _list(console, "changes", lines or ["none since it last ran"], "yellow" if lines else "")


def _list(console: Console, title: str, lines: tuple[str, ...] | list[str], style: str) -> None:
    if lines:
        console.print()
        console.print(cell(title, f"bold {style}".strip()))
    for line in lines:
        console.print(Padding(cell(line), (0, 0, 0, 2)), soft_wrap=True)
