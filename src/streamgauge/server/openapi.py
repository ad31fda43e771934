"""The OpenAPI document: every road, every body, every status, who may, and an example of each.

It is the same for every server: nothing of the stream, its releases or its people is in it.
"""

from functools import cache
from typing import Any

from streamgauge.server.batches import ARROW, LINES
from streamgauge.server.bodies import JSON
from streamgauge.server.ledger_pages import ACTS, CHARGES
from streamgauge.server.report_records import BINARY
from streamgauge.server.schemas import SCHEMAS, WHOLE, Schema, refer

ABOUT = """Live statistics of a sensitive event stream, under differential privacy.

Tokens are sent as `Authorization: Bearer TOKEN`; a page swaps its own for a cookie (`POST /api/session`).
Every error is `{"error": {"code", "message"}}`; 429 and 503 say in `Retry-After` when to ask again."""

WHAT = {
    400: "What was sent is not what it says it is.",
    401: "No token, or one that is not known.",
    403: "The role is too small, another site sent it, or the host is not ours.",
    404: "There is no such thing.",
    408: "The body did not come in time.",
    410: "The stream's end has passed: nothing can be sent any more.",
    409: "Refused: the reasons follow from declarations and the ledger.",
    413: "The body is too long.",
    415: "The content type or encoding is not one of those.",
    422: "A value breaks its rule.",
    425: "The stream has not begun: Retry-After says when, if that is soon.",
    429: "Too many requests.",
    431: "The head of the request is too long.",
    500: "It went wrong: the ledger tells what is on record.",
    503: "Not now: ask again.",
}
ALWAYS = (401, 403, 429, 431)
BODY = (400, 408, 413, 415, 422)
CSV, ARROW_FILE, SSE, PROMETHEUS = "text/csv", ARROW, "text/event-stream", "text/plain"


def reply(about: str, schema: str, **more: Any) -> Schema:
    return {"description": about, "content": {JSON: {"schema": refer(schema)}}, **more}


def failures(*statuses: int) -> dict[str, Schema]:
    return {str(status): reply(WHAT[status], "Error") for status in sorted({*ALWAYS, *statuses})}


def operation(name: str, about: str, role: str, good: dict[str, Schema], *bad: int, **more: Any) -> Schema:
    """One method of one path."""
    security: list[Schema] = [] if role == "anybody" else [{"token": []}, {"session": []}]
    return {
        "operationId": name,
        "summary": about,
        "description": f"For {role}.",
        "tags": [role],
        "security": security,
        "responses": {**good, **failures(*bad)},
        **more,
    }


def parameter(name: str, place: str, schema: Schema, about: str, **more: Any) -> Schema:
    needed = place == "path"
    return {"name": name, "in": place, "required": needed, "schema": schema, "description": about, **more}


def body(schema: Schema, **others: Any) -> Schema:
    return {"required": True, "content": {JSON: {"schema": schema}, **others}}


RELEASE_NAME = parameter(
    "name", "path", {"type": "string", "minLength": 1}, "The name of a release.", example="fever"
)
VISIBLE: Schema = {"type": "string", "pattern": "^[!-~]{1,128}$"}
BATCH_KEY = parameter("Batch-Key", "header", VISIBLE, "A name for this batch, of the sender's choice.")
BATCH_KEY |= {"required": True, "example": "ward-7-000123"}
MESSAGE_KEY = parameter(
    "Batch-Key",
    "header",
    {"type": "string", "pattern": "^[!-~]{22,128}$"},
    "Drawn at random for this message, and sent again with it; a gateway's may be shorter.",
    example="W8Zq0mX2bT5nR7kV1cY9dL",
)
BATCH_NAME: Schema = {"type": "string", "pattern": "^[0-9A-Za-z_.:-]{1,128}$"}
FATE_KEY = parameter("key", "path", BATCH_NAME, "The key of a batch.", example="ward-7-000123")
TICK: Schema = {**WHOLE, "minimum": 1, "maximum": 2**31}
SPAN = [
    parameter("from", "query", TICK, "The first tick."),
    parameter("to", "query", TICK, "The last tick."),
    parameter("last", "query", {**TICK, "maximum": 10_000}, "So many ticks before the newest."),
    parameter("step", "query", TICK, "Every so many ticks, counted from the first of the range."),
    parameter("group", "query", {"type": "array", "items": {"type": "string"}}, "As in region:north."),
    parameter("measure", "query", {"type": "array", "items": {"type": "string"}}, "As in count."),
    parameter("limit", "query", {**TICK, "maximum": 10_000}, "Rows of a page of JSON, at most."),
    parameter(
        "shape",
        "query",
        {"enum": ["rows", "columns", "wide", "long"]},
        "The layout: rows (default) or columns for JSON, wide (default) or long for CSV.",
    ),
    parameter("format", "query", {"enum": ["json", "csv", "arrow"]}, "Instead of Accept."),
]
NEWER: dict[str, Schema] = {"304": {"description": "As the ETag says: nothing has changed."}}
TICKS_OF_ONE: Schema = {
    "description": "JSON: a page of ticks. CSV and Arrow: all ticks, in chunks.",
    "headers": {
        "Link": {"schema": {"type": "string"}, "description": "The next page of JSON, if there is one."},
        "Tick-Count": {"schema": WHOLE, "description": "The ticks of a download."},
        "Row-Count": {"schema": WHOLE, "description": "The rows of a download, if known before it begins."},
    },
    "content": {
        JSON: {"schema": {"anyOf": [refer("Rows"), refer("Columns")]}},
        CSV: {"schema": {"type": "string"}},
        ARROW_FILE: {"schema": {"type": "string", "format": "binary"}},
    },
}


def paged(most: int) -> list[Schema]:
    """Of lists that are told a page at a time."""
    count = {**WHOLE, "minimum": 0, "maximum": 2**31}
    return [
        parameter("after", "query", count, "So many are left out."),
        parameter("limit", "query", {**count, "minimum": 1, "maximum": most}, "So many are told, at most."),
    ]


def text_reply(about: str, media_type: str) -> Schema:
    return {"description": about, "content": {media_type: {"schema": {"type": "string"}}}}


@cache
def document() -> Schema:
    """All of it."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Streamgauge", "version": "1", "description": ABOUT, "license": LICENSE},
        "paths": {**readers(), **analysts(), **curators(), **devices(), **anybody()},
        "components": {"schemas": SCHEMAS, "securitySchemes": KEYS},
    }


LICENSE = {"name": "Apache-2.0", "identifier": "Apache-2.0"}
REHEARSED = "What an intruder would see, rehearsed; only where the list of releases says `intruder`"
KEYS = {
    "token": {"type": "http", "scheme": "bearer"},
    "session": {"type": "apiKey", "in": "cookie", "name": "streamgauge"},
}


def readers() -> Schema:
    role = "readers"
    one = {"200": TICKS_OF_ONE, **NEWER}
    every = {"200": reply("The stream and its releases.", "Releases"), **NEWER}
    live_ids = [
        parameter("release", "query", {"type": "array", "items": {"type": "string"}}, "These alone."),
        parameter("after", "query", {"type": "string"}, "The last id that was seen."),
        parameter("Last-Event-ID", "header", {"type": "string"}, "The same, as browsers send it."),
    ]
    live = {"200": text_reply("Events: release, ledger, status, reset.", SSE)}
    ledger = {"200": reply("What was charged, and what is left.", "Ledger")}
    acts = {"200": reply("Charges, ends and the rest, word for word.", "Acts")}
    rehearsed = {"200": {"description": "Made-up people.", "content": {JSON: {"schema": {"type": "object"}}}}}
    return {
        "/api/releases": {
            "get": operation("listReleases", "All releases", role, every, 422),
            "post": ask_operation(),
        },
        "/api/releases/{name}": {
            "get": operation(
                "readRelease",
                "Ticks of a release",
                role,
                one,
                404,
                422,
                503,
                parameters=[RELEASE_NAME, *SPAN],
            ),
            "delete": end_operation(),
        },
        "/api/live": {
            "get": operation("follow", "Releases as they leave", role, live, 422, 503, parameters=live_ids)
        },
        "/api/ledger": {
            "get": operation("readLedger", "The ledger", role, ledger, 422, parameters=paged(CHARGES))
        },
        "/api/ledger/acts": {
            "get": operation("readActs", "What was done", role, acts, 422, parameters=paged(ACTS))
        },
        "/api/rehearsal": {"get": operation("rehearse", REHEARSED, role, rehearsed, 404, 422)},
    }


def ask_operation() -> Schema:
    good = {"201": reply("Charged and started.", "Started")}
    about = "Ask for a release: charged before it starts"
    return operation("askRelease", about, "analysts", good, *BODY, 409, 503, requestBody=body(refer("Asked")))


def end_operation() -> Schema:
    good = {"200": reply("Ended.", "Ended")}
    about = "End a release that was asked for"
    return operation("endRelease", about, "analysts", good, 404, 409, 415, 503, parameters=[RELEASE_NAME])


def analysts() -> Schema:
    good = {"200": reply("What it would cost; what is refused.", "Planned")}
    about = "What a release would cost and how wrong it would be"
    return {
        "/api/plan": {
            "post": operation("planRelease", about, "analysts", good, *BODY, requestBody=body(refer("Asked")))
        }
    }


def curators() -> Schema:
    role = "curators"
    taken = {"200": reply("On disk.", "Acknowledged")}
    record: Schema = {"type": "object", "examples": [{"ts": "2026-01-05T00:00:00Z", "region": "north"}]}
    batch = body(
        {"anyOf": [record, {"type": "array", "items": record}]},
        **{LINES: {"schema": {"type": "string"}}, ARROW: {"schema": {"type": "string", "format": "binary"}}},
    )
    fate = {"200": reply("What has become of it.", "Fate")}
    counts = {"200": reply("Records by the rule that dropped them: private.", "Quarantine")}
    metrics = {"200": text_reply("Prometheus' text format: private.", PROMETHEUS)}
    sent = operation(
        "sendEvents",
        "Send a batch of events",
        role,
        taken,
        *BODY,
        409,
        425,
        503,
        parameters=[BATCH_KEY],
        requestBody=batch,
    )
    return {
        "/api/events": {"post": sent},
        "/api/events/{key}": {
            "get": operation("readFate", "The fate of a batch", role, fate, 404, 422, parameters=[FATE_KEY])
        },
        "/api/intrusions": {"post": announce_operation()},
        "/api/quarantine": {"get": operation("readQuarantine", "What was dropped", role, counts)},
        "/api/metrics": {"get": operation("readMetrics", "Metrics", role, metrics)},
        "/metrics": {"get": operation("scrape", "The same, where Prometheus looks", role, metrics)},
    }


def announce_operation() -> Schema:
    good = {"201": reply("On record, and handed over to a folder on the server.", "HandedOver")}
    about, asked = "Hold an announced intrusion into a pan-private run", body(refer("Announced"))
    return operation("announce", about, "curators", good, *BODY, 409, 500, 503, requestBody=asked)


def devices() -> Schema:
    """Roads of reports: whose they are, the file says."""
    role, whoever = "curators", "For curators; for anybody where the file says senders = anyone."
    security: list[Schema] = [{"token": []}, {"session": []}, {}]
    record: Schema = {"type": "object", "examples": [{"emoji": 4711, "age": "young"}]}
    binary: Schema = {"schema": {"type": "string", "format": "binary"}}
    message = body(
        {"anyOf": [record, {"type": "array", "items": record}]},
        **{LINES: {"schema": {"type": "string"}}, BINARY: binary},
    )
    column = parameter("column", "query", {"type": "string"}, "Where several columns have the same settings.")
    taken = {"200": reply("On disk.", "Collected")}
    told = {"200": reply("The settings of all columns of reports.", "Collection")}
    sent = operation(
        "sendReports",
        "Send reports that are private already",
        role,
        taken,
        *BODY,
        409,
        410,
        425,
        503,
        parameters=[MESSAGE_KEY, column],
        requestBody=message,
        description=whoever,
        security=security,
    )
    read = operation(
        "readCollection", "What devices report", role, told, 409, description=whoever, security=security
    )
    return {"/api/reports": {"post": sent}, "/api/collection": {"get": read}}


def anybody() -> Schema:
    role = "anybody"
    session = {"200": reply("Who it is.", "Session")}
    out = {"200": reply("Nobody from now on.", "SignedOut")}
    health = {
        "200": reply("The run goes on, or has ended.", "Health"),
        "503": reply("The run failed.", "Health"),
    }
    told = {"200": {"description": "This.", "content": {JSON: {"schema": {"type": "object"}}}}}
    return {
        "/api/session": {
            "get": operation("readSession", "Who asks", role, session),
            "post": operation(
                "signIn", "A session for a token", role, session, *BODY, requestBody=body(refer("Token"))
            ),
            "delete": operation("signOut", "End the session", role, out, 415),
        },
        "/api/openapi.json": {"get": operation("readDocument", "This document", role, told)},
        "/healthz": {"get": operation("readHealth", "Whether it is well", role, health)},
    }
