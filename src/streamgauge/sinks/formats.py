"""Releases as lines or arrays, with stamps that identify the writing store.

**Stamps.** A number and the chain that goes with it distinguish a rolled-back store from a good one. The pair is in
the lines themselves, as a *stamp*: "17:9f86d081884c7d65:3b1c77aa". All lines of a write have its stamp, so any whole
line suffices, even if the write was torn after it. The last part comes from the identity of the store that
the sink belongs to: a sink has one owner for ever. A sink that was written without an owner belongs to any store.

A stamp has the first 64 bits of the chain and the first 32 of the identity. Store and rollback guard have all of
them. Two histories that differ agree in 64 bits of SHA-256 with probability 2^-64 for each comparison. Stamps
guard against accident: a restored copy, a second run. They do not guard against an adversary who can
write the sink or has the key. That adversary could as well cut the file, or change all stamps, of any length.
If two stores agree in 32 bits of identity, the chain of the other one is still unknown, and the start is
refused as a rollback.

**CSV in the long form.** A line per tick, place and measure, under the same header for every release.

    release,tick,start,end,level,rank,group,measure,value,stddev,low,high,reliable,trace
fever,7,2026-01-05T00:30:00Z,2026-01-05T00:35:00Z,1,,"{""region"":""north""}",count,12.0,3.1,6.0,18.0,true,17:9f86d0...

`rank` is empty unless the release ranks its groups. A record is one physical line: `group` is a JSON object, which has
no line breaks, and names have none either. An unknown value is empty. Bounds may be `inf`.

**JSON lines.** An object per tick and place, with all its measures. Ranked groups have a `rank` before `group`.

    {"release":"fever","tick":7,"start":"...","end":"...","group":{"region":"north"},
     "count":{"value":12.0,"stddev":3.1,"low":6.0,"high":18.0,"reliable":true},"trace":"17:9f86d081884c7d65:3b1c77aa"}

A line is `TickRelease.rows()` as compact JSON, and one physical line for any labels.

**Arrays.** The long form as arrays: a row per tick, measure and place, in the order of CSV files.
"""

import csv
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamgauge.releases.codec import Floats
from streamgauge.releases.release import CHAIN_DIGITS, OWNER_DIGITS, Bools, TickRelease, format_utc_time
from streamgauge.releases.schema import RANK_COLUMN, to_json
from streamgauge.sinks.errors import SinkError

TICK_LIMIT = 2**62  # bound above every tick of a store
STAMP_PATTERN = re.compile(
    rf"(\d{{1,{len(str(TICK_LIMIT))}}}):([0-9a-f]{{{CHAIN_DIGITS}}})(?::([0-9a-f]{{{OWNER_DIGITS}}}))?"
)
ChainTrace = tuple[int, str]
TextColumn = str | Sequence[str]


class Stamp(NamedTuple):
    """Stamp of a write in its lines: a tick, and prefixes of chain and owner."""

    number: int
    chain: str
    owner: str = ""

    @classmethod
    def parse(cls, text: str) -> "Stamp | None":
        """Return the stamp of a text that `str` wrote, or None."""
        found = STAMP_PATTERN.fullmatch(text)
        known = found is not None and found[0].isascii() and int(found[1]) < TICK_LIMIT
        return cls(int(found[1]), found[2], found[3] or "") if found and known else None

    def __str__(self) -> str:
        parts = (str(self.number), self.chain[:CHAIN_DIGITS], self.owner[:OWNER_DIGITS])
        return ":".join(filter(None, parts))

    def check_owner(self, owner: str, name: str) -> ChainTrace:
        """Return the stamp; reject it if another store wrote it."""
        if self.owner and owner and self.owner != owner[:OWNER_DIGITS]:
            raise SinkError(
                f"sink {name} must be this pipeline's own, got one that another store wrote: name another; "
                "or, if that store was this pipeline's, bring it back, for what it published is spent"
            )
        return self.trace

    @property
    def trace(self) -> ChainTrace:
        return self.number, self.chain


class LineFormat(Protocol):
    """Format that writes releases as whole lines."""

    @property
    def header(self) -> bytes:
        """First line, or empty bytes if there is no header."""
        ...

    @property
    def file_prefix(self) -> bytes:
        """First bytes of every file."""
        ...

    def format_lines(self, released: TickRelease, stamp: str | None) -> bytes: ...

    def parse_stamp(self, line: bytes) -> Stamp | None:
        """Return the stamp of a line without its end, or None if the line is not ours."""
        ...


def sort_by_tick(releases: Sequence[TickRelease]) -> list[TickRelease]:
    """Return the releases in the order of ticks."""
    return sorted(releases, key=lambda item: item.tick)


def build_position(trace: ChainTrace, length: int) -> bytes:
    """Return the position for a stamp and a length."""
    return json.dumps({"tick": trace[0], "length": length}).encode()


def parse_length(position: bytes | None) -> int:
    """Return the committed length of a sink."""
    return 0 if position is None else int(json.loads(position)["length"])


def format_numbers(row: Floats, known: Bools, unknown: str) -> TextColumn:
    """Return the shortest texts that parse to the numbers, or `unknown`.

    Returns one text if all are the same.
    """
    bits = row.view(np.int64)
    if len(row) and (bits == bits[0]).all():
        return repr(float(row[0])) if known[0] else unknown
    texts = list(map(repr, row.tolist()))
    for place in np.flatnonzero(~known).tolist():
        texts[place] = unknown
    return texts


def format_flags(row: Bools) -> TextColumn:
    """Return booleans as JSON texts."""
    if row.all():
        return "true"
    return ["true" if flag else "false" for flag in row.tolist()]


def interleave_columns(columns: Sequence[TextColumn], count: int) -> bytes:
    """Return `count` lines made of columns. A single text repeats in every line."""
    merged: list[TextColumn] = []
    for column in columns:
        if isinstance(column, str) and merged and isinstance(merged[-1], str):
            merged[-1] += column
        else:
            merged.append(column)
    pieces = len(merged)
    flat = [""] * (pieces * count)
    for at, column in enumerate(merged):
        flat[at::pieces] = [column] * count if isinstance(column, str) else column
    return "".join(flat).encode()


LONG_COLUMNS = (
    "release",
    "tick",
    "start",
    "end",
    "level",
    RANK_COLUMN,
    "group",
    "measure",
    "value",
    "stddev",
    "low",
    "high",
    "reliable",
    "trace",
)


class CsvLines:
    """Format of files that end with .csv."""

    header = (",".join(LONG_COLUMNS) + "\n").encode()
    file_prefix = header

    def format_lines(self, released: TickRelease, stamp: str | None) -> bytes:
        shape = released.shape
        times = f"{released.tick},{format_utc_time(released.start)},{format_utc_time(released.end)},"
        head = f"{quote_field(shape.release)},{times}"
        levels = [str(place.level) for place in shape.groups]
        ranks: TextColumn = list(map(str, shape.ranks)) if shape.is_ranked else ""
        groups = [quote_field(group) for group in shape.group_texts]
        end = f",{quote_field(stamp or '')}\n"
        blocks = []
        for row, measure in enumerate(shape.measures):
            columns: list[TextColumn] = [head, levels, ",", ranks, ",", groups, f",{quote_field(measure)}"]
            for block in released.numbers:
                columns += [",", format_numbers(block[row], ~np.isnan(block[row]), "")]
            columns += [",", format_flags(released.reliable[row]), end]
            blocks.append(interleave_columns(columns, len(shape.groups)))
        return b"".join(blocks)

    def parse_stamp(self, line: bytes) -> Stamp | None:
        try:
            (fields,) = csv.reader([line.decode()], strict=True)
            return Stamp.parse(fields[-1]) if len(fields) == len(LONG_COLUMNS) else None
        except (ValueError, csv.Error):
            return None


def quote_field(field: str) -> str:
    """Return a field in CSV spelling."""
    if '"' in field or "," in field:
        return '"' + field.replace('"', '""') + '"'
    return field


class JsonLines:
    """Format of files that end with .jsonl, and of standard output."""

    header = b""
    file_prefix = b'{"release":"'

    def format_lines(self, released: TickRelease, stamp: str | None) -> bytes:
        shape = released.shape
        times = {"tick": released.tick, "start": format_utc_time(released.start), "end": format_utc_time(released.end)}
        columns: list[TextColumn] = [to_json({"release": shape.release, **times})[:-1]]
        if shape.is_rollup:
            columns += [',"level":', [str(place.level) for place in shape.groups]]
        if shape.is_ranked:
            columns += [f',"{RANK_COLUMN}":', list(map(str, shape.ranks))]
        columns += [',"group":', shape.group_texts]
        for row, measure in enumerate(shape.measures):
            columns += [f",{to_json(measure)}:", *_build_measure_columns(released, row)]
        columns.append(f',"trace":{to_json(stamp)}}}\n')
        return interleave_columns(columns, len(shape.groups))

    def parse_stamp(self, line: bytes) -> Stamp | None:
        try:
            return Stamp.parse(json.loads(line)["trace"])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None


def _build_measure_columns(released: TickRelease, row: int) -> Iterator[TextColumn]:
    """Return the columns of a measure's object."""
    names = ('{"value":', ',"stddev":', ',"low":', ',"high":')
    for name, block in zip(names, released.numbers, strict=True):
        yield name
        yield format_numbers(block[row], np.isfinite(block[row]), "null")
    yield ',"reliable":'
    yield format_flags(released.reliable[row])
    yield "}"


VALUE_COLUMNS = ("value", "stddev", "low", "high", "reliable")


def build_long_columns(releases: Sequence[TickRelease], stamp: str) -> dict[str, Any]:
    """Return one array for each column of the long form. The rank of a group that is not ranked is 0."""
    sizes = [item.value.size for item in releases]

    def repeat_rows(values: Sequence[Any], kind: Any) -> Any:
        return np.repeat(np.array(values, kind), sizes)

    columns = {
        "release": repeat_rows([item.release for item in releases], object),
        "tick": repeat_rows([item.tick for item in releases], np.int64),
        "start": repeat_rows([item.start for item in releases], "datetime64[us]"),
        "end": repeat_rows([item.end for item in releases], "datetime64[us]"),
        "level": _tile_places(releases, lambda shape: [place.level for place in shape.groups], np.int32),
        RANK_COLUMN: _tile_places(releases, lambda shape: shape.ranks or [0] * len(shape.groups), np.int32),
        "group": _tile_places(releases, lambda shape: shape.group_texts, object),
        "measure": np.concatenate([_repeat_measures(item) for item in releases]),
        "trace": repeat_rows([stamp] * len(releases), object),
    }
    for part in VALUE_COLUMNS:
        columns[part] = np.concatenate([getattr(item, part).ravel() for item in releases])
    return {name: columns[name] for name in LONG_COLUMNS}


def _tile_places(releases: Sequence[TickRelease], values: Any, kind: Any) -> Any:
    """Return the places of each release, once for each measure."""
    return np.concatenate([np.tile(np.array(values(item.shape), kind), len(item.shape.measures)) for item in releases])


def _repeat_measures(item: TickRelease) -> Any:
    return np.repeat(np.array(item.shape.measures, object), len(item.shape.groups))
