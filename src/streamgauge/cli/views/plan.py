"""A plan in the terminal: the words of its text, in coloured tables."""

from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from streamgauge.cli.console import add_row, build_cell, build_table, print_heading
from streamgauge.config.settings import Stream
from streamgauge.runtime.plan.plan import Plan, ReleaseForecast
from streamgauge.runtime.plan.render import (
    NUMBER_COLUMNS,
    Rows,
    describe_release,
    describe_stream,
    error_rows,
    ledger_rows,
    sections,
    title,
)

STYLES = {"refused": "red", "before it can run": "yellow", "changes since the last run": "yellow", "memory": ""}


def show_plan(console: Console, plan: Plan) -> None:
    stream = plan.file.stream
    print_heading(console, plan.file.path.name)
    for name, told in describe_stream(stream):
        console.print(Text.assemble(build_cell(f"  {name:<8}  ", "dim"), build_cell(told)), soft_wrap=True)
    for release in plan.releases:
        console.print()
        console.print(_build_release(release, stream))
    console.print()
    console.print(_build_table(ledger_rows(plan)))
    for name, lines in sections(plan):
        _print_list(console, name, lines)


def _build_release(release: ReleaseForecast, stream: Stream) -> RenderableType:
    asked, *rest = describe_release(release, stream)
    told = Group(build_cell(asked, "dim"), *map(build_cell, rest), Text(), _build_table(error_rows(release.errors)))
    return Group(build_cell(title(release, stream), "bold cyan"), Padding(told, (0, 0, 0, 2)))


def _build_table(rows: Rows) -> Table:
    """Return a table; columns without a heading are dim."""
    names, *others = rows
    table = build_table(*names, right_aligned=NUMBER_COLUMNS)
    for row in others:
        add_row(table, *(each if name else build_cell(each, "dim") for name, each in zip(names, row, strict=True)))
    return table


def _print_list(console: Console, name: str, lines: Sequence[str]) -> None:
    console.print()
    console.print(build_cell(name, f"bold {STYLES[name]}"))
    for line in lines:
        console.print(Padding(build_cell(line), (0, 0, 0, 2)), soft_wrap=True)
