"""What a file is, by its suffix: visits.csv.gz is CSV, compressed by gzip."""

from pathlib import PurePath
from typing import Literal

Format = Literal["jsonl", "csv", "parquet"]
Compression = Literal["gzip", "zstd"]

FORMATS: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
STANDARD = "-"  # input or output
HTTP = "http"  # a source whose events are sent to the server; a file of that name is "./http"
REPORTS = "reports"  # a source whose records are sent by devices, which have made them private
SENT = (HTTP, REPORTS)


def compression_of(path: str) -> Compression | None:
    return COMPRESSIONS.get(PurePath(path).suffix.lower())


def format_of(path: str) -> Format | None:
    """The format that the suffix tells, under that of the compression if there is one.

    >>> format_of("visits.CSV.gz"), format_of("folder"), compression_of("visits.CSV.gz")
    ('csv', None, 'gzip')
    """
    name = PurePath(path)
    inner = name.with_suffix("") if compression_of(path) else name
    return FORMATS.get(inner.suffix.lower())
