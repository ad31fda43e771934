"""The schemas of the OpenAPI document: what replies and bodies look like."""

from typing import Any

from streamgauge.pipeline.asked import LONGEST
from streamgauge.query.windows import EXAMPLES

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
YES_NO: Schema = {"type": "boolean"}
NUMBERS: Schema = {"type": "array", "items": {"type": ["number", "null"]}}
LOSS: Schema = {
    "type": "object",
    "description": "Exact fractions by currency.",
    "additionalProperties": {"type": "string"},
    "examples": [{"epsilon": "1/2"}],
}


def refer(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def listed(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    return {"oneOf": [schema, {"type": "null"}]}


def shape(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    """An object with keys that it has, and keys that it may have; others may be added in time."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        **more,
    }


def closed(required: dict[str, Schema], optional: dict[str, Schema] | None = None, **more: Any) -> Schema:
    """The same, with no other keys: for bodies."""
    return shape(required, optional, additionalProperties=False, **more)


TICKS = shape({"from": WHOLE, "to": WHOLE})
COST = {"anyOf": [{"type": "number", "exclusiveMinimum": 0}, {"type": "string"}]}
NAME: Schema = {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,100}$"}

MECHANISM = shape(
    {"name": TEXT},
    description="A mechanism and settings of its own.",
    additionalProperties={"type": ["number", "boolean", "string", "array"]},
    examples=[{"name": "Kary", "branching": 4}, {"name": "Pegasus", "smoother": "quiet"}],
)

ALERT = closed(
    {"kind": {"enum": ["jump", "drop", "low", "threshold"]}, "size": {"type": ["number", "string"]}},
    {"window": TEXT, "of": TEXT, "name": NAME},
    description="One more measure: 1 where what is released jumps, drops, is low or reaches a threshold.",
    examples=[{"kind": "jump", "size": 20, "window": "1h"}],
)

ASKED = closed(
    {"name": NAME, "sql": {"type": "string", "minLength": 1, "maxLength": LONGEST["sql"]}},
    {
        "window": {"type": "string", "examples": list(EXAMPLES)},
        "epsilon": COST,
        "rho": COST,
        "share": COST,
        "horizon": {"type": "string", "examples": ["365d"]},
        "mechanism": {"anyOf": [TEXT, MECHANISM]},
        "max_groups": {"type": "integer", "minimum": 1},
        "delta": COST,
        "expected": {
            **COST,
            "description": "Events of a group in a tick: for predictions, and the choice of sparse counters.",
        },
        "alerts": {"anyOf": [ALERT, listed(ALERT)]},
        "title": {**TEXT, "maxLength": LONGEST["title"]},
        "description": {**TEXT, "maxLength": LONGEST["description"]},
    },
    examples=[{"name": "fever", "sql": "SELECT COUNT(*) FROM visits", "window": "each", "epsilon": 0.1}],
    description="Exactly one of epsilon, rho and share. The rules are those of [[release]] in a file.",
)

PART = shape(
    {
        "measures": listed(TEXT),
        "level": WHOLE,
        "loss": LOSS,
        "mechanism": TEXT,
        "runners_up": listed({"type": "object"}),
        "depends": {**TEXT, "description": "What its error depends on, if on data."},
        "reason": {**TEXT, "description": "Why it was chosen, if for what is expected of the data."},
        "hints": {**listed(TEXT), "description": "What to know of it, where its error depends on data."},
    }
)

PLANNED = shape(
    {
        "name": TEXT,
        "sql": TEXT,
        "window": TEXT,
        "loss": LOSS,
        "first_tick": WHOLE,
        "last_tick": or_null(WHOLE),
        "groups": WHOLE,
        "columns": listed(TEXT),
        "parts": listed(PART),
        "errors": listed({"type": "object"}),
        "delta": or_null(TEXT),
        "discovered": YES_NO,
        "contributions": {"type": ["string", "null"]},
    }
)

LOCAL = shape(
    {
        "protocol": TEXT,
        "loss": {**LOSS, "description": "Of one report."},
        "again": {"enum": ["repeat", "charge"]},
        "reports_per_user": WHOLE,
        "per_user": {**LOSS, "description": "Of all reports of one user."},
    }
)

CONTRIBUTIONS: Schema = {
    "type": ["string", "null"],
    "description": "Which events of a user count, if others are dropped: intervals do not include those.",
}
THRESHOLD = shape(
    {"tick": WHOLE, "events": WHOLE, "text": TEXT},
    description="The least noisy count of a group that is published at a tick, if groups are discovered.",
)
MEASURE = shape({"value": {}, "stddev": {}, "low": {}, "high": {}, "enough": {}})
RELEASE = shape(
    {
        "name": TEXT,
        "title": TEXT,
        "description": TEXT,
        "sql": TEXT,
        "window": TEXT,
        "loss": LOSS,
        "delta": or_null(TEXT),
        "loss_text": TEXT,
        "column": {"type": ["string", "null"], "description": "Of reports, whose loss is this one's."},
        "by": or_null(TEXT),
        "first": WHOLE,
        "last": or_null(WHOLE),
        "ended": or_null(WHOLE),
        "groups": listed(TEXT),
        "places": {"type": ["integer", "null"], "description": "None where groups are discovered."},
        "measures": listed(TEXT),
        "kinds": listed(TEXT),
        "discovered": YES_NO,
        "mechanisms": listed(TEXT),
        "contributions": CONTRIBUTIONS,
        "threshold": or_null(THRESHOLD),
        "ticks": or_null(TICKS),
        "href": TEXT,
    }
)

TAKEN: Schema = {
    "const": False,
    "description": "Of what was sent with this request nothing was or will be taken, for certain.",
}

TOTALS: dict[str, Schema] = {
    "ticks_total": {**WHOLE, "description": "Ticks of the range, from the first of this page."},
    "rows_total": {
        **or_null(WHOLE),
        "description": "Rows of the range, from the first of this page. If next is null, all are in it.",
    },
}
SCHEMAS: dict[str, Schema] = {
    "Error": shape(
        {"error": shape({"code": TEXT, "message": TEXT}, {"reasons": listed(TEXT), "taken": TAKEN})},
        examples=[{"error": {"code": "wrong_role", "message": "role must be curator or more, got reader"}}],
    ),
    "Health": shape({"status": {"enum": ["ok", "ended", "failed"]}}),
    "Token": closed({"token": {"type": "string"}}, examples=[{"token": "sg_reader_..."}]),
    "Session": shape(
        {
            "role": {"enum": ["reader", "analyst", "curator"]},
            "name": or_null(TEXT),
            "share": or_null(TEXT),
            "left": or_null(LOSS),
        }
    ),
    "SignedOut": shape({"role": {"type": "null"}}),
    "Acknowledged": shape(
        {"batch": TEXT, "durable": YES_NO, "repeated": YES_NO},
        examples=[{"batch": "ward-7-000123", "durable": True, "repeated": False}],
    ),
    "Collected": shape(
        {"accepted": WHOLE, "durable": YES_NO},
        {"repeated": {**YES_NO, "description": "For a gateway alone: strangers are not told."}},
        examples=[{"accepted": 1, "durable": True}],
    ),
    "Collection": shape(
        {
            "name": TEXT,
            "senders": {"enum": ["anyone", "curator"]},
            "tick": NUMBER,
            "start": NUMBER,
            "columns": {
                "type": "object",
                "description": "By the name of a column: what a device has to know to report on it.",
                "additionalProperties": {"allOf": [LOCAL, shape({"values": listed({}), "settings": {}})]},
            },
        }
    ),
    "Fate": shape(
        {
            "batch": TEXT,
            "fate": {
                "enum": ["unknown", "waiting", "committed", "untracked"],
                "description": "`untracked`: pan-private, so a batch that is sent again counts again.",
            },
        }
    ),
    "Quarantine": shape(
        {
            "records": or_null(WHOLE),
            "dropped": or_null({"type": "object", "additionalProperties": WHOLE}),
            "shares": or_null({"type": "object", "additionalProperties": TEXT}),
        },
        {"reason": {**TEXT, "description": "Why nothing is counted, where nothing is."}},
    ),
    "Announced": closed({"folder": NAME}, examples=[{"folder": "for-the-court"}]),
    "HandedOver": shape({"intrusion": WHOLE, "tick": WHOLE, "folder": TEXT}),
    "Asked": ASKED,
    "Planned": shape(
        {
            "release": or_null(PLANNED),
            "refused": listed(TEXT),
            "left_after": or_null(LOSS),
            "share_left_after": or_null(LOSS),
        }
    ),
    "Started": shape({"release": PLANNED, "href": TEXT}),
    "Ended": shape({"release": TEXT, "ended": YES_NO}),
    "Ledger": shape(
        {
            "file": TEXT,
            "budget": or_null(LOSS),
            "spent": or_null(LOSS),
            "delta_spent": or_null(TEXT),
            "left": or_null(LOSS),
            "charges": listed({"type": "object"}),
            "next": or_null(TEXT),
        },
        {"asked": {}, "columns": listed(LOCAL), "intrusions": {}, "timeline": listed({"type": "object"})},
    ),
    "Acts": shape({"acts": listed(shape({"time": or_null(TEXT), "kind": TEXT})), "next": or_null(TEXT)}),
    "Stream": shape(
        {
            "name": TEXT,
            "tick": NUMBER,
            "start": TEXT,
            "end": or_null(TEXT),
            "ticks": or_null(WHOLE),
            "unit": TEXT,
            "contributions": CONTRIBUTIONS,
            "arrival": {"enum": ["finished", "live"]},
            "lateness": NUMBER,
        },
        {"mechanisms": {**listed(TEXT), "description": "The names of those that can be asked for."}},
    ),
    "Releases": shape(
        {
            "stream": refer("Stream"),
            "state": TEXT,
            "shown": shape({"tick": WHOLE}),
            "demo": YES_NO,
            "intruder": {**YES_NO, "description": "Whether /api/rehearsal is there."},
            "releases": listed(RELEASE),
        }
    ),
    "Rows": shape(
        {
            "release": TEXT,
            "ticks": or_null(TICKS),
            **TOTALS,
            "rows": listed({"type": "object"}),
            "next": or_null(TEXT),
        }
    ),
    "Columns": shape(
        {
            "release": TEXT,
            "ticks": or_null(TICKS),
            **TOTALS,
            "tick": listed(WHOLE),
            "start": listed(TEXT),
            "end": listed(TEXT),
            "places": listed({"type": "object"}),
            "measures": {"type": "object", "additionalProperties": MEASURE},
            "next": or_null(TEXT),
        },
        {"levels": listed({})},
    ),
}
