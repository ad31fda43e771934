"""`streamgauge token`: tokens of the server of a pipeline."""

import sys
from contextlib import closing
from typing import Annotated

import typer

from streamgauge.cli.arguments import JsonOutput, PipelinePath, read_pipeline
from streamgauge.cli.console import add_row, build_table, print_json, stderr, stdout
from streamgauge.cli.errors import raise_bad_argument

COMMAND_HELP = """Make, list or revoke the tokens of senders, readers, analysts and curators.

Example: `streamgauge token create clinic.toml ana --role analyst --share 1/4`"""

app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", help=COMMAND_HELP)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Owner of the token: letters, digits, _ and -.")]
Role = Annotated[str, typer.Option("--role", metavar="ROLE", help="sender, reader, analyst or curator.")]
Share = Annotated[
    str | None, typer.Option("--share", metavar="PART", help="An analyst's part of the budget, such as 1/4.")
]


@app.command()
def create(file: PipelinePath, name: Name, role: Role, share: Share = None) -> None:
    """Create a token, and print it once, since only its hash is stored.

    A sender posts events and reads nothing. A reader reads published releases. An analyst requests releases, up to a
    share of the budget; the shares of all analysts are at most the whole. A curator may do all, and reads private
    counters.

    It touches tokens.db in the folder clinic.streamgauge. A running server accepts the token at once.

    Example: `streamgauge token create clinic.toml ana --role analyst --share 1/4`
    """
    from streamgauge.config.rules import SHARE

    checked = read_pipeline(file)
    part = None if share is None else SHARE.parse(share) or SHARE.parse(_parse_number(share))
    if share is not None and part is None:
        raise_bad_argument("--share", SHARE.words, share)
    from streamgauge.server.http.tokens import Tokens

    with closing(Tokens.from_pipeline(checked)) as tokens:
        secret = tokens.create(name, role, part)
    stderr().print(f"the token of {name}, {role}; it is not shown again:", soft_wrap=True)
    sys.stdout.write(f"{secret}\n")


def _parse_number(text: str) -> object:
    from decimal import Decimal, InvalidOperation

    try:
        return Decimal(text)
    except InvalidOperation:
        return None


@app.command("list")
def list_(file: PipelinePath, json: JsonOutput = False) -> None:
    """List all tokens: names, roles, shares, and the times of creation and revocation.

    It reads tokens.db in the folder clinic.streamgauge. The secrets are not stored.

    Example: `streamgauge token list clinic.toml`
    """
    checked = read_pipeline(file)
    from streamgauge.releases.release import format_utc_time
    from streamgauge.server.http.tokens import Tokens

    with closing(Tokens.from_pipeline(checked)) as tokens:
        found = tokens.list_all()
    rows = [
        {
            "name": token.name,
            "role": token.role,
            "share": None if token.share is None else str(token.share),
            "created_at": format_utc_time(token.created_at // 10**6 * 10**6),
            "revoked_at": None if token.revoked_at is None else format_utc_time(token.revoked_at // 10**6 * 10**6),
        }
        for token in found
    ]
    if json:
        print_json(rows)
        return
    table = build_table("name", "role", "share", "created_at", "revoked_at")
    for row in rows:
        add_row(table, *(row[key] or "" for key in ("name", "role", "share", "created_at", "revoked_at")))
    stdout().print(table)


@app.command()
def revoke(file: PipelinePath, name: Name) -> None:
    """Revoke a token: it is rejected from now on, and its sessions end.

    Charges of an analyst stay charged to the name. It touches tokens.db in the folder clinic.streamgauge; a
    running server rejects the token at once.

    Example: `streamgauge token revoke clinic.toml ana`
    """
    checked = read_pipeline(file)
    from streamgauge.server.http.tokens import Tokens

    with closing(Tokens.from_pipeline(checked)) as tokens:
        tokens.revoke(name)
    stderr().print(f"the token of {name} is revoked", soft_wrap=True)
