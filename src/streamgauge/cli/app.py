"""All commands under one name.

Commands import what they need when they are called, so that `--help` answers at once.
"""

from collections.abc import Callable
from typing import Annotated

import typer

from streamgauge.cli import key, token
from streamgauge.cli.arguments import switch
from streamgauge.cli.audit import audit
from streamgauge.cli.backup import backup
from streamgauge.cli.demo import demo
from streamgauge.cli.export import export
from streamgauge.cli.failures import Commands
from streamgauge.cli.init import init
from streamgauge.cli.intrude import intrude
from streamgauge.cli.ledger import ledger
from streamgauge.cli.plan import plan
from streamgauge.cli.plot import plot
from streamgauge.cli.quarantine import quarantine
from streamgauge.cli.releases import releases
from streamgauge.cli.run import run
from streamgauge.cli.serve import serve

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
PANELS: dict[str, list[Callable[..., None]]] = {
    "Begin": [demo, init, plan, run, serve],
    "Read what was published": [releases, plot, export, ledger],
    "Look after it": [audit, backup, intrude, quarantine],
}

app = typer.Typer(
    name="streamgauge",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)


def _version(asked: bool) -> None:
    if asked:
        from streamgauge import __version__

        typer.echo(f"streamgauge {__version__}")
        raise typer.Exit


@app.callback()
def streamgauge(
    debug: Annotated[
        bool, switch("--debug", help="Show the traceback of a bug. It may carry data: keep it private.")
    ] = False,
    version: Annotated[
        bool, switch("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Live statistics of a sensitive event stream, under differential privacy.

    Example: `streamgauge demo` makes a synthetic clinic, plans it, runs it and shows what was
    published beside the truth.
    """


for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(key.app, name="key", rich_help_panel="Look after it")
app.add_typer(token.app, name="token", rich_help_panel="Look after it")
