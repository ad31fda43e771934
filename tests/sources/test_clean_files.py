"""A file is clean if and only if the splitter would change nothing."""

from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.records.blocks import MAX_RECORD_BYTES
from streamgauge.sources import SourceError
from streamgauge.sources import file as clean
from streamgauge.sources import line_reader as lines
from streamgauge.sources.file import WholeFile, is_clean
from streamgauge.sources.line_reader import BYTE_ORDER_MARK

MOSTLY_CLEAN = [b"a", b"bc", b"\0", "é".encode(), "€".encode(), b"\n", b"\n", b"\n", b"x" * 4]
ODD = [*MOSTLY_CLEAN, b"\r", b"\xff", b"\xc3", BYTE_ORDER_MARK]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("clean") / "it.jsonl"


def unchanged(path):
    blocks = list(WholeFile(path, has_header=False, compression=None).blocks())
    raw = path.read_bytes()
    out = b"".join(block.data for block in blocks)
    return out == raw + b"\n" * (not raw.endswith(b"\n") and raw != b"") and not any(b.dropped_records for b in blocks)


def small():
    return patch.multiple(clean, PIECE_BYTES=9, MAX_RECORD_BYTES=6), patch.multiple(
        lines, MAX_RECORD_BYTES=6, HOP_BYTES=5
    )


@given(st.one_of(st.lists(st.sampled_from(pieces), max_size=30) for pieces in (MOSTLY_CLEAN, ODD)))
def test_file_is_clean_exactly_if_splitting_changes_nothing(path, parts):
    path.write_bytes(b"".join(parts))
    one, other = small()
    with one, other:
        assert is_clean(path) == unchanged(path)


@pytest.mark.parametrize("last", [b"", b"\n"])
@pytest.mark.parametrize("length", [MAX_RECORD_BYTES, MAX_RECORD_BYTES + 1])
def test_longest_record_is_clean_and_a_longer_one_is_not(path, length, last):
    path.write_bytes(b"a\n" * 3_000_000 + b"x" * length + last)
    assert is_clean(path) == (length == MAX_RECORD_BYTES)


@pytest.mark.parametrize("place", [0, 1, 2**22 - 1, 2**22, 2**22 + 1, 5_999_999])
@pytest.mark.parametrize("bad", [b"\r", b"\xff", b"\xc3"])
def test_one_bad_byte_anywhere_makes_a_file_unclean(path, place, bad):
    raw = bytearray(b"abcdefg\n" * 750_000)
    path.write_bytes(raw)
    assert is_clean(path)
    raw[place : place + 1] = bad
    path.write_bytes(raw)
    assert not is_clean(path)


def test_a_letter_across_two_pieces_is_clean(path):
    path.write_bytes("aé€\n".encode() * 1_000_000)
    assert is_clean(path)


def test_byte_order_mark_at_a_line_start_is_unclean(path):
    for before in (b"", b"a\n", b"a\nb\n"):
        path.write_bytes(before + BYTE_ORDER_MARK + b"a")
        assert not is_clean(path)
    path.write_bytes(b"a" + BYTE_ORDER_MARK + b"\n")
    assert is_clean(path)


def test_unreadable_file_is_refused_in_one_line(path):
    with pytest.raises(SourceError, match=r"source must be readable, got .*gone: No such file"):
        is_clean(path.with_name("gone"))
