"""What was published and charged, read from the store: without its key, and while a run goes on."""

from pathlib import Path

from streamgauge.pipeline.book import Book
from streamgauge.pipeline.opening import OPENED
from streamgauge.pipeline.publishing import shapes_of
from streamgauge.pipeline.store import Act, Reader
from streamgauge.pipeline.store_errors import NoStore
from streamgauge.query.released import Released, Releases
from streamgauge.query.settings import Stream


class UnknownRelease(ValueError):  # noqa: N818 - refusals are named by what they say
    """A name that nothing was published under."""


def read_acts(folder: Path) -> tuple[Act, ...]:
    """All acts; none where nothing was ever run."""
    try:
        with Reader.at(folder) as reader:
            return reader.acts()
    except NoStore:
        return ()


def read_opened(folder: Path) -> int:
    """The last tick of a live stream that an event may have been counted in, 0 before the first run."""
    try:
        with Reader.at(folder) as reader:
            return max(reader.tick, int(reader.marks().get(OPENED, b"0")))
    except NoStore:
        return 0


def read_tick(folder: Path) -> int:
    """The last tick that was committed, 0 before the first."""
    try:
        with Reader.at(folder) as reader:
            return reader.tick
    except NoStore:
        return 0


def read_last_released(folder: Path, name: str) -> int:
    """The last tick of a release that was published, 0 before the first."""
    with Reader.at(folder) as reader:
        return reader.last_released(name)


def read_book(folder: Path, stream: Stream) -> Book:
    return Book.read(read_acts(folder), stream.unit)


def read_releases(
    folder: Path, name: str | None, first: int = 1, last: int | None = None, contributions: str = ""
) -> Releases:
    """What was published of a release; its name may be left out where there is one only."""
    with Reader.at(folder) as reader:
        shapes = shapes_of(reader.acts(), contributions)
        shape = shapes[chosen(tuple(shapes), name)]
        rows = reader.releases(shape.release, first, last)
        return Releases.of(shape, [Released.unpack(shape, payload) for _, payload in rows])


def chosen(names: tuple[str, ...], name: str | None) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        raise UnknownRelease(f"release must be one of {', '.join(names) or 'none so far'}, got {name}")
    return str(name)
