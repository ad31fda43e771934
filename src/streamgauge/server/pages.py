"""One page of a release: as many ticks as it has room for, and where the next one begins.

Ticks are whole, unless one alone has more places than a page has rows: then a page is a part of it. How much
is read for a page is bounded as well, so that a narrow question about a wide release is answered in pieces.
"""

from dataclasses import dataclass, replace

from streamgauge.query.released import Released, Releases, Shape
from streamgauge.query.shapes import Place
from streamgauge.server.asked_range import AskedRange
from streamgauge.server.columns import Selection, places_of
from streamgauge.server.departed import Departed

MOST_BYTES = 2**25  # of packed releases that are read for one page
MAX_TICKS = 2000  # of one page, however narrow they are: other reads wait for it


@dataclass(frozen=True)
class Totals:
    """The size of a range: its ticks, and its rows if they can be counted without reading them all."""

    ticks: int
    rows: int | None

    @property
    def known(self) -> dict[str, int]:
        """The counts that there are, by name."""
        return {"tick_count": self.ticks} | ({} if self.rows is None else {"row_count": self.rows})


@dataclass(frozen=True)
class Page:
    """Ticks, and the address of what follows them; `totals` are from the beginning of this page."""

    releases: Releases
    next: str | None
    totals: Totals = Totals(0, 0)

    @property
    def ticks(self) -> dict[str, int] | None:
        """The first and the last, if there are any."""
        ticks = [item.tick for item in self.releases]
        return {"from": ticks[0], "to": ticks[-1]} if ticks else None


class Filling:
    """A page that is being filled: its size is that of the table of all its ticks and places."""

    def __init__(self, limit: int) -> None:
        self.limit, self.read = limit, 0
        self.items: list[Released] = []
        self._places: dict[Place, None] = {}
        self._shape: Shape | None = None

    def takes(self, item: Released, size: int) -> bool:
        """Takes a tick if there is room; the first one always."""
        found = self._places if item.shape is self._shape else self._places | dict.fromkeys(item.shape.places)
        rows = (len(self.items) + 1) * max(1, len(found))
        full = rows > self.limit or self.read + size > MOST_BYTES or len(self.items) == MAX_TICKS
        if self.items and full:
            return False
        self.items.append(item)
        self.read += size
        self._places, self._shape = found, item.shape
        return True

    def page(self, following: str | None) -> Page:
        """The page as it is; places that only some of its ticks have are null in the others."""
        own = self.items[0].shape
        if any(item.shape is not own for item in self.items):
            own = replace(own, places=tuple(self._places))
        return Page(Releases(own, self.items), following)


def count_rows(reader: Departed, shape: Shape, requested: AskedRange, first: int, last: int) -> Totals:
    """Return the size of a range.

    Rows are None if the request selects among groups that are discovered, since each tick has its own.
    """
    span = (shape.release, first, last, requested.step)
    ticks = reader.count_ticks(*span)
    if shape.discovered is None:
        selected = Selection(requested.groups, ()).shape(shape) if requested.groups else shape
        rows: int | None = ticks * len(selected.places)
    else:
        rows = None if requested.groups else reader.count_places(*span)
    return Totals(ticks, rows)


def page_of(reader: Departed, shape: Shape, asked: AskedRange) -> Page:
    """The first page of what was asked for, with the size of the rest."""
    first, last = asked.within(reader.span(shape.release) or (1, 0))
    totals = count_rows(reader, shape, asked, first, last)
    if totals.rows is not None:
        totals = replace(totals, rows=max(0, totals.rows - asked.place))
    return replace(fill_page(reader, shape, asked, first, last), totals=totals)


def fill_page(reader: Departed, shape: Shape, asked: AskedRange, first: int, last: int) -> Page:
    """Return as many ticks as the page has capacity for."""
    select, name = Selection(asked.groups, asked.measures), shape.release
    filling, skip = Filling(asked.limit), asked.place
    for tick, payload in reader.releases(name, first, last, asked.step):
        whole = select(Released.unpack(shape, payload))
        if not filling.takes(places_of(whole, skip, asked.limit), len(payload)):
            return filling.page(asked.href(name, tick, last, 0))
        skip += asked.limit
        if skip < len(whole.shape.places):
            return filling.page(asked.href(name, tick, last, skip))
        skip = 0
    return filling.page(None) if filling.items else Page(Releases(select.shape(shape)), None)
