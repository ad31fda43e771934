"""Live sources: a file that grows and is rotated by renaming, a folder that fills, standard input.

    visits.jsonl.2   was read to its end
    visits.jsonl.1   <- was being read when the writer renamed it: read to its end, its last line needs no end
    visits.jsonl     next, from its beginning, once something is in it

While the new file is empty the writer may still have the old one open: so the old one is left only when the
next one has bytes.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from streamgauge.query.blocks import Block
from streamgauge.query.protocols import Live
from streamgauge.query.settings import Stream
from streamgauge.query.source_schema import SourceSchema
from streamgauge.sources.errors import SourceError, SourceLost
from streamgauge.sources.growing import GrowingFile
from streamgauge.sources.live_folder import LiveFolder
from streamgauge.sources.places import STANDARD_INPUT, check_regular, compression_of, place
from streamgauge.sources.rotation import Following, following, rotated
from streamgauge.sources.schemas import read_growing_schema
from streamgauge.sources.standard_input import StandardInput


def open_live(stream: Stream, base: Path) -> Live:
    """A source that goes on; `base` is the folder that relative paths start from."""
    has_header = stream.format == "csv"
    if stream.source == STANDARD_INPUT:
        _refuse_parquet(stream)
        return StandardInput(has_header=has_header, compression=stream.compression)
    path = place(stream, base)
    if path.is_dir():
        return LiveFolder(path, stream)
    _refuse_parquet(stream)
    if compression_of(path, stream):
        raise SourceError(f"a file that is followed must be uncompressed, got {path}; put it into a folder")
    return FollowedFile(path, has_header=has_header)


def _refuse_parquet(stream: Stream) -> None:
    if stream.format == "parquet":
        raise SourceError(f"a live source of Parquet must be a folder, got {stream.source}")


class FollowedFile:
    """A file of that name, and then the next. It may not be there yet."""

    replayable = True
    pressing = False  # whoever wrote it waits for nothing
    ended = False

    def __init__(self, path: Path, *, has_header: bool) -> None:
        self._path = path
        self._has_header = has_header
        self._file: GrowingFile | None = None
        self.caught_up = False

    @property
    def header(self) -> tuple[str, ...] | None:
        """Of the file that the last block came from; not known before there is one."""
        return self._file.header if self._file else None

    def schemas(self) -> Iterator[SourceSchema]:
        """Return the columns of the CSV file that is there now, once its first line is whole."""
        if self._has_header and (found := read_growing_schema(self._path)) is not None:
            yield found

    def read(self) -> Block | None:
        file = self._file = self._file or self._open(self._path)
        if file is None:
            self.caught_up = True
            return None
        later = following(
            self._path, file.inode, file.modified()
        )  # before reading: now `file` has all its bytes
        block = file.read()
        if block is None and later is not None and file.at_end:
            return self._move_on(file, later)
        self.caught_up = file.at_end and later is None
        return block

    def position(self) -> bytes:
        file = self._file
        at = file and {"inode": file.inode, "offset": file.offset, "before": file.before()}
        return json.dumps({"source": "file", "at": at}).encode()

    def seek(self, position: bytes) -> None:
        at = json.loads(position)["at"]
        self.close()
        if at is not None:
            self._file = self._find(at["inode"])
            self._file.go_on_at(at["offset"], at["before"])

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

    def _open(self, path: Path, inode: int | None = None) -> GrowingFile | None:
        """The file of that name, unless there is none, or another than was meant."""
        if not path.exists():
            return None
        check_regular(path)
        try:
            file = GrowingFile(path, has_header=self._has_header)
        except FileNotFoundError:
            return None
        if inode in (None, file.inode):
            return file
        file.close()
        return None

    def _find(self, inode: int) -> GrowingFile:
        for path in (self._path, *rotated(self._path)):
            if (file := self._open(path, inode)) is not None:
                return file
        rule = "the file that was being followed must still be there, under its name or a rotated one"
        raise SourceLost(f"{rule}, got no such file beside {self._path}; put it back, uncompressed")

    def _move_on(self, file: GrowingFile, later: Following) -> Block | None:
        """The last line of a file that is complete, or else the first lines of the next."""
        self.caught_up = False
        file.finish()
        block = file.read()
        if block is None and (later_file := self._open(later.path, later.inode)) is not None:
            file.close()
            self._file = later_file
            return self.read()
        return block
