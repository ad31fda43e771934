"""`streamgauge quarantine`: dropped records by rule."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from streamgauge.cli.arguments import PipelinePath, build_switch
from streamgauge.cli.console import add_row, build_table, escape_controls, stderr
from streamgauge.cli.errors import raise_bad_argument

if TYPE_CHECKING:
    from streamgauge.config.settings import PipelineFile
    from streamgauge.records.blocks import DroppedRecord
    from streamgauge.sources.compression import Compression

MAX_RECORD_BYTES = 200  # bytes of a record that are shown
MAX_SHOWN_RECORDS = 20  # records of a rule

Show = Annotated[bool, build_switch("--show", help="Read the source again and print the records themselves.")]


def quarantine(file: PipelinePath, show: Show = False) -> None:
    """Show unreadable records: their number by rule, offset and length.

    Their text is never stored; --show reads the source again. Everything here is private, so it is printed to a
    terminal only (on standard error).

    Example: `streamgauge quarantine clinic.toml --show`
    """
    if not sys.stderr.isatty():
        raise_bad_argument("standard error", "a terminal, since what was dropped is private", "a pipe or a file")
    from streamgauge.runtime.pipeline import Pipeline
    from streamgauge.runtime.quarantine import UNCOUNTED_TEXT

    pipeline, console = Pipeline.from_file(file), stderr()
    if pipeline.file.stream.pan_private:
        console.print(UNCOUNTED_TEXT, soft_wrap=True)
        return
    dropped = sorted(pipeline.quarantine(), key=lambda each: (each.rule, each.offset))
    if not dropped:
        console.print("no record was dropped as unreadable")
    for rule, count in Counter(each.rule for each in dropped).items():
        records = [each for each in dropped if each.rule == rule][:MAX_SHOWN_RECORDS]
        table = build_table("byte", "length", f"{rule}: {count:,}", right_aligned=("byte", "length"))
        texts = reread_records(pipeline.file, records) if show else [b""] * len(records)
        for record, text in zip(records, texts, strict=True):
            add_row(table, f"{record.offset:,}", f"{record.length:,}", escape_controls(text.decode(errors="replace")))
        console.print(table)
        if count > len(records):
            console.print(f"and {count - len(records):,} more")


def reread_records(file: "PipelineFile", records: Sequence["DroppedRecord"]) -> list[bytes]:
    """Return the first bytes of each record; records are ordered by offset."""
    from streamgauge.sources.file import find_compression
    from streamgauge.sources.paths import resolve_source_path

    stream = file.stream
    path = resolve_source_path(stream, file.path.parent)
    if not stream.source_facts.is_path or stream.format == "parquet" or not path.is_file():
        raise_bad_argument("--show", "for a source that is one file of lines", stream.source)
    compression = find_compression(path, stream)
    if compression is None:
        return _read_by_offset(path, records)
    return _read_from_stream(_decompress(path, compression), records)


def _read_by_offset(path: Path, records: Sequence["DroppedRecord"]) -> list[bytes]:
    found = []
    with path.open("rb") as file:
        for record in records:
            file.seek(record.offset)
            found.append(file.read(min(record.length, MAX_RECORD_BYTES)))
    return found


def _decompress(path: Path, compression: "Compression") -> Iterator[bytes]:
    from streamgauge.sources.compression import FEED_BYTES, Decompressor

    unpacked = Decompressor(compression)
    with path.open("rb") as file:
        while data := file.read(FEED_BYTES):
            yield from unpacked.feed(data)


def _read_from_stream(pieces: Iterator[bytes], records: Sequence["DroppedRecord"]) -> list[bytes]:
    """Return the first bytes of records of a stream that cannot seek."""
    found, begin, window = [], 0, b""
    for record in records:
        end = record.offset + min(record.length, MAX_RECORD_BYTES)
        while begin + len(window) < end and (piece := next(pieces, None)) is not None:
            gone = min(len(window), max(0, record.offset - begin))
            begin, window = begin + gone, window[gone:] + piece
        found.append(window[max(0, record.offset - begin) : max(0, end - begin)])
    return found
