"""Paths of a pipeline file, with the format and compression of their suffixes.

Opening and comparing resolve a path in the same manner. visits.csv.gz is CSV, compressed by gzip.

Promise
    Two names of one location have the same `resolve_real_path`, however they are spelt: from home (`~`), through
    links, or with dots. So files that must be distinct are compared by location, not by name.
"""

import os
from pathlib import Path, PurePath
from typing import Literal

from streamgauge.config.endpoints import Format


def resolve_path(text: str, base: Path) -> Path:
    """Return a path of the file, relative to `base` unless it begins at root or home."""
    return base / os.path.expanduser(text)


def resolve_real_path(path: Path) -> Path:
    """Return the absolute path with all links resolved, even if nothing exists there."""
    return Path(os.path.realpath(path))


Compression = Literal["gzip", "zstd"]

FORMATS: dict[str, Format] = {".jsonl": "jsonl", ".ndjson": "jsonl", ".csv": "csv", ".parquet": "parquet"}
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}


def find_compression(path: str) -> Compression | None:
    return COMPRESSIONS.get(PurePath(path).suffix.lower())


def find_format(path: str) -> Format | None:
    """Return the format of the suffix, before that of the compression if there is one.

    >>> find_format("visits.CSV.gz"), find_format("folder"), find_compression("visits.CSV.gz")
    ('csv', None, 'gzip')
    """
    name = PurePath(path)
    inner = name.with_suffix("") if find_compression(path) else name
    return FORMATS.get(inner.suffix.lower())
