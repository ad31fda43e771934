"""`streamgauge intrude`: an announced intrusion into a pan-private pipeline, or its rehearsal."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgauge.cli.arguments import JsonOutput, build_switch, read_pipeline
from streamgauge.cli.console import add_row, build_cell, build_table, print_heading, print_json, stderr, stdout
from streamgauge.cli.errors import raise_bad_argument

if TYPE_CHECKING:
    from rich.console import Console

    from streamgauge.config.settings import PipelineFile

REHEARSAL_COUNT = 1000
BAR_CHARS = 20  # signs of the longest bar
CERTAIN_PROBABILITY = 0.999
TITLES = {
    "counter": "One visit in a running count: did Robin come in tick {came_in}?",
    "table": "One patient of {patients} in a table of users: did Robin ever come?",
}
SCENE_TEXTS = {
    "counter": "The memory is seized after tick {seen_after}; the intruder has read every release, and knows "
    "all others who came.",
    "table": "Robin came in weeks 1 and 3, or never. The table is seized in week 2; the intruder reads the "
    "estimate of week 3, and knows all other visitors.",
}

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="The pipeline file; none is needed to --rehearse.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", metavar="DIR", help="New folder for the export.")]
Rehearse = Annotated[bool, build_switch("--rehearse", help="Show what an intruder learns, with synthetic people.")]
Yes = Annotated[
    bool, build_switch("--yes", help="Skip the confirmation. An intrusion cannot be undone, and costs accuracy.")
]


def intrude(
    file: File = None, output: Output = None, rehearse: Rehearse = False, yes: Yes = False, json: JsonOutput = False
) -> None:
    """Export the memory of a pan-private pipeline, with noise before and after, on the record.

    Use it if someone has a right to look. Every table and register gets fresh noise, is written to a new folder
    with a manifest, and gets fresh noise again, which is not exported. The ledger has the intrusion before
    anything is exported.

    Stop the run first, and start it again afterwards; or send POST /api/intrusions to the server that runs it.
    Later releases have larger errors, and say so. Tables of users survive as many intrusions as the file
    reserves.

    With --rehearse nothing is exported: it shows the beliefs of an intruder about one synthetic person, with
    pan-privacy and without.

    Example: `streamgauge intrude clinic.toml --output for-the-court`
    """
    if rehearse:
        if output is not None:
            raise_bad_argument("--output", "left out of a rehearsal, which hands over nothing", output)
        _rehearse(file, json)
        return
    if file is None or output is None:
        missing, rule = ("FILE", "a pipeline file") if file is None else ("--output", "a new folder")
        raise_bad_argument(missing, f"{rule}, unless it is a rehearsal (--rehearse)", "none")
    _intrude(file, output, yes, json)


def _rehearse(file: Path | None, json: bool) -> None:
    """Print a rehearsal; check the file if one is named."""
    from streamgauge.panprivate.intrusion_demo import run_intrusion_demo

    if file is not None:
        read_pipeline(file)
    rehearsal = run_intrusion_demo(REHEARSAL_COUNT)
    if json:
        print_json(rehearsal)
    else:
        show_rehearsal(stdout(), rehearsal)


def _intrude(file: Path, to: Path, yes: bool, json: bool) -> None:
    from streamgauge.runtime.intrusion.intrude import check_intrusion
    from streamgauge.runtime.intrusion.intrude import intrude as intruded

    checked = read_pipeline(file)
    known = check_intrusion(checked, to)
    _refuse_if_running(checked, to)
    if not yes:
        _confirm(f"{file}: {known}.")
    intrusion = intruded(checked, to)
    if json:
        rehearsal = {"intrusion": intrusion.number, "tick": intrusion.tick, "folder": str(to)}
        print_json(rehearsal | {"releases": [each["release"] for each in intrusion.manifest["releases"]]})
        return
    console = stderr()
    console.print(f"intrusion {intrusion.number} of {file} is on record, after tick {intrusion.tick}", soft_wrap=True)
    console.print(f"the export is in {to}; manifest.json says what each file is", soft_wrap=True)


def _refuse_if_running(file: "PipelineFile", to: Path) -> None:
    """Refuse while a run or server is active, and say what to do: a server can run the intrusion itself."""
    from streamgauge.runtime.intrusion.export import FOLDER_NAME_PATTERN, build_export_path
    from streamgauge.runtime.intrusion.intrude import IntrusionError
    from streamgauge.store.errors import AlreadyRunningError
    from streamgauge.store.lock import Lock

    try:
        Lock(file.folder).release()
    except AlreadyRunningError as refusal:
        name = to.name if FOLDER_NAME_PATTERN.fullmatch(to.name) else "NAME"
        request = f"""POST /api/intrusions {{"folder": "{name}"}} with a curator's token"""
        ways = f"stop that run or server (Ctrl-C) and intrude again; or ask the server, {request}"
        where = f"which exports to {build_export_path(file, name)} and continues"
        raise IntrusionError(f"{file.path.name}: {refusal}: {ways}, {where}", "still_running") from None


def _confirm(known: str) -> None:
    """Ask for a confirmation on the terminal."""
    if not sys.stdin.isatty():
        raise_bad_argument("--yes", "given if standard input is not a terminal", "none")
    stderr().print(f"{known} One more cannot be undone, and makes all later releases less accurate.", soft_wrap=True)
    if not typer.confirm("Hand over now?", err=True):
        raise typer.Abort


def show_rehearsal(console: "Console", rehearsal: dict[str, Any]) -> None:
    console.print(build_cell("A rehearsal with synthetic people: no data were read.", "dim"))
    for kind in ("counter", "table"):
        console.print()
        print_heading(console, TITLES[kind].format(**rehearsal[kind]))
        console.print(build_cell(SCENE_TEXTS[kind].format(**rehearsal[kind]), "dim"), soft_wrap=True)
        console.print()
        console.print(_build_memories(rehearsal, rehearsal[kind]))
        console.print()
        console.print(_build_histogram(rehearsal, rehearsal[kind]["chance"]))
    console.print()
    for line in describe_bounds(rehearsal):
        console.print(build_cell(line), soft_wrap=True)


def _build_memories(rehearsal: dict[str, Any], kind: dict[str, Any]) -> Any:
    """Return beliefs before and after the first rehearsal, in which Robin came."""
    table = build_table(
        "memory", "before", "after", "odds", "in all rehearsals", right_aligned=("before", "after", "odds")
    )
    before, first = rehearsal["before"], kind["chance"][0]
    low, high = min(kind["chance"]), max(kind["chance"])
    add_row(table, "ordinary", f"{before:.0%}", f"{kind['plain']['chance']:.0%}", "x infinite", "certain, each time")
    add_row(
        table,
        "pan-private",
        f"{before:.0%}",
        f"{first:.0%}",
        f"x {first / (1 - first):.2f}",
        f"{low:.0%} to {high:.0%}, odds x {kind['worst_odds']:.2f} at most",
    )
    sure = sum(not 1 - CERTAIN_PROBABILITY <= chance <= CERTAIN_PROBABILITY for chance in kind["two_looks"])
    share = f"certain in {sure} of {len(kind['two_looks'])}: not promised"
    add_row(table, "pan-private, two secret looks", f"{before:.0%}", "", "", share)
    return table


def _build_histogram(rehearsal: dict[str, Any], chances: Sequence[float]) -> Any:
    """Return the histogram of beliefs, with and without Robin."""
    import numpy as np

    came, edges = np.array(rehearsal["came"]), np.linspace(0, 1, 21)
    found = np.array(chances)
    counts = [np.histogram(found[which], edges)[0] for which in (came, ~came)]
    longest = max(int(each.max()) for each in counts)
    table = build_table("thinks that Robin came", "Robin came", "Robin did not")
    for bin_, (yes, no) in enumerate(zip(*counts, strict=True)):
        if yes or no:
            bars = [build_cell("█" * -(-BAR_CHARS * int(n) // longest), "cyan") for n in (yes, no)]
            add_row(table, f"{edges[bin_]:4.0%} to {edges[bin_ + 1]:.0%}", *bars)
    return table


def describe_bounds(rehearsal: dict[str, Any]) -> Iterator[str]:
    """Yield the bound, and the worst observed case."""
    low, high = rehearsal["bounds"]["chance"]
    worst = max(rehearsal[kind]["worst_odds"] for kind in ("counter", "table"))
    bound = rehearsal["bounds"]["odds"][1]
    limits, several = (f"less than {low:.0%} or more than {high:.0%}", f"{len(rehearsal['came']):,} rehearsals each")
    yield f"promised: odds change by a factor of at most e^{rehearsal['epsilon']} = {bound:.3f} (never {limits})"
    yield f"the worst of {several}: {worst:.3f}"
    yield "a second look is survived only if it is announced: then noise is added before it and after it"
