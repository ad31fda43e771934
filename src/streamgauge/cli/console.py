"""Standard output for public text, standard error for everything else.

**Promise.** Text from files is printed as it is: without markup and control characters. On a pipe, lines are as
long as necessary.
"""

import json
import re
import sys
from typing import Any, TextIO, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

LINE_CHARS = 1000  # of a line without a terminal


def stdout() -> Console:
    """Return a console for standard output."""
    return _build_console(sys.stdout)


def stderr() -> Console:
    """Return a console for standard error."""
    return _build_console(sys.stderr)


def _build_console(file: TextIO) -> Console:
    if file.isatty():
        return Console(file=file, markup=False, emoji=False, highlight=False)
    trimmed = cast(TextIO, TrimmedFile(file))
    return Console(file=trimmed, width=LINE_CHARS, markup=False, emoji=False, highlight=False)


def print_json(value: object) -> None:
    """Print a value as JSON on standard output."""
    json.dump(value, sys.stdout, indent=2)
    sys.stdout.write("\n")


class TrimmedFile:
    """A file whose lines have no spaces at their ends."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        self._file.write(re.sub(" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def escape_controls(text: str) -> str:
    """Return the text without characters that control a terminal.

    >>> escape_controls("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def to_one_line(text: str) -> str:
    """
    >>> to_one_line("two\\n  lines")
    'two lines'
    """
    return escape_controls(" ".join(text.split()))


def build_cell(value: object, style: str = "") -> Text:
    """Return a cell of a table, without markup."""
    return Text(escape_controls(str(value)), style)


def build_table(*columns: str, right_aligned: tuple[str, ...] = (), title: str | None = None) -> Table:
    """Return a plain table with a heading. Columns in `right_aligned` contain numbers."""
    table = Table(box=None, pad_edge=False, title=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(
            build_cell(name), justify="right" if name in right_aligned else "left", no_wrap=name in right_aligned
        )
    if title is not None:
        table.title = build_cell(title, "bold")
        table.title_justify = "left"
    return table


def add_row(table: Table, *cells: Any) -> None:
    """Add a row. Texts have no markup; a `Text` keeps its style."""
    table.add_row(*(each if isinstance(each, Text) else build_cell(each) for each in cells))


def print_heading(console: Console, name: str, rest: str = "") -> None:
    """Print a line above a table."""
    console.print(Text.assemble(build_cell(name, "bold"), build_cell(f"  {rest}" if rest else "", "dim")))
