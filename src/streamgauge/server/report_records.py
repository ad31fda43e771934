"""Messages of reports, made into records: each with its reports, and other columns as they came.

    application/octet-stream, or none said     "SGR1", the fingerprint of a column, reports: one record each
    application/x-ndjson, application/json     objects: {"emoji": 4711, "age": "young"}; of protocols whose
                                               reports are vectors of bits, {"emoji": "AQB7f0Ay"}: base64

A message as a whole is refused for what is public of it: its kind, version, fingerprint and length. A record
whose report is none, that has nothing declared, or that the engine could not read (a number that is none,
half of a surrogate pair) is dropped by itself: what is accepted is counted. Nothing but declared columns
goes on.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from streamgauge.localdp import wire
from streamgauge.localdp.reports import unpacked
from streamgauge.query.report_columns import ReportColumn
from streamgauge.query.report_stream import ARRIVED
from streamgauge.query.report_texts import reports_of, texts_of
from streamgauge.query.settings import Stream
from streamgauge.server.batches import LINES, RULE
from streamgauge.server.bodies import JSON, malformed, unsupported
from streamgauge.server.errors import HttpRefusal

BINARY = "application/octet-stream"
Record = dict[str, Any]


@dataclass(frozen=True)
class Sent:
    """The records of a message, as JSON without its opening brace; how many were dropped."""

    records: Sequence[str] = field(repr=False)
    dropped: int
    columns: Sequence[frozenset[str]] = field(repr=False)  # that each of them has

    @property
    def count(self) -> int:
        return len(self.records)

    def only(self, takes: Callable[[frozenset[str]], bool]) -> Self:
        """Those records whose columns are taken."""
        kinds = set(self.columns)
        taken = {columns for columns in kinds if takes(columns)}
        if taken == kinds:
            return self
        kept = [pair for pair in zip(self.records, self.columns, strict=True) if pair[1] in taken]
        return replace(self, records=[each for each, _ in kept], columns=[each for _, each in kept])

    def lines(self, arrived: int) -> bytes:
        """With the time at which they came."""
        begin = f'{{"{ARRIVED}":{arrived},'
        return "".join(f"{begin}{record}\n" for record in self.records).encode()


def records_of(kind: str, body: bytes, stream: Stream, column: str | None, most: int) -> Sent:
    """The records of a message, at most so many; `column` is needed where two have the same settings."""
    if kind in ("", BINARY):
        return _of_message(body, _meant(body, stream.reports, column), most)
    if kind not in (LINES, JSON):
        raise unsupported(BINARY, LINES, JSON)
    found = (_lines if kind == LINES else _array)(body, most)
    known = [_declared(value, stream) for value in found]
    for name, report in stream.reports.items():
        known = _reported(known, name, report)
    written = [(record, tuple(each)) for each in known if (record := _written(each)) is not None]
    alike = {names: frozenset(names) for _, names in written}
    kept, columns = [record for record, _ in written], [alike[names] for _, names in written]
    return Sent(kept, len(found) - len(kept), columns)


def _meant(body: bytes, reports: Mapping[str, ReportColumn], column: str | None) -> tuple[str, ReportColumn]:
    """The column that a message is for."""
    start = len(wire.VERSION)
    if body[:start] != wire.VERSION:
        raise malformed(f"a message that begins with {wire.VERSION.decode()}")
    told = body[start : start + wire.FINGERPRINT]
    alike = [pair for pair in reports.items() if wire.fingerprint(pair[1].claim) == told]
    found = [pair for pair in alike if column in (None, pair[0])]
    if not found:
        raise malformed("a message whose fingerprint is that of a column of reports")
    if len(found) > 1:
        raise HttpRefusal(
            422, "column", "column must be named where several have the same settings, got none"
        )
    return found[0]


def _of_message(body: bytes, meant: tuple[str, ReportColumn], most: int) -> Sent:
    name, claim = meant[0], meant[1].claim
    try:
        reports = wire.reports_of(claim, body)
    except ValueError:
        raise malformed(f"a message of reports of {claim.report_size} bytes each") from None
    _few(len(reports), most)
    good, key = reports[claim.well_formed(reports)], json.dumps(name)
    if meant[1].is_vector:
        records = [f'{key}:"{text}"}}' for text in texts_of(good)]
    else:
        records = [f"{key}:{code}}}" for code in unpacked(good).tolist()]
    return Sent(records, len(reports) - len(good), [frozenset({name})] * len(good))


def _lines(body: bytes, most: int) -> list[Any]:
    lines = [line for line in body.split(b"\n") if line.strip()]
    _few(len(lines), most)
    return [_parsed(line) for line in lines]


def _parsed(text: bytes) -> Any:
    try:
        return json.loads(text, parse_int=_whole)
    except (ValueError, RecursionError):
        return None


def _whole(digits: str) -> int | float:
    """A whole number; one of thousands of digits, which Python refuses to read, is none."""
    try:
        return int(digits)
    except ValueError:
        return math.nan


def _array(body: bytes, most: int) -> list[Any]:
    found = _parsed(body)
    if not isinstance(found, list | dict):
        raise malformed(RULE)
    records = found if isinstance(found, list) else [found]
    _few(len(records), most)
    return records


def _declared(value: Any, stream: Stream) -> Record:
    """What is declared of a record."""
    if not isinstance(value, dict):
        return {}
    return {name: value[name] for name in stream.columns if value.get(name) is not None}


def _reported(records: list[Record], name: str, report: ReportColumn) -> list[Record]:
    """The same, with nothing left of those that have a column of reports, and no report in it."""
    told = [record[name] for record in records if name in record]
    good = iter((_are_vectors if report.is_vector else _are_codes)(told, report.claim))
    return [record if name not in record or next(good) else {} for record in records]


def _are_codes(told: list[Any], claim: Any) -> list[bool]:
    most = claim.codes
    return [type(code) is int and 0 <= code < most for code in told]


def _are_vectors(told: list[Any], claim: Any) -> list[bool]:
    rows, good = reports_of(told, claim.report_size)
    found: list[bool] = (good & claim.well_formed(rows)).tolist()
    return found


def _written(known: Record) -> str | None:
    if not known:
        return None
    try:
        json.dumps(known, ensure_ascii=False).encode()  # refuses text that is no Unicode
        return json.dumps(known, allow_nan=False)[1:]
    except (ValueError, RecursionError):
        return None


def _few(count: int, most: int) -> None:
    if count > most:
        raise HttpRefusal(413, "too_many", f"records of a message must be at most {most}, got more")
