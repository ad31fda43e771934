"""The truth about the live clinic, by plain SQL over the visits that were sent: of a real one there is none.

Every release that was charged can be asked for, those of analysts too: what it asks is asked again, without
noise, of the visits in its window, which memory keeps for KEPT ticks. Where the window begins before that, or
is decayed, the truth is not known.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from streamgauge.cli.live_clinic import SECOND, Visit
from streamgauge.continual.choice import parse_window
from streamgauge.pipeline.as_charged import pinned_texts
from streamgauge.pipeline.book import Book
from streamgauge.pipeline.publishing import shapes_of
from streamgauge.query.released import Shape
from streamgauge.query.settings import PipelineFile
from streamgauge.query.sql import parse

KEPT = 7200  # ticks
REMEMBERED = 20_000  # answers
NOTHING = {"count": 0.0, "sum": 0.0, "distinct": 0.0}  # what is told of nobody; means of nobody are not known
TABLE = "CREATE TABLE sent (tick BIGINT, ts TIMESTAMP, region VARCHAR, temperature DOUBLE)"
SENT = """INSERT INTO sent SELECT unnest(?::BIGINT[]), make_timestamp(unnest(?::BIGINT[])),
unnest(?::VARCHAR[]), least(greatest(unnest(?::DOUBLE[]), 35), 42)"""
WITHIN = "WITH visits AS (SELECT * FROM sent WHERE tick BETWEEN {first} AND {last}) {sql}"

Row = list[float | None]  # a number for each place


@dataclass(frozen=True)
class Question:
    """A release that was charged, as plain SQL."""

    sql: str
    window: str
    first: int
    shape: Shape
    kinds: tuple[str, ...]

    def begins(self, tick: int) -> int | None:
        """The first tick of the window at a tick."""
        kind, setting, size = parse_window(self.window)
        if setting not in ("", "window"):
            return None
        return max(self.first, tick - (tick if kind == "running" else int(size)) + 1)


class LiveTruth:
    """What was sent, and what it says."""

    def __init__(self, file: PipelineFile, book: Callable[[], Book], now: Callable[[], int]) -> None:
        import duckdb

        self.file, self._book, self._now, self._lock = file, book, now, Lock()
        self._engine = duckdb.connect(":memory:", config={"temp_directory": ""})
        self._engine.execute("SET enable_external_access = false; SET lock_configuration = true")
        self._engine.execute(TABLE)
        self._known: dict[tuple[str, int], Mapping[str, Row]] = {}
        self._oldest = 1

    def take(self, visits: Sequence[Visit]) -> None:
        """Visits that were acknowledged."""
        times = [visit.time for visit in visits]
        ticks = [1 + (time - self.file.stream.start) // SECOND for time in times]
        with self._lock:
            columns = [
                ticks,
                times,
                [visit.region for visit in visits],
                [visit.temperature for visit in visits],
            ]
            self._engine.execute(SENT, columns)
            self._oldest = max(self._oldest, ticks[-1] - KEPT)
            self._engine.execute("DELETE FROM sent WHERE tick < ?", [self._oldest])

    def columns(self, release: str, first: int, last: int) -> dict[str, Any] | None:
        """In the columns form, with values alone."""
        asked = self._question(release)
        if asked is None:
            return None
        with self._lock:
            told = [self._told(release, asked, tick) for tick in range(first, last + 1)]
        values = {name: {"value": [row[name] for row in told]} for name in asked.shape.measures}
        places = [dict(place.labels) for place in asked.shape.places]
        return {
            "release": release,
            "tick": list(range(first, last + 1)),
            "places": places,
            "measures": values,
        }

    def _question(self, release: str) -> Question | None:
        book = self._book()
        text, entry = pinned_texts(book).get(f"release.{release}"), book.entries.get(release)
        if text is None or entry is None:
            return None
        block, stream = json.loads(text), self.file.stream
        query = parse(block["sql"], stream, self.file.lookups)
        kinds = tuple(aggregate.kind for aggregate in query.aggregates)
        return Question(block["sql"], block["window"], entry.first, shapes_of(book.acts)[release], kinds)

    def _told(self, release: str, asked: Question, tick: int) -> Mapping[str, Row]:
        if not self._is_over(tick):
            return _unknown(asked.shape)
        if (release, tick) not in self._known:
            if len(self._known) >= REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[release, tick] = self._counted(asked, tick)
        return self._known[release, tick]

    def _is_over(self, tick: int) -> bool:
        """Whether everybody who came in a tick was sent by now, or is late."""
        return self._now() >= self.file.stream.begins(tick + 1) + self.file.stream.lateness

    def _counted(self, asked: Question, tick: int) -> Mapping[str, Row]:
        shape, begins = asked.shape, asked.begins(tick)
        if begins is None or begins < self._oldest:
            return _unknown(shape)
        found = self._engine.execute(WITHIN.format(first=begins, last=tick, sql=asked.sql))
        names = [column[0] for column in found.description]
        groups = [names.index(column) for column in shape.columns]
        measures = [i for i in range(len(names)) if i not in groups]
        rows = {tuple(row[i] for i in groups): [row[i] for i in measures] for row in found.fetchall()}
        nobody: Row = [NOTHING.get(kind) for kind in asked.kinds]
        at = [rows.get(tuple(label for _, label in place.labels), nobody) for place in shape.places]
        return {name: [_number(row[i]) for row in at] for i, name in enumerate(shape.measures)}


def _unknown(shape: Shape) -> Mapping[str, Row]:
    return {name: [None] * len(shape.places) for name in shape.measures}


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
