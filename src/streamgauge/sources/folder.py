"""Folder that receives files. Each file is read once, in the order of the names.

A file is complete as soon as a file with a later name exists. The last file may still grow, and is followed. A file
whose name comes too late to be in order is read when it arrives. Compressed files and Parquet cannot be read while
they grow: write them under another suffix, or a name that begins with a dot, and rename them. The source identifies
files by name. A file that has been read may be removed, but not renamed or appended to. Reading of a complete file
can resume at any of its blocks.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streamgauge.config.settings import Stream
from streamgauge.interfaces import StreamingSource
from streamgauge.records.blocks import Block
from streamgauge.records.source_schema import SourceSchema
from streamgauge.sources.errors import SourceError
from streamgauge.sources.file import WholeFile, compute_fingerprint, find_compression, read_growing_schema, read_schema
from streamgauge.sources.growing_file import GrowingFile
from streamgauge.sources.line_reader import BLOCK_BYTES
from streamgauge.sources.parquet import ParquetFile
from streamgauge.sources.paths import list_names

END_OFFSET = -1  # the offset after the last block


class CompleteFile:
    """Complete file with its blocks and a read position."""

    is_complete = True

    def __init__(self, path: Path, file: ParquetFile | WholeFile) -> None:
        self._path = path
        self._fingerprint = compute_fingerprint(path)
        self.header = file.header()
        self._blocks = file.blocks()
        self._next = next(self._blocks, None)

    @property
    def at_end(self) -> bool:
        return self._next is None

    is_finished = at_end

    @property
    def offset(self) -> int:
        return END_OFFSET if self._next is None else self._next.offset

    def read(self) -> Block | None:
        block, self._next = self._next, next(self._blocks, None)
        return block

    def finish(self) -> None:
        """Do nothing: the file is already complete."""

    def prefix_digest(self) -> str:
        """Return the fingerprint of the whole file: its blocks depend on all of it."""
        return self._fingerprint

    def resume_at(self, offset: int, before: str) -> None:
        """Continue at the offset at which another process stopped."""
        while before == self._fingerprint and self.offset not in (offset, END_OFFSET):
            self.read()
        if before != self._fingerprint or self.offset != offset:
            rule = "a file must stay as it is until it was read to its end"
            raise SourceError(f"{rule}, got {self._path} with other bytes; put it back", "truncated")

    def close(self) -> None:
        self._next = None
        self._blocks = iter(())


FolderFile = CompleteFile | GrowingFile


class LiveFolder(StreamingSource):
    """All files of a folder, present and future."""

    replayable = True
    at_end = False

    def __init__(self, folder: Path, stream: Stream, *, block_bytes: int = BLOCK_BYTES) -> None:
        self._folder = folder
        self._block_bytes = block_bytes
        self._stream = stream
        self._names: list[str] = []  # files present at the last call of `read`
        self._finished_names: set[str] = set()
        self._saved_offsets: dict[str, dict[str, Any]] = {}  # offsets at which files resume
        self._name = ""
        self._file: FolderFile | None = None

    @property
    def header(self) -> tuple[str, ...] | None:
        """Header of the file of the last block, or unknown before the first block."""
        return self._file.header if self._file else None

    def schemas(self) -> Iterator[SourceSchema]:
        """Return the columns of each readable CSV or Parquet file that is present."""
        for name in list_names(self._folder, self._stream) if self._stream.format != "jsonl" else ():
            path = self._folder / name
            grows = self._stream.format == "csv" and find_compression(path, self._stream) is None
            found = read_growing_schema(path) if grows else read_schema(path, self._stream)
            if found is not None:
                yield found

    def read(self) -> Block | None:
        self._names = list_names(self._folder, self._stream)
        self._finished_names &= set(self._names)
        block = self._file.read() if self._file else None
        while block is None and self._advance():
            block = self._file.read() if self._file else None
        self.at_end = self._is_settled() and not self._list_unread()
        return block

    def position(self) -> bytes:
        at = dict(self._saved_offsets)
        if self._file is not None:
            at[self._name] = _to_position(self._file)
        return json.dumps({"source": "folder", "done": sorted(self._finished_names), "at": at}).encode()

    def resume(self, position: bytes | None) -> None:
        if position is None:
            return
        saved = json.loads(position)
        self.close()
        self._finished_names, self._saved_offsets = set(saved["done"]), saved["at"]
        for name in self._saved_offsets:
            if not (self._folder / name).is_file():
                rule = "a file of a live folder must stay until it was read"
                raise SourceError(f"{rule}, got no {self._folder / name}; put it back", "lost")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _list_unread(self) -> list[str]:
        """Return the files still to be read, without the current one."""
        return [name for name in self._names if name not in self._finished_names and name != self._name]

    def _is_settled(self) -> bool:
        """Return whether the file has no more data except a possibly incomplete last line."""
        file = self._file
        return file is None or (file.at_end and (file.is_finished or self._can_grow()))

    def _can_grow(self) -> bool:
        return self._file is not None and not self._file.is_complete and self._names[-1:] == [self._name]

    def _advance(self) -> bool:
        """Leave a file that is at its end. Return whether there is a file to read now."""
        file = self._file
        if file is None:
            return self._open_next()
        if not file.at_end or (self._can_grow() and not self._list_unread()):
            return False
        if self._can_grow():
            self._saved_offsets[self._name] = _to_position(file)
            return self._open_next()
        file.finish()
        if file.at_end:
            self._finished_names.add(self._name)
            return self._open_next()
        return True

    def _open_next(self) -> bool:
        self.close()
        self._name = ""
        name = next(iter(self._list_unread()), None)
        try:
            self._file = None if name is None else self._open_reader(self._folder / name)
        except FileNotFoundError:
            return False  # removed since listing
        if name is None or self._file is None:
            return False
        self._name = name
        if name in self._saved_offsets:
            self._file.resume_at(**self._saved_offsets.pop(name))
        return True

    def _open_reader(self, path: Path) -> FolderFile:
        stream, has_header = self._stream, self._stream.format == "csv"
        if stream.format == "parquet":
            return CompleteFile(path, ParquetFile(path, stream))
        if compression := find_compression(path, stream):
            return CompleteFile(path, WholeFile(path, has_header, compression, self._block_bytes))
        return GrowingFile(path, has_header=has_header, block_bytes=self._block_bytes)


def _to_position(file: FolderFile) -> dict[str, Any]:
    return {"offset": file.offset, "before": file.prefix_digest()}
