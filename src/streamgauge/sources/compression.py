"""Decompression in bounded pieces: a compression bomb costs time, never memory.

The decompressor reads gzip with any number of members, and zstd with any number of frames. It returns all data
before an early end or damage. Then `fault` names the problem, and the rest of the input is ignored. The pieces are
a function of the compressed bytes and of how they were fed.
"""

import zlib
from collections.abc import Callable, Generator, Iterator
from types import ModuleType
from typing import Any, Literal, Protocol

from streamgauge.sources.errors import SourceError

Compression = Literal["gzip", "zstd"]

FEED_BYTES = 2**16  # compressed bytes to feed at once
MAX_PIECE_BYTES = 2**20  # maximum plain bytes of one piece
ZSTD_FEED_BYTES = 2**10  # zstd: at most 2^15 times as many plain bytes come out
MAX_WINDOW_BYTES = 2**27  # bytes that a zstd frame may refer back

TRUNCATION_RULE = "compressed data must be whole, and end early"
DAMAGE_RULE = "compressed data must be whole, and are damaged"


class _Frame(Protocol):
    """A gzip member or a zstd frame. `unused_data` are the bytes after its end."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def pieces(self, data: bytes) -> Iterator[bytes]: ...


class _GzipMember:
    """One member of a gzip file."""

    def __init__(self, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self._inflate = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def pieces(self, data: bytes) -> Iterator[bytes]:
        piece = self._inflate.decompress(data, self._piece_bytes)
        while piece and not self.eof:
            yield piece
            piece = self._inflate.decompress(self._inflate.unconsumed_tail, self._piece_bytes)
        yield piece


class _NativeFrame:
    """One zstd frame, read by the standard library of Python 3.14."""

    def __init__(self, zstd: ModuleType, piece_bytes: int) -> None:
        self._piece_bytes = piece_bytes
        self._frame: Any = zstd.ZstdDecompressor()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        yield self._frame.decompress(data, self._piece_bytes)
        while not self.eof and not self._frame.needs_input:
            yield self._frame.decompress(b"", self._piece_bytes)


class _PackageFrame:
    """One zstd frame, read by the package `zstandard`.

    The package returns all output of a call at once, so it is fed in small pieces.
    """

    def __init__(self, zstandard: ModuleType) -> None:
        self._frame: Any = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW_BYTES).decompressobj()
        self._rest = b""

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + self._rest

    def pieces(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), ZSTD_FEED_BYTES):
            yield self._frame.decompress(data[start : start + ZSTD_FEED_BYTES])
            if self.eof:
                self._rest = data[start + ZSTD_FEED_BYTES :]
                return


class Decompressor:
    """Decompressor of a file or pipe. After the end, `fault` is the broken rule."""

    def __init__(self, compression: Compression, piece_bytes: int = MAX_PIECE_BYTES) -> None:
        self._piece_bytes = piece_bytes
        kind: _Kind = (_GzipMember, zlib.error) if compression == "gzip" else _find_zstd()
        self._new_frame, self._errors = kind
        self._frame: _Frame | None = None
        self._is_damaged = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            while data and not self._is_damaged:
                data = yield from self._feed_frame(data)
        except self._errors:
            self._is_damaged = True

    @property
    def fault(self) -> str | None:
        """Rule that the data broke, if they end here."""
        if self._is_damaged:
            return DAMAGE_RULE
        return TRUNCATION_RULE if self._frame is not None else None

    def _feed_frame(self, data: bytes) -> Generator[bytes, None, bytes]:
        if self._frame is None:
            data = data.lstrip(b"\0")  # padding between members
            if not data:
                return b""
            self._frame = self._new_frame(self._piece_bytes)
        yield from self._frame.pieces(data)
        if not self._frame.eof:
            return b""
        rest, self._frame = self._frame.unused_data, None
        return rest


_Kind = tuple[Callable[[int], _Frame], type[Exception]]


def _find_zstd() -> _Kind:
    """Return the zstd decompressor of the standard library, else of the package."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # Python 3.14
    except ImportError:
        return _find_zstd_package()
    return (lambda piece_bytes: _NativeFrame(zstd, piece_bytes)), zstd.ZstdError


def _find_zstd_package() -> _Kind:
    try:
        import zstandard
    except ImportError:
        rule = "a zstd source must have the package zstandard (or Python 3.14), got neither"
        raise SourceError(f"{rule}; pip install zstandard") from None
    return (lambda _piece_bytes: _PackageFrame(zstandard)), zstandard.ZstdError
