"""Compressed sources: all that can be read is read, in bounded memory, and damage is reported by its rule."""

import gzip
import sys
import tracemalloc
from types import ModuleType
from typing import ClassVar

import pytest
import zstandard

from streamgauge.sources import SourceError
from streamgauge.sources.compression import DAMAGE_RULE, TRUNCATION_RULE, Decompressor
from streamgauge.sources.file import WholeFile
from streamgauge.sources.line_reader import LENGTH_RULE
from tests.support.declared_streams import rules, text

LINES = b"".join(b'{"a": %d, "b": "%d"}\n' % (number, number * 7919 % 1000) for number in range(100_000))
PACK = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor(write_checksum=True).compress}

every_kind = pytest.mark.parametrize("kind", ["gzip", "zstd"])


def unpack(kind, raw, size, **settings):
    unpacked = Decompressor(kind, **settings)
    pieces = [piece for start in range(0, len(raw), size) for piece in unpacked.feed(raw[start : start + size])]
    return b"".join(pieces), unpacked.fault


@every_kind
@pytest.mark.parametrize("size", [1, 1000, 10**9])
def test_any_number_of_members_in_any_chunks_is_one_stream(kind, size):
    first, second = LINES[:3001], LINES[3001:9000]
    raw = PACK[kind](first) + PACK[kind](b"") + PACK[kind](second)
    assert unpack(kind, raw, size) == (first + second, None)
    assert unpack(kind, b"", size) == (b"", None)


def test_zeros_after_a_gzip_member_are_padding():
    assert unpack("gzip", gzip.compress(b"a\n") + bytes(1000), 7) == (b"a\n", None)


@every_kind
def test_truncated_file_is_read_up_to_its_end(kind, tmp_path):
    path = tmp_path / "it"
    path.write_bytes(PACK[kind](LINES)[:-1000])
    blocks = list(WholeFile(path, has_header=False, compression=kind).blocks())
    read = text(blocks)
    assert read.endswith(b"\n")
    assert LINES.startswith(read)
    assert rules(blocks) == [TRUNCATION_RULE]
    last = blocks[-1].dropped_records[0]
    assert last.offset == len(read)
    assert len(LINES) // 2 < last.offset + last.length < len(LINES)


@every_kind
def test_truncation_anywhere_yields_a_prefix_and_a_rule(kind):
    raw = PACK[kind](LINES[:200])
    for end in range(1, len(raw)):
        read, fault = unpack(kind, raw[:end], 50)
        assert LINES.startswith(read)
        assert fault == TRUNCATION_RULE


@every_kind
def test_damage_is_reported_and_earlier_data_is_read(kind, tmp_path):
    path = tmp_path / "it"
    raw = PACK[kind](LINES) + b"this is neither" + PACK[kind](LINES)
    path.write_bytes(raw)
    blocks = list(WholeFile(path, has_header=False, compression=kind).blocks())
    assert text(blocks) == LINES
    assert rules(blocks) == [DAMAGE_RULE]


@every_kind
def test_no_flipped_byte_raises(kind):
    raw = PACK[kind](LINES[:500])
    for place in range(len(raw)):
        broken = bytearray(raw)
        broken[place] ^= 0x5A
        unpack(kind, bytes(broken), 100)


@every_kind
def test_plain_text_declared_as_compressed_is_damaged(kind, tmp_path):
    path = tmp_path / "it"
    path.write_bytes(LINES)
    blocks = list(WholeFile(path, has_header=False, compression=kind).blocks())
    assert text(blocks) == b""
    assert rules(blocks) == [DAMAGE_RULE]


@every_kind
def test_decompression_bomb_uses_bounded_memory(kind, tmp_path):
    path = tmp_path / "bomb"
    path.write_bytes(PACK[kind](b"a\n") + PACK[kind](bytes(2**24)) * 12 + PACK[kind](b"\nb\n"))
    tracemalloc.start()
    try:
        blocks = list(WholeFile(path, has_header=False, compression=kind).blocks())
        assert tracemalloc.get_traced_memory()[1] < 2**27
    finally:
        tracemalloc.stop()
    assert text(blocks) == b"a\nb\n"
    assert rules(blocks) == [LENGTH_RULE]


@every_kind
def test_a_file_that_is_read_again_gives_the_same_blocks(kind, tmp_path):
    path = tmp_path / "it"
    path.write_bytes(PACK[kind](LINES)[:-50])
    file = WholeFile(path, has_header=False, compression=kind, block_bytes=100_000)
    blocks = list(file.blocks())
    assert len(blocks) > 3
    assert blocks == list(file.blocks())


def test_without_a_package_for_zstd_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "compression.zstd", None)
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(SourceError, match=r"must have the package zstandard .*; pip install zstandard"):
        Decompressor("zstd")


class StandIn:
    """The zstd decompressor of Python 3.14, imitated with the package."""

    max_lengths: ClassVar[list[int]] = []  # of all calls: empty if the package is used instead

    def __init__(self):
        self.frame = zstandard.ZstdDecompressor().decompressobj()
        self.held = b""

    eof = property(lambda self: self.frame.eof and not self.held)
    needs_input = property(lambda self: not self.held and not self.eof)
    unused_data = property(lambda self: self.frame.unused_data if self.eof else b"")

    def decompress(self, data, max_length):
        self.max_lengths.append(max_length)
        if data:
            self.held += self.frame.decompress(data)
        piece, self.held = self.held[:max_length], self.held[max_length:]
        return piece


@pytest.mark.parametrize("size", [100, 10**9])
def test_the_standard_library_is_preferred_where_it_has_zstd(monkeypatch, size):
    StandIn.max_lengths.clear()
    module = ModuleType("compression.zstd")
    module.ZstdDecompressor, module.ZstdError = StandIn, zstandard.ZstdError
    package = ModuleType("compression")
    package.zstd = module
    monkeypatch.setitem(sys.modules, "compression", package)
    monkeypatch.setitem(sys.modules, "compression.zstd", module)
    raw = PACK["zstd"](LINES) + PACK["zstd"](LINES)
    assert unpack("zstd", raw, size, piece_bytes=1000) == (LINES + LINES, None)
    assert set(StandIn.max_lengths) == {1000}
    assert unpack("zstd", raw[:-1], size)[1] == TRUNCATION_RULE
    assert unpack("zstd", b"neither", size) == (b"", DAMAGE_RULE)
