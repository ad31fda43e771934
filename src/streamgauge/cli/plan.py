"""`streamgauge plan`: predicted costs and errors of a file."""

from typing import TYPE_CHECKING

import typer

from streamgauge.cli.arguments import JsonOutput, PipelinePath, read_pipeline
from streamgauge.cli.console import build_cell, print_json, stdout
from streamgauge.cli.errors import EXIT_REFUSED

if TYPE_CHECKING:
    from streamgauge.runtime.plan.plan import Plan

SECTION_STYLES = {
    "refused": "bold red",
    "before it can run": "bold yellow",
    "changes since the last run": "bold yellow",
}


def plan(file: PipelinePath, json: JsonOutput = False) -> None:
    """Show the cost and the error of each release, before any budget is spent.

    For each release: the chosen mechanism and the next best ones, the loss, the standard error and the 95 %
    half width at the first, the middle and the last tick. Then the ledger before and after, changes since the
    last run, and refusals (exit code 2).

    It reads the file, headers and schemas of its source, which are public, and the public part of its store, if
    there is one. It reads no record, needs no key and spends nothing.

    Example: `streamgauge plan clinic.toml`
    """
    checked = read_pipeline(file)
    from streamgauge.runtime.plan.plan import plan_pipeline

    planned = plan_pipeline(checked)
    if json:
        print_json(planned.to_json())
    else:
        show_plan(planned)
    if planned.refusals:
        raise typer.Exit(EXIT_REFUSED)


def show_plan(plan: "Plan") -> None:
    """Print the text of a plan on standard output. Lines that are not indented are headings."""
    console = stdout()
    for line in str(plan).split("\n"):
        style = "" if line.startswith(" ") else SECTION_STYLES.get(line, "bold")
        console.print(build_cell(line, style), soft_wrap=True)
