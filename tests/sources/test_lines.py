"""Lines: each physical line is read alone, for every split into chunks."""

import tracemalloc
from itertools import product
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.records.blocks import MAX_RECORD_BYTES, Block, DroppedRecord
from streamgauge.sources import line_reader as lines
from streamgauge.sources.line_reader import (
    BYTE_ORDER_MARK,
    CARRIAGE_RETURN_RULE,
    LENGTH_RULE,
    UTF8_RULE,
    FileHeader,
    LineSplitter,
)
from tests.support.declared_streams import rules, text

small = patch.multiple(lines, MAX_RECORD_BYTES=6, HOP_BYTES=5, MAX_DROPPED_RECORDS=3)
PIECES = [
    b"a",
    b'"',
    b",",
    b"\0",
    b"\n",
    b"\r",
    b"\r\n",
    b"\xff",
    b"\xc3",
    b"\xa9",
    "é€".encode(),
    BYTE_ORDER_MARK,
    b"x" * 6,
]


def obvious(raw, longest):
    """Return records and dropped lines, by a slow and plain implementation."""
    physical = raw.split(b"\n")
    records, dropped, offset = [], [], 0
    for number, line in enumerate(physical):
        record = line[:-1] if line.endswith(b"\r") else line
        if number == len(physical) - 1 and not line:
            break
        if len(record) > longest:
            dropped.append(DroppedRecord(offset, len(line), LENGTH_RULE))
        elif b"\r" in record:
            dropped.append(DroppedRecord(offset, len(line), CARRIAGE_RETURN_RULE))
        elif record.decode(errors="replace").encode() != record:
            dropped.append(DroppedRecord(offset, len(line), UTF8_RULE))
        else:
            records.append(unmarked(record) + b"\n")
        offset += len(line) + 1
    return b"".join(records), dropped


def unmarked(record):
    return record.decode().lstrip("\ufeff").encode() if record.startswith(BYTE_ORDER_MARK) else record


def split(chunks):
    splitter = LineSplitter(FileHeader("it", has_header=False))
    blocks = [block for chunk in chunks for block in splitter.feed(chunk)]
    return blocks + list(splitter.finish()), splitter.offset


def agrees(raw, chunks, longest):
    blocks, offset = split(chunks)
    dropped = [one for block in blocks for one in block.dropped_records]
    return (text(blocks), dropped) == obvious(raw, longest) and offset == len(raw)


def chunkings(raw):
    for cuts in product([False, True], repeat=max(0, len(raw) - 1)):
        ends = [place + 1 for place, cut in enumerate(cuts) if cut] + [len(raw)]
        yield [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def all_agree(longest):
    raws = (b"".join(parts) for size in range(6) for parts in product([b"a", b"\n", b"\r", b"\xff"], repeat=size))
    return all(agrees(raw, chunks, longest) for raw in raws for chunks in chunkings(raw))


def test_short_inputs_in_all_chunkings_equal_their_single_lines():
    with patch.multiple(lines, MAX_RECORD_BYTES=2, HOP_BYTES=2, MAX_DROPPED_RECORDS=2):
        assert all_agree(longest=2)


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("_is_plain", lambda hop: True),
        ("_is_plain", lambda hop: hop.isascii()),
        ("_clean", lambda hop, offset, dropped: hop if lines._is_plain(hop) else b""),  # a line harms its hop
        ("has_short_lines", lambda data, stop: True),
        ("find_broken_rule", lambda record: None),
    ],
)
def test_a_splitter_with_a_wrong_short_cut_is_caught(name, broken):
    with (
        patch.multiple(lines, MAX_RECORD_BYTES=2, HOP_BYTES=2, MAX_DROPPED_RECORDS=2),
        patch.object(lines, name, broken),
    ):
        assert not all_agree(longest=2)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), st.lists(st.integers(0, 120)))
def test_hostile_bytes_in_any_chunks_equal_their_single_lines(raw, cuts):
    ends = [*sorted(cut for cut in cuts if cut < len(raw)), len(raw)]
    chunks = [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    with small:
        assert agrees(raw, chunks, longest=6)


@given(st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join), st.binary(max_size=20))
def test_a_line_never_changes_how_others_are_read(raw, line):
    with small:
        line = line.replace(b"\n", b"")
        before = obvious(b"a\n" + raw, 6)[0]
        after = text(split([b"a\n", line, b"\n" + raw])[0])
        record = unmarked(line.removesuffix(b"\r")) + b"\n"
        assert after in (b"a\n" + kept + before[2:] for kept in (b"", record))


@pytest.mark.parametrize("extra", [0, 1])
@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("size", [1000, 2**20 + 1, 10**9])
def test_record_of_maximum_size_is_read_and_longer_one_dropped(extra, ending, size):
    record = b"x" * (MAX_RECORD_BYTES + extra)
    raw = b"a\n" + record + ending
    blocks, _ = split([raw[start : start + size] for start in range(0, len(raw), size)])
    assert text(blocks) == (b"a\n" if extra else b"a\n" + record + b"\n")
    assert rules(blocks) == [LENGTH_RULE] * extra


def test_blocks_tile_the_source():
    raw = b"\xff\n" * 10 + b"a\n" * 10 + b"x" * 100
    with small:
        blocks, end = split([raw[:7], raw[7:30], raw[30:70], raw[70:]])
    offsets = [block.offset for block in blocks]
    assert offsets == sorted(offsets)
    assert offsets[0] == 0
    assert end == len(raw)
    for block, following in zip(blocks, [*offsets[1:], end], strict=True):
        assert all(block.offset <= one.offset < following for one in block.dropped_records)


@pytest.mark.slow
def test_block_with_many_dropped_records_ends_early_and_reports_all():
    raw = b"\xff\n" * 400_000
    blocks, _ = split([raw])
    assert len(rules(blocks)) == 400_000
    assert max(len(block.dropped_records) for block in blocks) < lines.MAX_DROPPED_RECORDS + lines.HOP_BYTES


def test_a_line_of_any_length_takes_bounded_memory():
    def chunks():
        yield b"a\n"
        for _ in range(200_000_000 // 2**16):
            yield bytes(2**16)
        yield b"\nb"

    tracemalloc.start()
    try:
        blocks, end = split(chunks())
        assert tracemalloc.get_traced_memory()[1] < 10 * MAX_RECORD_BYTES
    finally:
        tracemalloc.stop()
    assert text(blocks) == b"a\nb\n"
    assert blocks[1].dropped_records == (DroppedRecord(2, end - 4, LENGTH_RULE),)


def test_line_of_40_mb_is_dropped_alone():
    blocks, _ = split([b"a\n" + b"x" * 40_000_000 + b"\nb\n"])
    assert text(blocks) == b"a\nb\n"
    assert rules(blocks) == [LENGTH_RULE]


def test_byte_order_mark_is_removed_at_line_starts_only():
    for chunks in chunkings(BYTE_ORDER_MARK + b"a\n" + 2 * BYTE_ORDER_MARK + b"b"):
        assert text(split(chunks)[0]) == b"a\nb\n"
    for chunks in chunkings(b"b" + BYTE_ORDER_MARK + b"\nc\n" + BYTE_ORDER_MARK + b"d"):
        assert text(split(chunks)[0]) == b"b" + BYTE_ORDER_MARK + b"\nc\nd\n"
    assert text(split([BYTE_ORDER_MARK])[0]) == b"\n"
    assert text(split([BYTE_ORDER_MARK[:2]])[0]) == b""


def test_fault_drops_only_the_line_that_it_cut():
    splitter = LineSplitter(FileHeader("it", has_header=False))
    assert text(splitter.feed(b"a\nb")) == b"a\n"
    assert list(splitter.finish("cut off")) == [Block(b"", 2, (DroppedRecord(2, 1, "cut off"),))]


@pytest.mark.parametrize(
    ("line", "header"),
    [
        (b"a,b\n", ("a", "b")),
        (b"a,b\r\n", ("a", "b")),
        (BYTE_ORDER_MARK + b' "a", b\t\n', ("a", "b")),
        (b'"a,1","b""2",\n', ("a,1", 'b"2', "")),
        (b",,a\n", ("", "", "a")),
        ("größe\n".encode(), ("größe",)),
        (b"\n", ()),
    ],
)
def test_the_header_is_the_first_line_in_any_chunks(line, header):
    for chunks in chunkings(line) if len(line) < 10 else [[line]]:
        splitter = LineSplitter(FileHeader("it", has_header=True))
        blocks = [block for chunk in [*chunks, b"1,2\n"] for block in splitter.feed(chunk)]
        assert splitter.file_header.header == header
        assert [(block.data, block.offset) for block in blocks] == [(b"1,2\n", len(line))]


@pytest.mark.parametrize("line", [b"", b"a,b"])
def test_a_file_may_have_nothing_but_its_header(line):
    splitter = LineSplitter(FileHeader("it", has_header=True))
    assert text(splitter.feed(line)) == text(splitter.finish()) == b""
    assert splitter.file_header.header == tuple(line.decode().split(",") if line else ())
    assert splitter.offset == len(line)


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (b"secret\xff\n", "be UTF-8"),
        (b"secret\rb\n", "have no carriage return"),
        (b"secret\0b\n", "have no carriage return or NUL"),
        (b"secret,b,secret\n", "name each column once"),
        (b'"secret\n', "close each quote"),
        (b'"secret"b\n', "close each quote"),
        (b"secret" * 200_000, "one line of at most"),
        (b"secret" * 200_000 + b"\n", "one line of at most"),
    ],
)
def test_bad_header_is_refused_without_quoting_it(line, rule):
    splitter = LineSplitter(FileHeader("visits.csv", has_header=True))
    with pytest.raises(ValueError, match=f"the header of visits.csv must .*{rule}") as refused:
        list(splitter.feed(line))
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_header_of_maximum_size_waits_for_its_line_end():
    names = b",".join(b"%07d" % number for number in range(2**17)) + b" "
    splitter = LineSplitter(FileHeader("it", has_header=True))
    assert len(names) == MAX_RECORD_BYTES
    assert text(splitter.feed(BYTE_ORDER_MARK + names + b"\r")) == b""
    assert text(splitter.feed(b"\nrecord\n")) == b"record\n"
    assert len(splitter.file_header.header) == 2**17


def test_a_block_does_not_show_its_lines():
    assert "secret" not in repr(Block(b"secret\n", 0))
