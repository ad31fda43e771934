"""The first `serve` of a file says which tokens are missing."""

from fractions import Fraction
from pathlib import Path

import pytest

from streamgauge.cli.runs.server import find_token_hints
from streamgauge.server.http.tokens import Tokens
from tests.support.people import clinic
from tests.support.polls import poll

CREATE = "streamgauge token create clinic.toml NAME --role"
READ = f"nobody can sign in yet: {CREATE} reader, or anonymous = true under [server]"
SEND = f"nobody can send yet: {CREATE} sender"


@pytest.mark.parametrize(
    ("roles", "hints"),
    [([], [READ, SEND]), (["sender"], [READ]), (["reader"], [SEND]), (["analyst"], [SEND]), (["curator"], [])],
    ids=str,
)
def test_hints_name_the_missing_tokens(tmp_path: Path, roles: list[str], hints: list[str]) -> None:
    file = clinic(tmp_path)
    tokens = Tokens(file.folder)
    for role in roles:
        tokens.create(role, role, Fraction(1, 2) if role == "analyst" else None)
    assert find_token_hints(file, tokens) == hints


def test_revoked_tokens_are_missing_too(tmp_path: Path) -> None:
    file = clinic(tmp_path)
    tokens = Tokens(file.folder)
    tokens.create("cora", "curator")
    tokens.revoke("cora")
    assert find_token_hints(file, tokens) == [READ, SEND]


@pytest.mark.parametrize(("senders", "count"), [("anyone", 0), ("sender", 1), ("curator", 1)])
def test_hints_follow_the_senders_of_reports(tmp_path: Path, senders: str, count: int) -> None:
    file = poll(tmp_path, senders)  # which anybody may read
    hints = find_token_hints(file, Tokens(file.folder))
    assert [hint.split("--role ")[1] for hint in hints] == [senders] * count
