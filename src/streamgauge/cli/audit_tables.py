"""A report of an audit as a table."""

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from streamgauge.audit.report import TITLES, Finding, Report
from streamgauge.audit.verdict import shown
from streamgauge.cli.screens import add_row, cell, grid, heading
from streamgauge.pipeline.words import loss_text

NUMBERS = ("exact", "measured", "ratio", "runs")


def show_report(console: Console, report: Report) -> None:
    for kind, title in TITLES.items():
        found = [finding for finding in report.findings if finding.kind == kind]
        if found:
            heading(console, title)
            _table(console, found)
            console.print()
    for finding in report.findings:
        for reason in finding.verdict.reasons if not finding.guilty else ():
            console.print(Padding(cell(f"{finding.title}: {reason}", "red"), (0, 0, 0, 2)), soft_wrap=True)
    console.print(cell(report.summary, "bold green" if report.clean else "bold red"), soft_wrap=True)


def _table(console: Console, findings: list[Finding]) -> None:
    table = grid("subject", "claim", *NUMBERS[:3], "score", NUMBERS[3], "verdict", right=NUMBERS)
    for finding in findings:
        verdict, measured = finding.verdict, finding.verdict.measured
        add_row(
            table,
            finding.title,
            loss_text(verdict.loss),
            verdict.computed,
            "" if measured is None else shown(measured.amount),
            "" if finding.verdict.ratio is None else f"{finding.verdict.ratio:.2f}",
            "" if measured is None else measured.score,
            "" if measured is None else f"{measured.runs:,}",
            Text(finding.words, "green" if finding.as_it_must_be else "bold red"),
        )
    console.print(table)
