"""Commits of a run on their way to the clock: the number of each, and the start of its delay.

the start of the run    none: its charges precede all reads
commands                the time at which they are applied
ticks                   the closing of the last of them
"""

from collections.abc import Sequence
from typing import Self

from streamgauge.config.settings import PipelineFile
from streamgauge.releases.release import TickRelease
from streamgauge.server.publishing.feed import PublishThread
from streamgauge.store.drivers import open_reader


class CommitListener:
    """The commits of a run, passed to the publish thread."""

    def __init__(self, file: PipelineFile, publisher: PublishThread, delayed_entries: dict[int, int]) -> None:
        self.stream, self.publisher, self.delayed_entries = file.stream, publisher, delayed_entries
        self._reader = open_reader(file)
        publisher.publish_initial(self._reader.number)

    def on_commands(self, started_at: int) -> None:
        """Schedule the commit of commands. Their entries are visible later than their time if the commit was late."""
        leaves = self.publisher.add_commit(self._reader.number, closed=started_at)
        chain, entries = self._reader.chain, enumerate(self._reader.chained_entries())
        self.delayed_entries |= {at: leaves for at, (of, entry) in entries if of == chain and entry.time < leaves}

    def on_commit(self, released: Sequence[TickRelease]) -> None:
        """Schedule the commit of these ticks. Ticks of a batch source were closed before the first read."""
        ends = [each.end for each in released] if self.stream.mode == "streaming" else []
        closed = max(ends, default=0) + self.stream.allowed_lateness
        self.publisher.add_commit(self._reader.number, closed=closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._reader.close()
