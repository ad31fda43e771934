"""The formats of a release, and a page of it as JSON, in rows or in columns.

rows       the objects that the JSON lines of sinks have, without their stamps
columns    see `columns`

CSV and Arrow have no pages: see `downloads`.
"""

from typing import Any

from starlette.requests import Request

from streamgauge.query.shapes import text
from streamgauge.server.asked_range import FORMATS, one_of
from streamgauge.server.columns import ticks_as_json
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.pages import Page
from streamgauge.sinks import JsonLines

TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8; header=present",
    "arrow": "application/vnd.apache.arrow.stream",
}
NO_STAMP = b',"chain":null}\n'  # how lines without a stamp end, and nothing else can


def format_of(request: Request) -> str:
    """What was asked for by name, or else what is accepted, best first."""
    if "format" in request.query_params:
        return str(one_of(request.query_params, "format", FORMATS))
    for accepted in _accepted(request.headers.get("accept") or "*/*"):
        for name, kind in TYPES.items():
            plain = kind.partition(";")[0]
            if accepted in (plain, f"{plain.partition('/')[0]}/*", "*/*"):
                return name
    raise HttpRefusal(406, "not_acceptable", f"accept must have one of {', '.join(TYPES.values())}")


def _accepted(header: str) -> list[str]:
    """Media types, those that are liked best first.

    >>> _accepted("text/csv;q=0.5, application/json, image/png;q=0")
    ['application/json', 'text/csv']
    """
    found = []
    for part in header.split(","):
        kind, *settings = (piece.strip().lower() for piece in part.split(";"))
        found.append((_quality(settings), kind))
    return [kind for quality, kind in sorted(found, key=lambda each: -each[0]) if quality > 0]


def _quality(settings: list[str]) -> float:
    told = next((each[2:] for each in settings if each.startswith("q=")), "1")
    return float(told) if told.replace(".", "", 1).isdigit() and told.isascii() else 0.0


def encoded(page: Page, shape: str) -> bytes:
    """The page as JSON."""
    return _rows(page) if shape == "rows" else _columns(page)


def _rows(page: Page) -> bytes:
    lines = b"".join(JsonLines().lines(item, None) for item in page.releases)
    rows = lines.replace(NO_STAMP, b"},").removesuffix(b",")
    head, tail = _told(page, rows=None).encode().split(b'"rows":null')
    return b"".join([head, b'"rows":[', rows, b"]", tail])


def _columns(page: Page) -> bytes:
    return _told(page, **ticks_as_json(page.releases)).encode()


def _told(page: Page, **more: Any) -> str:
    totals = {"ticks_total": page.totals.ticks, "rows_total": page.totals.rows}
    return text({"release": page.releases.release, "ticks": page.ticks, **totals, **more, "next": page.next})
