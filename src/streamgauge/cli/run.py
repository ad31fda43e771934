"""`streamgauge run`: run a pipeline until it ends or is stopped."""

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgauge.cli.arguments import PipelinePath, build_switch, read_pipeline
from streamgauge.cli.errors import EXIT_STOPPED, raise_bad_argument

if TYPE_CHECKING:
    from streamgauge.runtime.options import Options

MEMORY_PATTERN = re.compile(r"[1-9]\d*\s*([KMGT]i?B)", re.IGNORECASE)

Quiet = Annotated[bool, build_switch("--quiet", "-q", help="Print errors only.")]
Json = Annotated[bool, build_switch("--json", help="Progress as JSON lines on standard error.")]
RechargeSource = Annotated[
    bool, build_switch("--recharge-source", help="Accept a changed source, and charge it again.")
]
AcceptRollback = Annotated[
    bool, build_switch("--accept-rollback", help="Accept an old copy of the store, and charge again.")
]
TrustStore = Annotated[
    bool, build_switch("--trust-store", help="Accept a lost rollback guard: this store is the newest copy.")
]
AcceptClock = Annotated[bool, build_switch("--accept-clock", help="Accept a clock that was set.")]
ChangeBudget = Annotated[bool, build_switch("--change-budget", help="Record another budget in the ledger.")]
End = Annotated[list[str], typer.Option("--end", metavar="NAME", help="End a requested release; may be repeated.")]
ForceEnd = Annotated[
    list[str],
    typer.Option(
        "--force-end", metavar="NAME", help="End a release that cannot run, at its current tick; may be repeated."
    ),
]
Memory = Annotated[str, typer.Option("--memory", metavar="SIZE", help="Memory of the engine.")]


def build_options(*, quiet: bool, json: bool, memory: str, **settings: Any) -> "Options":
    """Return the options of a run from the command line."""
    if MEMORY_PATTERN.fullmatch(memory) is None:
        raise_bad_argument("--memory", "a size such as 600MB or 2GB", memory)
    if quiet and json:
        raise_bad_argument("--quiet", "given without --json", "both")
    from streamgauge.runtime.options import Options

    return Options(memory=memory.replace(" ", ""), **settings)


def run(  # noqa: PLR0917 - the options of a command
    file: PipelinePath,
    quiet: Quiet = False,
    json: Json = False,
    recharge_source: RechargeSource = False,
    accept_rollback: AcceptRollback = False,
    trust_store: TrustStore = False,
    accept_clock: AcceptClock = False,
    change_budget: ChangeBudget = False,
    end: End = [],  # noqa: B006 - what the command line gives
    force_end: ForceEnd = [],  # noqa: B006 - the same
    memory: Memory = "600MB",
) -> None:
    """Run a pipeline: charge its releases, read its source, publish tick after tick.

    A run resumes at the tick where it stopped, whatever the cause. Ctrl-C ends it after the current batch, a
    second Ctrl-C at once; both are safe. Standard output has only the output of a sink "-". Progress is on the
    terminal. Without a terminal, private counters of events go to curator.log in the folder beside the file.

    It touches the source (reads), the folder clinic.streamgauge (store and log), the sinks (writes), and the
    key. The switches are confirmations of the curator; a run that needs one says so.

    Example: `streamgauge run clinic.toml`
    """
    options = build_options(
        quiet=quiet,
        json=json,
        memory=memory,
        recharge_source=recharge_source,
        accept_rollback=accept_rollback,
        trust_store=trust_store,
        accept_clock=accept_clock,
        change_budget=change_budget,
    )
    checked = read_pipeline(file)
    from streamgauge.cli.runs.monitor import RunMonitor, handle_signals, select_end_options
    from streamgauge.runtime.pipeline import Pipeline

    with RunMonitor(checked, quiet=quiet, as_json=json) as watching, handle_signals(options.stop, watching):
        watching.warn_about_key()
        outputs = {"on_progress": watching.on_progress, "note": watching.log.write, "diagnose": watching.diagnose}
        report = Pipeline(checked).run(options, **outputs, **select_end_options(watching, end, force_end))
        stopped = options.stop.is_set()
        watching.print_end(report, stopped=stopped)
    if stopped:
        raise typer.Exit(EXIT_STOPPED)
