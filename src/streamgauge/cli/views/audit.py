"""Claims of an audit, its progress and its report.

Progress is a bar on a terminal. Without a terminal it is a line on standard error every half minute.
"""

import sys
from collections.abc import Callable
from difflib import get_close_matches
from fractions import Fraction
from io import StringIO
from time import monotonic
from typing import Any, Self

from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from streamgauge.audit.catalogue import LOSSES, AuditRequest
from streamgauge.audit.report import KIND_TITLES, AuditReport, Finding
from streamgauge.audit.verdict import Verdict, format_amount
from streamgauge.cli.console import add_row, build_cell, build_table, escape_controls, print_heading, stderr
from streamgauge.cli.errors import raise_bad_argument
from streamgauge.privacy import Approx, Event, Loss, Pure, Tick, Unit, User, WEvent, Zcdp
from streamgauge.runtime.format import loss_text

MIN_LOSS, MAX_LOSS = Fraction(1, 10**9), 10**9  # losses for which noise can be drawn and distinguished from 0
UNIT_RULE = "event, replace, tick:EVENTS, w_event:TICKS, user:EVENTS,TICKS or user:EVENTS,TICKS,PER,RENEWAL"


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
        ("user", 4): lambda *given: User(*given[:2], per=given[2], renewal=given[3]),
    }
    made = kinds.get((kind, len(numbers)))
    if made is None or rest.count(",") != max(0, len(numbers) - 1) or not all(numbers):
        raise_bad_argument("--unit", UNIT_RULE, text)
    try:
        unit: Unit = made(*numbers)
    except ValueError as refusal:
        raise_bad_argument("--unit", str(refusal), text)
    return unit


def suggest_name(name: str, names: list[str]) -> str:
    """Return a suggestion for an unknown name."""
    close = get_close_matches(name.casefold(), [each.casefold() for each in names], 1)
    found = next((each for each in names if close and each.casefold() == close[0]), None)
    return f" (did you mean {found}?)" if found else ""


PRINT_INTERVAL_SECONDS = 30  # seconds between two lines


class AuditProgress:
    """Progress of an audit."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
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
        self._clock = clock
        self._started_at = self._printed_at = clock()

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

    def print_computed(self, verdict: Verdict) -> None:
        """Print a verdict that needs no run."""
        stderr().print(f"computed: {escape_controls(str(verdict))}", markup=False, soft_wrap=True)

    def _print_line(self, text: str) -> None:
        """Print a line at intervals if there is no bar."""
        now = self._clock()
        if not self._has_bar and now - self._printed_at >= PRINT_INTERVAL_SECONDS:
            self._printed_at = now
            stderr().print(f"{now - self._started_at:.0f} s: {escape_controls(text)}", markup=False, soft_wrap=True)


COLUMNS = ("subject", "claim", "exact", "measured", "ratio", "score", "runs", "verdict")
PLOT_COLUMN = "measured / claim"
PLOT_CELLS = 40  # which end at twice the claim
PAGE_CELLS = 220
PAGE_FORMAT = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Streamgauge: an audit</title>
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
</head><body><main><h1>An audit of Streamgauge</h1><pre>{code}</pre></main></body></html>
"""
PAGE_INTRODUCTION = """\
Each claim says that no reader can distinguish two neighbouring inputs better than epsilon (or rho) allows.
measured  A lower bound of the true loss. All bounds of this page hold together. One above the claim condemns it.
exact     The computed loss over all neighbours of the unit, or the two ends of an interval that has it.
ratio     The measured bound over the claim. If it is far below 1, the claim is loose or the attack weak.
verdict   A claim that holds was not refuted, which is no proof: proofs are in the files of the mechanisms.
plot      | is the claim, v the exact loss, also if both are equal. A plot ends at twice the claim.
"""
SECTION_NOTES = {
    "pipeline": "Real runs of the file on neighbouring inputs. Exact covers the whole horizon.",
    "unit": "A quarter of the runs of the same claim for one event.",
    "memory": "An intruder sees the memory once, unannounced.",
    "adversary": "Values are chosen in view of all releases so far.",
    "adapting": "Exact covers groups that were searched, and the spending of windows over all decisions.",
    "published": "Fewer runs, and no score that is known to be best: bounds are looser.",
    "local": "Small settings, all items and histories. Means and variances of estimates are computed too.",
    "twin": "An audit that misses one of the broken, or condemns an honest one, is itself broken.",
}


def render_page(report: AuditReport) -> str:
    """Render a report as a page: one file without script, font or picture, whose names are text."""
    console = Console(record=True, file=StringIO(), width=PAGE_CELLS, color_system="truecolor", force_terminal=True)
    console.print(Text(PAGE_INTRODUCTION))
    show_report(console, report, is_page=True)
    return console.export_html(inline_styles=True, code_format=PAGE_FORMAT)


def show_report(console: Console, report: AuditReport, *, is_page: bool = False) -> None:
    """Print a table for each kind of finding; on a page also with notes and a plot."""
    for kind, title in KIND_TITLES.items():
        found = [finding for finding in report.findings if finding.kind == kind]
        if found:
            print_heading(console, title)
            if is_page:
                console.print(build_cell(SECTION_NOTES.get(kind, "")))
            console.print(_build_table(found, is_page))
            console.print()
    for finding in report.findings:
        for reason in finding.verdict.reasons if not finding.is_broken else ():
            console.print(Padding(build_cell(f"{finding.title}: {reason}", "red"), (0, 0, 0, 2)), soft_wrap=True)
    console.print(build_cell(report.summary, "bold green" if report.is_clean else "bold red"), soft_wrap=True)


def _build_table(findings: list[Finding], has_plot: bool) -> Table:
    names = (*COLUMNS, PLOT_COLUMN) if has_plot else COLUMNS
    table = build_table(*names, right_aligned=("exact", "measured", "ratio", "runs"))
    for finding in findings:
        verdict, measured = finding.verdict, finding.verdict.measurement
        numbers = ("", "", "", "")
        if measured is not None:
            ratio = measured.amount / verdict.claimed
            numbers = format_amount(measured.amount), f"{ratio:.2f}", measured.score, f"{measured.runs:,}"
        verdict_cell = Text(finding.summary, "green" if finding.is_expected else "bold red")
        plot = [draw_bar(verdict)] if has_plot else []
        add_row(table, finding.title, loss_text(verdict.loss), verdict.computed_text, *numbers, verdict_cell, *plot)
    return table


def draw_bar(verdict: Verdict) -> str:
    """Draw measured over claimed, on one scale for all findings, with marks for the claim and the exact loss.

    >>> from streamgauge.audit.exact.worst_case import WorstCase
    >>> draw_bar(Verdict("a", Pure(1), WorstCase((1,), 1.5))).rstrip()
    '                    |         v'
    """
    cells = [" "] * (PLOT_CELLS + 1)
    length = _find_cell(verdict.ratio or 0.0)
    cells[:length] = "#" * length
    cells[_find_cell(1.0)] = "|"
    for end in verdict.loss_bounds or ():
        cells[_find_cell(end / verdict.claimed)] = "v"
    return "".join(cells)


def _find_cell(ratio: float) -> int:
    return round(PLOT_CELLS * min(max(ratio, 0.0), 2.0) / 2)
