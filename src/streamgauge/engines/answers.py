"""The answers of a scan, held in DuckDB until they are handed over pass by pass.

A scan may be many queries: over several files, block after block, for one part of the users after another.
What they add up is inserted into one table for each aggregation, and put together when the table has grown.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from streamgauge.engines.aggregation import FRAMES, Aggregation, Frame, aggregations, counter_names, wrapped
from streamgauge.engines.connection import Connection
from streamgauge.engines.keyed_aggregation import KeyedAggregation
from streamgauge.engines.passes import Absences, Counts, counted
from streamgauge.localdp.reports import packed
from streamgauge.query.measure import Measure, Tally
from streamgauge.query.report_texts import reports_of

GROWN = 2**20  # rows that are never put together


@dataclass
class Answers:
    """Tables of sums, by aggregation."""

    connection: Connection
    measures: Sequence[Measure]
    frames: int = FRAMES  # of one query, at most
    counters: Mapping[str, str] = field(
        default_factory=dict
    )  # SQL that is not NULL where a record lacks something, by what that is
    aggregations: tuple[Aggregation | KeyedAggregation, ...] = field(init=False)
    _rows: dict[int, int] = field(init=False, default_factory=dict)  # when last put together

    def __post_init__(self) -> None:
        placed = [measure for measure in self.measures if measure.text is None]
        keyed = dict.fromkeys(measure for measure in self.measures if measure.text is not None)
        found: list[Aggregation | KeyedAggregation] = [*aggregations(placed, self.frames)]
        found += map(KeyedAggregation, keyed)
        found[0] = replace(found[0], counters=tuple(self.counters.values()))
        self.aggregations = tuple(found)

    def narrower(self) -> "Answers":
        """The same in more queries, each of which takes less memory."""
        return Answers(self.connection, self.measures, self.frames // 2, self.counters)

    def clear(self) -> None:
        """Forgets everything."""
        for at, asked in enumerate(self.aggregations):
            columns = ", ".join(map(" ".join, zip(asked.columns, asked.types, strict=True)))
            self.connection.run(f"CREATE OR REPLACE TABLE answer{at} ({columns})")
        self._rows = {}

    def add(self, rows: str, chosen: str = "true") -> None:
        """Adds up the rows of a row source, for all measures."""
        for at, asked in enumerate(self.aggregations):
            self.connection.run(f"INSERT INTO answer{at} {asked.sql(rows, chosen)}")
            self._put_together(at, asked)

    def counts(self) -> Counts:
        """How many records were read, and dropped by rule."""
        sql = "SELECT tick, CAST(sum(n) AS BIGINT) AS n FROM answer0 WHERE frame = 0 GROUP BY tick"
        found = self.connection.arrays(sql)
        return counted(zip(found["tick"].tolist(), found["n"].tolist(), strict=True))

    def absences(self) -> Absences:
        """Return the number of records without each thing, of all that `counts` counts."""
        columns = counter_names(tuple(self.counters))
        if not columns:
            return {}
        sums = ", ".join(f"CAST(COALESCE(sum({each}), 0) AS BIGINT) AS {each}" for each in columns)
        found = self.connection.arrays(f"SELECT {sums} FROM answer0 WHERE frame = 0")
        return {what: int(found[each][0]) for what, each in zip(self.counters, columns, strict=True)}

    def tallies(self, first: int, last: int) -> list[Tally]:
        """The sums of some ticks, one tally for each measure."""
        return [self._told(measure)(measure, first, last) for measure in self.measures]

    def _told(self, measure: Measure) -> Callable[[Measure, int, int], Tally]:
        if measure.text is None:
            return self._tally
        return self._keyed if measure.key is not None else self._vectors

    def _vectors(self, measure: Measure, first: int, last: int) -> Tally:
        """Reports that are vectors of bits, as their texts tell them; what is no report is left out."""
        at = self._keyed_at(measure)
        chosen = f"FROM answer{at} WHERE tick BETWEEN {first} AND {last} AND key IS NOT NULL"
        found = self.connection.arrays(f"SELECT tick, key, n {chosen}")
        rows, good = reports_of(found["key"].tolist(), _size(measure))
        none = np.zeros(len(rows), np.int64)
        return Tally(found["tick"], none, none, found["n"][None], reports=rows).only(good)

    def _keyed(self, measure: Measure, first: int, last: int) -> Tally:
        """The counts of keys; a place is the number of a key among those of these ticks, in their order."""
        at = self._keyed_at(measure)
        chosen = f"FROM answer{at} WHERE tick BETWEEN {first} AND {last} AND key IS NOT NULL"
        keys = self.connection.arrays(f"SELECT DISTINCT key {chosen} ORDER BY key")["key"]
        place = "dense_rank() OVER (ORDER BY key) - 1 AS place"
        found = self.connection.arrays(f"SELECT tick, {place}, n {chosen}")
        cells = np.zeros(len(found["n"]), np.int64)
        return Tally(found["tick"], found["place"], cells, found["n"][None], tuple(keys.tolist()))

    def _tally(self, measure: Measure, first: int, last: int) -> Tally:
        frame = Frame.of(measure)
        at, asked = next(
            (at, asked)
            for at, asked in enumerate(self.aggregations)
            if isinstance(asked, Aggregation) and frame in asked.frames
        )
        rows = asked.rows(measure)
        found = self.connection.arrays(
            f"SELECT tick, place, cell, {', '.join(dict.fromkeys(rows))} FROM answer{at} "
            f"WHERE frame = {asked.frames.index(frame)} AND tick BETWEEN {first} AND {last} AND place >= 0"
        )
        sums = np.stack([found[row] for row in rows])
        reports = packed(found["cell"], size) if (size := _size(measure)) else None
        return Tally(found["tick"], found["place"], found["cell"], sums, reports=reports)

    def _keyed_at(self, measure: Measure) -> int:
        """Return the place of the aggregation of a measure whose events are counted by their texts."""
        return next(
            at
            for at, asked in enumerate(self.aggregations)
            if isinstance(asked, KeyedAggregation) and asked.measure == measure
        )

    def _put_together(self, at: int, asked: Aggregation | KeyedAggregation) -> None:
        """Equal places become one row, whenever the table has doubled."""
        rows = int(self.connection.arrays(f"SELECT count(*) AS n FROM answer{at}")["n"][0])
        if rows <= max(GROWN, 2 * self._rows.get(at, rows)):
            self._rows.setdefault(at, rows)
            return
        keys, rest = ", ".join(asked.keys), asked.columns[len(asked.keys) :]
        sums = ", ".join(f"{wrapped(f'sum({column})')} AS {column}" for column in rest)
        self.connection.run(
            f"CREATE OR REPLACE TABLE answer{at} AS SELECT {keys}, {sums} FROM answer{at} GROUP BY {keys}"
        )
        self._rows[at] = int(self.connection.arrays(f"SELECT count(*) AS n FROM answer{at}")["n"][0])


def _size(measure: Measure) -> int:
    """Bytes of a report; 0 where there are none."""
    return 0 if measure.cell is None else measure.cell.size
