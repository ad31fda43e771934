"""`streamgauge demo`: a synthetic clinic, planned, run, and shown beside its truth.

clinic         the clinic, its pipeline and its truth
live           live demos behind the server
clinic_live    the clinic as a live stream
poll           a poll in the local model
poll_live      the live poll

**Promise.** A demo removes nothing before it knows that the folder is a demo's, and that no other demo, run or
server uses it.
"""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamgauge.cli.arguments import build_switch
from streamgauge.cli.console import print_heading, stdout
from streamgauge.cli.errors import raise_bad_argument

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_VISITS = 200_000

Folder = Annotated[Path, typer.Option("--folder", metavar="DIR", help="Folder of all files.")]
Events = Annotated[
    int | None,
    typer.Option("--events", min=1000, max=10**7, metavar="N", help="Number of visits or reports (200,000)."),
]
Local = Annotated[bool, build_switch("--local", help="Run a poll in which each device adds its own noise.")]
Live = Annotated[bool, build_switch("--live", help="Serve the demo in the browser, a tick a second.")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port of --live; 0 is any free one.")
]
Ticks = Annotated[
    int | None, typer.Option("--ticks", min=1, metavar="N", help="End --live after N ticks; without it, Ctrl-C does.")
]


def demo(  # noqa: PLR0917 - the options of a command
    folder: Folder = Path("streamgauge-demo"),
    events: Events = None,
    local: Local = False,
    live: Live = False,
    port: Port = 8765,
    ticks: Ticks = None,
) -> None:
    """Run a synthetic clinic, and show its releases beside the truth.

    The demo writes a flu wave over 90 days in four regions, plans it, runs it and draws a plot. Releases are
    running counts and means of fevers, the fevers of the last week, and the median temperature. It touches its
    own folder only; a second demo replaces the first.

    With --live the clinic is served on this machine, as `serve` would: the page, with the truth to switch on,
    and a token of an analyst. It needs the extra `streamgauge[server]`, and runs until Ctrl-C.

    With --local, synthetic devices report their favourite emoji without a trusted party, and estimates are
    shown beside the truth; nothing is written. With --local and --live it is a poll in the browser, which makes
    a report of its own and shows it.

    Example: `streamgauge demo --events 50000`
    """
    if not live and ticks is not None:
        raise_bad_argument("--ticks", "given with --live", ticks)
    if live and events is not None:
        raise_bad_argument("--events", "given without --live", events)
    if local and not live:
        from streamgauge.cli.demo.poll import run_poll

        run_poll(events or DEFAULT_VISITS)
    elif live:
        serve_live(folder, port, ticks, local=local)
    else:
        with prepare_folder(folder):
            run_clinic(folder, events or DEFAULT_VISITS)


def run_clinic(folder: Path, visits: int) -> None:
    from streamgauge.cli.demo.clinic import show_truth, write_clinic
    from streamgauge.cli.plan import show_plan
    from streamgauge.cli.run import run
    from streamgauge.runtime.pipeline import Pipeline
    from streamgauge.store.keys import create_key

    console = stdout()
    print_step(console, "1. A clinic", f"{visits:,} visits over 90 days, in {folder}/visits.jsonl")
    write_clinic(folder, visits)
    create_key(folder / "clinic.key")
    print_step(console, "2. Its plan", "before a drop of budget is spent: streamgauge plan clinic.toml")
    pipeline = Pipeline.from_file(folder / "clinic.toml")
    show_plan(pipeline.plan())
    print_step(console, "3. Its run", "streamgauge run clinic.toml")
    run(folder / "clinic.toml")
    print_step(console, "4. What was published, beside the truth", "which no reader of a real clinic can see")
    show_truth(console, pipeline, folder / "visits.jsonl")
    print_step(console, "5. Where everything is")
    draw_plots(folder)
    print_files(folder)


def serve_live(folder: Path, port: int, ticks: int | None, *, local: bool) -> None:
    """Serve a live demo. Check the port and the packages before an earlier demo is removed."""
    from streamgauge.optional import require_package

    with require_package("starlette and uvicorn", "streamgauge[server]"):
        from streamgauge.cli.demo.clinic_live import ClinicDemo, write_live_clinic
        from streamgauge.cli.demo.live import serve_demo
        from streamgauge.cli.demo.poll_live import PollDemo, write_poll
        from streamgauge.server.http.serving import DEFAULT_HOST, PortUnavailableError, open_listener
    try:
        open_listener(DEFAULT_HOST, port).close()
        with prepare_folder(folder):
            demo, write_file = (PollDemo, write_poll) if local else (ClinicDemo, write_live_clinic)
            serve_demo(demo, write_file, folder, port, ticks)
    except PortUnavailableError as error:
        raise PortUnavailableError(f"{error}: choose another with --port") from None


def print_step(console: "Console", name: str, rest: str = "") -> None:
    """Print the heading of a part of the demo."""
    console.print()
    print_heading(console, name, rest)
    console.print()


def draw_plots(folder: Path) -> None:
    """Draw the plots whose packages are installed."""
    from streamgauge.cli.results import plot
    from streamgauge.optional import MissingPackageError

    for name in ("plot.html", "plot.png"):
        try:
            plot(folder / "clinic.toml", folder / name)
        except MissingPackageError as missing:
            stdout().print(f"no {name}: {missing}")


def print_files(folder: Path) -> None:
    from streamgauge.cli.console import add_row, build_table

    descriptions = {
        "clinic.toml": "the pipeline file: edit it, plan it, run it again",
        "releases.jsonl": "what was published, as its sink has it",
        "plot.html": "the same, to look at in a browser",
        "plot.png": "the same, as a picture",
        "clinic.streamgauge": "the store: the ledger, the releases, the sealed state",
    }
    table = build_table("", "")
    table.show_header = False
    for name, description in descriptions.items():
        if (folder / name).exists():
            add_row(table, str(folder / name), description)
    stdout().print(table)
    command = "streamgauge" if shutil.which("streamgauge") else os.path.relpath(sys.argv[0])
    stdout().print(f"\nnext: {command} releases {folder / 'clinic.toml'}", soft_wrap=True)


STORE_NAMES = ("clinic.streamgauge", "emoji.streamgauge")
FILE_NAMES = ("clinic.toml", "visits.jsonl", "releases.jsonl", "plot.html", "plot.png", "emoji.toml")
KEY_FILE_NAMES = tuple(f"{name}.key{rest}" for name in ("clinic", "emoji") for rest in ("", ".guard", ".guard.lock"))


@contextmanager
def prepare_folder(folder: Path) -> Iterator[None]:
    """Remove an earlier demo from the folder, and lock the folder against other demos."""
    if folder.exists() and not folder.is_dir():
        raise_bad_argument("--folder", "a folder", folder)
    folder.mkdir(parents=True, exist_ok=True)
    with lock_folder(folder):
        if any(folder.iterdir()) and not is_demo(folder):
            raise_bad_argument("--folder", "an empty folder, or one of an earlier demo", folder)
        clear_folder(folder)
        yield


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    from streamgauge.files import FileLock
    from streamgauge.store.errors import AlreadyRunningError
    from streamgauge.store.lock import read_holder_pid

    try:
        lock = FileLock(folder, os.O_RDONLY)
    except BlockingIOError:
        holders = [read_holder_pid(folder / store) for store in STORE_NAMES]
        raise AlreadyRunningError(folder, next(filter(None, holders), None)) from None
    with closing(lock):
        yield


def is_demo(folder: Path) -> bool:
    from streamgauge.cli.demo.clinic import CLINIC_MARK
    from streamgauge.cli.demo.poll import POLL_MARK

    files = {folder / "clinic.toml": CLINIC_MARK, folder / "emoji.toml": POLL_MARK}
    return any(file.is_file() and file.read_bytes().startswith(mark.encode()) for file, mark in files.items())


def clear_folder(folder: Path) -> None:
    """Remove all files of demos, unless a run has locked some."""
    from streamgauge.store.lock import Lock

    with ExitStack() as locks:
        for store in STORE_NAMES:
            if (folder / store).is_dir():
                locks.enter_context(Lock(folder / store))
        for name in (*STORE_NAMES, *FILE_NAMES, *KEY_FILE_NAMES):
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
            else:
                (folder / name).unlink(missing_ok=True)
