"""SQL that adds up events by tick, place and cell, and the tables of its sums.

    place   the number of a group: the codes of its labels as digits, the last running fastest
    i       floor(x/step + 1/2), cut off at `first` and `last` while it is a DOUBLE, then a whole number
    sums    of i and of i^2, modulo 2^64

**All measures in one scan.** Measures with equal filters, groups and cells share a *frame*. Frames are GROUPING SETS
of one query, so that records are parsed once (measured: three frames cost 1.25 times one of them, three queries 2.7
times). A row that a frame drops has a NULL place. It is counted and then left out.

Promise
    Total: every sum is wrapped, never refused. x is never NaN after a cut, and |first|, |last| < 2^52, a range
    in which DOUBLEs are exact.

**Keyed measures.** If groups are discovered, or reports are vectors of bits, events are counted by tick and text. Each
such measure has its own scan.

Promise
    Total, like every aggregation. A record adds one to one key, which is a text of that record alone. A
    dropped record has a NULL key. It is counted and then left out.

**Answers.** A scan may be many queries: over several files, block after block, for one part of the users after
another. Their sums are inserted into one DuckDB table for each aggregation. The table is compacted when it has
grown. The engine returns its content pass by pass.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import lcm
from typing import ClassVar

import numpy as np

from streamgauge.config.mapper import MapperSettings
from streamgauge.engines.duckdb.connection import DuckConnection, double_literal
from streamgauge.engines.duckdb.pairs import PairSource
from streamgauge.engines.duckdb.rows import TICK, matched_column
from streamgauge.localdp.report_bytes import pack_codes
from streamgauge.plan.measure import (
    NO_PLACE,
    Absences,
    Cell,
    Counts,
    GridValue,
    Measure,
    Tally,
    build_counts,
    find_value_rows,
)
from streamgauge.records.reports import decode_reports

MAX_FRAMES = 16  # in one scan; DuckDB allows 63
MAX_ROW_SUMS = 64  # sums that are updated for a row in one scan, in all frames together
ROW_NAME = '"$row"'  # not a possible name of a declared column
MAX_SQUARE_BASE = 3_037_000_499  # the largest number whose square is below 2^63


def filter_sql(measure: Measure) -> str:
    """Return SQL that is true for the events of a measure."""
    wanted = [f"{TICK} >= 1", *(matched_column(each) for each in sorted(measure.lookups))]
    return " AND ".join([*wanted, *([] if measure.where is None else [f"({measure.where})"])])


@dataclass(frozen=True)
class Frame:
    """Filter of events, and the places in which they count."""

    measure: Measure  # without values

    @classmethod
    def from_measure(cls, measure: Measure) -> "Frame":
        return cls(Measure(measure.where, measure.groups, (), measure.cell, measure.lookups, mapper=measure.mapper))

    def place(self, cell: str) -> str:
        """Return SQL of a BIGINT, or NULL if the event is dropped."""
        digits = "0::BIGINT"
        for group in self.measure.groups:
            digits = f"({digits} * {len(group.labels)} + ({group.code})::BIGINT)"
        has_cell = [f"{cell} IS NOT NULL"] if self.measure.cell is not None else []
        return f"CASE WHEN {' AND '.join([filter_sql(self.measure), *has_cell])} THEN {digits} END"

    @property
    def cell(self) -> str:
        return "NULL::BIGINT" if self.measure.cell is None else cell_index_sql(self.measure.cell)


@dataclass(frozen=True)
class Aggregation:
    """Measures that one scan computes."""

    frames: tuple[Frame, ...]
    values: tuple[GridValue, ...]
    counters: tuple[str, ...] = ()  # SQL that counts records, in addition to their sums

    @property
    def mapper(self) -> MapperSettings | None:
        """Mapper whose pairs are the rows, the same for all frames."""
        return self.frames[0].measure.mapper

    @property
    def sums(self) -> list[str]:
        """SQL of all sums but the number of events.

        For each value: its items, i and i^2, as the measure needs them.
        """
        return [
            each for place, value in enumerate(self.values) for each in build_sums_sql(value, internal_name("i", place))
        ]

    @property
    def columns(self) -> list[str]:
        """Names of the answer's columns: frame, tick, place, cell, n, s0, s1 ..."""
        sums = [f"s{place}" for place in range(len(self.sums))]
        return ["frame", "tick", "place", "cell", "n", *sums, *counter_names(self.counters)]

    @property
    def keys(self) -> list[str]:
        """Columns that identify a row of the answer."""
        return self.columns[:4]

    @property
    def types(self) -> list[str]:
        return ["BIGINT"] * len(self.columns)

    def rows(self, measure: Measure) -> list[str]:
        """Return the columns of the answer that form a measure's tally."""
        return ["n", *(f"s{row}" for row in find_value_rows(measure.values, self.values))]

    def sql(self, rows: str, chosen: str) -> str:
        """Return SQL of the answer for the rows of a row source, filtered by `chosen`."""
        cells = [f"{self.frames[at].cell} AS {internal_name('d', at)}" for at in self._cells]
        numbers = [f"{grid_index_sql(value)} AS {internal_name('i', at)}" for at, value in enumerate(self.values)]
        one = f"SELECT {', '.join(['*', *cells, *numbers])} FROM {rows} WHERE {chosen}"
        places = [
            f"{frame.place(internal_name('d', at))} AS {internal_name('p', at)}" for at, frame in enumerate(self.frames)
        ]
        two = f"SELECT *, {', '.join(places)} FROM ({one})"
        counted = [f'CASE WHEN "$p{at}" IS NOT NULL THEN "$d{at}" END AS "$c{at}"' for at in self._cells]
        three = f"SELECT {', '.join(['*', *counted])} FROM ({two})"
        return f"SELECT {', '.join(self._select_columns())} FROM ({three}) GROUP BY {self._grouping_sql()}"

    @property
    def _cells(self) -> list[int]:
        """Frames that have cells."""
        return [at for at, frame in enumerate(self.frames) if frame.measure.cell is not None]

    def _select_columns(self) -> list[str]:
        places = ", ".join(internal_name("p", at) for at in range(len(self.frames)))
        cells = ", ".join([*(internal_name("c", at) for at in self._cells), "0"])
        where = [f"CASE {self._frame_number_sql()} END", TICK]
        where += [f"COALESCE({places}, {NO_PLACE})", f"COALESCE({cells})::BIGINT", "count(*)"]
        found = [*where, *self.sums, *build_counts_sql(self.counters)]
        return [f"{sql} AS {column}" for sql, column in zip(found, self.columns, strict=True)]

    def _frame_number_sql(self) -> str:
        """Return SQL of the number of the frame to which a row of the answer belongs."""
        places = ", ".join(internal_name("p", at) for at in range(len(self.frames)))
        last = len(self.frames) - 1
        marks = [(1 << len(self.frames)) - 1 - (1 << (last - at)) for at in range(len(self.frames))]
        return f"GROUPING({places}) " + " ".join(f"WHEN {mark} THEN {at}" for at, mark in enumerate(marks))

    def _grouping_sql(self) -> str:
        cells = [f", {internal_name('c', at)}" if at in self._cells else "" for at in range(len(self.frames))]
        sets = [f"({TICK}, {internal_name('p', at)}{cell})" for at, cell in enumerate(cells)]
        return f"GROUPING SETS ({', '.join(sets)})"


def counter_names(counters: Sequence[str]) -> list[str]:
    """Return the columns of an answer that contain its counters."""
    return [f"h{place}" for place in range(len(counters))]


def build_counts_sql(counters: Sequence[str]) -> list[str]:
    """Return SQL that counts the records for which a counter is not NULL."""
    return [f"count({counter})" for counter in counters]


def internal_name(letter: str, at: int) -> str:
    """Return a name that no declared column can have."""
    return f'"${letter}{at}"'


def build_aggregations(measures: Sequence[Measure], frames: int = MAX_FRAMES) -> Iterator[Aggregation]:
    """Return few scans for all measures. Frames are merged while the sums stay few."""
    needed: dict[Frame, dict[GridValue, None]] = {}
    for measure in measures:
        needed.setdefault(Frame.from_measure(measure), {}).update(dict.fromkeys(measure.values))
    chosen: dict[Frame, dict[GridValue, None]] = {}
    for frame, values in needed.items():
        if len(chosen) == frames or (chosen and _count_sums({**chosen, frame: values}) > MAX_ROW_SUMS):
            yield _combine_frames(chosen)
            chosen = {}
        chosen[frame] = values
    if chosen:
        yield _combine_frames(chosen)


def _combine_frames(chosen: dict[Frame, dict[GridValue, None]]) -> Aggregation:
    return Aggregation(tuple(chosen), tuple(dict.fromkeys(value for values in chosen.values() for value in values)))


def _count_sums(chosen: dict[Frame, dict[GridValue, None]]) -> int:
    made = _combine_frames(chosen)
    return len(made.frames) * (1 + len(made.sums))


def grid_index_sql(value: GridValue) -> str:
    """Return SQL of a BIGINT, or NULL if there is no value."""
    x = f"({value.sql})"
    scaled = f"{x} / {double_literal(value.step.numerator)} * {double_literal(value.step.denominator)} + 0.5::DOUBLE"
    return f"CASE WHEN NOT isnan({x}) THEN {floor_sql(scaled, value.first, value.last)} END"


def cell_index_sql(cell: Cell) -> str:
    """Return SQL of a BIGINT from 0 below the number of cells, or NULL."""
    x = f"({cell.sql})"
    if cell.step is None or cell.lower is None:
        return f"CASE WHEN {x} BETWEEN 0 AND {cell.count - 1} THEN CAST({x} AS BIGINT) END"
    moved = f"({x} - {double_literal(cell.lower)}) / {double_literal(cell.step.numerator)}"
    moved += f" * {double_literal(cell.step.denominator)}"
    guess = f"greatest(least(floor({moved}), {double_literal(cell.count - 1)}), 0::DOUBLE)"
    above = f"{ROW_NAME}.x >= {cell_edge_sql(cell, f'{ROW_NAME}.c + 1')}"
    above += f" AND {ROW_NAME}.c < {double_literal(cell.count - 1)}"
    below = f"{ROW_NAME}.x < {cell_edge_sql(cell, f'{ROW_NAME}.c')} AND {ROW_NAME}.c > 0"
    moves = f"lambda {ROW_NAME}: {ROW_NAME}.c + CASE WHEN {above} THEN 1 WHEN {below} THEN -1 ELSE 0 END"
    put_right = f"list_transform([struct_pack(x := {x}, c := {guess})], {moves})[1]"
    return f"CASE WHEN NOT isnan({x}) THEN CAST({put_right} AS BIGINT) END"


def cell_edge_sql(cell: Cell, number: str) -> str:
    """Return SQL of the edge of a cell: the double next to the exact edge.

    An axis has the same edges. One division rounds once.
    """
    low, step = cell.lower or Fraction(0), cell.step or Fraction(1)
    parts = lcm(low.denominator, step.denominator)
    return f"(({double_literal(low * parts)} + ({number}) * {double_literal(step * parts)}) / {double_literal(parts)})"


def floor_sql(number: str, first: int, last: int) -> str:
    """Return SQL of the floor of a DOUBLE that is not NaN, clamped before the cast."""
    return f"CAST(greatest(least(floor({number}), {double_literal(last)}), {double_literal(first)}) AS BIGINT)"


def build_sums_sql(value: GridValue, i: str) -> list[str]:
    square = f"{i} * {i}"
    if max(abs(value.first), abs(value.last)) > MAX_SQUARE_BASE:
        square = f"({i}::HUGEINT * {i}) % {2**64}"
    return [f"count({i})", wrap_sum_sql(f"sum({i})"), wrap_sum_sql(f"sum({square})")][: 1 + value.power]


def wrap_sum_sql(sum_: str) -> str:
    """Return SQL of a HUGEINT sum modulo 2^64 as BIGINT, or 0 without addends."""
    whole = f"COALESCE({sum_}, 0)::HUGEINT"
    moved = f"(({whole} + {2**63}) % {2**64} + {2**64}) % {2**64} - {2**63}"
    inside = f"{whole} BETWEEN {-(2**63)} AND {2**63 - 1}"  # nearly always true, and far cheaper
    return f"CASE WHEN {inside} THEN TRY_CAST({whole} AS BIGINT) ELSE CAST({moved} AS BIGINT) END"


@dataclass(frozen=True)
class KeyedAggregation:
    """One measure whose events are counted by their texts."""

    measure: Measure
    counters: tuple[str, ...] = ()  # SQL by which records are counted
    keys: ClassVar[tuple[str, ...]] = ("frame", "tick", "key")
    mapper: ClassVar[None] = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the answer's columns."""
        return (*self.keys, "n", *counter_names(self.counters))

    @property
    def types(self) -> tuple[str, ...]:
        return ("BIGINT", "BIGINT", "VARCHAR", "BIGINT", *("BIGINT" for _ in self.counters))

    def sql(self, rows: str, chosen: str) -> str:
        """Return SQL of the answer for the rows of a row source, filtered by `chosen`."""
        key = f"CASE WHEN {filter_sql(self.measure)} THEN {self.measure.text} END"
        counted = [f"{counter} AS {internal_name('h', at)}" for at, counter in enumerate(self.counters)]
        one = f"SELECT {', '.join([f'{TICK} AS tick', f'{key} AS key', *counted])} FROM {rows} WHERE {chosen}"
        counts = build_counts_sql([internal_name("h", at) for at in range(len(self.counters))])
        named = map(" AS ".join, zip(counts, counter_names(self.counters), strict=True))
        found = ", ".join(["0 AS frame, tick, key, count(*) AS n", *named])
        return f"SELECT {found} FROM ({one}) GROUP BY tick, key"


@dataclass
class Answers:
    """Tables of sums by aggregation."""

    MIN_COMPACTION_ROWS: ClassVar[int] = 2**20  # tables up to this size are never compacted
    connection: DuckConnection
    measures: Sequence[Measure]
    frames: int = MAX_FRAMES  # maximum in one query
    counters: Mapping[str, str] = field(
        default_factory=dict
    )  # SQL that is not NULL if a record lacks something, by its description
    constant_work: bool = False  # if true, mappers spend all steps of each record
    aggregations: tuple[Aggregation | KeyedAggregation, ...] = field(init=False)
    _pair_sources: dict[MapperSettings, PairSource] = field(init=False, default_factory=dict)
    _compacted_rows: dict[int, int] = field(init=False, default_factory=dict)  # size after the last compaction

    def __post_init__(self) -> None:
        placed = [measure for measure in self.measures if measure.text is None and measure.mapper is None]
        keyed = dict.fromkeys(measure for measure in self.measures if measure.text is not None)
        found: list[Aggregation | KeyedAggregation] = [*build_aggregations(placed, self.frames)]
        found += map(KeyedAggregation, keyed)
        found = found or [*build_aggregations([Measure(None, ())])]  # counts records, if all measures are of pairs
        found[0] = replace(found[0], counters=tuple(self.counters.values()))
        for mapper in dict.fromkeys(measure.mapper for measure in self.measures if measure.mapper is not None):
            found += build_aggregations([each for each in self.measures if each.mapper == mapper], self.frames)
            self._pair_sources[mapper] = PairSource(self.connection, mapper, self.constant_work)
        self.aggregations = tuple(found)

    def halve_frames(self) -> "Answers":
        """Use more queries with half the frames each, which need less memory."""
        return replace(self, frames=self.frames // 2)

    def clear(self) -> None:
        """Delete all sums."""
        for at, each in enumerate(self.aggregations):
            columns = ", ".join(map(" ".join, zip(each.columns, each.types, strict=True)))
            self.connection.run(f"CREATE OR REPLACE TABLE answer{at} ({columns})")
        self._compacted_rows = {}

    def add(self, rows: str, chosen: str = "true") -> None:
        """Add up the rows of a row source, for all measures."""
        for at, each in enumerate(self.aggregations):
            if each.mapper is None:
                self.connection.run(f"INSERT INTO answer{at} {each.sql(rows, chosen)}")
                self._compact(at, each)
        for mapper, source in self._pair_sources.items():
            for pairs in source.iterate_tables(rows, chosen):
                self._add_pairs(mapper, pairs)

    def _add_pairs(self, mapper: MapperSettings, pairs: str) -> None:
        for at, each in enumerate(self.aggregations):
            if each.mapper == mapper:
                self.connection.run(f"INSERT INTO answer{at} {each.sql(pairs, 'true')}")
                self._compact(at, each)

    def counts(self) -> Counts:
        """Return the number of records that were read, and of dropped ones by rule."""
        sql = "SELECT tick, CAST(sum(n) AS BIGINT) AS n FROM answer0 WHERE frame = 0 GROUP BY tick"
        found = self.connection.fetch_arrays(sql)
        return build_counts(zip(found["tick"].tolist(), found["n"].tolist(), strict=True))

    def absences(self) -> Absences:
        """Return the number of records without each thing, of all that `counts` counts."""
        columns = counter_names(tuple(self.counters))
        if not columns:
            return {}
        sums = ", ".join(f"CAST(COALESCE(sum({each}), 0) AS BIGINT) AS {each}" for each in columns)
        found = self.connection.fetch_arrays(f"SELECT {sums} FROM answer0 WHERE frame = 0")
        return {what: int(found[each][0]) for what, each in zip(self.counters, columns, strict=True)}

    def tallies(self, first: int, last: int) -> list[Tally]:
        """Return the sums of some ticks, one tally for each measure."""
        return [
            self._read_tally(measure, first, last) if measure.text is None else self._read_keys(measure, first, last)
            for measure in self.measures
        ]

    def _read_keys(self, measure: Measure, first: int, last: int) -> Tally:
        """Return the counts of keys, or the bit vectors of reports.

        A place is the rank of a key in these ticks. Texts that are not reports are left out.
        """
        at = next(at for at, each in enumerate(self.aggregations) if getattr(each, "measure", None) == measure)
        chosen = f"FROM answer{at} WHERE tick BETWEEN {first} AND {last} AND key IS NOT NULL"
        if measure.key is None:
            found = self.connection.fetch_arrays(f"SELECT tick, key, n {chosen}")
            rows, good = decode_reports(found["key"].tolist(), _report_bytes(measure))
            none = np.zeros(len(rows), np.int64)
            return Tally(found["tick"], none, none, found["n"][None], reports=rows).select(good)
        keys = self.connection.fetch_arrays(f"SELECT DISTINCT key {chosen} ORDER BY key")["key"]
        place = "dense_rank() OVER (ORDER BY key) - 1 AS place"
        found = self.connection.fetch_arrays(f"SELECT tick, {place}, n {chosen}")
        cells = np.zeros(len(found["n"]), np.int64)
        return Tally(found["tick"], found["place"], cells, found["n"][None], tuple(keys.tolist()))

    def _read_tally(self, measure: Measure, first: int, last: int) -> Tally:
        frame = Frame.from_measure(measure)
        found = ((at, each) for at, each in enumerate(self.aggregations) if isinstance(each, Aggregation))
        at, own = next((at, each) for at, each in found if frame in each.frames)
        rows = own.rows(measure)
        answer = self.connection.fetch_arrays(
            f"SELECT tick, place, cell, {', '.join(dict.fromkeys(rows))} FROM answer{at} "
            f"WHERE frame = {own.frames.index(frame)} AND tick BETWEEN {first} AND {last} AND place >= 0"
        )
        sums = np.stack([answer[row] for row in rows])
        reports = pack_codes(answer["cell"], size) if (size := _report_bytes(measure)) else None
        return Tally(answer["tick"], answer["place"], answer["cell"], sums, reports=reports)

    def _compact(self, at: int, aggregation: Aggregation | KeyedAggregation) -> None:
        """Merge rows of equal places whenever the table has doubled."""
        rows = int(self.connection.fetch_arrays(f"SELECT count(*) AS n FROM answer{at}")["n"][0])
        if rows <= max(self.MIN_COMPACTION_ROWS, 2 * self._compacted_rows.get(at, rows)):
            self._compacted_rows.setdefault(at, rows)
            return
        keys, rest = ", ".join(aggregation.keys), aggregation.columns[len(aggregation.keys) :]
        sums = ", ".join(f"{wrap_sum_sql(f'sum({column})')} AS {column}" for column in rest)
        self.connection.run(
            f"CREATE OR REPLACE TABLE answer{at} AS SELECT {keys}, {sums} FROM answer{at} GROUP BY {keys}"
        )
        self._compacted_rows[at] = int(self.connection.fetch_arrays(f"SELECT count(*) AS n FROM answer{at}")["n"][0])


def _report_bytes(measure: Measure) -> int:
    """Return the bytes of a report, or 0 if the measure has no reports."""
    return 0 if measure.cell is None else measure.cell.size
