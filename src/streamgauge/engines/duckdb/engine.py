"""Single-machine engine: events to exact sums by tick, group and cell, in DuckDB.

Promise
    An event's contribution is a function of that event and of public settings. If users are bounded, it also
    depends on the other events of its user. It adds at most one to each count of one place, and i inside
    declared bounds. No content of a record raises, changes how another is read, or is written anywhere. (Parquet has
    limits: docs/engines.md.)
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from threading import Event as Flag
from typing import Any, ClassVar, Self

import numpy as np

from streamgauge.config.settings import Lookup, Stream
from streamgauge.engines.duckdb.aggregation import Answers
from streamgauge.engines.duckdb.connection import DuckConnection
from streamgauge.engines.duckdb.readers import NUMBER_COLUMN, Header, RecordReader
from streamgauge.engines.duckdb.rows import TICK, RowSource, build_live_tick_rule, reuse_label_codes
from streamgauge.engines.duckdb.scan_files import FileScan
from streamgauge.engines.duckdb.scan_live import LinePiece, LiveScan, line_numbers
from streamgauge.engines.duckdb.user_bounds import NoBounds, UserBounds
from streamgauge.interfaces import EngineKind, EngineRequest, Range
from streamgauge.noise import Ints
from streamgauge.plan.measure import MAX_PASS_NUMBERS, RULES, Measure, Pass, split_ticks
from streamgauge.plan.pairs import spends_all_steps
from streamgauge.privacy import Tick, User
from streamgauge.records.blocks import Block, DroppedRecord

SECRET_BYTES = 32
MAX_LOCATED_RECORDS = 10_000
EMPTY_EVENT_LINE = b"{}\n"  # in CSV too


class DuckEngine:
    """Engine for some measures of a stream, used by one thread at a time.

    The end of its `with` block frees its memory.
    """

    CONNECTION: ClassVar[type[DuckConnection]] = DuckConnection
    ANSWERS: ClassVar[type[Answers]] = Answers
    FILE_SCAN: ClassVar[type[FileScan]] = FileScan
    LIVE_SCAN: ClassVar[type[LiveScan]] = LiveScan
    MAX_PASS_NUMBERS: ClassVar[int] = MAX_PASS_NUMBERS

    def __init__(
        self,
        stream: Stream,
        lookups: Mapping[str, Lookup],
        measures: Sequence[Measure],
        *,
        secret: bytes,
        memory: str = "600MB",
        threads: int | None = None,
        count_columns: bool = False,
    ) -> None:
        """Build the engine.

        With `count_columns` a pass counts the records that have the fields of the measures.
        """
        check_engine_settings(stream, measures, secret)
        self._stream, self._lookups, self._secret, self._count_columns = stream, lookups, secret, count_columns
        self._source = RowSource(stream, lookups, measures, secret, count_columns)
        self._connection = self.CONNECTION(stream.timezone, memory, threads, self._source.build_declarations())
        unit = stream.unit
        users = UserBounds(stream, unit) if isinstance(unit, User | Tick) else None
        self.bounds: UserBounds | NoBounds = users or NoBounds()
        self._reader, self._answers = self._build_reader(self._source), self._build_answers(self._source)
        self._live_scan = self.LIVE_SCAN(self._source, self._reader, self._answers, users)

    def _build_reader(self, source: RowSource) -> RecordReader:
        return RecordReader(self._stream, source.fields, self._connection)

    def _build_answers(self, source: RowSource) -> Answers:
        measures = [reuse_label_codes(each, source.typed_columns) for each in source.measures]
        constant_work = spends_all_steps(self._stream)
        return self.ANSWERS(self._connection, measures, counters=source.counters, constant_work=constant_work)

    def change_measures(self, measures: Sequence[Measure]) -> None:
        """Answer other measures from the next block on. Users stay bounded as they are."""
        check_engine_settings(self._stream, measures, self._secret)
        source = RowSource(self._stream, self._lookups, measures, self._secret, self._count_columns)
        reader, answers = self._build_reader(source), self._build_answers(source)
        answers = replace(answers, frames=self._live_scan.answers.frames)  # as few as the memory allows
        self._connection.add_declarations(source.build_declarations(self._connection.declarations))
        self._source, self._reader, self._answers = source, reader, answers
        self._live_scan = replace(self._live_scan, source=source, reader=reader, answers=answers)

    def scan_ranges(self, ranges: Sequence[Range], first: int, last: int, stop: Flag | None = None) -> Iterator[Pass]:
        """Return the sums of the ticks from `first` to `last`, pass by pass."""
        return self.scan_share(ranges, first, last, stop=stop)

    def scan_share(
        self,
        ranges: Sequence[Range],
        first: int,
        last: int,
        *,
        share: int = 0,
        shares: int = 1,
        stop: Flag | None = None,
    ) -> Iterator[Pass]:
        """Return the sums of one share of the bounded users. The number of `shares` is a power of two."""
        self._connection.allow([each.path for each in ranges if each.is_clean])
        scan = self.FILE_SCAN(
            self._source, self._reader, self._answers, ranges, stop, parts=shares, share=share, shares=shares
        )
        scan.split_users()
        return scan.passes(list(split_ticks(self._answers.measures, first, last, self.MAX_PASS_NUMBERS)))

    def scan_block(self, block: Block, first_open: int, last_allowed: int, carry: bool, header: Header = None) -> Pass:
        """Return the sums of a live block. Late events are dropped or carried forward.

        Carried events count in the first open tick. CSV needs the `header` of the source.
        """
        ticks = build_live_tick_rule(first_open, last_allowed, carry=carry)
        return self._live_scan.scan_block(block.data, ticks, first_open, last_allowed, header)

    def scan_empty_block(self, first_open: int, last_allowed: int, header: Header = None) -> None:
        """Do the same work as for a block with one event, on an empty event."""
        self.scan_block(Block(EMPTY_EVENT_LINE, 0), first_open, last_allowed, False, header)

    def locate(self, block: Block, header: Header = None) -> tuple[DroppedRecord, ...]:
        """Return the bad records of a block, each with the rule that it breaks.

        Returns at most MAX_LOCATED_RECORDS.
        """

        def locate_lines(lines: LinePiece) -> list[DroppedRecord]:
            with self._reader.open_block(lines.data, header, in_order=True) as relation:
                rows = self._source.sql(relation, lambda tick: tick, also=[NUMBER_COLUMN])
                bad = f"{TICK} IN ({', '.join(map(str, RULES))}) ORDER BY {NUMBER_COLUMN} LIMIT {MAX_LOCATED_RECORDS}"
                sql = f"SELECT {NUMBER_COLUMN} AS number, {TICK} AS rule FROM {rows} WHERE {bad}"
                rules = self._connection.fetch_arrays(sql)
            return list(list_dropped(lines, block.offset, line_numbers(rules["number"]), rules["rule"]))

        found = chain.from_iterable(self._live_scan.map_pieces(block.data, locate_lines))
        return tuple(islice(found, MAX_LOCATED_RECORDS))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()


def check_engine_settings(stream: Stream, measures: Sequence[Measure], secret: bytes) -> None:
    if len(secret) != SECRET_BYTES:
        raise ValueError(f"secret must be {SECRET_BYTES} bytes, got {len(secret)}")
    if not measures:
        raise ValueError("measures must be at least one, got none")
    if isinstance(stream.unit, User) and stream.user is None:
        raise ValueError("user must name a column where users are the unit, got None")
    if any(column.startswith("$") for column in stream.columns):
        raise ValueError("columns must have names that do not begin with $, got one that does")
    folded = [column.casefold() for column in stream.columns]
    if len(set(folded)) < len(folded):
        raise ValueError("columns must differ in more than case, got two that do not")


def list_dropped(lines: LinePiece, offset: int, numbers: Ints, rules: Ints) -> Iterator[DroppedRecord]:
    """Return source positions of some lines of a block, which begins at `offset`."""
    ends = np.flatnonzero(np.frombuffer(lines.data, np.uint8) == ord("\n"))
    for number, rule in zip(numbers.tolist(), rules.tolist(), strict=True):
        begin = int(ends[number - 1]) + 1 if number > 0 else 0
        yield DroppedRecord(offset + lines.begin + begin, int(ends[number]) - begin, RULES[rule])


def open_embedded(request: EngineRequest) -> DuckEngine:
    """Open the engine for a request of a run."""
    settings: dict[str, Any] = {"memory": request.memory, "count_columns": request.count_columns}
    return DuckEngine(request.stream, request.lookups, request.measures, secret=request.secret, **settings)


EMBEDDED = EngineKind(open_embedded, supports_pan_private=True)
