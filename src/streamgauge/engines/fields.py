"""The fields of a record: JSON lines, CSV and Parquet become relations whose columns are still raw.

Promise
    Every expression here is total and looks at one record alone. A line of JSON that is no object, or of CSV
    whose quotes do not match, has no field at all. In CSV a field that is missing or empty is NULL, and what
    is beyond the header is ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from streamgauge.engines.quoting import name, text
from streamgauge.query.raw_field import MISSING, Raw, parquet_columns

FIELD = '"(?:[^"]|"")*"|[^",]*'  # quoted, with quotes doubled, or without any quote


@dataclass(frozen=True)
class Relation:
    """Records with their raw fields."""

    sql: str
    fields: Mapping[str, Raw]
    readable: str  # SQL: whether a record has fields at all
    record: str  # SQL: text that two records share only if they are alike


def json_fields(lines: str, names: Sequence[str]) -> Relation:
    """JSON objects, one in a line; of names that come twice the first counts."""
    paths = ", ".join(text(json_path(field)) for field in names)
    found = f"TRY(json_extract_string(line, [{paths}]::VARCHAR[]))"
    places = {field: place for place, field in enumerate(names, 1)}
    raws = _raws(names, places)
    sql = _listed(lines, found, {raws[field].sql: f"fields[{places[field]}]" for field in names})
    return Relation(sql, raws, "TRY(json_type(line)) = 'OBJECT'", "line")


def csv_fields(lines: str, names: Sequence[str], header: Sequence[str]) -> Relation:
    """Values between commas, in the order of the header; double quotes where there is one in the line."""
    quoted = (
        f"CASE WHEN regexp_full_match(line, '(?:{FIELD})(?:,(?:{FIELD}))*') THEN "
        f"list_transform(regexp_extract_all(',' || line, ',({FIELD})', 1), lambda field: "
        "CASE WHEN starts_with(field, '\"') THEN replace(field[2:-2], '\"\"', '\"') ELSE field END) END"
    )
    found = f"CASE WHEN contains(line, '\"') THEN {quoted} ELSE string_split(line, ',') END"
    places = {field: place for place, field in reversed(list(enumerate(header, 1)))}
    raws = _raws(names, places)
    present = {raws[field].sql: places[field] for field in names if field in places}
    columns = {own: f"nullif(fields[{place}], '')" for own, place in present.items()}
    return Relation(_listed(lines, found, columns), raws, "fields IS NOT NULL", "line")


def parquet_fields(rows: str, names: Sequence[str], kinds: Mapping[str, str]) -> Relation:
    """Columns with their own types, those that have values."""
    fields = parquet_columns(names, kinds)
    texts = ", ".join([*(fields[field].text for field in sorted(fields)), "NULL"])
    found = {field: fields.get(field, MISSING) for field in names}
    return Relation(rows, found, "true", f"CAST(row({texts}) AS VARCHAR)")


def json_path(field: str) -> str:
    """A path to a member of the outermost object; `*` is no wildcard in the second form."""
    if field and "*" not in field:
        return '$."' + field.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "/" + field.replace("~", "~0").replace("/", "~1")


def _raws(names: Sequence[str], places: Mapping[str, int]) -> dict[str, Raw]:
    return {field: Raw(name(f"${places[field]}")) if field in places else MISSING for field in names}


def _listed(lines: str, found: str, columns: Mapping[str, str]) -> str:
    """Lines whose fields were found as a list, with columns made of it."""
    inner = f"SELECT *, {found} AS fields FROM {lines} WHERE line IS NOT NULL"
    return f"(SELECT {', '.join(['*', *(f'{sql} AS {own}' for own, sql in columns.items())])} FROM ({inner}))"
