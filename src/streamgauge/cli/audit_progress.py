"""Who waits for an audit sees which claim is under attack, and how many of its runs are done.

On terminals a bar; elsewhere, where it takes longer, a line on standard error every half minute.
"""

import sys
from time import monotonic
from typing import Self

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from streamgauge.cli.screens import aside, printable

EVERY = 30  # seconds between two lines


class Waiting:
    """Somebody who waits for an audit."""

    def __init__(self) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.fields[place]}", style="bold", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=aside(), transient=True, redirect_stdout=False)
        self._task = self._bar.add_task("neighbouring inputs", place="", total=None)
        self._shown = sys.stderr.isatty()
        self._begun = self._said = monotonic()

    def __enter__(self) -> Self:
        if self._shown:
            self._bar.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self._shown:
            self._bar.stop()

    def for_all(self, number: int, count: int, title: str, done: int, of: int) -> None:
        """Of a list of subjects."""
        self._bar.update(
            self._task,
            description=printable(title),
            place=f"{number} of {count}",
            completed=number - 1 + done / max(1, of),
            total=count,
        )
        self._say(f"{number} of {count}, {title}")

    def for_subject(self, title: str, done: int, of: int) -> None:
        """Of a pipeline file."""
        self._bar.update(
            self._task, description=printable(title), place=f"{done:,} runs", completed=done, total=of
        )
        self._say(f"{title}, {done:,} of {of:,} runs")

    def _say(self, text: str) -> None:
        """A line where there is no bar, seldom."""
        now = monotonic()
        if not self._shown and now - self._said >= EVERY:
            self._said = now
            aside().print(f"{now - self._begun:.0f} s: {printable(text)}", markup=False, soft_wrap=True)
