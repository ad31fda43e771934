"""Where a source lies: a file, a folder of files in the order of their names, or standard input."""

import os
from pathlib import Path

from streamgauge.query.paths import path_of
from streamgauge.query.settings import Stream
from streamgauge.sources.compressed import Compression
from streamgauge.sources.errors import SourceError, unreadable

STANDARD_INPUT = "-"

SUFFIXES = {"jsonl": (".jsonl", ".ndjson", ".json"), "csv": (".csv",), "parquet": (".parquet",)}
COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}


def place(stream: Stream, base: Path) -> Path:
    """Of a source that is not standard input."""
    return path_of(stream.source, base)


def compression_of(path: Path, stream: Stream) -> Compression | None:
    """As the name says, or else the setting. Parquet has its own inside."""
    if stream.format == "parquet":
        return None
    return COMPRESSIONS.get(path.suffix, stream.compression)


def names_in(folder: Path, stream: Stream) -> list[str]:
    """The files that belong to the source, sorted: hidden ones and other suffixes do not."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if _belongs(entry.name, stream) and entry.is_file())
    except OSError as error:
        raise unreadable(folder, error) from None


def files_of(stream: Stream, base: Path) -> tuple[Path, ...]:
    """The files of a finished source."""
    path = place(stream, base)
    if path.is_dir():
        found = tuple(path / name for name in names_in(path, stream))
        if not found:
            raise SourceError(f"source must be a folder with {suffixes(stream)} files in it, got {path}")
        return found
    check_regular(path)
    return (path,)


def check_regular(path: Path) -> None:
    """A pipe or a device could be read once, if at all."""
    try:
        os.stat(path)
    except OSError as error:
        raise unreadable(path, error) from None
    if not path.is_file():
        raise SourceError(
            f"source must be a file or a folder, got {path}: neither; a pipe may be given as '-'"
        )


def is_pattern(path: Path) -> bool:
    """Whether an engine would take the path for many."""
    return any(sign in str(path) for sign in "*?[")


def check_name(path: Path) -> None:
    """Of a file that only an engine can read."""
    if is_pattern(path):
        raise SourceError(f"the path of a Parquet file must be without *, ? and [, got {path}")


def suffixes(stream: Stream) -> str:
    return " or ".join(SUFFIXES[stream.format])


def _belongs(name: str, stream: Stream) -> bool:
    if stream.format != "parquet":
        name = name.removesuffix(".gz").removesuffix(".zst")
    return not name.startswith(".") and name.endswith(SUFFIXES[stream.format])
