"""`streamgauge token`: who may talk to the server of a pipeline."""

import json as json_text
import sys
from typing import Annotated

import typer

from streamgauge.cli.arguments import AsJson, PipelineFile
from streamgauge.cli.failures import bad_argument
from streamgauge.cli.screens import add_row, aside, grid, screen

HELP = """Make, list or revoke the tokens of readers, analysts and curators.

Example: `streamgauge token create clinic.toml ana --role analyst --share 1/4`"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=HELP)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is: letters, digits, _ and -.")]
Role = Annotated[str, typer.Option("--role", metavar="ROLE", help="reader, analyst or curator.")]
Share = Annotated[
    str | None, typer.Option("--share", metavar="PART", help="An analyst's part of the budget, such as 1/4.")
]


@app.command()
def create(file: PipelineFile, name: Name, role: Role, share: Share = None) -> None:
    """Make a token, and print it: once, since only its hash is kept.

    A reader sees what was published. An analyst asks for releases, up to a share of the budget; the shares of
    all analysts are at most the whole. A curator sends events and sees counters, which are private.

    Touches tokens.db in the folder clinic.streamgauge. A running server knows the token at once.

    Example: `streamgauge token create clinic.toml ana --role analyst --share 1/4`
    """
    from streamgauge.query.pipeline_file import read_pipeline
    from streamgauge.query.toml_rules import SHARE

    checked = read_pipeline(file)
    part = None if share is None else SHARE.parse(share) or SHARE.parse(_number(share))
    if share is not None and part is None:
        bad_argument("--share", SHARE.words, share)
    from streamgauge.server.tokens import Tokens

    tokens = Tokens.of(checked)
    try:
        secret = tokens.create(name, role, part)
    finally:
        tokens.close()
    aside().print(f"the token of {name}, {role}; it is not shown again:", soft_wrap=True)
    sys.stdout.write(f"{secret}\n")


def _number(text: str) -> object:
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(text)
    except InvalidOperation:
        return None


@app.command("list")
def list_(file: PipelineFile, json: AsJson = False) -> None:
    """Show all tokens: whose they are, their roles and shares, when they were made and revoked.

    Reads tokens.db in the folder clinic.streamgauge. The tokens themselves are nowhere.

    Example: `streamgauge token list clinic.toml`
    """
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.query.released import moment
    from streamgauge.server.tokens import Tokens

    tokens = Tokens.of(checked)
    try:
        found = tokens.all()
    finally:
        tokens.close()
    rows = [
        {
            "name": token.name,
            "role": token.role,
            "share": None if token.share is None else str(token.share),
            "created": moment(token.created // 10**6 * 10**6),
            "revoked": None if token.revoked is None else moment(token.revoked // 10**6 * 10**6),
        }
        for token in found
    ]
    if json:
        json_text.dump(rows, sys.stdout, indent=2)
        sys.stdout.write("\n")
        return
    table = grid("name", "role", "share", "created", "revoked")
    for row in rows:
        add_row(table, *(row[key] or "" for key in ("name", "role", "share", "created", "revoked")))
    screen().print(table)


@app.command()
def revoke(file: PipelineFile, name: Name) -> None:
    """Revoke a token: it opens nothing any more, and its sessions end.

    What an analyst was charged stays charged, to that name. Touches tokens.db in the folder
    clinic.streamgauge; a running server hears of it at once.

    Example: `streamgauge token revoke clinic.toml ana`
    """
    from streamgauge.query.pipeline_file import read_pipeline

    checked = read_pipeline(file)
    from streamgauge.server.tokens import Tokens

    tokens = Tokens.of(checked)
    try:
        tokens.revoke(name)
    finally:
        tokens.close()
    aside().print(f"the token of {name} is revoked", soft_wrap=True)
