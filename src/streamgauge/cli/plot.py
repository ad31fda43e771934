"""`streamgauge plot`: what was published, as a picture."""

from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelineFile
from streamgauge.cli.failures import bad_argument
from streamgauge.cli.screens import aside

To = Annotated[Path, typer.Option("--to", metavar="PATH", help="A page (.html) or a picture (.png).")]
Name = Annotated[str | None, typer.Option("--release", metavar="NAME", help="One release; all without it.")]


def plot(file: PipelineFile, to: To, release: Name = None) -> None:
    """Draw every release over time, with its 95 % band.

    A page (.html) can be zoomed and needs nothing from the network; a picture (.png) is for documents. Both
    need the extra `streamgauge[plot]`. Reads the store; needs no key and spends nothing.

    Example: `streamgauge plot clinic.toml --to clinic.html`
    """
    if to.suffix not in (".html", ".png"):
        bad_argument("--to", "a file that ends with .html or .png", to)
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.charts import plot_html, plot_png
    from streamgauge.cli.stored import Stored
    from streamgauge.pipeline.words import counted

    with Stored(checked) as stored:
        drawn = [stored.all(name) for name in stored.names(release)]
        absences = {each.release: stored.describe_absence(each) for each in drawn}
    if not drawn:
        bad_argument("store", "one that has published", "one that has not yet: run the pipeline first")
    {".html": plot_html, ".png": plot_png}[to.suffix](drawn, to, absences)
    aside().print(f"{to} shows {counted(len(drawn), 'release')}", soft_wrap=True)
