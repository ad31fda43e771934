"""`streamgauge releases`: the newest values in the terminal."""

from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelinePath
from streamgauge.cli.console import stdout

Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One release; default: all.")]
Last = Annotated[int, typer.Option("--last", min=1, metavar="N", help="Number of ticks of a trend.")]


def releases(file: PipelinePath, name: Name = None, last: Last = 60) -> None:
    """Show the newest value of every group, with its 95 % half width and its trend.

    It reads the store, also during a run. It needs no key and spends nothing: the values are published.

    Example: `streamgauge releases clinic.toml fever_by_region --last 28`
    """
    from streamgauge.config.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.views.export import StoredReleases
    from streamgauge.cli.views.releases import show_releases

    console = stdout()
    with StoredReleases(checked) as stored:
        names = stored.list_names(name)
        for each in names:
            newest = stored.read_newest(each, last)
            show_releases(console, newest, stored.describe_absence(newest))
        if not names:
            console.print("nothing was published yet")
