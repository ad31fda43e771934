"""Commands that read what was published: `releases`, `plot`, `export`, `ledger`.

They read the store, also during a run. They need no key and spend nothing.
"""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from streamgauge.cli.arguments import JsonOutput, PipelinePath, build_switch, read_pipeline
from streamgauge.cli.console import print_json, stderr, stdout
from streamgauge.cli.errors import raise_bad_argument

FILE_SUFFIXES = (".csv", ".json", ".jsonl", ".parquet")


class CsvShape(StrEnum):
    """Shapes of CSV."""

    WIDE = "wide"
    LONG = "long"


Name = Annotated[str | None, typer.Argument(metavar="[NAME]", help="One release; default: all.")]
TrendTicks = Annotated[int, typer.Option("--last", min=1, metavar="N", help="Ticks or periods of a trend.")]
NameOption = Annotated[str | None, typer.Option("--release", metavar="NAME", help="One release; default: all.")]
PlotOutput = Annotated[Path, typer.Option("--output", "-o", metavar="PATH", help="A page (.html) or a picture (.png).")]
Output = Annotated[
    Path, typer.Option("--output", "-o", metavar="PATH", help=f"A new file: {', '.join(FILE_SUFFIXES)}.")
]
First = Annotated[int, typer.Option("--from-tick", min=1, metavar="TICK", help="First tick.")]
Last = Annotated[int | None, typer.Option("--to-tick", min=1, metavar="TICK", help="Last tick.")]
Layout = Annotated[
    CsvShape | None,
    typer.Option("--shape", help="Shape of CSV: a column for each key and measure, or a line for each measure."),
]
Force = Annotated[bool, build_switch("--force", help="Overwrite an existing file.")]


def releases(file: PipelinePath, name: Name = None, last: TrendTicks = 60) -> None:
    """Show the newest value of every group, with its 95 % half width and its trend.

    It reads the store, also during a run. It needs no key and spends nothing: the values are published.

    Example: `streamgauge releases clinic.toml fever_by_region --last 28`
    """
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


def plot(file: PipelinePath, output: PlotOutput, release: NameOption = None) -> None:
    """Draw every release over time, with its 95 % band.

    A page (.html) can be zoomed and loads nothing from the network; a picture (.png) is for documents. Both
    need the extra `streamgauge[plot]`. It reads the store, needs no key and spends nothing.

    Example: `streamgauge plot clinic.toml --output clinic.html`
    """
    if output.suffix not in (".html", ".png"):
        raise_bad_argument("--output", "a file that ends with .html or .png", output)
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


def export(  # noqa: PLR0917 - the options of a command
    file: PipelinePath,
    output: Output,
    release: NameOption = None,
    first: First = 1,
    last: Last = None,
    shape: Layout = None,
    force: Force = False,
) -> None:
    """Write published releases to one file: CSV, JSON, JSON lines or Parquet, by its suffix.

    The columns are those of a sink of the same kind. CSV is wide, or long with --shape long. All ticks are
    written. It reads the store, also during a run, needs no key and spends nothing. The file is written whole
    or not at all.

    Example: `streamgauge export clinic.toml --output fever.csv --release fever_by_region --from-tick 100`
    """
    if output.suffix not in FILE_SUFFIXES:
        raise_bad_argument("--output", f"a file that ends with {', '.join(FILE_SUFFIXES)}", output)
    if output.exists() and not (force and output.is_file()):
        raise_bad_argument("--output", "a new file", f"{output}, which exists: --force writes over a file")
    if shape is not None and output.suffix != ".csv":
        raise_bad_argument("--shape", "left out unless --output ends with .csv", shape.value)
    checked = read_pipeline(file)
    from streamgauge.cli.views.export import StoredReleases, write_releases
    from streamgauge.runtime.format import plural

    with StoredReleases(checked) as stored:
        names = stored.list_names(release)
        charged = [each for name, each in stored.schemas.items() if name in names]  # in the order of the file
        wide = None if shape == CsvShape.LONG else charged
        count = write_releases((item for name in names for item in stored.read_ticks(name, first, last)), output, wide)
    stderr().print(f"{output} has {plural(count, 'tick')} of {', '.join(names) or 'no release'}", soft_wrap=True)


def ledger(file: PipelinePath, json: JsonOutput = False) -> None:
    """Show the timeline of the budget: charges, ends, the rest, and all entries with their times.

    A charge is entered before its release draws noise, and an entry is never changed or removed. It reads the
    store, needs no key and spends nothing.

    Example: `streamgauge ledger clinic.toml`
    """
    checked = read_pipeline(file)
    from streamgauge.cli.views.ledger import show_ledger
    from streamgauge.runtime.ledger.render import ledger_log_as_json
    from streamgauge.runtime.published import read_ledger_log

    log = read_ledger_log(checked)
    if json:
        print_json(ledger_log_as_json(log, checked))
    else:
        show_ledger(stdout(), log, checked)
