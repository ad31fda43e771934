"""[lookup.NAME]: public tables that a query may join, loaded into memory.

    sensor,room,floor          one row for each key; a column has numbers if all its cells do, else text;
    a17,Kitchen,1              an empty cell is NULL; 007 is text, for numbers do not begin with zeros

Rows are sorted by their keys, so results do not depend on their order in the file. The
column `on` need not be declared in [stream.columns]: the lookup declares it, as text.
"""

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from pathlib import Path

from streamgauge.config.columns import check_distinct_names
from streamgauge.config.errors import PipelineFileError
from streamgauge.config.paths import resolve_path
from streamgauge.config.rules import COLUMN, IDENTIFIER, PATH, is_line, parse_label_number
from streamgauge.config.settings import Column, Label, Lookup, Stream
from streamgauge.config.toml_table import TomlTable, build_rule_error, format_value, join_key

LOOKUP_KEYS = ("file", "on")
MAX_ROWS = 10**6

Rows = list[tuple[int, list[str]]]  # with the number of the line on which each ends
_NUMBER_PATTERN = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,20})?", re.ASCII)  # distinct as doubles


def parse_lookups(top: TomlTable, folder: Path, stream: Stream) -> dict[str, Lookup]:
    """Return all lookups of the file. Paths are relative to its folder."""
    found = {}
    for name, value in top.get_tables("lookup").items():
        where = join_key("lookup", name)
        if IDENTIFIER.parse(name) is None:
            raise build_rule_error(where, IDENTIFIER.words, name)
        found[name] = _parse_lookup(name, TomlTable.parse(where, value, LOOKUP_KEYS), folder, stream)
    check_distinct_names("lookup", {stream.name, *found})
    keys = {lookup.on for lookup in found.values()}
    check_distinct_names("columns to look up by", {*keys, *stream.columns, stream.user or stream.time})
    return found


def add_key_columns(stream: Stream, lookups: Mapping[str, Lookup]) -> Stream:
    """Return the stream with the columns on which its lookups are joined."""
    keys = {lookup.on: Column(lookup.on) for lookup in lookups.values()}
    return replace(stream, columns={**keys, **stream.columns})


def _parse_lookup(name: str, table: TomlTable, folder: Path, stream: Stream) -> Lookup:
    path = resolve_path(table.get_required("file", PATH), folder)
    on = table.get_required("on", COLUMN)
    column = stream.columns.get(on, Column(on))
    plain = column.kind == "text" and column.hash_cells is None and column.report is None
    if not plain or on.casefold() == stream.time.casefold():
        raise table.build_error("on", "a column of text, not hashed and not the time")
    if name == stream.name:
        raise PipelineFileError(f"{table.path} must be named otherwise than the stream, got its name")
    header, rows = _read_cells(table, path)
    if on not in header:
        raise table.build_error("on", "a column of the lookup's file", header)
    _check_cells(table.key_path("file"), header, rows)
    return _build_lookup(name, on, table.key_path("file"), header, rows)


def _read_cells(table: TomlTable, path: Path) -> tuple[list[str], Rows]:
    """Return the first row, and all others that are not empty."""
    try:
        if not path.is_file():
            raise table.build_error("file", "a file that is there")
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, strict=True)
            header = next(reader, [])
            nonempty_rows = ((reader.line_num, row) for row in reader if row)
            return header, list(islice(nonempty_rows, MAX_ROWS + 1))
    except OSError:
        raise table.build_error("file", "a file that can be read") from None
    except (UnicodeDecodeError, csv.Error):
        raise table.build_error("file", "a CSV file in UTF-8") from None


def _check_cells(where: str, header: Sequence[str], rows: Rows) -> None:
    """Reject cells that are not a table with names."""
    for name in header:
        if COLUMN.parse(name) is None:
            raise build_rule_error(where, f"a table whose first row has names of columns ({COLUMN.words})", name)
    twice = [name for name, times in Counter(header).items() if times > 1]
    if twice:
        raise PipelineFileError(f"{where} must be a table of different columns, got {format_value(twice[0])} twice")
    check_distinct_names(f"{where}'s columns", header)
    if not 0 < len(rows) <= MAX_ROWS:
        raise PipelineFileError(f"{where} must be a table of 1 to {MAX_ROWS} rows, got {len(rows) or 'none'}")
    for line, row in rows:
        if len(row) != len(header):
            raise PipelineFileError(f"{where} must be a table of {len(header)} columns, got {len(row)} in line {line}")
        if not all(map(is_line, row)):
            raise PipelineFileError(f"{where} must be a table of cells of one line, got another in line {line}")


def _build_lookup(name: str, on: str, where: str, header: Sequence[str], rows: Rows) -> Lookup:
    place = header.index(on)
    known_keys: set[str] = set()
    for line, row in rows:
        if not row[place] or row[place] in known_keys:
            got = f"{format_value(row[place])} again" if row[place] else "an empty one"
            raise PipelineFileError(f"{where} must be a table with one key in each row, got {got} in line {line}")
        known_keys.add(row[place])
    ordered = sorted((row for _, row in rows), key=lambda row: row[place])
    others = [i for i in range(len(header)) if i != place]
    columns = [_parse_cells([row[i] for row in ordered]) for i in others]
    names = tuple(header[i] for i in others)
    keys = tuple(row[place] for row in ordered)
    return Lookup(name, on, names, keys, tuple(zip(*columns, strict=True)) if columns else ((),) * len(keys))


def _parse_cells(cells: Sequence[str]) -> list[Label | None]:
    """Return numbers if all nonempty cells are numbers, else text."""
    if all(_NUMBER_PATTERN.fullmatch(cell) for cell in cells if cell):
        return [parse_label_number(Decimal(cell)) if cell else None for cell in cells]
    return [cell or None for cell in cells]
