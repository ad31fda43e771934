"""What a run commits, on its way to the clock: which entry it is, and from when on it has a whole delay.

opened with what was asked for   from where the turn began
an intrusion between two runs    the same
ticks                            from where the last of them closed
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from streamgauge.pipeline.reader import Reader
from streamgauge.query.released import Released
from streamgauge.query.settings import PipelineFile
from streamgauge.server.leaving import Leaving


class Heard:
    """What one run commits, as it is heard: entry by entry."""

    def __init__(self, file: PipelineFile, leaving: Leaving, late: dict[int, int]) -> None:
        self.stream, self.folder, self.leaving, self.late = file.stream, file.folder, leaving, late
        self._reader: Reader | None = None

    def opening(self, *, first: bool, begun: int) -> None:
        """The store is there, and has all charges; the turn began, for who asked, at a moment."""
        self._reader = Reader.at(self.folder)
        if first:
            self.leaving.begun(self._reader.number)
            return
        self._acted(self._reader, begun)

    @contextmanager
    def beside(self, begun: int) -> Iterator[None]:
        """Around what is done while nothing runs: an act is heard of, whatever else failed."""
        with Reader.at(self.folder) as reader:
            before = reader.number
            try:
                yield
            finally:
                if reader.number > before:
                    self._acted(reader, begun)

    def _acted(self, reader: Reader, begun: int) -> None:
        leaves = self.leaving.heard(reader.number, closed=begun)
        if begun:
            chain, acts = reader.chain, enumerate(reader.told_acts())
            self.late |= {place: leaves for place, (of, act) in acts if of == chain and act.time < leaves}

    def commit(self, released: Sequence[Released]) -> None:
        """The newest entry is of these ticks; those of a finished source were closed before it was read."""
        ends = [each.end for each in released] if self.stream.arrival == "live" else []
        if self._reader is not None:
            closed = max(ends, default=0) + self.stream.lateness
            self.leaving.heard(self._reader.number, closed=closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._reader is not None:
            self._reader.close()
