"""[stream.columns]: what may be read of an event, and which values and numbers are public.

    region = { values = ["north", "south"], other = true }    all groups that there are
    temperature = { bounds = [35.0, 42.0], grid = 0.1 }        numbers, clamped
    sensor = { hashed = 65536, expected_distinct = 4000 }      any text, known by a keyed hash
    diagnosis = { max_groups = 1000 }                          groups that are found, for a delta
    note = { type = "text" }                                   read by expressions only
    emoji = { report = "LocalHashing", ... }                   private already: see `report_columns`

Each column is declared in one of these ways; `type` may be repeated where it follows from the rest.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from fractions import Fraction
from typing import Any

from streamgauge.noise import Grid
from streamgauge.query.report_columns import REPORT, REPORT_KEYS, report_column
from streamgauge.query.settings import Column, Kind
from streamgauge.query.toml_keys import BadFile, Rule, Table, joined, must, shown
from streamgauge.query.toml_rules import COLUMN, MOST, NUMBER, SWITCH, is_line, label_number, one_of, whole

COLUMN_KEYS = (
    *("values", "other", "bounds", "grid", "type", "hashed", "expected_distinct", "max_groups"),
    *REPORT_KEYS,
)
WAYS = ("values", "bounds", "hashed", "max_groups")
BELONGS = {"other": "values", "grid": "bounds", "expected_distinct": "hashed"}
TYPE: Rule[Kind] = one_of("text", "number", "boolean")
MOST_VALUES = 10**6
OTHER = "other"


def columns_of(stream: Table, reserved: Mapping[str, str]) -> dict[str, Column]:
    """The declared columns; `reserved` are the names of the time and user columns, by what they are."""
    columns = {}
    for name, value in stream.tables("columns").items():
        where = joined(stream.at("columns"), name)
        if COLUMN.parse(name) is None:
            raise must(where, COLUMN.words, name)
        columns[name] = _column(name, Table.of(where, value, COLUMN_KEYS))
    if reserved["time"] in columns:
        time = joined(stream.at("columns"), reserved["time"])
        raise BadFile(f"{time} must be left out, got the time column, which needs no declaration")
    distinct(stream.at("columns"), {*columns, *reserved.values()})
    return columns


def distinct(where: str, names: Collection[str]) -> None:
    """Refuses names that differ in nothing but case, which SQL does not tell apart."""
    seen: dict[str, str] = {}
    for name in sorted(names):
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise BadFile(f"{where} must be names that differ in more than case, got {other} and {name}")


def _column(name: str, table: Table) -> Column:
    if REPORT in table:
        return report_column(name, table)
    ways = [way for way in WAYS if way in table]
    if len(ways) > 1 or not (ways or "type" in table):
        rule = "declared by one of values, bounds, hashed, max_groups or type"
        raise BadFile(f"{table.where} must be {rule}, got {' and '.join(ways) or 'none of them'}")
    for key, needed in BELONGS.items():
        if key in table and needed not in table:
            raise BadFile(f"{table.at(key)} must be left out unless there are {needed}, got it without")
    for key in REPORT_KEYS:
        if key in table:
            raise BadFile(f"{table.at(key)} must be left out unless there is a report = ..., got it without")
    column = _READERS[ways[0] if ways else "type"](name, table)
    if table.optional("type", TYPE, column.kind) != column.kind:
        raise table.bad("type", f'"{column.kind}" or left out, as {ways[0]} say')
    return column


def _typed(name: str, table: Table) -> Column:
    return Column(name, table.required("type", TYPE))


def _hashed(name: str, table: Table) -> Column:
    cells = table.required("hashed", whole(2, MOST))
    return Column(name, hashed=cells, expected_distinct=table.optional("expected_distinct", whole(1)))


def _discovered(name: str, table: Table) -> Column:
    return Column(name, max_groups=table.required("max_groups", whole(1, MOST)))


def _bounded(name: str, table: Table) -> Column:
    pair = [NUMBER.parse(value) for value in table.array("bounds", "two numbers")]
    lower, upper = pair if len(pair) == 2 else (None, None)
    if lower is None or upper is None or lower >= upper:
        raise table.bad("bounds", "two numbers, the lower first, such as [0, 100]")
    return Column(name, "number", bounds=(lower, upper), grid=_grid(table, lower, upper))


def _grid(table: Table, lower: Fraction, upper: Fraction) -> Fraction | None:
    step = table.optional("grid", NUMBER)
    if step is None:
        return None
    try:
        return Grid(lower, upper, step).step
    except ValueError:
        rule = "a number above 0 that both bounds are multiples of, with fewer than 2^52 places"
        raise table.bad("grid", rule) from None


def _valued(name: str, table: Table) -> Column:
    given = table.array("values", "values")
    kind, labels = _labels(given)
    if None in labels or not 0 < len(labels) <= MOST_VALUES:
        raise table.bad("values", "an array of 1 to 10^6 values, all text (in one line), numbers or booleans")
    other = table.optional("other", SWITCH, False)
    if other and kind != "text":
        raise table.bad("other", "false unless the values are text")
    label, times = Counter([*labels, OTHER] if other else labels).most_common(1)[0]
    if times > 1:
        rule = 'different from each other and from "other"' if other else "different from each other"
        raise BadFile(f"{table.at('values')} must be {rule}, got {shown(label)} twice")
    return Column(name, kind, values=tuple(labels), other=other)


def _labels(given: list[Any]) -> tuple[Kind, list[Any]]:
    """The type of the first value, and all values read as of that type: None for those that are not."""
    if given and isinstance(given[0], bool):
        return "boolean", [value if isinstance(value, bool) else None for value in given]
    if given and isinstance(given[0], str):
        return "text", [value if is_line(value) else None for value in given]
    return "number", [label_number(value) for value in given]


_READERS: dict[str, Callable[[str, Table], Column]] = {
    "type": _typed,
    "values": _valued,
    "bounds": _bounded,
    "hashed": _hashed,
    "max_groups": _discovered,
}
