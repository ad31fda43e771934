"""Canonical text of each block of a pipeline file, which the store pins.

    stream         fixed after the first charge: time, tick, start, unit, columns (without expected values),
                   pan_private
    budget         the total loss of one unit
    source         the rest of [stream]: where events come from, and until when
    lookup.NAME    a public table: its key and columns, and a hash of its cells
    release.NAME   the query, its mapper and its cost; not its title, description and expected level

Texts are JSON with sorted keys. They represent the parsed values, not their spelling: 5m is 300s and 0.50 is
1/2, so equal meaning has equal text. The order of declared values is part of the meaning, since sums are stored in it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from fractions import Fraction
from typing import Any

from streamgauge.config.settings import Column, Lookup, Release, Stream

STREAM_FIELDS = ("time", "time_format", "timezone", "tick", "start", "user")
SOURCE_FIELDS = (
    *("name", "source", "format", "compression", "mode", "end", "allowed_lateness", "allowed_earliness", "late"),
    "max_users",
)
UNPINNED_FIELDS = ("name", "expected_distinct")  # of a column
RELEASE_FIELDS = ("sql", "horizon", "mechanism", "max_groups")


def to_canonical_json(value: Any) -> str:
    """Return JSON with exactly one spelling per value.

    >>> to_canonical_json({"b": Fraction(1, 2), "a": (1, "é")})
    '{"a":[1,"é"],"b":"1/2"}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_encode_fraction)


def build_blocks(stream: Stream, lookups: Mapping[str, Lookup], releases: Iterable[Release]) -> dict[str, str]:
    """Return all blocks by name."""
    return {
        "stream": to_canonical_json(_build_stream_block(stream)),
        "budget": to_canonical_json(_with_kind(stream.budget)),
        "source": to_canonical_json(_build_source_block(stream)),
        **{f"lookup.{name}": to_canonical_json(_build_lookup_block(lookup)) for name, lookup in lookups.items()},
        **{f"release.{release.name}": to_canonical_json(build_release_block(release)) for release in releases},
    }


def _encode_fraction(value: Any) -> str:
    if isinstance(value, Fraction):
        return str(value)
    raise TypeError(f"value must be plain or a Fraction, got {type(value).__name__}")


def _build_stream_block(stream: Stream) -> dict[str, Any]:
    columns = {name: _build_column_block(column) for name, column in stream.columns.items()}
    fixed = {name: getattr(stream, name) for name in STREAM_FIELDS}
    chosen: dict[str, Any] = {} if stream.weight is None else {"weight": stream.weight}
    if stream.pan_private:
        chosen |= {"pan_private": True, "reserved_intrusions": stream.reserved_intrusions}
    return {**fixed, **chosen, "unit": _with_kind(stream.unit), "columns": columns}


def _build_source_block(stream: Stream) -> dict[str, Any]:
    reports = {} if stream.allow_reports_from is None else {"allow_reports_from": stream.allow_reports_from}
    return {name: getattr(stream, name) for name in SOURCE_FIELDS} | reports


def _build_column_block(column: Column) -> dict[str, Any]:
    """Return the declared settings of a column.

    Others are left out, so that new settings do not change existing texts.
    """
    names = [field.name for field in fields(column) if field.name not in UNPINNED_FIELDS]
    declared = {name: getattr(column, name) for name in names}
    declared["report"] = column.report and column.report.to_json()
    return {name: value for name, value in declared.items() if value is not None and value is not False}


def _with_kind(settings: Any) -> dict[str, Any]:
    return {"kind": type(settings).__name__, **asdict(settings)}


def _build_lookup_block(lookup: Lookup) -> dict[str, Any]:
    """Return the block of a lookup. The order of columns in the file has no meaning."""
    columns = {name: [row[i] for row in lookup.rows] for i, name in enumerate(lookup.columns)}
    cells = to_canonical_json([lookup.keys, columns])
    digest = hashlib.sha256(cells.encode()).hexdigest()
    return {"on": lookup.on, "columns": sorted(lookup.columns), "sha256": digest}


def build_release_block(release: Release) -> dict[str, Any]:
    """Return the query and its cost. A share of the budget becomes the loss itself."""
    requested = {name: getattr(release, name) for name in RELEASE_FIELDS} | {"window": release.windows}
    if release.alerts:
        requested["alerts"] = [alert.to_json() for alert in release.alerts]
    if release.consistent:
        requested["consistent"] = True
    if release.partial:
        requested["partial"] = True
    if release.mapper is not None:
        requested["mapper"] = release.mapper.to_json()
    settings = dict(release.settings)
    return {**requested, "loss": _with_kind(release.loss), "settings": settings, "delta": release.delta}
