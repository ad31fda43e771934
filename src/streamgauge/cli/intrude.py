"""`streamgauge intrude`: an announced intrusion into a pan-private pipeline, or a rehearsal of one."""

import json as json_text
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgauge.cli.arguments import AsJson, switch
from streamgauge.cli.failures import bad_argument
from streamgauge.cli.screens import aside, screen

if TYPE_CHECKING:
    from streamgauge.query.settings import PipelineFile

REHEARSALS = 1000

File = Annotated[
    Path | None, typer.Argument(metavar="FILE", help="The pipeline file; none is needed to --rehearse.")
]
To = Annotated[
    Path | None,
    typer.Option("--to", metavar="DIR", help="A folder that does not exist yet, for what is seen."),
]
Rehearse = Annotated[bool, switch("--rehearse", help="Show what an intruder learns, on made-up people.")]
Yes = Annotated[bool, switch("--yes", help="Ask nothing: it cannot be undone, and costs accuracy.")]


def intrude(
    file: File = None, to: To = None, rehearse: Rehearse = False, yes: Yes = False, json: AsJson = False
) -> None:
    """Hand over all that a pan-private pipeline remembers, noise before it and after it, on the record.

    For when someone has a right to look: every table and register gets fresh noise, what it holds then is
    written to a new folder with a manifest, and it gets fresh noise again, which nobody sees. The intrusion
    is in the ledger before anything is handed over. Stop the run first, and start it again afterwards (or ask
    the server that runs it: POST /api/intrusions); later releases have larger errors, and say so. Tables of
    users survive as many as the file reserves.

    With --rehearse nothing is handed over and nobody is real: it shows what an intruder may think of one
    person after looking, with pan-privacy and without.

    Example: `streamgauge intrude clinic.toml --to for-the-court`
    """
    if rehearse:
        if to is not None:
            bad_argument("--to", "left out of a rehearsal, which hands over nothing", to)
        _rehearse(file, json)
        return
    if file is None or to is None:
        missing, rule = ("FILE", "a pipeline file") if file is None else ("--to", "a new folder")
        bad_argument(missing, f"{rule}, unless it is a rehearsal (--rehearse)", "none")
    _intrude(file, to, yes, json)


def _rehearse(file: Path | None, json: bool) -> None:
    """Of a file that is named anyway it is told if it is none."""
    from streamgauge.cli.rehearsed_tables import show_rehearsal
    from streamgauge.panprivate.rehearsal import rehearsed
    from streamgauge.query.pipeline_file import read_pipeline

    if file is not None:
        read_pipeline(file)
    told = rehearsed(REHEARSALS)
    if json:
        _print(told)
    else:
        show_rehearsal(screen(), told)


def _intrude(file: Path, to: Path, yes: bool, json: bool) -> None:
    from streamgauge.pipeline.intruding import check_intrusion
    from streamgauge.pipeline.intruding import intrude as intruded
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    known = check_intrusion(checked, to)
    _refuse_while_it_runs(checked, to)
    if not yes:
        _confirm(f"{file}: {known}.")
    seen = intruded(checked, to)
    if json:
        told = {"intrusion": seen.number, "tick": seen.tick, "folder": str(to)}
        _print(told | {"releases": [each["release"] for each in seen.manifest["releases"]]})
        return
    console = aside()
    console.print(f"intrusion {seen.number} of {file} is on record, after tick {seen.tick}", soft_wrap=True)
    console.print(f"what was seen is in {to}; manifest.json says what each file is", soft_wrap=True)


def _refuse_while_it_runs(file: "PipelineFile", to: Path) -> None:
    """Before anybody is asked, and with what to do: a server can hold an intrusion itself."""
    from streamgauge.pipeline.intruding import StillRunning
    from streamgauge.pipeline.lock import Lock
    from streamgauge.pipeline.store_errors import AlreadyRunning
    from streamgauge.server.announced import NAME, place_of

    try:
        Lock(file.folder).release()
    except AlreadyRunning as refusal:
        name = to.name if NAME.fullmatch(to.name) else "NAME"
        asked = f"""POST /api/intrusions {{"folder": "{name}"}} with a curator's token"""
        ways = f"stop that run or server (Ctrl-C) and intrude again; or ask the server, {asked}"
        where = f"which hands over to {place_of(file, name)} and goes on"
        raise StillRunning(f"{file.path.name}: {refusal}: {ways}, {where}") from None


def _confirm(known: str) -> None:
    """Whoever is at the terminal says so once more."""
    if not sys.stdin.isatty():
        bad_argument("--yes", "given where nobody can be asked", "none")
    aside().print(
        f"{known} One more cannot be undone, and makes all later releases less accurate.", soft_wrap=True
    )
    if not typer.confirm("Hand over now?", err=True):
        raise typer.Abort


def _print(told: dict[str, Any]) -> None:
    json_text.dump(told, sys.stdout, indent=2)
    sys.stdout.write("\n")
