"""Where commands write: standard output for what is public, standard error for everything else.

**Promise.** What comes from files is shown as it is written: no markup, no control characters. On a pipe
lines are as long as they need to be.
"""

import re
import sys
from typing import Any, TextIO, cast

from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 1000  # characters of a line where nobody looks at a terminal


def screen() -> Console:
    """Standard output."""
    return _console(sys.stdout)


def aside() -> Console:
    """Standard error."""
    return _console(sys.stderr)


def _console(file: TextIO) -> Console:
    if file.isatty():
        return Console(file=file, markup=False, emoji=False, highlight=False)
    trimmed = cast(TextIO, Trimmed(file))
    return Console(file=trimmed, width=WIDE, markup=False, emoji=False, highlight=False)


class Trimmed:
    """A file whose lines have no spaces at their ends."""

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        self._file.write(re.sub(" +$", "", text, flags=re.MULTILINE))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def printable(text: str) -> str:
    """Without characters that a terminal would obey.

    >>> printable("a\\x1b[2Jb")
    'a\\\\x1b[2Jb'
    """
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def one_line(text: str) -> str:
    """
    >>> one_line("two\\n  lines")
    'two lines'
    """
    return printable(" ".join(text.split()))


def cell(value: object, style: str = "") -> Text:
    """A cell of a table, as it is."""
    return Text(printable(str(value)), style)


def grid(*columns: str, right: tuple[str, ...] = (), title: str | None = None) -> Table:
    """A plain table: a heading, a rule, rows. Columns in `right` hold numbers."""
    table = Table(box=None, pad_edge=False, title=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(cell(name), justify="right" if name in right else "left", no_wrap=name in right)
    if title is not None:
        table.title = cell(title, "bold")
        table.title_justify = "left"
    return table


def add_row(table: Table, *cells: Any) -> None:
    """Texts are shown as they are; what is a `Text` already keeps its style."""
    table.add_row(*(each if isinstance(each, Text) else cell(each) for each in cells))


def heading(console: Console, name: str, rest: str = "") -> None:
    """A line above a table."""
    console.print(Text.assemble(cell(name, "bold"), cell(f"  {rest}" if rest else "", "dim")))
