"""`streamgauge serve`: run a pipeline with the HTTP API and the live page."""

from dataclasses import replace
from ipaddress import ip_network
from typing import Annotated

import typer

from streamgauge.cli.arguments import PipelinePath, read_pipeline
from streamgauge.cli.errors import EXIT_STOPPED, raise_bad_argument
from streamgauge.cli.run import (
    AcceptClock,
    AcceptRollback,
    ChangeBudget,
    End,
    ForceEnd,
    Json,
    Memory,
    Quiet,
    RechargeSource,
    TrustStore,
    build_options,
)

Host = Annotated[str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, metavar="PORT", help="Port; 0 is any free one.")]
Proxies = Annotated[
    list[str],
    typer.Option(
        "--proxy",
        metavar="ADDRESS",
        help="Trust the client addresses of this proxy, such as 10.0.0.5 or 10.0.0.0/24; may be repeated.",
    ),
]


def parse_proxies(values: list[str]) -> list[str]:
    """Check addresses and networks of trusted proxies.

    >>> parse_proxies(["10.0.0.5", "10.0.0.0/24", "::1"])
    ['10.0.0.5', '10.0.0.0/24', '::1']
    """
    for each in values:
        try:
            everybody = ip_network(each).prefixlen == 0
        except ValueError:
            raise_bad_argument("--proxy", "an address, or a range such as 10.0.0.0/24", each)
        if everybody:
            raise_bad_argument("--proxy", "a range that excludes some addresses", each)
    return values


def serve(  # noqa: PLR0917 - the options of a command
    file: PipelinePath,
    host: Host = "127.0.0.1",
    port: Port = 8765,
    proxy: Proxies = [],  # noqa: B006 - what the command line gives
    quiet: Quiet = False,
    json: Json = False,
    recharge_source: RechargeSource = False,
    accept_rollback: AcceptRollback = False,
    trust_store: TrustStore = False,
    accept_clock: AcceptClock = False,
    change_budget: ChangeBudget = False,
    end: End = [],  # noqa: B006 - the same
    force_end: ForceEnd = [],  # noqa: B006 - the same
    memory: Memory = "600MB",
) -> None:
    """Run a pipeline and serve it: the live page, the API of readers and analysts, the inbox of events.

    It is `streamgauge run` with a server in the same process, with the same lock, key and crash law. It serves
    on after the last tick. Ctrl-C ends it after the current batch, a second Ctrl-C at once; both are safe. It
    listens on this machine only, unless --host says otherwise. `streamgauge token` creates tokens.

    In the file, `source = "http"` accepts events by POST /api/events, `source = "reports"` accepts private
    reports of devices by POST /api/reports, and `anonymous = true` under [server] lets anybody read. See
    docs/server.md.

    It touches the source (reads), the folder clinic.streamgauge (store, tokens and logs), the sinks (writes),
    the key, and the port. Requests are in access.log there, without their query strings.

    Example: `streamgauge serve clinic.toml --port 8765`
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
    proxies = parse_proxies(proxy)
    from streamgauge.optional import require_package

    checked = read_pipeline(file)
    with require_package("starlette and uvicorn", "streamgauge[server]"):
        import starlette as _starlette
        import uvicorn as _uvicorn
    del _starlette, _uvicorn
    from streamgauge.cli.runs.monitor import RunMonitor, select_end_options
    from streamgauge.cli.runs.server import run_server

    with RunMonitor(checked, quiet=quiet, as_json=json) as watching:
        watching.warn_about_key()
        note, ended = watching.log.write, select_end_options(watching, end, force_end)
        said = replace(options, note=note, diagnose=watching.diagnose, **ended)
        run_server(checked, said, watching, (host, port), proxies)
    raise typer.Exit(EXIT_STOPPED)
