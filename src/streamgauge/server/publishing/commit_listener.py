"""Commits of a run on their way to the clock: the number of each, and the start of its delay.

opened with commands              the start of the batch
an intrusion between two runs     the same
ticks                             the closing of the last of them
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

from streamgauge.config.settings import PipelineFile
from streamgauge.releases.release import TickRelease
from streamgauge.server.publishing.feed import PublishThread
from streamgauge.store.drivers import open_reader
from streamgauge.store.reader import StoreReader


class CommitListener:
    """The commits of one run, passed to the publish thread."""

    def __init__(self, file: PipelineFile, publisher: PublishThread, delayed_entries: dict[int, int]) -> None:
        self.file, self.stream, self.publisher, self.delayed_entries = file, file.stream, publisher, delayed_entries
        self._reader: StoreReader | None = None

    def on_open(self, *, first: bool, started_at: int) -> None:
        """Schedule the commit with which a run was opened. Its charges are in the store."""
        self._reader = open_reader(self.file)
        if first:
            self.publisher.publish_initial(self._reader.number)
            return
        self._schedule_entries(self._reader, started_at)

    @contextmanager
    def watch_commits(self, started_at: int) -> Iterator[None]:
        """Schedule commits that are made while nothing runs, even if something else fails."""
        with open_reader(self.file) as reader:
            before = reader.number
            try:
                yield
            finally:
                if reader.number > before:
                    self._schedule_entries(reader, started_at)

    def _schedule_entries(self, reader: StoreReader, started_at: int) -> None:
        leaves = self.publisher.add_commit(reader.number, closed=started_at)
        if started_at:
            chain, acts = reader.chain, enumerate(reader.chained_entries())
            self.delayed_entries |= {place: leaves for place, (of, act) in acts if of == chain and act.time < leaves}

    def on_commit(self, released: Sequence[TickRelease]) -> None:
        """Schedule the commit of these ticks. Ticks of a batch source were closed before the first read."""
        ends = [each.end for each in released] if self.stream.mode == "streaming" else []
        if self._reader is not None:
            closed = max(ends, default=0) + self.stream.allowed_lateness
            self.publisher.add_commit(self._reader.number, closed=closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        if self._reader is not None:
            self._reader.close()
