"""What was published and charged, read from the store: without its key, and while a run goes on."""

from pathlib import Path

from streamgauge.pipeline.book import Book
from streamgauge.pipeline.publishing import shapes_of
from streamgauge.pipeline.store import Act, Reader
from streamgauge.pipeline.store_errors import NoStore
from streamgauge.query.released import Released, Releases
from streamgauge.query.settings import Stream


def read_acts(folder: Path) -> tuple[Act, ...]:
    """All acts; none where nothing was ever run."""
    try:
        with Reader.at(folder) as reader:
            return reader.acts()
    except NoStore:
        return ()


def read_marks(folder: Path) -> dict[str, bytes]:
    try:
        with Reader.at(folder) as reader:
            return reader.marks()
    except NoStore:
        return {}


def read_book(folder: Path, stream: Stream) -> Book:
    return Book.read(read_acts(folder), stream.unit)


def read_releases(folder: Path, name: str | None, first: int = 1, last: int | None = None) -> Releases:
    """What was published of a release; its name may be left out where there is one only."""
    with Reader.at(folder) as reader:
        shapes = shapes_of(reader.acts())
        shape = shapes[chosen(tuple(shapes), name)]
        rows = reader.releases(shape.release, first, last)
        return Releases(shape, [Released.unpack(shape, payload) for _, payload in rows])


def chosen(names: tuple[str, ...], name: str | None) -> str:
    if name is None and len(names) == 1:
        return names[0]
    if name not in names:
        raise ValueError(f"release must be one of {', '.join(names) or 'none so far'}, got {name}")
    return str(name)
