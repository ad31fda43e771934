"""Batch files, read completely and into the same blocks each time.

Each CSV file has its own header. The fingerprint covers names, sizes, modification times and the first and last bytes
of each file. It shows a run whether the source is still the one that it began with. This module does not watch
files while they are read: compute the fingerprint before and after.

Promise
    A file is clean if and only if the splitter would return its bytes unchanged. That is: no byte order mark at
    the beginning of a line, no carriage return, no line longer than MAX_RECORD_BYTES, all UTF-8 (it may lack the
    last line feed). Then the engine that reads the file and the engine that reads the blocks see the same lines.
    This applies to the bytes that were checked: the caller must know that the file did not change since.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from threading import Event as Flag
from typing import Any, ClassVar

from streamgauge.config.settings import Stream
from streamgauge.interfaces import check_stop
from streamgauge.records.blocks import MAX_RECORD_BYTES, Block
from streamgauge.records.parquet import read_parquet_batches
from streamgauge.records.source_schema import SourceSchema
from streamgauge.sources.compression import FEED_BYTES, MAX_PIECE_BYTES, Compression, Decompressor
from streamgauge.sources.errors import SourceError, build_unreadable_error
from streamgauge.sources.line_reader import (
    BLOCK_BYTES,
    BYTE_ORDER_MARK,
    FileHeader,
    LineSplitter,
    has_byte_order_mark,
    has_short_lines,
    is_utf8,
    join_pieces,
    read_lines,
)
from streamgauge.sources.parquet import ParquetFile
from streamgauge.sources.paths import check_name, is_pattern

PIECE_BYTES = 2**22  # bytes checked at once: they fit into a processor's cache


def is_clean(path: Path, stop: Flag | None = None) -> bool:
    """Return whether a file is clean, in one pass at about the speed of copying it.

    A requested stop ends the pass.
    """
    room = bytearray(PIECE_BYTES)
    view = memoryview(room)
    pending_bytes = 0  # bytes of the incomplete line at the beginning of the buffer
    try:
        with path.open("rb", buffering=0) as file:
            while count := file.readinto(view[pending_bytes:]):
                check_stop(stop)
                filled = pending_bytes + count
                data = room if filled == PIECE_BYTES else room[:filled]
                end = data.rfind(b"\n") + 1
                if not _lines_are_clean(data, end):
                    return False
                pending_bytes = filled - end
                room[:pending_bytes] = room[end:filled]
    except OSError as error:
        raise build_unreadable_error(path, error) from None
    return is_utf8(room[:pending_bytes]) and not has_byte_order_mark(room[:pending_bytes])


def _lines_are_clean(data: bytearray, end: int) -> bool:
    if b"\r" in data or len(data) - end > MAX_RECORD_BYTES:
        return False
    plain = data.isascii() or (is_utf8(data[:end]) and not has_byte_order_mark(data[:end]))
    return plain and has_short_lines(data, end)


@dataclass(frozen=True)
class WholeFile:
    """JSON lines or CSV, possibly compressed."""

    path: Path
    has_header: bool
    compression: Compression | None
    block_bytes: int = BLOCK_BYTES

    def blocks(self) -> Iterator[Block]:
        """Yield all lines but the header. Damage is recorded where it ends the data."""
        lines, pieces = LineSplitter(self._build_header()), _Pieces(self.path, self.compression, self.block_bytes)
        for data in join_pieces(pieces, self.block_bytes) if self.compression else pieces:
            yield from lines.feed(data)
        yield from lines.finish(pieces.fault)

    def header(self) -> tuple[str, ...] | None:
        """Return the column names of a CSV file."""
        if not self.has_header:
            return None
        opening, begun = self._build_header(), b""
        for piece in _Pieces(self.path, self.compression, MAX_RECORD_BYTES + len(BYTE_ORDER_MARK) + 2):
            begun += piece
            if opening.read(begun, is_last=False):
                return opening.header
        opening.read(begun, is_last=True)
        return opening.header

    def is_clean(self, stop: Flag | None = None) -> bool:
        """Return whether an engine may read the path instead of the blocks."""
        return self.compression is None and self.path.stat().st_size > 0 and is_clean(self.path, stop)

    def _build_header(self) -> FileHeader:
        return FileHeader(str(self.path), has_header=self.has_header)


class _Pieces:
    """Plain bytes of a file. After the last piece, `fault` is set if data are missing."""

    def __init__(self, path: Path, compression: Compression | None, size: int) -> None:
        self._path, self._size = path, size
        self._decompressor = Decompressor(compression, min(size, MAX_PIECE_BYTES)) if compression else None

    @property
    def fault(self) -> str | None:
        return self._decompressor.fault if self._decompressor else None

    def __iter__(self) -> Iterator[bytes]:
        for data in self._read_raw():
            yield from self._decompressor.feed(data) if self._decompressor else (data,)

    def _read_raw(self) -> Iterator[bytes]:
        size = FEED_BYTES if self._decompressor else self._size
        try:
            with self._path.open("rb", buffering=0) as file:
                start = 0
                while data := read_lines(file.fileno(), start, size):
                    start += len(data)
                    yield data
        except OSError as error:
            raise build_unreadable_error(self._path, error) from None


EDGE_BYTES = 2**16  # bytes at the beginning and the end that are hashed


def compute_fingerprint(path: Path) -> str:
    """Return a hash of the file's name, size, modification time, first and last bytes."""
    try:
        with path.open("rb") as file:
            found = path.stat()
            edges = sha256(file.read(EDGE_BYTES))
            file.seek(max(0, found.st_size - EDGE_BYTES))
            edges.update(file.read(EDGE_BYTES))
    except OSError as error:
        raise build_unreadable_error(path, error) from None
    return sha256(repr((path.name, found.st_size, found.st_mtime_ns, edges.digest())).encode()).hexdigest()


def read_schema(path: Path, stream: Stream) -> SourceSchema | None:
    """Return the columns of a complete CSV or Parquet file.

    Returns None for Parquet that cannot be read.
    """
    if stream.format == "parquet":
        kinds = ParquetFile(path, stream).kinds()
        return None if kinds is None else SourceSchema(str(path), kinds)
    header = WholeFile(path, True, find_compression(path, stream)).header()
    return SourceSchema.from_header(str(path), header or ())


def read_growing_schema(path: Path) -> SourceSchema | None:
    """Return the columns of a growing CSV file, or None while line 1 is incomplete."""
    opening = FileHeader(str(path), has_header=True)
    try:
        with path.open("rb") as file:
            begun = file.read(MAX_RECORD_BYTES + len(BYTE_ORDER_MARK) + 2)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise build_unreadable_error(path, error) from None
    whole = opening.read(begun, is_last=False)
    return SourceSchema.from_header(str(path), opening.header or ()) if whole else None


@dataclass(frozen=True)
class FileRange:
    """One complete file of a batch source."""

    path: Path
    is_clean: bool
    header: tuple[str, ...] | None
    format: str
    compression: Compression | None = None

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError as error:
            raise build_unreadable_error(self.path, error) from None

    def blocks(self) -> Iterator[Block]:
        if self.format == "parquet":
            raise SourceError(f"a Parquet file must be read by its path, got a call for the lines of {self.path}")
        return WholeFile(self.path, self.format == "csv", self.compression).blocks()

    def tables(self, columns: Sequence[str]) -> Iterator[Any]:
        return read_parquet_batches(self.path, columns)

    def split(self, size: int) -> "Sequence[FileRange | FileSlice]":
        """Return slices of about `size` bytes of a clean file of lines, and any other file whole."""
        if not self.is_clean or self.format == "parquet" or self.size < 2 * size:
            return [self]
        cuts = [self._find_first_record(), *self._find_lines(range(size, self.size - size // 2, size)), self.size]
        return [FileSlice(self.path, self.header, begin, end) for begin, end in pairwise(cuts) if begin < end]

    def _find_first_record(self) -> int:
        """Return the number of bytes before the first record."""
        opening = FileHeader(str(self.path), has_header=self.format == "csv")
        opening.read(_read_bytes(self.path, 0, MAX_RECORD_BYTES + len(BYTE_ORDER_MARK) + 2), is_last=True)
        return opening.length or 0

    def _find_lines(self, positions: Iterable[int]) -> Iterator[int]:
        """Yield the end of the line at each position. Lines of a clean file are short."""
        for position in positions:
            length = _read_bytes(self.path, position, MAX_RECORD_BYTES + 2).find(b"\n") + 1
            yield position + length if length else self.size


@dataclass(frozen=True)
class FileSlice:
    """Whole lines of a clean file, without its header."""

    path: Path
    header: tuple[str, ...] | None
    begin: int
    end: int
    is_clean: ClassVar[bool] = False  # an engine must not read all of the path

    @property
    def size(self) -> int:
        return self.end - self.begin

    def blocks(self) -> Iterator[Block]:
        opening = FileHeader(str(self.path), has_header=False)
        opening.read(b"", is_last=True)
        lines = LineSplitter(opening, self.begin)
        for begin in range(self.begin, self.end, BLOCK_BYTES):
            yield from lines.feed(_read_bytes(self.path, begin, min(BLOCK_BYTES, self.end - begin)))
        yield from lines.finish()

    def tables(self, columns: Sequence[str]) -> Iterator[Any]:
        raise SourceError(f"a slice of {self.path} must be read by its lines, got a call for its columns")

    def split(self, size: int) -> "Sequence[FileSlice]":
        return [self]


def _read_bytes(path: Path, begin: int, size: int) -> bytes:
    try:
        with path.open("rb", buffering=0) as file:
            file.seek(begin)
            return file.read(size)
    except OSError as error:
        raise build_unreadable_error(path, error) from None


@dataclass(frozen=True)
class BatchFiles:
    """One file, or the files of a folder sorted by name."""

    stream: Stream
    paths: tuple[Path, ...]
    stop: Flag | None = None  # ends the checks of files early

    @cached_property
    def ranges(self) -> tuple[FileRange, ...]:
        """One range per file. Access reads each text file once, to check if it is clean."""
        build = self._build_parquet_range if self.stream.format == "parquet" else self._build_text_range
        return tuple(map(build, self.paths))

    def fingerprint(self) -> str:
        whole = sha256()
        for path in self.paths:
            whole.update(compute_fingerprint(path).encode())
        return whole.hexdigest()

    def schemas(self) -> Iterator[SourceSchema]:
        """Return the columns of each CSV or Parquet file, from first bytes or footers."""
        for path in self.paths if self.stream.format != "jsonl" else ():
            check_stop(self.stop)
            found = read_schema(path, self.stream)
            if found is None:
                raise SourceError(f"source must be a Parquet file that can be read, got {path}")
            yield found

    def _build_text_range(self, path: Path) -> FileRange:
        compression = find_compression(path, self.stream)
        file = WholeFile(path, self.stream.format == "csv", compression)
        header = file.header()  # rejects a bad header before all is read
        is_clean = not is_pattern(path) and file.is_clean(self.stop)
        return FileRange(path, is_clean, header, self.stream.format, compression)

    def _build_parquet_range(self, path: Path) -> FileRange:
        check_name(path)
        try:
            path.open("rb").close()
        except OSError as error:
            raise build_unreadable_error(path, error) from None
        return FileRange(path, is_clean=True, header=None, format="parquet")


COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd"}


def find_compression(path: Path, stream: Stream) -> Compression | None:
    """Return the compression by the file's name, or else by the setting; None for Parquet, which has its own."""
    if stream.format == "parquet":
        return None
    return COMPRESSIONS.get(path.suffix, stream.compression)
