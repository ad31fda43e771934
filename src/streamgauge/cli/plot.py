"""`streamgauge plot`: published releases as charts."""

from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelinePath
from streamgauge.cli.console import stderr
from streamgauge.cli.errors import raise_bad_argument

Output = Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="A page (.html) or a picture (.png).")]
Name = Annotated[str | None, typer.Option("--release", metavar="NAME", help="One release; default: all.")]


def plot(file: PipelinePath, output: Output, release: Name = None) -> None:
    """Draw every release over time, with its 95 % band.

    A page (.html) can be zoomed and loads nothing from the network; a picture (.png) is for documents. Both
    need the extra `streamgauge[plot]`. It reads the store, needs no key and spends nothing.

    Example: `streamgauge plot clinic.toml --output clinic.html`
    """
    if output.suffix not in (".html", ".png"):
        raise_bad_argument("--output", "a file that ends with .html or .png", output)
    from streamgauge.config.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.views.export import StoredReleases
    from streamgauge.cli.views.plot import plot_html, plot_png
    from streamgauge.runtime.format import plural

    with StoredReleases(checked) as stored:
        drawn = [stored.read_all(name) for name in stored.list_names(release)]
        absences = {each.release: stored.describe_absence(each) for each in drawn}
    if not drawn:
        raise_bad_argument("store", "one that has published", "one that has not yet: run the pipeline first")
    {".html": plot_html, ".png": plot_png}[output.suffix](drawn, output, absences)
    stderr().print(f"{output} shows {plural(len(drawn), 'release')}", soft_wrap=True)
