"""Tokens: 256 random bits, stored as a hash, compared in constant time, invalid after revocation."""

import re
import stat
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from inspect import signature
from pathlib import Path
from secrets import compare_digest
from typing import Any

import pytest

from streamgauge.server.http.tokens import Token, TokenError, TokenFileError, Tokens, compute_digest, find_token


def test_a_secret_names_its_role_and_is_not_on_disk(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path / "clinic.streamgauge")
    secret = tokens.create("ana", "analyst", Fraction(1, 4))
    assert re.fullmatch(r"sg_analyst_[A-Za-z0-9_-]{43}", secret)
    tokens.close()
    written = b"".join(path.read_bytes() for path in tokens.path.parent.iterdir())
    assert secret.encode() not in written
    assert secret.removeprefix("sg_analyst_").encode() not in written
    assert sha256(secret.encode()).digest() in written


def test_token_file_and_folder_are_accessible_to_owner_only(tmp_path: Path) -> None:
    path = Tokens(tmp_path / "clinic.streamgauge").path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_two_secrets_are_never_the_same(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    assert len({tokens.create(f"r{i}", "reader") for i in range(50)}) == 50


def test_token_is_found_by_its_exact_secret_only(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    secrets = {name: tokens.create(name, "reader") for name in ("ann", "bob", "cem")}
    found = {name: tokens.find_by_secret(secret) for name, secret in secrets.items()}
    assert {name: token and token.name for name, token in found.items()} == {name: name for name in secrets}
    for wrong in ("", "sg_reader_", secrets["ann"][:-1], secrets["ann"] + "A", secrets["ann"].upper(), "\udc80"):
        assert tokens.find_by_secret(wrong) is None


def test_tokens_created_or_revoked_elsewhere_apply_at_once(tmp_path: Path) -> None:
    server, command = Tokens(tmp_path), Tokens(tmp_path)
    secret = command.create("ann", "reader")
    token = server.find_by_secret(secret)
    assert token is not None
    assert server.find_active(token.id) == token
    command.revoke("ann")
    assert server.find_by_secret(secret) is None
    assert server.find_active(token.id) is None
    assert [each.revoked_at is None for each in server.list_all()] == [False]


def test_a_name_may_be_used_again_after_it_was_revoked(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    old = tokens.create("ana", "analyst", Fraction(1))
    tokens.revoke("ana")
    new = tokens.create("ana", "analyst", Fraction(1))
    assert tokens.find_by_secret(old) is None
    assert tokens.find_by_secret(new) is not None


def test_shares_of_analysts_add_up_to_at_most_the_whole(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.create("ana", "analyst", Fraction(2, 3))
    with pytest.raises(TokenError, match=r"share must be at most 1/3, what other analysts leave, got 1/2"):
        tokens.create("bea", "analyst", Fraction(1, 2))
    tokens.create("bea", "analyst", Fraction(1, 3))
    assert len(tokens.list_all()) == 2


@pytest.mark.parametrize(
    ("name", "role", "share", "said"),
    [
        ("", "reader", None, "name must be"),
        ("a b", "reader", None, "name must be"),
        ("a" * 101, "reader", None, "name must be"),
        ("ann", "king", None, "role must be one of sender, reader, analyst, curator"),
        ("ann", "analyst", None, "share must be given for an analyst"),
        ("ann", "reader", Fraction(1, 2), "share must be left out"),
        ("ann", "analyst", Fraction(0), "share must be a part of the budget"),
        ("ann", "analyst", Fraction(2), "share must be a part of the budget"),
        ("ROB", "reader", None, "name must differ"),
    ],
)
def test_invalid_token_settings_are_refused(
    tmp_path: Path, name: str, role: str, share: Fraction | None, said: str
) -> None:
    tokens = Tokens(tmp_path)
    tokens.create("rob", "reader")
    with pytest.raises(TokenError, match=said):
        tokens.create(name, role, share)
    assert [token.name for token in tokens.list_all()] == ["rob"]


def test_revoking_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenError, match="name must be that of a token that is not revoked, got ann"):
        Tokens(tmp_path).revoke("ann")


def test_a_printed_token_shows_no_hash(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.create("ann", "reader")
    assert "digest" not in repr(tokens.list_all())


def test_unreadable_token_file_is_a_one_line_error(tmp_path: Path) -> None:
    (tmp_path / "tokens.db").write_bytes(b"something else" * 100)
    with pytest.raises(TokenFileError, match="tokens must be readable and writable, got a file that is not"):
        Tokens(tmp_path)


def comparisons(find: Any, place: int) -> int:
    """Return the number of comparisons in a search for one of ten tokens."""
    made: list[bytes] = []

    def counted(a: bytes, b: bytes) -> bool:
        made.append(a)
        return a == b

    known = [Token(i, f"r{i}", "reader", None, 0, None, compute_digest(str(i))) for i in range(10)]
    found = find(known, compute_digest(str(place)), counted)
    assert (found and found.id) == (place if place < 10 else None)
    return len(made)


def early(tokens: list[Token], digest: bytes, compare: Callable[[bytes, bytes], bool]) -> Token | None:
    """A broken twin that stops at the first match."""
    return next((token for token in tokens if compare(token.digest, digest)), None)


def test_every_lookup_compares_all_tokens() -> None:
    assert signature(find_token).parameters["compare"].default is compare_digest
    assert {comparisons(find_token, place) for place in range(11)} == {10}
    assert {comparisons(early, place) for place in range(11)} != {10}
