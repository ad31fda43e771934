"""Which releases that were ended and ran on are over: readers have seen their last tick.

**Privacy.** How far the run itself has come depends on how long it takes. So whoever asks whether there is
room for one more is told by what has left. The last tick is the one that is published last (`Entry.until`):
an end may cover later ones, after the release's own horizon or up to where another had ended.
"""

from streamgauge.pipeline.book import Book
from streamgauge.server.departed import Departed


class Over:
    """Of one store. What is over stays so."""

    def __init__(self) -> None:
        self._names: frozenset[str] = frozenset()

    def seen(self, book: Book, reader: Departed) -> frozenset[str]:
        """The names, by what a reader may see."""
        ended = {name: entry.until or 0 for name, entry in book.at_work(self._names).items() if entry.runs_on}
        self._names |= {name for name, last in ended.items() if reader.last_released(name) >= last}
        return self._names
