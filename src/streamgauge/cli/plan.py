"""`streamgauge plan`: what a file will cost and how wrong it will be."""

import json as json_text
import sys

import typer

from streamgauge.cli.arguments import AsJson, PipelineFile
from streamgauge.cli.failures import REFUSED
from streamgauge.cli.screens import screen


def plan(file: PipelineFile, json: AsJson = False) -> None:
    """Show what each release costs and how wrong it will be, before a drop of budget is spent.

    For each release: the mechanism that was chosen and those that came next, its loss, the standard error
    and the 95 % half width at the first, the middle and the last tick. Then the ledger before and after, what
    an edit of the file changes, and what is refused (exit code 2).

    Reads the file, headers and schemas of its source, which are public, and, if there is one, the public
    side of its store. Reads no record, needs no key, spends nothing.

    Example: `streamgauge plan clinic.toml`
    """
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.plan_tables import show_plan
    from streamgauge.pipeline.planning import plan_of

    planned = plan_of(checked)
    if json:
        json_text.dump(planned.as_json(), sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        show_plan(screen(), planned)
    if planned.refused:
        raise typer.Exit(REFUSED)
