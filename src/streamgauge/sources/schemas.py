"""Columns of the files of a source, read from headers and footers without any record."""

from pathlib import Path

from streamgauge.query.blocks import LONGEST
from streamgauge.query.settings import Stream
from streamgauge.query.source_schema import SourceSchema
from streamgauge.sources.errors import unreadable
from streamgauge.sources.opening import MARK, Opening
from streamgauge.sources.parquet import ParquetFile
from streamgauge.sources.places import compression_of
from streamgauge.sources.whole import WholeFile


def read_schema(path: Path, stream: Stream) -> SourceSchema | None:
    """Return the columns of a complete CSV or Parquet file, or None for Parquet that cannot be read."""
    if stream.format == "parquet":
        kinds = ParquetFile(path, stream).kinds()
        return None if kinds is None else SourceSchema(str(path), kinds)
    header = WholeFile(path, True, compression_of(path, stream)).header()
    return SourceSchema.from_header(str(path), header or ())


def read_growing_schema(path: Path) -> SourceSchema | None:
    """Return the columns of a CSV file that may grow, or None while its first line has no end."""
    opening = Opening(str(path), has_header=True)
    try:
        with path.open("rb") as file:
            begun = file.read(LONGEST + len(MARK) + 2)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from None
    whole = opening.read(begun, ended=False)
    return SourceSchema.from_header(str(path), opening.header or ()) if whole else None
