"""Standard input: what is there is read without waiting; at the end the last line is a record."""

import gzip
import os
import pty
import time
import tty

import pytest

from streamgauge.sources import SourceError, StandardInput
from streamgauge.sources.compression import TRUNCATION_RULE
from tests.support.declared_streams import rules, text


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as _, os.fdopen(writing, "wb", buffering=0) as writer:
        yield reading, writer


def to_its_end(source):
    blocks = []
    while not source.is_exhausted:
        blocks.append(source.read())
    return [block for block in blocks if block]


def test_a_pipe_is_read_without_waiting_for_its_writer(pipe):
    reading, writer = pipe
    source = StandardInput(reading)
    assert source.read() is None
    assert source.at_end
    writer.write(b"a\nb")
    assert source.read().data == b"a\n"
    assert source.at_end
    writer.write(b"c\r\nd")
    assert source.read().data == b"bc\n"
    assert source.read() is None
    assert not source.is_exhausted
    writer.close()
    assert source.read().data == b"d\n"
    assert source.is_exhausted
    assert source.at_end
    assert source.read() is None


def test_the_descriptor_stays_as_it_was(pipe):
    reading, _ = pipe
    StandardInput(reading).read()
    assert os.get_blocking(reading)


def test_pipe_is_not_at_end_while_more_waits(pipe):
    reading, writer = pipe
    writer.write(b"1234567\n" * 3)
    source = StandardInput(reading, block_bytes=8, feed_bytes=8)
    told = [(source.read().data, source.at_end) for _ in range(3)]
    assert told == [(b"1234567\n", False)] * 3
    assert source.read() is None
    assert source.at_end


def test_a_file_is_read_to_its_end(tmp_path):
    path = tmp_path / "visits.csv"
    path.write_bytes(b"a,b\n" + b"1,2\n" * 1_000_000 + b"3,4")
    with path.open("rb") as file:
        source = StandardInput(file.fileno(), has_header=True)
        assert text(to_its_end(source)) == b"1,2\n" * 1_000_000 + b"3,4\n"
        assert source.header == ("a", "b")


def test_a_terminal_is_read_to_its_end():
    outer, inner = pty.openpty()
    tty.setraw(outer)
    source = StandardInput(inner)
    assert source.read() is None
    os.write(outer, b"a\nb")
    while (block := source.read()) is None:
        time.sleep(0.01)
    assert block.data == b"a\n"
    os.close(outer)
    os.close(inner)


def test_truncated_compressed_pipe_is_read_to_its_end(pipe):
    reading, writer = pipe
    raw = gzip.compress(b"a\nb\n") + gzip.compress(b"c\nd\n")[:-8]
    source = StandardInput(reading, compression="gzip")
    writer.write(raw[:30])
    source.read()
    writer.write(raw[30:])
    writer.close()
    blocks = to_its_end(source)
    assert b"a\nb\nc\nd\n".endswith(text(blocks))
    assert rules(blocks) == [TRUNCATION_RULE]


def test_compressed_pipe_yields_bounded_blocks(pipe):
    reading, writer = pipe
    writer.write(gzip.compress(b"a" * 7 + b"\n") + gzip.compress((b"a" * 7 + b"\n") * 2**20))
    writer.close()
    blocks = to_its_end(StandardInput(reading, compression="gzip", block_bytes=2**20))
    assert text(blocks) == (b"a" * 7 + b"\n") * (2**20 + 1)
    assert max(len(block.data) for block in blocks) <= 2**21


def test_standard_input_cannot_be_replayed(pipe):
    assert not StandardInput(pipe[0]).replayable


def test_a_descriptor_that_is_closed_is_refused_in_one_line(pipe):
    number = os.dup(pipe[0])
    os.close(number)
    with pytest.raises(SourceError, match="source must be readable, got standard input: Bad file descriptor"):
        StandardInput(number).read()
