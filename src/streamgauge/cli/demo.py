"""`streamgauge demo`: a synthetic clinic, planned, run, and shown beside its truth."""

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamgauge.cli.arguments import switch
from streamgauge.cli.failures import bad_argument
from streamgauge.cli.screens import heading, screen

if TYPE_CHECKING:
    from rich.console import Console

VISITS = 200_000

Folder = Annotated[Path, typer.Option("--folder", metavar="DIR", help="Where everything goes.")]
Events = Annotated[
    int | None,
    typer.Option("--events", min=1000, max=10**7, metavar="N", help="How many visits, or reports (200,000)."),
]
Local = Annotated[bool, switch("--local", help="A poll instead, in which each device adds its own noise.")]
Live = Annotated[bool, switch("--live", help="Serve it in the browser instead, a tick a second.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="Of --live; 0 is any.")]
Ticks = Annotated[
    int | None,
    typer.Option("--ticks", min=1, metavar="N", help="Of --live: ends after so many; for ever without."),
]


def demo(  # noqa: PLR0917 - the options of a command
    folder: Folder = Path("streamgauge-demo"),
    events: Events = None,
    local: Local = False,
    live: Live = False,
    port: Port = 8765,
    ticks: Ticks = None,
) -> None:
    """Make a synthetic clinic, plan it, run it, and show what was published beside the truth.

    A flu wave over 90 days in four regions: running counts and means of fevers, the fevers of the last week,
    the median temperature. Draws a plot and ends. Touches its own folder only; a second demo in it starts
    anew.

    With --live the clinic is served on this machine, as `serve` would: the page, with the truth to switch on,
    and a token for asking it things. It needs the extra `streamgauge[server]`, and goes on until Ctrl-C.

    With --local nobody is trusted: a made-up crowd is asked for its favourite emoji, every device sends a
    private report, and estimates are shown beside the truth; nothing is written. With --live as well it is a
    poll in the browser: yours makes its own report, and shows it.

    Example: `streamgauge demo --events 50000`
    """
    if not live and ticks is not None:
        bad_argument("--ticks", "given with --live", ticks)
    if live and events is not None:
        bad_argument("--events", "given without --live", events)
    if local and not live:
        from streamgauge.cli.emoji_demo import emoji_demo

        emoji_demo(events or VISITS)
    elif live:
        serve_live(folder, port, ticks, local=local)
    else:
        from streamgauge.cli.demo_folder import anew

        with anew(folder):
            run_clinic(folder, events or VISITS)


def run_clinic(folder: Path, visits: int) -> None:
    from streamgauge.cli.clinic import write_clinic
    from streamgauge.cli.demo_tables import show_truth
    from streamgauge.cli.plan_tables import show_plan
    from streamgauge.cli.run import run
    from streamgauge.pipeline.keys import create_key
    from streamgauge.pipeline.pipeline import Pipeline

    console = screen()
    step(console, "1. A clinic", f"{visits:,} visits over 90 days, in {folder}/visits.jsonl")
    write_clinic(folder, visits)
    create_key(folder / "clinic.key")
    step(console, "2. Its plan", "before a drop of budget is spent: streamgauge plan clinic.toml")
    pipeline = Pipeline.from_file(folder / "clinic.toml")
    show_plan(console, pipeline.plan())
    step(console, "3. Its run", "streamgauge run clinic.toml")
    run(folder / "clinic.toml")
    step(console, "4. What was published, beside the truth", "which no reader of a real clinic can see")
    show_truth(console, pipeline, folder / "visits.jsonl")
    step(console, "5. Where everything is")
    draw(folder)
    show_places(folder)


def serve_live(folder: Path, port: int, ticks: int | None, *, local: bool) -> None:
    """Whatever stands in its way is known before an earlier demo is removed."""
    from streamgauge.cli.demo_folder import anew
    from streamgauge.query.packages import needs

    with needs("starlette and uvicorn", "streamgauge[server]"):
        from streamgauge.cli.live_demo import live_demo
        from streamgauge.cli.live_emoji import live_emoji
        from streamgauge.server.serving import HOST, PortTaken, listening
    try:
        listening(HOST, port).close()
        with anew(folder):
            (live_emoji if local else live_demo)(folder, port, ticks)
    except PortTaken as taken:
        raise PortTaken(f"{taken}: choose another with --port") from None


def step(console: "Console", name: str, rest: str = "") -> None:
    """One part of the demo, with room around its heading."""
    console.print()
    heading(console, name, rest)
    console.print()


def draw(folder: Path) -> None:
    """Pictures, as far as their packages are there."""
    from streamgauge.cli.plot import plot
    from streamgauge.query.packages import MissingPackage

    for name in ("plot.html", "plot.png"):
        try:
            plot(folder / "clinic.toml", folder / name)
        except MissingPackage as missing:
            screen().print(f"no {name}: {missing}")


def show_places(folder: Path) -> None:
    from streamgauge.cli.screens import add_row, grid

    told = {
        "clinic.toml": "the pipeline file: edit it, plan it, run it again",
        "releases.jsonl": "what was published, as its sink has it",
        "plot.html": "the same, to look at in a browser",
        "plot.png": "the same, as a picture",
        "clinic.streamgauge": "the store: the ledger, the releases, the sealed state",
    }
    table = grid("", "")
    table.show_header = False
    for name, what in told.items():
        if (folder / name).exists():
            add_row(table, str(folder / name), what)
    screen().print(table)
    screen().print(f"\nnext: {command()} releases {folder / 'clinic.toml'}", soft_wrap=True)


def command() -> str:
    """How to call us from here: by name, if that is found, or as it was done now."""
    return "streamgauge" if shutil.which("streamgauge") else os.path.relpath(sys.argv[0])
