"""`streamgauge serve`: a pipeline at work, with the HTTP API and the live page."""

from dataclasses import replace
from ipaddress import ip_network
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelineFile
from streamgauge.cli.failures import STOPPED, bad_argument
from streamgauge.cli.run import (
    AcceptClock,
    Again,
    ChangeBudget,
    Cut,
    End,
    Json,
    Memory,
    Newest,
    Quiet,
    RolledBack,
    options_of,
)

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Where to listen.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="0 is any that is free.")]
Proxies = Annotated[
    list[str],
    typer.Option(
        "--proxy",
        metavar="ADDRESS",
        help="Of a proxy that says whom it asks for, as in 10.0.0.5 or 10.0.0.0/24; may be repeated.",
    ),
]


def proxies_of(told: list[str]) -> list[str]:
    """Addresses, and ranges of them, as they are believed when they say whom they ask for.

    >>> proxies_of(["10.0.0.5", "10.0.0.0/24", "::1"])
    ['10.0.0.5', '10.0.0.0/24', '::1']
    """
    for each in told:
        try:
            everybody = ip_network(each).prefixlen == 0
        except ValueError:
            bad_argument("--proxy", "an address, or a range such as 10.0.0.0/24", each)
        if everybody:
            bad_argument("--proxy", "a range that somebody is outside of", each)
    return told


def serve(  # noqa: PLR0917 - the options of a command
    file: PipelineFile,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    proxy: Proxies = [],  # noqa: B006 - what the command line gives
    quiet: Quiet = False,
    json: Json = False,
    again: Again = False,
    rolled_back: RolledBack = False,
    newest: Newest = False,
    accept_clock: AcceptClock = False,
    change_budget: ChangeBudget = False,
    end: End = [],  # noqa: B006 - the same
    cut: Cut = [],  # noqa: B006 - the same
    memory: Memory = "600MB",
) -> None:
    """Run a pipeline and serve it: the live page, the API for readers and analysts, the door for events.

    It is `streamgauge run` with a server in the same process: the same lock, key and crash law. It goes on
    serving after the last tick. Ctrl-C ends it after the batch at hand, a second one at once; both are safe.
    It listens on this machine alone unless --host says otherwise; tokens are made by `streamgauge token`.

    In the file, `source = "http"` lets events come by POST /api/events, `source = "reports"` what devices
    have made private by POST /api/reports, and `anonymous = true` under [server] lets anybody read. All of it
    is in docs/server.md.

    Touches the source (reads), the folder clinic.streamgauge (store, tokens and logs), the sinks (writes),
    the key, and the port. Requests are in access.log there, without their query strings.

    Example: `streamgauge serve clinic.toml --port 8765`
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
    proxies = proxies_of(proxy)
    from streamgauge.query.packages import needs
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    with needs("starlette and uvicorn", "streamgauge[server]"):
        import starlette as _starlette
        import uvicorn as _uvicorn
    del _starlette, _uvicorn
    from streamgauge.cli.endings import endings
    from streamgauge.cli.served import served
    from streamgauge.cli.watching import Watching

    with Watching(checked, quiet=quiet, as_json=json) as watching:
        watching.warn_of_key()
        note, ended = watching.log.line, endings(watching, end, cut)
        said = replace(options, note=note, diagnose=watching.diagnose, **ended)
        served(checked, said, watching, (host, port), proxies)
    raise typer.Exit(STOPPED)
