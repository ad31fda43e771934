"""`streamgauge run`: a pipeline at work, until it ends or is stopped."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgauge.cli.arguments import PipelineFile, switch
from streamgauge.cli.failures import STOPPED, bad_argument
from streamgauge.cli.stopping import stopping

if TYPE_CHECKING:
    from streamgauge.pipeline.options import Options

MEMORY = re.compile(r"[1-9]\d*\s*([KMGT]i?B)", re.IGNORECASE)

Quiet = Annotated[bool, switch("--quiet", "-q", help="Say nothing but what is wrong.")]
Json = Annotated[bool, switch("--json", help="Progress as JSON lines on standard error.")]
Again = Annotated[bool, switch("--again", help="The source has changed: charge it again.")]
RolledBack = Annotated[bool, switch("--rolled-back", help="The store is an old copy: charge again.")]
Newest = Annotated[bool, switch("--newest", help="The witness is gone: this store is the newest copy.")]
AcceptClock = Annotated[bool, switch("--accept-clock", help="The clock was set: go on by it.")]
ChangeBudget = Annotated[bool, switch("--change-budget", help="Record another budget in the ledger.")]
End = Annotated[
    list[str],
    typer.Option("--end", metavar="NAME", help="End a release that was asked for; may be repeated."),
]
Cut = Annotated[
    list[str],
    typer.Option(
        "--cut", metavar="NAME", help="End one where it is, since it cannot be run; may be repeated."
    ),
]
Memory = Annotated[str, typer.Option("--memory", metavar="SIZE", help="What the engine may use.")]


def options_of(*, quiet: bool, json: bool, memory: str, **said: Any) -> "Options":
    """How a run is run, by what was said on the command line."""
    if MEMORY.fullmatch(memory) is None:
        bad_argument("--memory", "a size such as 600MB or 2GB", memory)
    if quiet and json:
        bad_argument("--quiet", "given without --json", "both")
    from streamgauge.pipeline.options import Options

    return Options(memory=memory.replace(" ", ""), **said)


def run(  # noqa: PLR0917 - the options of a command
    file: PipelineFile,
    quiet: Quiet = False,
    json: Json = False,
    again: Again = False,
    rolled_back: RolledBack = False,
    newest: Newest = False,
    accept_clock: AcceptClock = False,
    change_budget: ChangeBudget = False,
    end: End = [],  # noqa: B006 - what the command line gives
    cut: Cut = [],  # noqa: B006 - the same
    memory: Memory = "600MB",
) -> None:
    """Run a pipeline: charge its releases, read its source, publish tick after tick.

    It goes on where it stopped, whatever stopped it. Ctrl-C ends it after the batch at hand, a second one at
    once; both are safe. Only what a sink "-" prints is on standard output. Progress is on the terminal;
    without one, counters of events, which are private, go to curator.log in the folder beside the file.

    Touches the source (reads), the folder clinic.streamgauge (store and log), the sinks (writes), and
    the key. The switches are what a curator has to say aloud; a run that needs one says so.

    Example: `streamgauge run clinic.toml`
    """
    options = options_of(
        quiet=quiet,
        json=json,
        memory=memory,
        again=again,
        rolled_back=rolled_back,
        newest=newest,
        accept_clock=accept_clock,
        change_budget=change_budget,
    )
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.cli.endings import endings
    from streamgauge.cli.watching import Watching
    from streamgauge.pipeline.pipeline import Pipeline

    with Watching(checked, quiet=quiet, as_json=json) as watching, stopping(options.stop, watching):
        watching.warn_of_key()
        told = {"seen": watching.seen, "note": watching.log.line, "diagnose": watching.diagnose}
        report = Pipeline(checked).run(options, **told, **endings(watching, end, cut))
        stopped = options.stop.is_set()
        watching.ended(report, stopped=stopped)
    if stopped:
        raise typer.Exit(STOPPED)
