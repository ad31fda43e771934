"""The text of records that were dropped, read from the source once more, for its curator's eyes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from streamgauge.cli.failures import bad_argument
from streamgauge.query.blocks import Dropped
from streamgauge.query.formats import SENT, STANDARD
from streamgauge.query.settings import PipelineFile
from streamgauge.sources.compressed import FED, Unpacked
from streamgauge.sources.places import compression_of, place

LONGEST = 200  # bytes of a record that are shown


def reread(file: PipelineFile, records: Sequence[Dropped]) -> list[bytes]:
    """The first bytes of each record, which come by offset."""
    stream = file.stream
    path = place(stream, file.path.parent)
    if stream.source in (STANDARD, *SENT) or stream.format == "parquet" or not path.is_file():
        bad_argument("--show", "for a source that is one file of lines", stream.source)
    compression = compression_of(path, stream)
    if compression is None:
        return _sought(path, records)
    return _streamed(_unpacked(path, Unpacked(compression)), records)


def _sought(path: Path, records: Sequence[Dropped]) -> list[bytes]:
    found = []
    with path.open("rb") as file:
        for record in records:
            file.seek(record.offset)
            found.append(file.read(min(record.length, LONGEST)))
    return found


def _unpacked(path: Path, unpacked: Unpacked) -> Iterator[bytes]:
    with path.open("rb") as file:
        while data := file.read(FED):
            yield from unpacked.feed(data)


def _streamed(pieces: Iterator[bytes], records: Sequence[Dropped]) -> list[bytes]:
    """The same of a stream that cannot be sought: what is before a record goes by."""
    found, begin, window = [], 0, b""
    for record in records:
        end = record.offset + min(record.length, LONGEST)
        while begin + len(window) < end and (piece := next(pieces, None)) is not None:
            gone = min(len(window), max(0, record.offset - begin))
            begin, window = begin + gone, window[gone:] + piece
        found.append(window[max(0, record.offset - begin) : max(0, end - begin)])
    return found
