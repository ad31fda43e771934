"""A folder that fills: each file is read once, in the order of the names.

A file is complete as soon as there is one with a later name; the last one may still grow, and is followed.
A file whose name comes too late to be in order is read when it comes. Compressed files and Parquet cannot be
read while they grow: write them under another suffix, or a name that begins with a dot, and rename them.
Files are known by their names: one that has been read may be removed, but not renamed, nor appended to.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from streamgauge.query.blocks import Block
from streamgauge.query.settings import Stream
from streamgauge.query.source_schema import SourceSchema
from streamgauge.sources.complete import CompleteFile
from streamgauge.sources.errors import SourceLost
from streamgauge.sources.growing import GrowingFile
from streamgauge.sources.parquet import ParquetFile
from streamgauge.sources.places import compression_of, names_in
from streamgauge.sources.schemas import read_growing_schema, read_schema
from streamgauge.sources.whole import WholeFile


class _Reader(Protocol):
    """A file on its way through."""

    complete: bool

    @property
    def finished(self) -> bool: ...

    @property
    def header(self) -> tuple[str, ...] | None: ...

    @property
    def at_end(self) -> bool: ...

    @property
    def offset(self) -> int: ...

    def read(self) -> Block | None: ...

    def finish(self) -> None: ...

    def before(self) -> str: ...

    def go_on_at(self, offset: int, before: str) -> None: ...

    def close(self) -> None: ...


class LiveFolder:
    """All that is in the folder, and all that comes."""

    replayable = True
    pressing = False  # whoever wrote it waits for nothing
    ended = False

    def __init__(self, folder: Path, stream: Stream) -> None:
        self._folder = folder
        self._stream = stream
        self._names: list[str] = []  # of the files that were there when `read` was last called
        self._done: set[str] = set()
        self._begun: dict[str, dict[str, Any]] = {}  # where files are to be gone on with
        self._name = ""
        self._file: _Reader | None = None
        self.caught_up = False

    @property
    def header(self) -> tuple[str, ...] | None:
        """Of the file that the last block came from; not known before there is one."""
        return self._file.header if self._file else None

    def schemas(self) -> Iterator[SourceSchema]:
        """Return the columns of each CSV or Parquet file that is there now and can be read."""
        for name in names_in(self._folder, self._stream) if self._stream.format != "jsonl" else ():
            path = self._folder / name
            grows = self._stream.format == "csv" and compression_of(path, self._stream) is None
            found = read_growing_schema(path) if grows else read_schema(path, self._stream)
            if found is not None:
                yield found

    def read(self) -> Block | None:
        self._names = names_in(self._folder, self._stream)
        self._done &= set(self._names)
        block = self._file.read() if self._file else None
        while block is None and self._moves_on():
            block = self._file.read() if self._file else None
        self.caught_up = self._settled() and not self._others()
        return block

    def position(self) -> bytes:
        at = dict(self._begun)
        if self._file is not None:
            at[self._name] = _whereabouts(self._file)
        return json.dumps({"source": "folder", "done": sorted(self._done), "at": at}).encode()

    def seek(self, position: bytes) -> None:
        told = json.loads(position)
        self.close()
        self._done, self._begun = set(told["done"]), told["at"]
        for name in self._begun:
            if not (self._folder / name).is_file():
                rule = "a file of a live folder must stay until it was read"
                raise SourceLost(f"{rule}, got no {self._folder / name}; put it back")

    def resume(self, position: bytes | None) -> None:
        if position is not None:
            self.seek(position)

    def committed(self, closed: int) -> None:
        """Nobody has to be told."""

    def rest(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _others(self) -> list[str]:
        """Files that are still to be read, but for the one that is."""
        return [name for name in self._names if name not in self._done and name != self._name]

    def _settled(self) -> bool:
        """Whether the file has nothing more, but a last line that may not be whole yet."""
        file = self._file
        return file is None or (file.at_end and (file.finished or self._may_grow()))

    def _may_grow(self) -> bool:
        return self._file is not None and not self._file.complete and self._names[-1:] == [self._name]

    def _moves_on(self) -> bool:
        """Leaves a file that is at its end; whether there is something to read now."""
        file = self._file
        if file is None:
            return self._opens_next()
        if not file.at_end or (self._may_grow() and not self._others()):
            return False
        if self._may_grow():
            self._begun[self._name] = _whereabouts(file)
            return self._opens_next()
        file.finish()
        if file.at_end:
            self._done.add(self._name)
            return self._opens_next()
        return True

    def _opens_next(self) -> bool:
        self.close()
        self._name = ""
        name = next(iter(self._others()), None)
        try:
            self._file = None if name is None else self._reader(self._folder / name)
        except FileNotFoundError:
            return False  # removed since
        if name is None or self._file is None:
            return False
        self._name = name
        if name in self._begun:
            self._file.go_on_at(**self._begun.pop(name))
        return True

    def _reader(self, path: Path) -> _Reader:
        stream, has_header = self._stream, self._stream.format == "csv"
        if stream.format == "parquet":
            return CompleteFile(path, ParquetFile(path, stream))
        if compression := compression_of(path, stream):
            return CompleteFile(path, WholeFile(path, has_header, compression))
        return GrowingFile(path, has_header=has_header)


def _whereabouts(file: _Reader) -> dict[str, Any]:
    return {"offset": file.offset, "before": file.before()}
