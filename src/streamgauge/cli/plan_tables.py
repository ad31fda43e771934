"""A plan on the screen: the same words as in its text, in tables with colours."""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from streamgauge.cli.screens import add_row, cell, grid, heading
from streamgauge.pipeline.plan_text import (
    NUMBERS,
    Rows,
    about,
    declared,
    error_rows,
    ledger_rows,
    sections,
    title,
)
from streamgauge.pipeline.planning import Plan, PlannedRelease
from streamgauge.query.settings import Stream

STYLES = {
    "refused": "red",
    "before it can run": "yellow",
    "changes since the last run": "yellow",
    "memory": "",
}


def show_plan(console: Console, plan: Plan) -> None:
    stream = plan.file.stream
    heading(console, plan.file.path.name)
    for name, told in declared(stream):
        console.print(Text.assemble(cell(f"  {name:<8}  ", "dim"), cell(told)), soft_wrap=True)
    for release in plan.releases:
        console.print()
        console.print(_release(release, stream))
    console.print()
    console.print(_table(ledger_rows(plan)))
    for name, lines in sections(plan):
        _list(console, name, lines)


def _release(release: PlannedRelease, stream: Stream) -> RenderableType:
    asked, *rest = about(release, stream)
    told = Group(cell(asked, "dim"), *map(cell, rest), Text(), _table(error_rows(release.errors)))
    return Group(cell(title(release, stream), "bold cyan"), Padding(told, (0, 0, 0, 2)))


def _table(rows: Rows) -> Table:
    """Rows under a heading; what has no heading is an aside."""
    names, *others = rows
    table = grid(*names, right=NUMBERS)
    for row in others:
        add_row(table, *(each if name else cell(each, "dim") for name, each in zip(names, row, strict=True)))
    return table


def _list(console: Console, name: str, lines: Sequence[str]) -> None:
    console.print()
    console.print(cell(name, f"bold {STYLES[name]}"))
    for line in lines:
        console.print(Padding(cell(line), (0, 0, 0, 2)), soft_wrap=True)
