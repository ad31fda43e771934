"""Content of sinks as numbers at fixed places: one row for each run of a copy.

    place of a number    sink, release, tick, group, measure, then value, stddev, low, high and reliable
    NaN                  a null, or a missing number
    two extra numbers    the number of measures of a release, so that presence shows, and a code of its rows' text

Texts are equal in almost all runs, so the layout of each text is computed once.

A sink is split into the measured numbers and all other bytes:

    {"release":"fever","tick":1,...,"count":{"value":12.0,...},"trace":"2:9f86...:58c3..."}
    {"release":"fever","tick":1,...,"count":{"value":0,...},"trace":"2:16:8"}                   its text

The text of a sink is all of it but the five numbers of each measure and the digits of chains and owners, which are
hashes of published bytes only. The number of their digits stays. So order, names, times, white space and quotes are in
the text, and must be equal whatever the data are. The spelling of numbers is checked by itself (`list_oddities`): it
must be the shortest text of the number.

Wide CSV is read by its header: a measure has five adjacent columns. The text of a row names each of its cells, so that
the label of a copy can be removed from it as from JSON.
"""

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from hashlib import blake2b
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgauge.audit.attack.outputs import hash_code
from streamgauge.audit.pipeline.copies import Copies, Group
from streamgauge.audit.pipeline.inputs import ONE_TEXT
from streamgauge.config.settings import SinkSettings
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Floats
from streamgauge.plan.planner import ReleasePlan, list_places
from streamgauge.releases.schema import COLUMN_SUFFIXES, to_json

MEASURE_FIELDS = ("value", "stddev", "low", "high", "reliable")
JSONL_PATTERN = re.compile(b",".join(b'"%s":([^,{}]*)' % part.encode() for part in MEASURE_FIELDS))
CSV_PATTERN = re.compile(rb",([^,\n]*),([^,\n]*),([^,\n]*),([^,\n]*),(true|false)(?=,)")
BLANK_MEASURES = {"jsonl": b",".join(b'"%s":0' % part.encode() for part in MEASURE_FIELDS), "csv": b",0,0,0,0,0"}
TOKEN_PATTERNS = {"jsonl": JSONL_PATTERN, "csv": CSV_PATTERN}
STAMP_PATTERN = re.compile(rb"\b(\d+):([0-9a-f]{16,})(?::([0-9a-f]{8,}))?")
CSV_FIELD_PATTERN = re.compile(rb'(?:^|,)("(?:[^"]|"")*"[^,]*|[^,]*)')  # a raw field of a CSV line
KEY_FIELDS = ("release", "tick", "start", "end")
NUMBER_WORDS = {b"": b"nan", b"null": b"nan", b"true": b"1", b"false": b"0"}


class SinkRow(NamedTuple):
    """One line, or one row of a table."""

    release: str
    tick: int
    group: Group
    measures: tuple[str, ...]
    text: bytes


@dataclass(frozen=True, eq=False)
class SinkContent:
    """The numbers and the text of a sink."""

    form: str
    text: bytes
    numbers: Floats = field(repr=False)  # (measures of all rows in turn, five)
    tokens: Sequence[bytes] = field(default=(), repr=False)  # as they were written

    def read_rows(self) -> tuple[list[SinkRow], bytes]:
        """Return all rows in order, and the bytes that are no row."""
        lines, rows, rest = self.text.split(b"\n"), list[SinkRow](), []
        parse_line = partial(_parse_wide, parse_header(lines[0])) if self.form == "wide" else LINE_PARSERS[self.form]
        for line in lines:
            try:
                rows.append(parse_line(line))
            except (ValueError, LookupError, TypeError, AttributeError):
                rest.append(line)
        return rows, b"\n".join(rest)

    def list_oddities(self) -> list[str]:
        """List numbers that are not spelled canonically."""
        written = enumerate(zip(self.tokens, self.numbers.ravel().tolist(), strict=False))  # Parquet has none
        return [
            f"{place}: {describe_token(token)}"
            for place, (token, number) in written
            if token not in NUMBER_WORDS and token != repr(number).encode()
        ]


def describe_token(token: bytes) -> str:
    """Describe the spelling of a number: its digits after the point, and all that is no digit.

    >>> describe_token(b" 12.500"), describe_token(b"-3e+07")
    (' 0.ddd', '0e+0')
    """
    plain = re.sub(rb"\.\d+", lambda found: b"." + b"d" * (len(found[0]) - 1), token.replace(b"-", b""))
    return re.sub(rb"\d+", b"0", plain).decode(errors="replace")


def parse_sink(sink: SinkSettings, where: Path, printed: bytes) -> SinkContent:
    """Parse a file, a folder of parts, or standard output."""
    if sink.format == "parquet":
        return read_parquet(where)
    data = printed if sink.facts.is_console else where.read_bytes() if where.exists() else b""
    if sink.format == "csv" and sink.shape == "wide":
        return parse_wide_csv(data)
    pieces = TOKEN_PATTERNS[sink.format].split(data)
    step = len(MEASURE_FIELDS) + 1
    tokens = [token for place, token in enumerate(pieces) if place % step]
    text = BLANK_MEASURES[sink.format].join(pieces[::step])
    return SinkContent(sink.format, strip_stamps(text), parse_numbers(tokens), tokens)


def parse_wide_csv(data: bytes) -> SinkContent:
    """Split wide CSV into its numbers and its text; the header says which cells are numbers."""
    header, *rest = data.split(b"\n")
    size, measures = len(MEASURE_FIELDS), find_measures(parse_header(header))
    tokens, lines = [], [header]
    for line in rest:
        cells = CSV_FIELD_PATTERN.findall(line)
        for first, _ in measures:
            if first + size <= len(cells) and cells[first + size - 1] in (b"true", b"false"):
                tokens += cells[first : first + size]
                cells[first : first + size] = [b"0"] * size
        lines.append(b",".join(cells))
    return SinkContent("wide", strip_stamps(b"\n".join(lines)), parse_numbers(tokens), tokens)


def parse_header(header: bytes) -> list[str]:
    """Return the column names of a header."""
    return next(csv.reader([header.decode(errors="replace")]), [])


def find_measures(names: Sequence[str]) -> list[tuple[int, str]]:
    """Return where each measure begins in a wide header, and its name."""
    size = len(MEASURE_FIELDS)
    return [
        (first, name)
        for first, name in enumerate(names)
        if [*names[first : first + size]] == [name + ending for ending in COLUMN_SUFFIXES]
    ]


def _parse_wide(names: Sequence[str], line: bytes) -> SinkRow:
    """Return a line as a row; its group has the level, if there is one, as its last pair.

    A label that begins with a quotation mark is JSON.
    """
    cells, measures = CSV_FIELD_PATTERN.findall(line), find_measures(names)
    plain = next(csv.reader([line.decode()], strict=True))
    found = dict(zip(names, plain, strict=True))
    keys = range(len(KEY_FIELDS), min(first for first, _ in measures))
    labels = {key: str(json.loads(plain[key])) if plain[key].startswith('"') else plain[key] for key in keys}
    group = [(names[key], label) for key, label in labels.items() if cells[key]]
    size = len(MEASURE_FIELDS)
    own = tuple(name for first, name in measures if cells[first : first + size] == [b"0"] * size)
    text = b",".join(b'"%s":"%s"' % (name.encode(), cell) for name, cell in zip(names, cells, strict=True))
    ordered = tuple(sorted(group, key=lambda pair: pair[0] == "level"))
    return SinkRow(found["release"], int(found["tick"]), ordered, own, text)


def strip_stamps(text: bytes) -> bytes:
    """Replace stamps by their lengths. All rows of a write share a stamp, so there are few."""
    place = 0
    while stamp := STAMP_PATTERN.search(text, place):
        lengths = (b"%d" % len(part) for part in stamp.groups()[1:] if part)
        place, text = stamp.start() + 1, text.replace(stamp[0], b":".join([stamp[1], *lengths]))
    return text


def parse_numbers(tokens: Sequence[bytes]) -> Floats:
    """Parse numbers; other texts are NaN."""
    plain = [NUMBER_WORDS.get(token, token) for token in tokens]
    try:
        numbers = np.array(plain or [b"0"], np.bytes_).astype(np.float64)[: len(plain)]
    except ValueError:
        numbers = np.array([_parse_number(token) for token in plain], np.float64)
    return numbers.reshape(-1, len(MEASURE_FIELDS))


def _parse_number(token: bytes) -> float:
    try:
        return float(token)
    except ValueError:
        return float("nan")


def _parse_jsonl(line: bytes) -> SinkRow:
    found = json.loads(line)
    tables = {name: tuple(value) for name, value in found.items() if type(value) is dict and name != "group"}
    measures = tuple(name for name, table in tables.items() if table[: len(MEASURE_FIELDS)] == MEASURE_FIELDS)
    return SinkRow(found["release"], found["tick"], tuple(found["group"].items()), measures, line)


def _parse_csv(line: bytes) -> SinkRow:
    release, tick, _, _, _, _, group, measure, *found = next(csv.reader([line.decode()], strict=True))
    measures = (measure,) if found[: len(MEASURE_FIELDS)] == ["0"] * len(MEASURE_FIELDS) else ()
    return SinkRow(release, int(tick), tuple(json.loads(group).items()), measures, line)


def read_parquet(folder: Path) -> SinkContent:
    """Read the rows of all parts; their metadata is text."""
    import duckdb

    if not any(folder.glob("*.parquet")):
        return SinkContent("parquet", b"", parse_numbers(()))
    parts = f"{folder}/*.parquet"
    with duckdb.connect(":memory:", config={"temp_directory": ""}) as engine:
        engine.execute("SET TimeZone = 'UTC'")
        requested = (
            "SELECT num_rows, num_row_groups, format_version FROM parquet_file_metadata(?)",
            "SELECT key, value FROM parquet_kv_metadata(?)",
            "DESCRIBE FROM read_parquet(?)",
        )
        about = [engine.execute(each, [parts]).fetchall() for each in requested]
        numbers = engine.execute(f"SELECT {', '.join(MEASURE_FIELDS)} FROM read_parquet(?)", [parts]).fetchall()
        others = f"SELECT COLUMNS(* EXCLUDE ({', '.join(MEASURE_FIELDS)}))::VARCHAR FROM read_parquet(?)"
        rest = engine.execute(others, [parts])
        names = [each[0] for each in rest.description or ()]
        rows = [json.dumps(dict(zip(names, row, strict=True))) for row in rest.fetchall()]
    text = "\n".join([repr(about), *rows]).encode()
    return SinkContent("parquet", strip_stamps(text), np.array(numbers, np.float64))


def _parse_parquet(line: bytes) -> SinkRow:
    found = json.loads(line)
    group = tuple(json.loads(found["group"]).items())
    return SinkRow(found["release"], int(found["tick"]), group, (found["measure"],), line)


LINE_PARSERS = {"jsonl": _parse_jsonl, "csv": _parse_csv, "parquet": _parse_parquet}  # wide CSV needs its header


EXTRA_NUMBERS = 2  # numbers of a release that were not measured: how much there is, and its text
MAX_CACHED_TEXTS = 32  # that are remembered


@dataclass(frozen=True)
class ReleaseView:
    """The rows and groups of one release in one sink that a view has."""

    sink: int
    plan: ReleasePlan
    row_ticks: tuple[int, ...]
    groups: tuple[Group, ...]
    offset: int = 0  # its place in a view

    @cached_property
    def measures(self) -> list[str]:
        return self.plan.layout["measures"]

    @property
    def ticks(self) -> int:
        """Number of ticks that have a row."""
        return len(self.row_ticks)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        return self.ticks, len(self.groups), len(self.measures), len(MEASURE_FIELDS)

    @property
    def size(self) -> int:
        """Its numbers, and the extra ones."""
        return int(np.prod(self.shape)) + EXTRA_NUMBERS

    @property
    def places(self) -> slice:
        return slice(self.offset, self.offset + self.size)

    def numbers(self, views: Floats) -> Floats:
        """Return numbers as (runs, ticks, groups, measures, parts)."""
        return views[:, self.offset : self.places.stop - EXTRA_NUMBERS].reshape(len(views), *self.shape)


def list_groups(plan: ReleasePlan) -> tuple[Group, ...]:
    """List all groups of a release, ranked or not; if they are discovered, the one that its records have."""
    found = plan.layout.get("discovered")
    if found is not None:
        return (((found, ONE_TEXT),),)
    return tuple(place.labels for place in list_places(plan.layout))


def to_text_labels(group: Iterable[tuple[str, Any]]) -> Group:
    """Return labels as wide CSV has them, texts all, in the order of their columns."""
    return tuple(sorted((name, label if type(label) is str else to_json(label)) for name, label in group))


@dataclass(frozen=True)
class SinkView:
    """All that is looked at."""

    parts: tuple[ReleaseView, ...]

    @classmethod
    def from_parts(cls, parts: Sequence[ReleaseView]) -> "SinkView":
        placed, first = [], 0
        for part in parts:
            placed.append(replace(part, offset=first))
            first += part.size
        return cls(tuple(placed))

    @cached_property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def first_parts(self) -> list[ReleaseView]:
        """Each release in the first sink that has it."""
        return list({part.plan.name: part for part in reversed(self.parts)}.values())[::-1]

    def select(self, releases: set[str]) -> tuple["SinkView", Ints]:
        """Return the view of some releases, and the places of its numbers in this one."""
        own = [part for part in self.parts if part.plan.name in releases]
        return SinkView.from_parts(own), np.concatenate([np.arange(*part.places.indices(self.size)) for part in own])

    @cached_property
    def index(self) -> dict[tuple[int, str, int, Group, str], int]:
        """Places of the five numbers of each entry."""
        return {
            (part.sink, part.plan.name, tick, to_text_labels(group), measure): part.offset
            + len(MEASURE_FIELDS) * ((row * len(part.groups) + place) * len(part.measures) + column)
            for part in self.parts
            for row, tick in enumerate(part.row_ticks)
            for place, group in enumerate(part.groups)
            for column, measure in enumerate(part.measures)
        }

    def find(self, sink: int, name: str, tick: int, group: Group, measure: str) -> int | None:
        """Return where an entry begins; a level in its group is no label, unless a column has that name."""
        for labels in (group, [pair for pair in group if pair[0] != "level"]):
            place = self.index.get((sink, name, tick, to_text_labels(labels), measure))
            if place is not None:
                return place
        return None

    @cached_property
    def layout_cache(self) -> dict[bytes, "SinkLayout"]:
        """Layouts by copies, sink and text."""
        return {}

    def find_layout(self, copies: Copies, sink: int, found: SinkContent) -> "SinkLayout":
        shown = f"{type(copies).__name__} {copies.count} {sink} ".encode()
        key = blake2b(shown + found.text, digest_size=16).digest()
        if key not in self.layout_cache:
            if len(self.layout_cache) >= MAX_CACHED_TEXTS:
                self.layout_cache.clear()
            self.layout_cache[key] = build_layout(self, copies, sink, found)
        return self.layout_cache[key]

    def read(self, copies: Copies, sinks: Sequence[SinkContent]) -> Floats:
        """Return the views of all runs of a copy, from the content of each sink."""
        views = np.full((copies.count, self.size), np.nan)
        for sink, found in enumerate(sinks):
            laid = self.find_layout(copies, sink, found)
            views[:, laid.columns] = laid.extra_numbers
            places = laid.positions[:, None] + np.arange(len(MEASURE_FIELDS))
            views.reshape(-1)[places] = found.numbers[laid.entries]
        return views

    def numbers(self, views: Floats) -> Floats:
        """Return the measured numbers of all releases."""
        return np.concatenate([part.numbers(views).reshape(len(views), -1) for part in self.parts], axis=1)


@dataclass(frozen=True, eq=False)
class SinkLayout:
    """Places of the numbers of a sink, and its extra numbers."""

    positions: Ints  # in all views, flat
    entries: Ints  # which of the sink's measures these are
    columns: Ints
    extra_numbers: Floats


def build_layout(view: SinkView, copies: Copies, sink: int, found: SinkContent) -> SinkLayout:
    rows = found.read_rows()[0]
    owners = [copies.locate(row.release, row.group) for row in rows]
    places = [
        (copy * view.size, view.find(sink, name, row.tick, group, measure))
        for row, (copy, name, group) in zip(rows, owners, strict=True)
        for measure in row.measures
    ]
    whole = len(places) == len(found.numbers)  # else something stands where no number should
    chosen = [(entry, first + place) for entry, (first, place) in enumerate(places) if whole and place is not None]
    entries, at = np.array(chosen, np.int64).reshape(-1, 2).T
    firsts = [part.places.stop - EXTRA_NUMBERS for part in view.parts if part.sink == sink]
    columns = np.array([first + more for first in firsts for more in range(EXTRA_NUMBERS)], np.int64)
    names = [part.plan.name for part in view.parts if part.sink == sink]
    own_rows: dict[tuple[int, str], list[SinkRow]] = {key: [] for key in product(range(copies.count), names)}
    for row, (copy, name, _) in zip(rows, owners, strict=True):
        own_rows[copy, name].append(row)
    extra = [  # the number of measures, and a code of the text
        (sum(len(row.measures) for row in own), hash_code(b"\n".join(copies.strip_marks(row.text) for row in own)))
        for own in own_rows.values()
    ]
    return SinkLayout(at, entries, columns, np.array(extra, np.float64).reshape(copies.count, len(columns)))
