"""Reports by HTTP: devices, or a gateway of the curator, send data that are private already.

    POST /api/reports       a binary message (`localdp.wire`), or JSON: records with codes and other columns
    GET /api/collection     the settings of every report column, which a device needs
    GET /client.js          a device for browsers (`localdp/client.js`)

**Promise.** A message is rejected or accepted by rules that look at it alone, at public settings and at the
clock. It is rejected before the stream's start (425), from its end on (410), or in a tick without a release
that reads one of its columns (503; 425 if there will be one). If some records are accepted, the others are
missing from `accepted` and counted for the curator. So an acknowledged record arrived in a tick of a release
that reads it.

A record of the last tick of all releases that is read after its close is never committed, and so never
acknowledged. In the last tick of only those releases that read it, it is carried into a later tick, where they
do not count it. An impossible report is dropped by itself and counted for the curator; any other report changes
an estimate by no more than an honest one.

`"durable": true` follows the commit. A refusal with `"accepted": false` precedes the acceptance of any part of
this request. A message that is sent again under its key, with the same content, counts once while its key is
among the newest stored ones (`build_inbox`). It gets the first reply again, and records that were dropped stay
dropped. A message without a key is not stored.

**Privacy.** With allow_reports_from = "anyone", tokens and cookies are ignored, and pages of all sites may send
(`CorsMiddleware`). Only the limits know the address of a device; the access log has none. No client learns that
a message is a repeat, since a client that guesses a message would learn its plain columns. The reply does not
show it, as long as releases read the same columns, nor does its time (`Inbox.put`), nor the public number of
reports, since keys are too long to be guessed.

    application/octet-stream, or none          "SGR1", the fingerprint of a column, reports: one record each
    application/x-ndjson, application/json     objects: {"emoji": 4711, "age": "young"}; for protocols whose
                                               reports are vectors of bits, {"emoji": "AQB7f0Ay"}: base64

A message is rejected as a whole for its public properties: type, version, fingerprint and length. A record is
dropped by itself if its report is invalid, if it has no declared column, or if the engine could not read it (an
invalid number, half of a surrogate pair). Accepted records are counted. Only declared columns are passed on.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import sha256
from importlib.resources import files
from typing import Any, Self

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from streamgauge.clock import MICROSECONDS_PER_SECOND
from streamgauge.config.columns import ReportColumn
from streamgauge.config.server import MAX_REPORT_RECORDS
from streamgauge.config.settings import Stream
from streamgauge.config.stream import ARRIVAL_COLUMN
from streamgauge.localdp import wire
from streamgauge.localdp.report_bytes import unpack_codes
from streamgauge.records.reports import decode_reports, encode_reports, text_size
from streamgauge.runtime.ledger.log import report_as_json
from streamgauge.server.http.auth import Endpoint, Role, require_role
from streamgauge.server.http.bodies import (
    JSON_RULE,
    JSON_TYPE,
    NDJSON_TYPE,
    build_malformed_error,
    build_unsupported_error,
    decompress_body,
    parse_media_type,
    read_body,
)
from streamgauge.server.http.errors import HttpError, build_retry_error, mark_not_accepted
from streamgauge.server.http.limits import Limits
from streamgauge.server.http.middleware import CLIENT_PATH, COLLECTION_PATH, DEVICE_PATHS, REPORTS_PATH
from streamgauge.server.routes.events import (
    MAX_INLINE_BYTES,
    check_reports,
    check_running,
    parse_key,
    reject_unread,
    scope_key,
    wait_committed,
)
from streamgauge.server.routes.static import FILE_TYPES, PageFile, build_file_response
from streamgauge.server.runner import Runner
from streamgauge.sources.http import EventInbox, InboxFullError, InboxPausedError, Ticket

BINARY_TYPE = "application/octet-stream"
ReportRecord = dict[str, Any]


@dataclass(frozen=True)
class ParsedReports:
    """Records of a message, as JSON without the opening brace, and the number of dropped ones."""

    records: Sequence[str] = field(repr=False)
    dropped: int
    columns: Sequence[frozenset[str]] = field(repr=False)  # that each of them has

    def filter_columns(self, is_accepted: Callable[[frozenset[str]], bool]) -> Self:
        """Return the records whose columns are accepted."""
        kinds = set(self.columns)
        accepted = {columns for columns in kinds if is_accepted(columns)}
        if accepted == kinds:
            return self
        pairs = [pair for pair in zip(self.records, self.columns, strict=True) if pair[1] in accepted]
        return replace(self, records=[each for each, _ in pairs], columns=[each for _, each in pairs])

    def to_lines(self, arrival_time: int) -> bytes:
        """Return JSON lines with the arrival time."""
        begin = f'{{"{ARRIVAL_COLUMN}":{arrival_time},'
        return "".join(f"{begin}{record}\n" for record in self.records).encode()


def parse_records(kind: str, body: bytes, stream: Stream, column: str | None, most: int) -> ParsedReports:
    """Return the records of a message, at most `most`. `column` is needed if two have equal settings."""
    if kind in ("", BINARY_TYPE):
        return _parse_message(body, _find_column(body, stream.reports, column), most)
    if kind not in (NDJSON_TYPE, JSON_TYPE):
        raise build_unsupported_error(BINARY_TYPE, NDJSON_TYPE, JSON_TYPE)
    found = (_parse_lines if kind == NDJSON_TYPE else _parse_array)(body, most)
    known = [_select_declared(value, stream) for value in found]
    for name, report in stream.reports.items():
        known = _drop_invalid(known, name, report)
    written = [(record, tuple(each)) for each in known if (record := _encode_record(each)) is not None]
    alike = {names: frozenset(names) for _, names in written}
    records, columns = [record for record, _ in written], [alike[names] for _, names in written]
    return ParsedReports(records, len(found) - len(records), columns)


def _find_column(body: bytes, reports: Mapping[str, ReportColumn], column: str | None) -> tuple[str, ReportColumn]:
    """Return the column of a message."""
    start = len(wire.VERSION)
    if body[:start] != wire.VERSION:
        raise build_malformed_error(f"a message that begins with {wire.VERSION.decode()}")
    fingerprint = body[start : start + wire.FINGERPRINT_BYTES]
    alike = [pair for pair in reports.items() if wire.compute_fingerprint(pair[1].mechanism) == fingerprint]
    found = [pair for pair in alike if column in (None, pair[0])]
    if not found:
        raise build_malformed_error("a message whose fingerprint is that of a column of reports")
    if len(found) > 1:
        raise HttpError(422, "column", "column must be named where several have the same settings, got none")
    return found[0]


def _parse_message(body: bytes, meant: tuple[str, ReportColumn], most: int) -> ParsedReports:
    name, claim = meant[0], meant[1].mechanism
    try:
        reports = wire.unpack_message(claim, body)
    except ValueError:
        raise build_malformed_error(f"a message of reports of {claim.report_size} bytes each") from None
    _check_count(len(reports), most)
    good, key = reports[claim.well_formed(reports)], json.dumps(name)
    if meant[1].is_vector:
        records = [f'{key}:"{text}"}}' for text in encode_reports(good)]
    else:
        records = [f"{key}:{code}}}" for code in unpack_codes(good).tolist()]
    return ParsedReports(records, len(reports) - len(good), [frozenset({name})] * len(good))


def _parse_lines(body: bytes, most: int) -> list[Any]:
    lines = [line for line in body.split(b"\n") if line.strip()]
    _check_count(len(lines), most)
    return [_parse_json(line) for line in lines]


def _parse_json(text: bytes) -> Any:
    try:
        return json.loads(text, parse_int=_parse_integer)
    except (ValueError, RecursionError):
        return None


def _parse_integer(digits: str) -> int | float:
    """Return an integer; NaN if it has more digits than Python parses."""
    try:
        return int(digits)
    except ValueError:
        return math.nan


def _parse_array(body: bytes, most: int) -> list[Any]:
    found = _parse_json(body)
    if not isinstance(found, list | dict):
        raise build_malformed_error(JSON_RULE)
    records = found if isinstance(found, list) else [found]
    _check_count(len(records), most)
    return records


def _select_declared(value: Any, stream: Stream) -> ReportRecord:
    """Return the declared columns of a record."""
    if not isinstance(value, dict):
        return {}
    return {name: value[name] for name in stream.columns if value.get(name) is not None}


def _drop_invalid(records: list[ReportRecord], name: str, report: ReportColumn) -> list[ReportRecord]:
    """Empty the records that have an invalid report in a column."""
    sent, claim = [record[name] for record in records if name in record], report.mechanism
    if report.is_vector:
        rows, known = decode_reports(sent, claim.report_size)
        good = iter((known & claim.well_formed(rows)).tolist())
    else:
        good = iter([type(code) is int and 0 <= code < claim.codes for code in sent])
    return [record if name not in record or next(good) else {} for record in records]


def _encode_record(known: ReportRecord) -> str | None:
    if not known:
        return None
    try:
        json.dumps(known, ensure_ascii=False).encode()  # refuses text that is no Unicode
        return json.dumps(known, allow_nan=False)[1:]
    except (ValueError, RecursionError):
        return None


def _check_count(count: int, most: int) -> None:
    if count > most:
        raise HttpError(413, "too_many", f"records of a message must be at most {most}, got more")


MAX_RECORD_BYTES = 2**10  # bytes of a message for each record that it may have, without vectors
MALFORMED_RULE, NO_RELEASE_RULE = "no report", "no release"  # the rules by which records are dropped here
ANONYMOUS_KEY_PATTERN = re.compile(r"[!-~]{22,128}")  # of anonymous devices: 22 letters and digits encode 128 bits
INBOX_FULL_MESSAGE = "the inbox must have capacity, got too many reports: send the message again"
MESSAGE_PENDING_TEXT = "the message waits for its commit: send it again, under the same key"
MESSAGE_NO_COMMIT_TEXT = "the run ended before the commit: send the message again"


@dataclass(frozen=True)
class ReportBatch:
    """A message for the inbox."""

    content: str  # stands for all that was sent, and the column that it was sent for
    records: int
    dropped: Counter[str]  # records, by the rule
    lines: bytes = field(repr=False)
    repeat_lines: bytes | None = field(default=None, repr=False)  # if the message was sent before


class ReportRoutes:
    """Routes of devices."""

    parse_records = staticmethod(parse_records)

    def __init__(self, runner: Runner, limits: Limits) -> None:
        self.runner, self.limits = runner, limits
        self.stream = runner.file.stream
        self.is_anonymous = self.stream.allow_reports_from == "anyone"
        settings = runner.file.server
        self.max_records = settings.max_reports if self.is_anonymous else MAX_REPORT_RECORDS
        vectors = [report for report in self.stream.reports.values() if report.is_vector]
        each = MAX_RECORD_BYTES + sum(text_size(report.mechanism.report_size) for report in vectors)
        self.max_body_bytes = min(settings.max_body, each * self.max_records)

    def routes(self) -> list[Route]:
        sender = Role.SENDER if self.stream.allow_reports_from == "sender" else Role.CURATOR
        found = [
            Route(REPORTS_PATH, self._wrap_endpoint(sender, self.post_reports), methods=["POST"]),
            Route(COLLECTION_PATH, self._wrap_endpoint(Role.READER, self.read_collection), methods=["GET"]),
        ]
        if self.stream.has_reports:
            found.append(Route(CLIENT_PATH, partial(build_file_response, load_client()), name="client"))
        return found

    def _wrap_endpoint(self, role: Role, endpoint: Endpoint) -> Endpoint:
        return endpoint if self.is_anonymous else require_role(role, endpoint)

    async def read_collection(self, request: Request) -> Response:
        """GET /api/collection"""
        self._find_inbox()
        columns = {
            name: {
                **report_as_json(report),
                "values": list(report.values),
                "settings": wire.to_settings(report.mechanism),
            }
            for name, report in self.stream.reports.items()
        }
        head = {"name": self.stream.name, "allow_reports_from": self.stream.allow_reports_from}
        times = {
            "start": self.stream.start / MICROSECONDS_PER_SECOND,
            "tick": self.stream.tick / MICROSECONDS_PER_SECOND,
        }
        return JSONResponse({**head, **times, "columns": columns}, headers={"Cache-Control": "no-cache"})

    async def post_reports(self, request: Request) -> Response:
        """Accept a message; reply when its records are committed."""
        with mark_not_accepted(), self.limits.reserve_body() as hold:
            key, inbox = self._parse_key(request), self._find_inbox()
            check_reports(self.runner)
            check_running(self.runner, "reports")
            body = await read_body(request, self.max_body_bytes, seconds=self.limits.body_seconds, count_bytes=hold)
            batch = await self._parse_batch(request, body)
            self.runner.dropped += batch.dropped
            if not batch.records:
                return self._build_reply(inbox, 0, is_duplicate=False)
            ticket = self._put_batch(inbox, key and f"{key} {batch.content}", batch)
        await wait_committed(self.runner, ticket, "reports", MESSAGE_PENDING_TEXT, MESSAGE_NO_COMMIT_TEXT)
        return self._build_reply(inbox, ticket.records, is_duplicate=ticket.is_duplicate)

    def _build_reply(self, inbox: EventInbox, accepted: int, *, is_duplicate: bool) -> Response:
        content = {"accepted": accepted, "durable": inbox.is_durable}
        return JSONResponse(content if self.is_anonymous else {**content, "duplicate": is_duplicate})

    def _put_batch(self, inbox: EventInbox, key: str | None, batch: ReportBatch) -> Ticket:
        try:
            return inbox.put(key, batch.lines, records=batch.records, substitute=batch.repeat_lines)
        except InboxPausedError:
            reject_unread(self.runner, "reports")
        except InboxFullError:
            raise build_retry_error("busy", INBOX_FULL_MESSAGE) from None

    def _parse_key(self, request: Request) -> str | None:
        """Return the key; a message without one is never a duplicate."""
        key = request.headers.get("batch-key")
        if key is None:
            return None
        if self.is_anonymous and ANONYMOUS_KEY_PATTERN.fullmatch(key) is None:
            rule = "22 to 128 visible ASCII characters, drawn at random, or left out"
            raise HttpError(422, "batch_key", f"header Batch-Key must be {rule}, got others")
        return f"anyone {key}" if self.is_anonymous else scope_key(request, parse_key(key))

    def _find_inbox(self) -> EventInbox:
        inbox = self.runner.inbox
        if inbox is None or not self.stream.has_reports:
            rule = 'stream.source must be "reports" where reports are sent, got another'
            raise HttpError(409, "no_inbox", rule)
        return inbox

    async def _parse_batch(self, request: Request, body: bytes) -> ReportBatch:
        kind, encoding = parse_media_type(request), request.headers.get("content-encoding", "")
        column, most = request.query_params.get("column"), self.max_records

        def parse() -> ReportBatch:
            message = decompress_body(body, encoding, self.max_body_bytes)
            sent = self.parse_records(kind, message, self.stream, column, most)
            return self._stamp_records(sent, self.identify_message(body, column))

        at_once = len(body) <= MAX_INLINE_BYTES and not encoding
        return parse() if at_once else await run_in_threadpool(parse)

    def identify_message(self, body: bytes, column: str | None) -> str:
        """Return a text that is equal for equal messages only. A key alone does not identify a message."""
        return f"{sha256(body).hexdigest()} {column}"

    def _stamp_records(self, sent: ParsedReports, content: str) -> ReportBatch:
        """Return the records that count now.

        A repeated message of an anonymous device gets a time before the start, so it counts for nothing.
        """
        if not sent.records:
            return ReportBatch(content, 0, Counter({MALFORMED_RULE: sent.dropped}), b"")
        arrival = check_reports(self.runner, sent.columns)
        accepted = sent.filter_columns(arrival.has_release)
        dropped = Counter({MALFORMED_RULE: sent.dropped, NO_RELEASE_RULE: len(sent.records) - len(accepted.records)})
        instead = accepted.to_lines(self.stream.start - 1) if self.is_anonymous else None
        return ReportBatch(content, len(accepted.records), dropped, accepted.to_lines(arrival.moment), instead)


def list_public_paths(runner: Runner) -> frozenset[str]:
    """Return the paths that are open without a token, by the file."""
    return frozenset(DEVICE_PATHS if runner.file.stream.allow_reports_from == "anyone" else ())


def load_client() -> PageFile:
    """Return the device for browsers."""
    return PageFile(files("streamgauge.localdp").joinpath("client.js").read_bytes(), FILE_TYPES[".js"])
