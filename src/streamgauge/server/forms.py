"""A page of a release as bytes: JSON in rows or in columns, CSV, Arrow.

rows       the objects that the JSON lines of sinks have, without their stamps
columns    see `columns`
CSV        the long form of sinks, without stamps
Arrow      the wide form, as an IPC stream; needs pyarrow
"""

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request

from streamgauge.query.packages import MissingPackage, needs
from streamgauge.query.shapes import text
from streamgauge.server.asked_range import AskedRange
from streamgauge.server.columns import ticks_as_json
from streamgauge.server.errors import HttpRefusal
from streamgauge.server.pages import Page
from streamgauge.sinks import CsvLines, JsonLines

TYPES = {
    "json": "application/json",
    "csv": "text/csv; charset=utf-8; header=present",
    "arrow": "application/vnd.apache.arrow.stream",
}
NO_STAMP, NO_FIELD = b',"chain":null}\n', b",\n"  # how lines without a stamp end, and nothing else can


def format_of(request: Request, asked: AskedRange) -> str:
    """What was asked for by name, or else what is accepted, best first."""
    if asked.format is not None:
        return asked.format
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


def encoded(page: Page, form: str, shape: str) -> bytes:
    """The page in a form."""
    return FORMS[form if form != "json" else shape](page)


def _rows(page: Page) -> bytes:
    lines = b"".join(JsonLines().lines(item, None) for item in page.releases)
    rows = lines.replace(NO_STAMP, b"},").removesuffix(b",")
    head, tail = _told(page, rows=None).encode().split(b'"rows":null')
    return b"".join([head, b'"rows":[', rows, b"]", tail])


def _columns(page: Page) -> bytes:
    return _told(page, **ticks_as_json(page.releases)).encode()


def _told(page: Page, **more: Any) -> str:
    return text({"release": page.releases.release, "ticks": page.ticks, **more, "next": page.next})


def _csv(page: Page) -> bytes:
    form = CsvLines()
    lines = b"".join(form.lines(item, None) for item in page.releases)
    return form.header.replace(b",chain\n", b"\n") + lines.replace(NO_FIELD, b"\n")


def _arrow(page: Page) -> bytes:
    try:
        with needs("pyarrow", "streamgauge[arrow]"):
            import pyarrow as pa
    except MissingPackage as missing:
        raise HttpRefusal(406, "not_acceptable", str(missing)) from None
    table, sink = page.releases.to_arrow(), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


FORMS: Mapping[str, Callable[[Page], bytes]] = {
    "rows": _rows,
    "columns": _columns,
    "csv": _csv,
    "arrow": _arrow,
}
