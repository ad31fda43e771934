"""Compressed bytes in, plain bytes out, in bounded pieces: a bomb takes time, never memory.

gzip with any number of members, zstd with any number of frames. What can be read before the data end early
or turn out to be damaged is read; then `fault` says which, and what follows is not looked at. The pieces
are a function of the compressed bytes as they were fed, so whoever feeds them alike gets them alike.
"""

import zlib
from collections.abc import Callable, Generator, Iterator
from types import ModuleType
from typing import Any, Literal, Protocol

from streamgauge.sources.errors import SourceError

Compression = Literal["gzip", "zstd"]

FED = 2**16  # compressed bytes to feed at once
PIECE = 2**20  # plain bytes that come out at once
SIP = 2**10  # of zstd: at most 2^15 times as many plain bytes come out
WINDOW = 2**27  # bytes that a zstd frame may look back

ENDS_EARLY = "compressed data must be whole, and end early"
DAMAGED = "compressed data must be whole, and are damaged"


class _Frame(Protocol):
    """A gzip member or a zstd frame: `unused_data` is what came after its end."""

    @property
    def eof(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def pieces(self, data: bytes) -> Iterator[bytes]: ...


class _Member:
    """One member of a gzip file."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=31)

    @property
    def eof(self) -> bool:
        return self._inflate.eof

    @property
    def unused_data(self) -> bytes:
        return self._inflate.unused_data

    def pieces(self, data: bytes) -> Iterator[bytes]:
        piece = self._inflate.decompress(data, PIECE)
        while piece and not self.eof:
            yield piece
            piece = self._inflate.decompress(self._inflate.unconsumed_tail, PIECE)
        yield piece


class _NativeFrame:
    """One zstd frame, by the standard library of Python 3.14."""

    def __init__(self, zstd: ModuleType) -> None:
        self._frame: Any = zstd.ZstdDecompressor()

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data)

    def pieces(self, data: bytes) -> Iterator[bytes]:
        yield self._frame.decompress(data, PIECE)
        while not self.eof and not self._frame.needs_input:
            yield self._frame.decompress(b"", PIECE)


class _PackageFrame:
    """One zstd frame, by the package `zstandard`, which gives all at once: so it is fed in sips."""

    def __init__(self, zstandard: ModuleType) -> None:
        self._frame: Any = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
        self._rest = b""

    @property
    def eof(self) -> bool:
        return bool(self._frame.eof)

    @property
    def unused_data(self) -> bytes:
        return bytes(self._frame.unused_data) + self._rest

    def pieces(self, data: bytes) -> Iterator[bytes]:
        for start in range(0, len(data), SIP):
            yield self._frame.decompress(data[start : start + SIP])
            if self.eof:
                self._rest = data[start + SIP :]
                return


class Unpacked:
    """A compressed file or pipe: feed it, take its pieces; `fault` tells what was wrong in the end."""

    def __init__(self, compression: Compression) -> None:
        self._new, self._errors = _kinds()[compression]()
        self._frame: _Frame | None = None
        self._damaged = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        try:
            while data and not self._damaged:
                data = yield from self._feed_frame(data)
        except self._errors:
            self._damaged = True

    @property
    def fault(self) -> str | None:
        """The rule that the data broke, if they ended here."""
        if self._damaged:
            return DAMAGED
        return ENDS_EARLY if self._frame is not None else None

    def _feed_frame(self, data: bytes) -> Generator[bytes, None, bytes]:
        if self._frame is None:
            data = data.lstrip(b"\0")  # padding between members
            if not data:
                return b""
            self._frame = self._new()
        yield from self._frame.pieces(data)
        if not self._frame.eof:
            return b""
        rest, self._frame = self._frame.unused_data, None
        return rest


_Kind = tuple[Callable[[], _Frame], type[Exception]]


def _kinds() -> dict[str, Callable[[], _Kind]]:
    return {"gzip": lambda: (_Member, zlib.error), "zstd": _zstd}


def _zstd() -> _Kind:
    """The standard library's where there is one, else the package."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]  # Python 3.14
    except ImportError:
        return _zstd_of_package()
    return (lambda: _NativeFrame(zstd)), zstd.ZstdError


def _zstd_of_package() -> _Kind:
    try:
        import zstandard
    except ImportError:
        rule = "a zstd source must have the package zstandard (or Python 3.14), got neither"
        raise SourceError(f"{rule}; pip install zstandard") from None
    return (lambda: _PackageFrame(zstandard)), zstandard.ZstdError
