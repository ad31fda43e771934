"""The engine of one machine: events to exact sums by tick, group and cell, in DuckDB.

Promise
    What an event adds is a function of that event, of public settings and, where users are bounded, of the
    other events of its user. It adds at most one to each count of one place, and i within declared bounds.
    Nothing that is in a record raises, changes how another is read, or is written anywhere. (Parquet has
    limits: docs/engines.md.)
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from threading import Event as Flag
from types import TracebackType
from typing import Self

import numpy as np

from streamgauge.engines.answers import Answers
from streamgauge.engines.connection import Connection
from streamgauge.engines.finished_scan import FinishedScan
from streamgauge.engines.line_pieces import Lines, line_numbers
from streamgauge.engines.lines import NUMBER
from streamgauge.engines.live_scan import LiveScan
from streamgauge.engines.passes import RULES, Pass, cut
from streamgauge.engines.reading import Header, Reading
from streamgauge.engines.row_source import TICK, RowSource, live_ticks
from streamgauge.engines.typed import coded
from streamgauge.engines.user_bounds import NoBounds, UserBounds
from streamgauge.noise import Ints
from streamgauge.privacy import User
from streamgauge.query.blocks import Block, Dropped, FilePart
from streamgauge.query.measure import Measure
from streamgauge.query.settings import Lookup, Stream

SECRET_BYTES = 32
MOST_LOCATED = 10_000
NO_EVENT = b"{}\n"  # in CSV too


class DuckEngine:
    """Answers some measures of a stream. For one thread at a time; leave it to let go of its memory."""

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
        """Build the engine; with `count_columns` a pass counts the records that have what measures read."""
        check(stream, measures, secret)
        self._source = RowSource(stream, lookups, measures, secret, count_columns)
        self._connection = Connection(stream.timezone, memory, threads, self._source.declarations)
        self._reading = Reading(stream, self._source.fields, self._connection)
        asked = [coded(each, self._source.typed) for each in measures]
        self._answers = Answers(self._connection, asked, counters=self._source.counters)
        unit = stream.unit
        users = UserBounds(stream, unit) if isinstance(unit, User) else None
        self._live = LiveScan(self._source, self._reading, self._answers, users)
        self.bounds: UserBounds | NoBounds = users or NoBounds()

    def finished(
        self, files: Sequence[FilePart], first: int, last: int, stop: Flag | None = None
    ) -> Iterator[Pass]:
        """The ticks from `first` to `last` of files that are all there, pass by pass; Stopped by `stop`."""
        self._connection.allow([file.path for file in files if file.clean])
        scan = FinishedScan(self._source, self._reading, self._answers, files, stop)
        return scan.passes(list(cut(self._answers.measures, first, last)))

    def block(
        self, data: bytes, first_open: int, last_allowed: int, carry: bool, header: Header = None
    ) -> Pass:
        """Clean whole lines of a live source; late events are dropped or carried into the first open tick.

        CSV needs the `header` of the source.
        """
        ticks = live_ticks(first_open, last_allowed, carry=carry)
        return self._live.block(data, ticks, first_open, last_allowed, header)

    def idle(self, first_open: int, last_allowed: int, header: Header = None) -> None:
        """Does all that a block with one event takes, for a line that is none."""
        self.block(NO_EVENT, first_open, last_allowed, False, header)

    def locate(self, block: Block, header: Header = None) -> tuple[Dropped, ...]:
        """Where the bad records of a block are, and which rule each breaks: at most MOST_LOCATED."""

        def found(lines: Lines) -> list[Dropped]:
            with self._reading.block(lines.data, header, in_order=True) as relation:
                rows = self._source.sql(relation, lambda tick: tick, also=[NUMBER])
                bad = f"{TICK} IN ({', '.join(map(str, RULES))}) ORDER BY {NUMBER} LIMIT {MOST_LOCATED}"
                sql = f"SELECT {NUMBER} AS number, {TICK} AS rule FROM {rows} WHERE {bad}"
                rules = self._connection.arrays(sql)
            return list(located(lines, block.offset, line_numbers(rules["number"]), rules["rule"]))

        return tuple(islice(chain.from_iterable(self._live.each(block.data, found)), MOST_LOCATED))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check(stream: Stream, measures: Sequence[Measure], secret: bytes) -> None:
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


def located(lines: Lines, offset: int, numbers: Ints, rules: Ints) -> Iterator[Dropped]:
    """Positions in the source of some lines of a block, which begins at `offset`."""
    ends = np.flatnonzero(np.frombuffer(lines.data, np.uint8) == ord("\n"))
    for number, rule in zip(numbers.tolist(), rules.tolist(), strict=True):
        begin = int(ends[number - 1]) + 1 if number > 0 else 0
        yield Dropped(offset + lines.begin + begin, int(ends[number]) - begin, RULES[rule])
