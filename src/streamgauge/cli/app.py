"""All commands under one name.

Commands import modules when they are called, so that `--help` answers at once.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from streamgauge.cli import key, token
from streamgauge.cli.arguments import build_switch
from streamgauge.cli.audit import audit
from streamgauge.cli.backup import backup
from streamgauge.cli.demo import demo
from streamgauge.cli.errors import CommandGroup
from streamgauge.cli.init import init
from streamgauge.cli.intrude import intrude
from streamgauge.cli.plan import plan
from streamgauge.cli.quarantine import quarantine
from streamgauge.cli.results import export, ledger, plot, releases
from streamgauge.cli.run import run
from streamgauge.cli.serve import serve

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
COMMAND_PANELS: dict[str, list[Callable[..., None]]] = {
    "Begin": [demo, init, plan, run, serve],
    "Read what was published": [releases, plot, export, ledger],
    "Look after it": [audit, backup, intrude, quarantine],
}

app = typer.Typer(
    name="streamgauge",
    cls=CommandGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT_SETTINGS,
)


def _print_version(requested: bool) -> None:
    if requested:
        from streamgauge import __version__

        typer.echo(f"streamgauge {__version__}")
        raise typer.Exit


@app.callback()
def streamgauge(
    debug: Annotated[
        bool, build_switch("--debug", help="Show the traceback of a bug. It may carry data: keep it private.")
    ] = False,
    version: Annotated[
        bool, build_switch("--version", callback=_print_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Publish live statistics of a sensitive event stream, under differential privacy.

    Start with `streamgauge demo`: it plans and runs a synthetic clinic, and shows its releases beside the
    truth.

    Example: `streamgauge demo`
    """


for panel, commands in COMMAND_PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(key.app, name="key", rich_help_panel="Look after it")
app.add_typer(token.app, name="token", rich_help_panel="Look after it")
