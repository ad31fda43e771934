"""Sources that are all there: a file, a folder, or standard input up to its end.

Each CSV file has a header of its own. The fingerprint covers names, sizes, times of change and the bytes at
head and tail of each file, so that a run can tell that it goes on with what it began with. Nothing here
watches the files while they are read: take the fingerprint before and after.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Event as Flag

from streamgauge.query.blocks import Block, FilePart
from streamgauge.query.protocols import Finished
from streamgauge.query.settings import Stream
from streamgauge.query.source_schema import SourceSchema
from streamgauge.query.stopped import check
from streamgauge.sources.errors import SourceError, unreadable
from streamgauge.sources.fingerprint import fingerprint
from streamgauge.sources.places import STANDARD_INPUT, check_name, compression_of, files_of, is_pattern
from streamgauge.sources.schemas import read_schema
from streamgauge.sources.standard_input import NAME, StandardInput
from streamgauge.sources.whole import WholeFile


def open_finished(stream: Stream, base: Path, stop: Flag | None = None) -> Finished:
    """The files of a stream; `base` is the folder that relative paths start from."""
    if stream.source == STANDARD_INPUT:
        if stream.format == "parquet":
            raise SourceError("a source of Parquet must be a file or a folder, got standard input")
        return FinishedInput(StandardInput(has_header=stream.format == "csv", compression=stream.compression))
    return FinishedFiles(stream, files_of(stream, base), stop)


@dataclass(frozen=True)
class FinishedFiles:
    """One file, or those of a folder sorted by name."""

    stream: Stream
    paths: tuple[Path, ...]
    stop: Flag | None = None  # Stopped by it, while files are looked at

    @cached_property
    def files(self) -> tuple[FilePart, ...]:
        """Asking for them reads each text file once, to see whether it is clean."""
        part = self._parquet if self.stream.format == "parquet" else self._text
        return tuple(part(path) for path in self.paths)

    def fingerprint(self) -> str:
        whole = sha256()
        for path in self.paths:
            whole.update(fingerprint(path).encode())
        return whole.hexdigest()

    def schemas(self) -> Iterator[SourceSchema]:
        """Return the columns of each CSV or Parquet file; only their first bytes or footers are read."""
        for path in self.paths if self.stream.format != "jsonl" else ():
            check(self.stop)
            found = read_schema(path, self.stream)
            if found is None:
                raise SourceError(f"source must be a Parquet file that can be read, got {path}")
            yield found

    def _text(self, path: Path) -> FilePart:
        file = WholeFile(path, self.stream.format == "csv", compression_of(path, self.stream))
        header = file.header()  # refuses a bad one before all is read
        return FilePart(path, not is_pattern(path) and file.is_clean(self.stop), header, file.blocks)

    def _parquet(self, path: Path) -> FilePart:
        def blocks() -> Iterator[Block]:
            raise SourceError(f"a Parquet file must be read by its path, got a call for the lines of {path}")

        check_name(path)
        try:
            path.open("rb").close()
        except OSError as error:
            raise unreadable(path, error) from None
        return FilePart(path, clean=True, header=None, blocks=blocks)


class FinishedInput:
    """Standard input up to its end. It can be read once, and has no fingerprint to know it by."""

    def __init__(self, live: StandardInput) -> None:
        self._live = live
        self._first: Block | None = None
        self._taken = False

    @cached_property
    def files(self) -> tuple[FilePart, ...]:
        """Asking for them waits for the first lines, which tell the header."""
        self._first = self._live.wait()
        return (FilePart(Path(STANDARD_INPUT), clean=False, header=self._live.header, blocks=self._blocks),)

    def fingerprint(self) -> str:
        return "standard input"

    def schemas(self) -> Iterator[SourceSchema]:
        """Return the columns of a CSV, once its first line is there."""
        header = self.files[0].header
        if header is not None:
            yield SourceSchema.from_header(NAME, header)

    def _blocks(self) -> Iterator[Block]:
        if self._taken:
            raise SourceError("standard input must be read once, got a second pass; save it to a file")
        self._taken = True
        block, self._first = self._first, None
        while block is not None or not self._live.ended:
            if block is not None:
                yield block
            block = self._live.wait()
