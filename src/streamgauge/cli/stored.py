"""What a store has published, read without its key, also while a run goes on."""

from collections import deque
from collections.abc import Iterator
from difflib import get_close_matches

from streamgauge.cli.failures import bad_argument
from streamgauge.pipeline.book import Book
from streamgauge.pipeline.publishing import shapes_of
from streamgauge.pipeline.reader import Reader
from streamgauge.pipeline.thresholds import NO_GROUP, Thresholds
from streamgauge.query.promises import describe_contributions
from streamgauge.query.released import Released, Releases
from streamgauge.query.settings import PipelineFile


class Stored:
    """The public side of one store."""

    def __init__(self, file: PipelineFile) -> None:
        self.reader = Reader.at(file.folder)
        acts = self.reader.acts()
        self.shapes = shapes_of(acts, describe_contributions(file.stream))
        self.thresholds = Thresholds(file, Book.read(acts, file.stream.unit))

    def __enter__(self) -> "Stored":
        return self

    def __exit__(self, *failure: object) -> None:
        self.reader.close()

    def names(self, asked: str | None = None) -> tuple[str, ...]:
        """All releases that have published, or the one that was asked for."""
        known = self.reader.release_names()
        if asked is None:
            return known
        if asked not in known:
            near = get_close_matches(asked, known, 1)
            hint = f": did you mean {near[0]}?" if near else ""
            bad_argument("release", f"one of {', '.join(known) or '(none yet)'}", f"{asked}{hint}")
        return (asked,)

    def ticks(self, name: str, first: int = 1, last: int | None = None) -> Iterator[Released]:
        """The releases of one name from one tick to another."""
        for _, payload in self.reader.releases(name, first, last):
            yield Released.unpack(self.shapes[name], payload)

    def newest(self, name: str, count: int) -> Releases:
        """The last `count` ticks, fewer if there are fewer; a release may have ended long ago."""
        last = self.reader.tick
        while last > count and not any(self.reader.releases(name, last - count + 1, last)):
            last -= count
        found = self.ticks(name, max(1, last - 2 * count + 1), last)
        return Releases.of(self.shapes[name], deque(found, count))

    def all(self, name: str) -> Releases:
        return Releases.of(self.shapes[name], self.ticks(name))

    def describe_absence(self, releases: Releases) -> str:
        """Return why a release with discovered groups shows none; an empty text if it shows some."""
        if releases.shape.discovered is None or not len(releases) or releases[-1].shape.places:
            return ""
        found = self.thresholds.find(releases.release, releases[-1].tick)
        return NO_GROUP if found is None else f"{NO_GROUP}: {found.text}"
