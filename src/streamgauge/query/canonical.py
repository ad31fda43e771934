"""The canonical text of each block of a pipeline file: what the store pins.

    stream         what is fixed after the first charge: time, tick, start, unit, columns (not what is
                   expected of them), pan_private
    budget         what one unit may lose in all
    source         where events come from, and until when: the rest of [stream]
    lookup.NAME    a public table: its key and columns, and a hash of its cells
    release.NAME   what is asked, and what it costs; not its title, description and expected level

Texts are JSON with sorted keys, made of what was understood, not of what was written: 5m is 300s and 0.50 is
1/2, so equal meaning has equal text. The order of declared values is meaning: sums are kept in it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from fractions import Fraction
from typing import Any

from streamgauge.privacy import Loss
from streamgauge.query.settings import Column, Lookup, Release, Stream

FIXED = ("time", "time_format", "timezone", "tick", "start", "user")
SOURCE = (
    *("name", "source", "format", "compression", "arrival", "end", "lateness", "earliness", "late"),
    "max_users",
)
UNPINNED = ("name", "expected_distinct")  # of a column
ASKED = ("sql", "window", "horizon", "mechanism", "max_groups")


def canonical(value: Any) -> str:
    """JSON without room for choice.

    >>> canonical({"b": Fraction(1, 2), "a": (1, "é")})
    '{"a":[1,"é"],"b":"1/2"}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_exact)


def blocks_of(stream: Stream, lookups: Mapping[str, Lookup], releases: Iterable[Release]) -> dict[str, str]:
    """All blocks by name."""
    return {
        "stream": canonical(_stream(stream)),
        "budget": canonical(_loss(stream.budget)),
        "source": canonical(_source(stream)),
        **{f"lookup.{name}": canonical(_lookup(lookup)) for name, lookup in lookups.items()},
        **{f"release.{release.name}": canonical(asked_of(release)) for release in releases},
    }


def _exact(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"value must be plain or a Fraction, got {type(value).__name__}")


def _stream(stream: Stream) -> dict[str, Any]:
    columns = {name: _column(column) for name, column in stream.columns.items()}
    fixed = {name: getattr(stream, name) for name in FIXED}
    private = {"pan_private": True, "intrusions": stream.intrusions} if stream.pan_private else {}
    return {**fixed, **private, "unit": _named(stream.unit), "columns": columns}


def _source(stream: Stream) -> dict[str, Any]:
    senders = {} if stream.senders is None else {"senders": stream.senders}
    return {name: getattr(stream, name) for name in SOURCE} | senders


def _column(column: Column) -> dict[str, Any]:
    """What was declared of a column; what was not is left out, so that new ways to declare change no text."""
    names = [field.name for field in fields(column) if field.name not in UNPINNED]
    declared = {name: getattr(column, name) for name in names}
    declared["report"] = column.report and column.report.declared()
    return {name: value for name, value in declared.items() if value is not None and value is not False}


def _named(settings: Any) -> dict[str, Any]:
    return {"kind": type(settings).__name__, **asdict(settings)}


def _loss(loss: Loss) -> dict[str, Any]:
    return _named(loss)


def _lookup(lookup: Lookup) -> dict[str, Any]:
    """Columns by name: their order in the file means nothing."""
    columns = {name: [row[i] for row in lookup.rows] for i, name in enumerate(lookup.columns)}
    cells = canonical([lookup.keys, columns])
    digest = hashlib.sha256(cells.encode()).hexdigest()
    return {"on": lookup.on, "columns": sorted(lookup.columns), "sha256": digest}


def asked_of(release: Release) -> dict[str, Any]:
    """What is asked and what it costs, a share of the budget as the loss that it is."""
    asked = {name: getattr(release, name) for name in ASKED}
    if release.alerts:
        asked["alerts"] = [alert.as_json() for alert in release.alerts]
    return {**asked, "loss": _loss(release.loss), "settings": dict(release.settings), "delta": release.delta}
