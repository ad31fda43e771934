"""Claims of an audit, its progress and its report.

Progress is a bar on a terminal. Without a terminal it is a line on standard error every half minute.
"""

import sys
from difflib import get_close_matches
from fractions import Fraction
from time import monotonic
from typing import Any, Self

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from streamgauge.audit.catalogue import LOSSES, AuditRequest
from streamgauge.audit.report import KIND_TITLES, AuditReport, Finding
from streamgauge.audit.verdict import format_amount
from streamgauge.cli.console import add_row, build_cell, build_table, escape_controls, print_heading, stderr
from streamgauge.cli.errors import raise_bad_argument
from streamgauge.privacy import Approx, Event, Loss, Pure, Tick, Unit, User, WEvent, Zcdp
from streamgauge.runtime.format import loss_text

MIN_LOSS, MAX_LOSS = Fraction(1, 10**9), 10**9  # losses for which noise can be drawn and distinguished from 0
UNIT_RULE = "event, replace, tick:EVENTS, w_event:TICKS or user:EVENTS,TICKS"


def parse_claim(
    ticks: int | None, epsilon: str | None, rho: str | None, delta: str | None, unit: str | None
) -> AuditRequest:
    """Return the requested loss, or the two default ones."""
    given = [_parse_epsilon(epsilon, delta), _parse_loss("--rho", Zcdp, rho)]
    losses = tuple(loss for loss in given if loss is not None)
    return AuditRequest(ticks, losses or LOSSES, None if unit is None else parse_unit(unit))


def _parse_epsilon(epsilon: str | None, delta: str | None) -> Loss | None:
    """Return a pure loss, or one with a delta."""
    loss = _parse_loss("--epsilon", Pure, epsilon)
    if delta is None:
        return loss
    if loss is None:
        raise_bad_argument("--delta", "given with --epsilon", delta)
    try:
        return Approx(loss.amount, delta)
    except (ValueError, TypeError, ZeroDivisionError):
        raise_bad_argument("--delta", "a number between 0 and 1, such as 0.001", delta)


def _parse_loss(option: str, kind: Any, text: str | None) -> Loss | None:
    if text is None:
        return None
    try:
        loss: Loss = kind(text)
        fits = MIN_LOSS <= loss.amount <= MAX_LOSS
    except (ValueError, TypeError, ZeroDivisionError, OverflowError):
        fits = False
    if not fits:
        raise_bad_argument(option, "a number above 0, such as 0.5 or 1/3, from 1e-9 to 1e9", text)
    return loss


def parse_unit(text: str) -> Unit:
    """
    >>> parse_unit("w_event:3"), parse_unit("user:2,30")
    (WEvent(w=3, replace=False), User(max_events_per_tick=2, max_ticks=30))
    """
    kind, _, rest = text.partition(":")
    numbers = [int(part) for part in rest.split(",") if part.strip().isdecimal()]
    kinds: dict[tuple[str, int], Any] = {
        ("event", 0): Event,
        ("replace", 0): lambda: Event(replace=True),
        ("tick", 1): Tick,
        ("w_event", 1): WEvent,
        ("user", 2): User,
    }
    made = kinds.get((kind, len(numbers)))
    if made is None or rest.count(",") != max(0, len(numbers) - 1) or not all(numbers):
        raise_bad_argument("--unit", UNIT_RULE, text)
    unit: Unit = made(*numbers)
    return unit


def suggest_name(name: str, names: list[str]) -> str:
    """Return a suggestion for an unknown name."""
    close = get_close_matches(name.casefold(), [each.casefold() for each in names], 1)
    found = next((each for each in names if close and each.casefold() == close[0]), None)
    return f" (did you mean {found}?)" if found else ""


PRINT_INTERVAL_SECONDS = 30  # seconds between two lines


class AuditProgress:
    """Progress of an audit."""

    def __init__(self) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.fields[place]}", style="bold", markup=False),
            BarColumn(bar_width=16),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
        )
        self._bar = Progress(*columns, console=stderr(), transient=True, redirect_stdout=False)
        self._task = self._bar.add_task("neighbouring inputs", place="", total=None)
        self._has_bar = sys.stderr.isatty()
        self._started_at = self._printed_at = monotonic()

    def __enter__(self) -> Self:
        if self._has_bar:
            self._bar.start()
        return self

    def __exit__(self, *failure: object) -> None:
        if self._has_bar:
            self._bar.stop()

    def update_all(self, number: int, count: int, title: str, done: int, total: int) -> None:
        """Show the progress of a list of subjects."""
        self._bar.update(
            self._task,
            description=escape_controls(title),
            place=f"{number} of {count}",
            completed=number - 1 + done / max(1, total),
            total=count,
        )
        self._print_line(f"{number} of {count}, {title}")

    def update_subject(self, title: str, done: int, total: int) -> None:
        """Show the progress of a pipeline file."""
        self._bar.update(
            self._task, description=escape_controls(title), place=f"{done:,} runs", completed=done, total=total
        )
        self._print_line(f"{title}, {done:,} of {total:,} runs")

    def _print_line(self, text: str) -> None:
        """Print a line at intervals if there is no bar."""
        now = monotonic()
        if not self._has_bar and now - self._printed_at >= PRINT_INTERVAL_SECONDS:
            self._printed_at = now
            stderr().print(f"{now - self._started_at:.0f} s: {escape_controls(text)}", markup=False, soft_wrap=True)


NUMBER_COLUMNS = ("exact", "measured", "ratio", "runs")


def show_report(console: Console, report: AuditReport) -> None:
    for kind, title in KIND_TITLES.items():
        found = [finding for finding in report.findings if finding.kind == kind]
        if found:
            print_heading(console, title)
            _print_table(console, found)
            console.print()
    for finding in report.findings:
        for reason in finding.verdict.reasons if not finding.is_broken else ():
            console.print(Padding(build_cell(f"{finding.title}: {reason}", "red"), (0, 0, 0, 2)), soft_wrap=True)
    console.print(build_cell(report.summary, "bold green" if report.is_clean else "bold red"), soft_wrap=True)


def _print_table(console: Console, findings: list[Finding]) -> None:
    table = build_table(
        "subject", "claim", *NUMBER_COLUMNS[:3], "score", NUMBER_COLUMNS[3], "verdict", right_aligned=NUMBER_COLUMNS
    )
    for finding in findings:
        verdict, measured = finding.verdict, finding.verdict.measurement
        add_row(
            table,
            finding.title,
            loss_text(verdict.loss),
            verdict.computed_text,
            "" if measured is None else format_amount(measured.amount),
            "" if finding.verdict.ratio is None else f"{finding.verdict.ratio:.2f}",
            "" if measured is None else measured.score,
            "" if measured is None else f"{measured.runs:,}",
            Text(finding.summary, "green" if finding.is_expected else "bold red"),
        )
    console.print(table)
