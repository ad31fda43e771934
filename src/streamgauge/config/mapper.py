"""[mapper.NAME]: code of an analyst that turns a record into a few (key, value) pairs.

    [mapper.pages_per_visit]
    source = "mappers/pages.py"        # a file, or the text itself
    columns = ["url", "agent"]
    keys = ["news", "shop", "help", "other"]
    max_pairs = 2
    bounds = [0, 30]                   # of a value; not needed to count
    grid = 1
    max_steps = 10_000

    [[release]]
    map = "pages_per_visit"
    reduce = "mean"

A release with `map` is the query `SELECT key, AVG(value) FROM pages_per_visit GROUP BY key` over the pairs. So it has
every window, mechanism, alert and error bar of a query.

Promise
    The source is parsed and checked here, before anything is charged. A refusal names its line. The whole mapper is
    pinned with the release: other code is another release.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from streamgauge.config.columns import check_distinct_names
from streamgauge.config.errors import PipelineFileError
from streamgauge.config.paths import resolve_path
from streamgauge.config.rules import IDENTIFIER, NUMBER, build_int_rule, build_number_rule, is_line
from streamgauge.config.settings import Column, Lookup, Stream
from streamgauge.config.toml_table import Rule, TomlTable, build_rule_error, format_value, join_key
from streamgauge.mapreduce import MapperError
from streamgauge.mapreduce.parser import MAX_PAIRS, MAX_SOURCE_BYTES, MAX_STEPS, parse_mapper
from streamgauge.mapreduce.program import MapperProgram, ValueKind

MAPPER_KEYS = ("source", "columns", "keys", "max_pairs", "bounds", "grid", "max_steps")
KINDS: dict[str, ValueKind] = {"text": "text", "number": "number", "boolean": "bool", "time": "time"}
DEFAULT_STEPS = 10_000
REDUCERS = {"count": "COUNT(*)", "sum": "SUM", "mean": "AVG", "variance": "VAR_SAMP", "stddev": "STDDEV_SAMP"}
REDUCERS |= {"median": "MEDIAN", "min": "MIN", "max": "MAX"}
INLINE_NAME = "pairs"  # of a mapper that is part of its release
KEY_COLUMN, VALUE_COLUMN = "key", "value"
SOURCE_RULE = Rule(
    "the path of a file, or the text of a mapper", lambda v: v if isinstance(v, str) and v.strip() else None
)
GRID_RULE = build_number_rule("1e-12", "1e12")


class MapperSourceError(PipelineFileError):
    """The source of a mapper is refused, at a line of it."""

    def __init__(self, message: str, line: int | None) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True)
class MapperSettings:
    """Mapper of a pipeline file. It is hashable, and can be sent to other processes."""

    name: str
    source: str
    columns: tuple[tuple[str, ValueKind], ...]
    keys: tuple[str, ...] | tuple[int, ...]
    max_pairs: int = 1
    bounds: tuple[Fraction, Fraction] | None = None
    grid: Fraction | None = None
    max_steps: int = DEFAULT_STEPS

    @cached_property
    def program(self) -> MapperProgram:
        """Checked program of the source."""
        columns = dict(self.columns)
        return parse_mapper(self.source, columns, self.keys, max_pairs=self.max_pairs, max_steps=self.max_steps)

    @property
    def max_groups(self) -> int:
        """The most groups in which one record counts."""
        return min(self.max_pairs, len(self.keys))

    def build_pair_stream(self, stream: Stream) -> Stream:
        """Return a stream whose events are the pairs, with the columns `key` and `value`."""
        kind = "text" if isinstance(self.keys[0], str) else "number"
        key = Column(KEY_COLUMN, kind=kind, values=self.keys)  # type: ignore[arg-type]  # one of two kinds
        value = Column(VALUE_COLUMN, kind="number", bounds=self.bounds, grid=self.grid)
        return replace(stream, name=self.name, columns={KEY_COLUMN: key, VALUE_COLUMN: value}, time="$time", user=None)

    def build_sql(self, reducer: str) -> str:
        """Return the query over the pairs."""
        function = REDUCERS[reducer]
        called = function if "(" in function else f"{function}({VALUE_COLUMN})"
        return f"SELECT {KEY_COLUMN}, {called} FROM {self.name} GROUP BY {KEY_COLUMN}"

    def to_json(self) -> dict[str, Any]:
        """Return all that a charge pins."""
        names = ("name", "source", "keys", "max_pairs", "bounds", "grid", "max_steps")
        return {"columns": [list(each) for each in self.columns], **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "MapperSettings":
        bounds, grid = data["bounds"], data["grid"]
        columns = tuple((name, kind) for name, kind in data["columns"])
        ends = None if bounds is None else (Fraction(bounds[0]), Fraction(bounds[1]))
        exact = {"bounds": ends, "grid": None if grid is None else Fraction(grid)}
        return cls(**{**data, **exact, "columns": columns, "keys": tuple(data["keys"])})


def parse_mappers(
    top: TomlTable, folder: Path, stream: Stream, lookups: Mapping[str, Lookup]
) -> dict[str, MapperSettings]:
    """Return all mappers of the file. Paths are relative to its folder."""
    found = {}
    for name, value in top.get_tables("mapper").items():
        where = join_key("mapper", name)
        if IDENTIFIER.parse(name) is None:
            raise build_rule_error(where, IDENTIFIER.words, name)
        found[name] = parse_mapper_table(name, TomlTable.parse(where, value, MAPPER_KEYS), folder, stream)
    check_distinct_names("mapper", [stream.name, *lookups, *found])
    return found


def parse_mapper_table(name: str, table: TomlTable, folder: Path | None, stream: Stream) -> MapperSettings:
    """Return one mapper. Without a folder its source is the text itself."""
    _check_stream(table, stream)
    given = table.get_required("source", SOURCE_RULE)
    settings = MapperSettings(
        name=name,
        source=given if "\n" in given or folder is None else _read_source(table, resolve_path(given, folder)),
        columns=_parse_columns(table, stream),
        keys=_parse_keys(table),
        max_pairs=table.get_optional("max_pairs", build_int_rule(maximum=MAX_PAIRS), 1),
        bounds=_parse_bounds(table),
        grid=table.get_optional("grid", GRID_RULE),
        max_steps=table.get_optional("max_steps", build_int_rule(maximum=MAX_STEPS), DEFAULT_STEPS),
    )
    if settings.grid is not None and settings.bounds is None:
        raise table.build_error("grid", "left out without bounds")
    if (
        settings.bounds is not None
        and settings.grid is not None
        and any(end % settings.grid for end in settings.bounds)
    ):
        raise table.build_error("grid", "one that has both bounds")
    try:
        settings.program  # noqa: B018 - parsed now, so that a wrong source is refused now
    except MapperError as refusal:
        raise MapperSourceError(f"{table.key_path('source')}: {refusal}", refusal.line) from None
    return settings


def _check_stream(table: TomlTable, stream: Stream) -> None:
    if stream.weight is not None:
        raise PipelineFileError(f"{table.path} must be left out where events have weights, got one")
    if stream.has_reports:
        raise PipelineFileError(f"{table.path} must be left out where records are reports, got one")


def _read_source(table: TomlTable, path: Path) -> str:
    try:
        data = path.read_bytes()[: MAX_SOURCE_BYTES + 1]
        return data.decode("utf-8-sig")
    except (OSError, ValueError):
        raise table.build_error("source", "a file of UTF-8 that can be read, or the text of a mapper") from None


def _parse_columns(table: TomlTable, stream: Stream) -> tuple[tuple[str, ValueKind], ...]:
    found: list[tuple[str, ValueKind]] = []
    for name in table.get_array("columns", "columns of the stream"):
        column = stream.columns.get(name) if isinstance(name, str) else None
        if name == stream.time:
            found.append((name, "time"))
        elif column is None or column.hash_cells is not None or column.report is not None:
            known = [stream.time, *stream.columns]
            raise build_rule_error(table.key_path("columns"), "columns of the stream that are not hashed", name, known)
        else:
            found.append((column.name, KINDS[column.kind]))
    if not found or len(set(found)) < len(found):
        raise table.build_error("columns", "one or more different columns of the stream")
    return tuple(found)


def _parse_keys(table: TomlTable) -> tuple[str, ...] | tuple[int, ...]:
    keys = table.get_array("keys", "keys")
    if not keys or not (all(is_line(key) for key in keys) or all(type(key) is int for key in keys)):
        raise table.build_error("keys", "an array of texts of one line, or of whole numbers")
    return tuple(keys)


def _parse_bounds(table: TomlTable) -> tuple[Fraction, Fraction] | None:
    given: Sequence[Any] = table.get_array("bounds", "two numbers")
    if "bounds" not in table:
        return None
    ends = [NUMBER.parse(each) for each in given]
    if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] >= ends[1]:
        raise table.build_error("bounds", "two numbers such as [0, 30], the least first")
    return ends[0], ends[1]


def parse_map(
    table: TomlTable, stream: Stream, mappers: Mapping[str, MapperSettings]
) -> tuple[MapperSettings | None, str | None]:
    """Return the mapper of a release and its query, or neither if it has SQL.

    `map` is the name of a mapper, or a table like [mapper.NAME] whose source is the text itself.
    """
    if "map" not in table:
        if "reduce" in table:
            raise table.build_error("reduce", "left out without map")
        return None, None
    if "sql" in table:
        raise table.build_error("sql", "left out where there is a map")
    given, reducer = table.entries["map"], table.entries.get("reduce", "count")
    if isinstance(given, Mapping):
        mapper: MapperSettings | None = parse_mapper_table(
            INLINE_NAME, table.get_table("map", MAPPER_KEYS), None, stream
        )
    else:
        mapper = mappers.get(given) if isinstance(given, str) else None
    if mapper is None:
        raise table.build_error("map", "the name of a [mapper.NAME], or a table like it", tuple(mappers))
    if not isinstance(reducer, str) or reducer not in REDUCERS:
        hint = '; for a threshold, alerts = { kind = "threshold", ... }' if reducer == "threshold" else ""
        raise table.build_error("reduce", f"one of {', '.join(REDUCERS)}", got=f"{format_value(reducer)}{hint}")
    if reducer != "count" and mapper.bounds is None:
        raise table.build_error("reduce", "count, unless its mapper has bounds")
    return mapper, mapper.build_sql(reducer)
