"""Live file that grows and is rotated by renaming.

    visits.jsonl.2   was read to its end
    visits.jsonl.1   <- was being read when the writer renamed it: read to its end, its last line needs no end
    visits.jsonl     next, from its beginning, once it has bytes

While the new file is empty, the writer may still have the old one open. So the source leaves the old one only when
the next one has bytes.

A file may be rotated several times between two reads, or while no run reads. Its successors are the files whose
names add a number or a date (visits.jsonl.1, visits.jsonl-20260105) and that were modified later than the current
file, in that order. The file of the name itself is the last.
"""

import json
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from streamgauge.interfaces import StreamingSource
from streamgauge.records.blocks import Block
from streamgauge.records.source_schema import SourceSchema
from streamgauge.sources.errors import SourceError, build_unreadable_error
from streamgauge.sources.file import read_growing_schema
from streamgauge.sources.growing_file import GrowingFile
from streamgauge.sources.line_reader import BLOCK_BYTES
from streamgauge.sources.paths import check_regular

ROTATION_SUFFIX = re.compile(r"[._-]\d[\dT:._-]*")  # suffixes that rotation adds to a name
ROTATION_NUMBER = re.compile(r"\.(\d{1,4})$")


@dataclass(frozen=True)
class NextFile:
    """Successor of the current file."""

    path: Path
    inode: int


def list_rotated(path: Path) -> list[Path]:
    """Return the files in the same folder that may once have had this name."""
    try:
        names = os.listdir(path.parent)
    except OSError as error:
        raise build_unreadable_error(path.parent, error) from None
    longer = [name for name in names if name.startswith(path.name)]
    return [path.with_name(name) for name in longer if ROTATION_SUFFIX.fullmatch(name, len(path.name))]


def find_next_file(path: Path, inode: int, modified: int) -> NextFile | None:
    """Return the file after `inode`, last modified at `modified`, if it has bytes."""
    newest = _stat_or_none(path)
    if newest is not None and newest.st_ino == inode:
        return None
    found = [(other, stat) for other in list_rotated(path) if (stat := _stat_or_none(other)) is not None]
    own = [_sort_key(other, modified) for other, stat in found if stat.st_ino == inode]
    here = own[0] if own else (modified, -math.inf, "")
    rotations = [(_sort_key(other, stat.st_mtime_ns), other, stat.st_ino) for other, stat in found if stat.st_size]
    later = sorted(rotation for rotation in rotations if rotation[0] > here)
    if later:
        return NextFile(*later[0][1:])
    return NextFile(path, newest.st_ino) if newest is not None and newest.st_size else None


def _sort_key(path: Path, modified: int) -> tuple[int, float, str]:
    """Sort by modification time, then by number, which grows with age, then by date."""
    number = ROTATION_NUMBER.search(path.name)
    return modified, -int(number[1]) if number else 0, path.name


def _stat_or_none(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


class FollowedFile(StreamingSource):
    """Followed file and its successors. The file may not exist yet."""

    replayable = True
    at_end = False

    def __init__(self, path: Path, *, has_header: bool, block_bytes: int = BLOCK_BYTES) -> None:
        self._path = path
        self._block_bytes = block_bytes
        self._has_header = has_header
        self._file: GrowingFile | None = None

    @property
    def header(self) -> tuple[str, ...] | None:
        """Header of the file of the last block, or unknown before the first block."""
        return self._file.header if self._file else None

    def schemas(self) -> Iterator[SourceSchema]:
        """Return the columns of the present CSV file, once its first line is whole."""
        if self._has_header and (found := read_growing_schema(self._path)) is not None:
            yield found

    def read(self) -> Block | None:
        file = self._file = self._file or self._open(self._path)
        if file is None:
            self.at_end = True
            return None
        later = find_next_file(
            self._path, file.inode, file.modified_ns()
        )  # before reading: now `file` has all its bytes
        block = file.read()
        if block is None and later is not None and file.at_end:
            return self._move_on(file, later)
        self.at_end = file.at_end and later is None
        return block

    def position(self) -> bytes:
        file = self._file
        at = file and {"inode": file.inode, "offset": file.offset, "before": file.prefix_digest()}
        return json.dumps({"source": "file", "at": at}).encode()

    def resume(self, position: bytes | None) -> None:
        if position is None:
            return
        at = json.loads(position)["at"]
        self.close()
        if at is not None:
            self._file = self._find(at["inode"])
            self._file.resume_at(at["offset"], at["before"])

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, path: Path, inode: int | None = None) -> GrowingFile | None:
        """Open the file of that name. Return None if it is missing or another inode."""
        if not path.exists():
            return None
        check_regular(path)
        try:
            file = GrowingFile(path, has_header=self._has_header, block_bytes=self._block_bytes)
        except FileNotFoundError:
            return None
        if inode in (None, file.inode):
            return file
        file.close()
        return None

    def _find(self, inode: int) -> GrowingFile:
        for path in (self._path, *list_rotated(self._path)):
            if (file := self._open(path, inode)) is not None:
                return file
        rule = "the file that was being followed must still be there, under its name or a rotated one"
        raise SourceError(f"{rule}, got no such file beside {self._path}; put it back, uncompressed", "lost")

    def _move_on(self, file: GrowingFile, later: NextFile) -> Block | None:
        """Return the last line of a complete file, or else the first lines of the next."""
        self.at_end = False
        file.finish()
        block = file.read()
        if block is None and (later_file := self._open(later.path, later.inode)) is not None:
            file.close()
            self._file = later_file
            return self.read()
        return block
