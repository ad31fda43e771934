"""`streamgauge releases`: the newest numbers, in the terminal."""

from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelineFile
from streamgauge.cli.screens import screen

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One release; all of them without it.")]
Last = Annotated[int, typer.Option("--last", min=1, metavar="N", help="How many ticks a trend shows.")]


def releases(file: PipelineFile, name: Name = None, last: Last = 60) -> None:
    """Show the newest value of every group, with its 95 % half width, and how it got there.

    Reads the store, also while a run goes on. Needs no key and spends nothing: what is shown was published.

    Example: `streamgauge releases clinic.toml fever_by_region --last 28`
    """
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.release_tables import show_releases
    from streamgauge.cli.stored import Stored

    console = screen()
    with Stored(checked) as stored:
        names = stored.names(name)
        for each in names:
            newest = stored.newest(each, last)
            show_releases(console, newest, stored.describe_absence(newest))
        if not names:
            console.print("nothing was published yet")
