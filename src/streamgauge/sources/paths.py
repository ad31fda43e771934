"""Paths of sources: a file, or a folder of files in the order of their names."""

import os
from pathlib import Path

from streamgauge.config.paths import resolve_path
from streamgauge.config.settings import Stream
from streamgauge.sources.errors import SourceError, build_unreadable_error

SUFFIXES = {"jsonl": (".jsonl", ".ndjson", ".json"), "csv": (".csv",), "parquet": (".parquet",)}


def resolve_source_path(stream: Stream, base: Path) -> Path:
    """Return the path of a source other than standard input."""
    return resolve_path(stream.source, base)


def list_names(folder: Path, stream: Stream) -> list[str]:
    """Return the sorted file names, without hidden files and other suffixes."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if _is_source_file(entry.name, stream) and entry.is_file())
    except OSError as error:
        raise build_unreadable_error(folder, error) from None


def list_files(stream: Stream, base: Path) -> tuple[Path, ...]:
    """Return the files of a batch source."""
    path = resolve_source_path(stream, base)
    if path.is_dir():
        found = tuple(path / name for name in list_names(path, stream))
        if not found:
            raise SourceError(f"source must be a folder with {describe_suffixes(stream)} files in it, got {path}")
        return found
    check_regular(path)
    return (path,)


def check_regular(path: Path) -> None:
    """Reject a path that is not a regular file: a pipe or device cannot be read twice."""
    try:
        os.stat(path)
    except OSError as error:
        raise build_unreadable_error(path, error) from None
    if not path.is_file():
        raise SourceError(f"source must be a file or a folder, got {path}: neither; a pipe may be given as '-'")


def is_pattern(path: Path) -> bool:
    """Return whether an engine would read the path as a pattern."""
    return any(sign in str(path) for sign in "*?[")


def check_name(path: Path) -> None:
    """Reject the name of an engine-only file if the engine would misread it."""
    if is_pattern(path):
        raise SourceError(f"the path of a Parquet file must be without *, ? and [, got {path}")


def describe_suffixes(stream: Stream) -> str:
    return " or ".join(SUFFIXES[stream.format])


def _is_source_file(name: str, stream: Stream) -> bool:
    if stream.format != "parquet":
        name = name.removesuffix(".gz").removesuffix(".zst")
    return not name.startswith(".") and name.endswith(SUFFIXES[stream.format])
