"""[lookup.NAME]: public tables that a query may join, read at once and kept in memory.

    sensor,room,floor          one row for each key; a column is of numbers if all its cells are, else text;
    a17,Kitchen,1              an empty cell is NULL; 007 is text, for numbers do not begin with zeros

Rows are kept in the order of their keys, whatever their order in the file: so is what follows from it. The
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

from streamgauge.query.columns import distinct
from streamgauge.query.paths import path_of
from streamgauge.query.settings import Column, Label, Lookup, Stream
from streamgauge.query.toml_keys import BadFile, Table, joined, must, shown
from streamgauge.query.toml_rules import COLUMN, IDENTIFIER, PATH, is_line, label_number

LOOKUP_KEYS = ("file", "on")
MOST_ROWS = 10**6

Rows = list[tuple[int, list[str]]]  # with the number of the line that each ends on
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,20})?", re.ASCII)  # within what a double tells apart


def lookups_of(top: Table, folder: Path, stream: Stream) -> dict[str, Lookup]:
    """All lookups of the file; paths are relative to its folder."""
    found = {}
    for name, value in top.tables("lookup").items():
        where = joined("lookup", name)
        if IDENTIFIER.parse(name) is None:
            raise must(where, IDENTIFIER.words, name)
        found[name] = _lookup(name, Table.of(where, value, LOOKUP_KEYS), folder, stream)
    distinct("lookup", {stream.name, *found})
    keys = {lookup.on for lookup in found.values()}
    distinct("columns to look up by", {*keys, *stream.columns, stream.user or stream.time})
    return found


def with_keys(stream: Stream, lookups: Mapping[str, Lookup]) -> Stream:
    """The stream with the columns that its lookups are joined on."""
    keys = {lookup.on: Column(lookup.on) for lookup in lookups.values()}
    return replace(stream, columns={**keys, **stream.columns})


def _lookup(name: str, table: Table, folder: Path, stream: Stream) -> Lookup:
    path = path_of(table.required("file", PATH), folder)
    on = table.required("on", COLUMN)
    column = stream.columns.get(on, Column(on))
    plain = column.kind == "text" and column.hashed is None and column.report is None
    if not plain or on.casefold() == stream.time.casefold():
        raise table.bad("on", "a column of text, not hashed and not the time")
    if name == stream.name:
        raise BadFile(f"{table.where} must be named otherwise than the stream, got its name")
    header, rows = _cells(table, path)
    if on not in header:
        raise table.bad("on", "a column of the lookup's file", header)
    _check(table.at("file"), header, rows)
    return _keyed(name, on, table.at("file"), header, rows)


def _cells(table: Table, path: Path) -> tuple[list[str], Rows]:
    """The first row, and all others that are not empty."""
    try:
        if not path.is_file():
            raise table.bad("file", "a file that is there")
        with path.open(encoding="utf-8-sig", newline="") as lines:
            reader = csv.reader(lines, strict=True)
            header = next(reader, [])
            kept = ((reader.line_num, row) for row in reader if row)
            return header, list(islice(kept, MOST_ROWS + 1))
    except OSError:
        raise table.bad("file", "a file that can be read") from None
    except (UnicodeDecodeError, csv.Error):
        raise table.bad("file", "a CSV file in UTF-8") from None


def _check(where: str, header: Sequence[str], rows: Rows) -> None:
    """Refuses what is no table of names and cells."""
    for name in header:
        if COLUMN.parse(name) is None:
            raise must(where, f"a table whose first row has names of columns ({COLUMN.words})", name)
    twice = [name for name, times in Counter(header).items() if times > 1]
    if twice:
        raise BadFile(f"{where} must be a table of different columns, got {shown(twice[0])} twice")
    distinct(f"{where}'s columns", header)
    if not 0 < len(rows) <= MOST_ROWS:
        raise BadFile(f"{where} must be a table of 1 to {MOST_ROWS} rows, got {len(rows) or 'none'}")
    for line, row in rows:
        if len(row) != len(header):
            raise BadFile(f"{where} must be a table of {len(header)} columns, got {len(row)} in line {line}")
        if not all(map(is_line, row)):
            raise BadFile(f"{where} must be a table of cells of one line, got another in line {line}")


def _keyed(name: str, on: str, where: str, header: Sequence[str], rows: Rows) -> Lookup:
    place = header.index(on)
    seen: set[str] = set()
    for line, row in rows:
        if not row[place] or row[place] in seen:
            got = f"{shown(row[place])} again" if row[place] else "an empty one"
            raise BadFile(f"{where} must be a table with one key in each row, got {got} in line {line}")
        seen.add(row[place])
    ordered = sorted((row for _, row in rows), key=lambda row: row[place])
    others = [i for i in range(len(header)) if i != place]
    columns = [_typed([row[i] for row in ordered]) for i in others]
    names = tuple(header[i] for i in others)
    keys = tuple(row[place] for row in ordered)
    return Lookup(name, on, names, keys, tuple(zip(*columns, strict=True)) if columns else ((),) * len(keys))


def _typed(cells: Sequence[str]) -> list[Label | None]:
    """Numbers if all cells that are not empty are, else text."""
    if all(_NUMBER.fullmatch(cell) for cell in cells if cell):
        return [label_number(Decimal(cell)) if cell else None for cell in cells]
    return [cell or None for cell in cells]
