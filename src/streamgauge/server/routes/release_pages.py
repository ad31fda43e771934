"""Pages of a release: selected ticks, the address of the next page, and their JSON.

Ticks are whole, unless one has more groups than a page has rows. The bytes read for a page are bounded, so a
narrow query of a wide release is answered in pieces.

    rows         the JSON lines of sinks, without their stamps
    columns      {"tick": [7, 8], ..., "places": [{"region": "north"}, ...],
                  "measures": {"count": {"value": [[ticks x groups]], "stddev", "low", "high", "reliable"}}}
                 and "ranks": [[ticks x groups]] if groups are ranked; null for those that a tick does not list
    one tick     the same with one number instead of each list of ticks

Unknown and infinite values are null. CSV and Arrow have no pages: see `downloads`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from starlette.requests import Request

from streamgauge.releases.release import Releases, TickRelease, format_utc_time
from streamgauge.releases.schema import Group, ReleaseSchema, to_json
from streamgauge.server.http.errors import HttpError
from streamgauge.server.publishing.reader import PublishedReader
from streamgauge.server.routes.release_query import FORMATS, ReleaseQuery, parse_choice
from streamgauge.server.tuning import DEFAULT_TUNING, Tuning
from streamgauge.sinks import JsonLines

VALUE_FIELDS = ("value", "stddev", "low", "high", "reliable")


def tick_as_json(released: TickRelease) -> dict[str, Any]:
    """Return one tick in the columns form."""
    times = {"tick": released.tick, "start": format_utc_time(released.start), "end": format_utc_time(released.end)}
    measures = {
        measure: {name: to_plain(getattr(released, name)[row]) for name in VALUE_FIELDS}
        for row, measure in enumerate(released.shape.measures)
    }
    ranks = {"ranks": list(released.shape.ranks)} if released.shape.is_ranked else {}
    return {"release": released.release, **times, **groups_as_json(released.shape), **ranks, "measures": measures}


def ticks_as_json(releases: Releases) -> dict[str, Any]:
    """Return many ticks in the columns form. Groups that a tick does not have are null there."""
    times = {
        "tick": [item.tick for item in releases],
        "start": [format_utc_time(item.start) for item in releases],
        "end": [format_utc_time(item.end) for item in releases],
    }
    parts = releases.values, releases.stddevs, releases.lows, releases.highs, releases.reliable
    measures = {
        measure: {name: to_plain(part(measure)) for name, part in zip(VALUE_FIELDS, parts, strict=True)}
        for measure in releases.shape.measures
    }
    ranks = {"ranks": to_plain(releases.ranks())} if releases.shape.is_ranked else {}
    return {**times, **groups_as_json(releases.shape), **ranks, "measures": measures}


def groups_as_json(shape: ReleaseSchema) -> dict[str, Any]:
    places = [dict(place.labels) for place in shape.groups]
    levels = {"levels": [place.level for place in shape.groups]} if shape.is_rollup else {}
    return {"places": places, **levels}


def to_plain(block: npt.NDArray[Any]) -> list[Any]:
    """Return an array as lists for JSON; numbers that are not finite are None.

    >>> to_plain(np.array([1.5, np.nan])), to_plain(np.array([[True], [False]]))
    ([1.5, None], [[True], [False]])
    """
    known = np.isfinite(block)
    if not known.all():
        block = block.astype(object)
        block[~known] = None
    return list(block.tolist())


class ReleaseSelection:
    """Selected groups and measures of a release; all by default."""

    def __init__(self, groups: Mapping[str, Sequence[str]], measures: Sequence[str]) -> None:
        self.groups, self.measures = groups, measures
        self._shape: ReleaseSchema | None = None
        self._cached: tuple[ReleaseSchema, list[int], list[int]] = (ReleaseSchema("none", ("none",), ()), [], [])

    def __call__(self, released: TickRelease) -> TickRelease:
        """Return a tick with the selected groups and measures."""
        if not self.groups and not self.measures:
            return released
        if released.shape is not self._shape:
            self._shape, self._cached = released.shape, self._find_indices(released.shape)
        shape, rows, places = self._cached
        return slice_release(released, shape, np.ix_(rows, places))

    def select_schema(self, shape: ReleaseSchema) -> ReleaseSchema:
        """Return the schema of the selection."""
        return self._find_indices(shape)[0]

    def _find_indices(self, shape: ReleaseSchema) -> tuple[ReleaseSchema, list[int], list[int]]:
        rows = [i for i, name in enumerate(shape.measures) if not self.measures or name in self.measures]
        places = [i for i, place in enumerate(shape.groups) if self._matches(place)]
        names = tuple(shape.measures[i] for i in rows)
        return replace(shape.select_places(places), measures=names), rows, places

    def _matches(self, place: Group) -> bool:
        texts = {column: label if isinstance(label, str) else to_json(label) for column, label in place.labels}
        return all(texts.get(column) in wanted for column, wanted in self.groups.items())


def slice_groups(released: TickRelease, first: int, count: int) -> TickRelease:
    """Return a range of the groups of a tick; the same object if that is all of them."""
    size = len(released.shape.groups)
    if first == 0 and count >= size:
        return released
    some = slice(first, first + count)
    shape = released.shape.select_places(range(size)[some])
    return slice_release(released, shape, (slice(None), some))


def slice_release(released: TickRelease, shape: ReleaseSchema, where: Any) -> TickRelease:
    """Return a tick with a part of its arrays."""
    arrays = {name: getattr(released, name)[where] for name in VALUE_FIELDS}
    return TickRelease(shape, released.tick, released.start, released.end, **arrays)


@dataclass(frozen=True)
class RangeTotals:
    """Size of a range: ticks, and rows if they can be counted without reading all."""

    ticks: int
    rows: int | None

    @property
    def counts(self) -> dict[str, int]:
        """Known counts by name."""
        return {"tick_count": self.ticks} | ({} if self.rows is None else {"row_count": self.rows})


@dataclass(frozen=True)
class ReleasePage:
    """Ticks, and the address of the next page; `totals` count from the start of this page."""

    releases: Releases
    next: str | None
    totals: RangeTotals = RangeTotals(0, 0)


class PageBuilder:
    """A page under construction. Its size is that of the table of all its ticks and groups."""

    def __init__(self, limit: int, tuning: Tuning) -> None:
        self.limit, self.tuning, self.read_bytes = limit, tuning, 0
        self.items: list[TickRelease] = []
        self._groups: dict[Group, None] = {}
        self._shape: ReleaseSchema | None = None

    def try_add(self, item: TickRelease, size: int) -> bool:
        """Add a tick if it fits; the first one always does."""
        found = self._groups if item.shape is self._shape else self._groups | dict.fromkeys(item.shape.groups)
        rows = (len(self.items) + 1) * max(1, len(found))
        too_large = rows > self.limit or self.read_bytes + size > self.tuning.max_page_bytes
        if self.items and (too_large or len(self.items) == self.tuning.max_page_ticks):
            return False
        self.items.append(item)
        self.read_bytes += size
        self._groups, self._shape = found, item.shape
        return True

    def build_page(self, following: str | None) -> ReleasePage:
        """Return the page. Groups of some ticks are null in the others."""
        own = self.items[0].shape
        if any(item.shape is not own for item in self.items):
            own = own.unite_places(self._groups)
        return ReleasePage(Releases(own, self.items), following)


def count_rows(
    reader: PublishedReader, shape: ReleaseSchema, requested: ReleaseQuery, first: int, last: int
) -> RangeTotals:
    """Return the size of a range.

    Rows are None if the request selects among groups that are discovered or ranked, since each tick has its own.
    """
    span = (shape.release, first, last, requested.step)
    ticks = reader.count_ticks(*span)
    if not shape.has_tick_groups:
        selected = ReleaseSelection(requested.groups, ()).select_schema(shape) if requested.groups else shape
        rows: int | None = ticks * len(selected.groups)
    else:
        rows = None if requested.groups else reader.count_groups(*span)
    return RangeTotals(ticks, rows)


def read_page(
    reader: PublishedReader, shape: ReleaseSchema, query: ReleaseQuery, tuning: Tuning = DEFAULT_TUNING
) -> ReleasePage:
    """Return the first page of a query, with the size of the rest."""
    first, last = query.clip(reader.find_span(shape.release) or (1, 0))
    totals = count_rows(reader, shape, query, first, last)
    if totals.rows is not None:
        totals = replace(totals, rows=max(0, totals.rows - query.place))
    return replace(fill_page(reader, shape, query, (first, last), tuning), totals=totals)


def fill_page(
    reader: PublishedReader, shape: ReleaseSchema, query: ReleaseQuery, span: tuple[int, int], tuning: Tuning
) -> ReleasePage:
    """Return as many ticks as the page has capacity for."""
    first, last = span
    select, name = ReleaseSelection(query.groups, query.measures), shape.release
    filling, skip = PageBuilder(query.limit, tuning), query.place
    for tick, payload in reader.releases(name, first, last, query.step):
        whole = select(TickRelease.unpack(shape, payload))
        if not filling.try_add(slice_groups(whole, skip, query.limit), len(payload)):
            return filling.build_page(query.build_href(name, tick, last, 0))
        skip += query.limit
        if skip < len(whole.shape.groups):
            return filling.build_page(query.build_href(name, tick, last, skip))
        skip = 0
    return filling.build_page(None) if filling.items else ReleasePage(Releases(select.select_schema(shape)), None)


MEDIA_TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8; header=present",
    "arrow": "application/vnd.apache.arrow.stream",
}
UNSTAMPED_LINE_END = b',"trace":null}\n'  # how lines without a stamp end, and nothing else can


def choose_format(request: Request) -> str:
    """Return the requested format, or else the best one that the client accepts."""
    if "format" in request.query_params:
        return str(parse_choice(request.query_params, "format", FORMATS))
    for accepted in _parse_accept(request.headers.get("accept") or "*/*"):
        for name, kind in MEDIA_TYPES.items():
            plain = kind.partition(";")[0]
            if accepted in (plain, f"{plain.partition('/')[0]}/*", "*/*"):
                return name
    raise HttpError(406, "not_acceptable", f"accept must have one of {', '.join(MEDIA_TYPES.values())}")


def _parse_accept(header: str) -> list[str]:
    """Return media types, the preferred ones first.

    >>> _parse_accept("text/csv;q=0.5, application/json, image/png;q=0")
    ['application/json', 'text/csv']
    """
    found = []
    for part in header.split(","):
        kind, *settings = (piece.strip().lower() for piece in part.split(";"))
        found.append((_parse_quality(settings), kind))
    return [kind for quality, kind in sorted(found, key=lambda each: -each[0]) if quality > 0]


def _parse_quality(settings: list[str]) -> float:
    quality = next((each[2:] for each in settings if each.startswith("q=")), "1")
    return float(quality) if quality.replace(".", "", 1).isdigit() and quality.isascii() else 0.0


def encode_page(page: ReleasePage, shape: str) -> bytes:
    """Return the page as JSON: rows, which are the JSON lines of sinks without their stamps, or columns."""
    if shape != "rows":
        return _encode_envelope(page, **ticks_as_json(page.releases)).encode()
    lines = b"".join(JsonLines().format_lines(item, None) for item in page.releases)
    rows = lines.replace(UNSTAMPED_LINE_END, b"},").removesuffix(b",")
    head, tail = _encode_envelope(page, rows=None).encode().split(b'"rows":null')
    return b"".join([head, b'"rows":[', rows, b"]", tail])


def _encode_envelope(page: ReleasePage, **more: Any) -> str:
    totals = {"ticks_total": page.totals.ticks, "rows_total": page.totals.rows}
    ticks = [item.tick for item in page.releases]
    span = {"from": ticks[0], "to": ticks[-1]} if ticks else None
    return to_json({"release": page.releases.release, "ticks": span, **totals, **more, "next": page.next})
