"""Pairs of mappers as rows: typed rows out of DuckDB, through the compiled program, and back.

    tick, columns -> (tick, key, value), at most max_pairs for a row

Rows pass in slices, so that the memory in addition to DuckDB's is bounded. Aggregations read the pairs as they read
rows of records.

Promise
    A pair is a function of one record and of public settings. Rows without a tick are left out before: users are
    bounded before the program runs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from streamgauge.config.mapper import MapperSettings
from streamgauge.engines.duckdb.connection import DuckConnection, quote_name
from streamgauge.engines.duckdb.rows import TICK
from streamgauge.mapreduce.columns import RecordColumn, TextColumn
from streamgauge.mapreduce.executor import MapperExecutor
from streamgauge.mapreduce.program import MapperProgram, ValueKind
from streamgauge.noise import Ints
from streamgauge.plan.pairs import PAIR_KEY, PAIR_VALUE

SLICE_ROWS = 2**17
ROWS_TABLE, PAIRS_TABLE = '"$mapped rows"', "$pairs"
NUMBER_SQL = {
    "number": "COALESCE({}, 'nan'::DOUBLE)",
    "time": "COALESCE(epoch_us({})::DOUBLE, 'nan'::DOUBLE)",
    "bool": "COALESCE({}, false)",
    "text": "COALESCE({}, '')",
}


@dataclass
class PairSource:
    """Mapper of a connection's rows."""

    connection: DuckConnection
    mapper: MapperSettings
    constant_work: bool
    slice_rows: int = SLICE_ROWS
    executor: MapperExecutor = field(init=False)

    def __post_init__(self) -> None:
        self.executor = MapperExecutor(self.mapper.program, constant_work=self.constant_work)
        self.executor.prepare()

    def iterate_tables(self, rows: str, chosen: str) -> Iterator[str]:
        """Register the pairs of some rows, slice by slice, and yield the name of their table."""
        columns = [
            f"{NUMBER_SQL[kind].format(quote_name(name))} AS c{place}"
            for place, (name, kind) in enumerate(self.mapper.program.columns)
        ]
        wanted = ", ".join([f"{TICK} AS tick", *columns])
        run, fetch = self.connection.run, self.connection.fetch_arrays
        run(f"CREATE OR REPLACE TABLE {ROWS_TABLE} AS SELECT {wanted} FROM {rows} WHERE ({chosen}) AND {TICK} >= 1")
        count = int(fetch(f"SELECT count(*) AS n FROM {ROWS_TABLE}")["n"][0])
        for begin in range(0, max(count, 1), self.slice_rows):
            self._register_pairs(begin, min(count, begin + self.slice_rows))
            yield quote_name(PAIRS_TABLE)
        run(f"DROP TABLE {ROWS_TABLE}")

    def _register_pairs(self, begin: int, end: int) -> None:
        part = f"FROM {ROWS_TABLE} WHERE rowid >= {begin} AND rowid < {end}"
        kinds = [kind for _, kind in self.mapper.program.columns]
        shown = [f"strlen(c{place}) AS c{place}" if kind == "text" else f"c{place}" for place, kind in enumerate(kinds)]
        found = self.connection.fetch_arrays(f"SELECT {', '.join(['tick', *shown])} {part} ORDER BY rowid")
        typed: dict[str, RecordColumn] = {}
        for place, (name, kind) in enumerate(self.mapper.program.columns):
            typed[name] = self._read_column(place, kind, found[f"c{place}"], part)
        before = self.connection.interrupts

        def check_interrupt() -> None:
            if self.connection.interrupts > before:
                raise KeyboardInterrupt

        pairs = self.executor.run(typed, check_interrupt)
        if self.constant_work and begin == end:
            self.executor.run(build_blank_record(self.mapper.program))  # as long as for one record
        ticks = np.asarray(found["tick"], np.int64)[pairs.records]
        registered = {TICK.strip('"'): ticks, PAIR_KEY.strip('"'): pairs.keys, PAIR_VALUE.strip('"'): pairs.values}
        self.connection.register(PAIRS_TABLE, registered)

    def _read_column(self, place: int, kind: ValueKind, found: Ints, part: str) -> RecordColumn:
        if kind != "text":
            return np.asarray(found)
        joined = self.connection.fetch_arrays(f"SELECT string_agg(c{place}, '' ORDER BY rowid) AS t {part}")["t"]
        data = joined[0].encode() if len(found) else b""
        return TextColumn(data, np.concatenate([np.zeros(1, np.int64), np.cumsum(found, dtype=np.int64)]))


def build_blank_record(program: MapperProgram) -> dict[str, RecordColumn]:
    """Return one record whose values are all zero."""
    none = TextColumn(b"", np.zeros(2, np.int64))
    kinds: dict[str, RecordColumn] = {
        "text": none,
        "bool": np.zeros(1, np.bool_),
        "number": np.zeros(1),
        "time": np.zeros(1),
    }
    return {name: kinds[kind] for name, kind in program.columns}
