"""The synthetic clinic, live: a tick a second, and waves of flu that move through four regions.

Visits are drawn second by second from a keystream with a known label, so every demo has the same ones. All
people are synthetic.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgauge.cli.demo.clinic import (
    CLINIC_MARK,
    REGION_SHARES,
    REGIONS,
    ClinicArray,
    draw_temperatures,
    draw_uniform,
)
from streamgauge.cli.demo.live import (
    MAX_STORED_TICKS,
    TICK_MICROSECONDS,
    FeederThread,
    LiveDemo,
    LiveTruth,
    write_pipeline,
)
from streamgauge.config.settings import PipelineFile, Stream
from streamgauge.continual.choice import parse_window
from streamgauge.releases.release import ReleaseSchema, format_utc_time
from streamgauge.runtime.edits import find_pinned_blocks
from streamgauge.runtime.ledger.log import LedgerLog
from streamgauge.runtime.publisher import build_schemas
from streamgauge.server.http.tokens import Tokens
from streamgauge.server.runner import Runner
from streamgauge.sql import parse

VISITS_PER_SECOND = 260.0  # a second without flu, in all regions
WAVE_SECONDS, WAVE_WIDTH_SECONDS, REGION_LAG_SECONDS = (
    150,
    22.0,
    18,
)  # seconds from one wave to the next, its width, and from region to region
BASE_FLU_RATIO, PEAK_FLU_RATIO = 0.08, 1.5  # visits for flu as a multiple of all others
ANALYST_SHARE = "1/2"  # of the budget: what the analyst of the demo may spend

PIPELINE_TEXT = """
[stream]
name = "visits"
source = "http"
time = "ts"
tick = "1s"
start = "{start}"{end}
allowed_lateness = "2s"
unit = "event"
budget = {{ epsilon = 2.0 }}
key = "file:clinic.key"   # beside the data, as a demo may: keep yours on another disk

[stream.columns]
region = {{ values = ["north", "south", "east", "west"] }}
temperature = {{ bounds = [35.0, 42.0], grid = 0.1 }}

[server]
anonymous = true
show_intruder = true

[[release]]
name = "fever_by_region"
title = "Fevers by region"
description = "Visits with more than 38 degrees since the stream began, and their mean temperature."
sql = "SELECT region, COUNT(*), AVG(temperature) FROM visits WHERE temperature > 38 GROUP BY region"
window = "running"
epsilon = 0.4

[[release]]
name = "fever_this_minute"
title = "Fevers of the last minute"
sql = "SELECT region, COUNT(*) FROM visits WHERE temperature > 38 GROUP BY region"
window = "sliding 1m"
epsilon = 0.3

[[release]]
name = "median_temperature"
title = "Median temperature"
sql = "SELECT MEDIAN(temperature) FROM visits"
window = "sliding 1m"
epsilon = 0.3
"""


class Visit(NamedTuple):
    """A visit to the clinic."""

    time: int  # microseconds since 1970
    region: str
    temperature: float

    @property
    def json_line(self) -> str:
        return f'{{"ts":"{format_utc_time(self.time)}","region":"{self.region}","temperature":{self.temperature}}}'


def write_live_clinic(folder: Path, start: int, ticks: int | None) -> Path:
    """Write the pipeline file of a clinic that opens at `start`, with so many ticks or no end."""
    return write_pipeline(folder / "clinic.toml", CLINIC_MARK + PIPELINE_TEXT, start, ticks)


def generate_visits_between(start: int, since: int, until: int) -> Sequence[Visit]:
    """Return the visits from `since` up to `until`, the same however the time is cut."""
    first, last = (since - start) // TICK_MICROSECONDS, (until - start - 1) // TICK_MICROSECONDS
    found = [visit for second in range(max(0, first), last + 1) for visit in generate_visits(start, second)]
    return [visit for visit in found if since <= visit.time < until]


def generate_visits(start: int, second: int) -> list[Visit]:
    """Return the visits of one second of the stream, by time."""
    flu = compute_flu_ratio(second)
    counts = np.floor(
        VISITS_PER_SECOND * REGION_SHARES * (1 + flu) + draw_uniform(f"live count {second}", len(REGIONS))
    )
    regions = np.repeat(np.arange(len(REGIONS)), counts.astype(np.int64))
    warm = draw_temperatures((flu / (1 + flu))[regions], f"live {second} ")
    moments = np.floor(TICK_MICROSECONDS * draw_uniform(f"live moments {second}", len(regions))).astype(np.int64)
    begin = start + second * TICK_MICROSECONDS
    return sorted(
        Visit(begin + at, REGIONS[region], degrees)
        for at, region, degrees in zip(moments.tolist(), regions.tolist(), warm.tolist(), strict=True)
    )


def compute_flu_ratio(second: int) -> ClinicArray:
    """Return flu visits as a multiple of all others, by region."""
    into = (second - REGION_LAG_SECONDS * np.arange(len(REGIONS))) % WAVE_SECONDS
    return np.asarray(
        BASE_FLU_RATIO + PEAK_FLU_RATIO * np.exp(-(((into - WAVE_SECONDS / 3) / WAVE_WIDTH_SECONDS) ** 2))
    )


MAX_CACHED_ANSWERS = 20_000  # answers
EMPTY_VALUES = {"count": 0.0, "sum": 0.0, "distinct": 0.0}  # values of an empty group; its mean is unknown
CREATE_TABLE_SQL = "CREATE TABLE sent (tick BIGINT, ts TIMESTAMP, region VARCHAR, temperature DOUBLE)"
INSERT_SQL = """INSERT INTO sent SELECT unnest(?::BIGINT[]), make_timestamp(unnest(?::BIGINT[])),
unnest(?::VARCHAR[]), least(greatest(unnest(?::DOUBLE[]), 35), 42)"""
WINDOW_SQL = "WITH visits AS (SELECT * FROM sent WHERE tick BETWEEN {first} AND {last}) {sql}"

GroupValues = list[float | None]  # a number for each place


@dataclass(frozen=True)
class TruthQuery:
    """A charged release as plain SQL."""

    sql: str
    window: str | list[str]
    first: int
    shape: ReleaseSchema
    kinds: tuple[str, ...]

    def find_first_tick(self, tick: int) -> int | None:
        """Return the first tick of the window at a tick; None if it is decayed, or one of several."""
        if not isinstance(self.window, str):
            return None
        kind, setting, size = parse_window(self.window)
        if setting not in ("", "window"):
            return None
        return max(self.first, tick - (tick if kind == "running" else int(size)) + 1)


class ClinicTruth(LiveTruth):
    """Exact values of charged releases, by plain SQL over the visits that were acknowledged.

    Each release is run again without noise over the visits in its window. Memory has MAX_STORED_TICKS ticks.
    The truth is unknown if the window begins earlier, or is decayed.
    """

    def __init__(self, file: PipelineFile, load_ledger: Callable[[], LedgerLog], now: Callable[[], int]) -> None:
        import duckdb

        super().__init__(file, now)
        self._load_ledger = load_ledger
        self._engine = duckdb.connect(":memory:", config={"temp_directory": ""})
        self._engine.execute("SET enable_external_access = false; SET lock_configuration = true")
        self._engine.execute(CREATE_TABLE_SQL)
        self._answers: dict[tuple[str, int], Mapping[str, GroupValues]] = {}
        self._oldest_tick = 1

    def add_visits(self, visits: Sequence[Visit]) -> None:
        """Add acknowledged visits."""
        times = [visit.time for visit in visits]
        ticks = [1 + (time - self.file.stream.start) // TICK_MICROSECONDS for time in times]
        with self._lock:
            columns = [ticks, times, [visit.region for visit in visits], [visit.temperature for visit in visits]]
            self._engine.execute(INSERT_SQL, columns)
            self._oldest_tick = max(self._oldest_tick, ticks[-1] - MAX_STORED_TICKS)
            self._engine.execute("DELETE FROM sent WHERE tick < ?", [self._oldest_tick])

    def columns(self, release: str, first: int, last: int) -> dict[str, Any] | None:
        """Return values in the columns form; None for an unknown release."""
        query = self._find_query(release)
        if query is None:
            return None
        with self._lock:
            rows = [self._find_values(release, query, tick) for tick in range(first, last + 1)]
        values = {name: {"value": [row[name] for row in rows]} for name in query.shape.measures}
        places = [dict(place.labels) for place in query.shape.groups]
        return {"release": release, "tick": list(range(first, last + 1)), "places": places, "measures": values}

    def _find_query(self, release: str) -> TruthQuery | None:
        ledger_log = self._load_ledger()
        text, entry = find_pinned_blocks(ledger_log).get(f"release.{release}"), ledger_log.releases.get(release)
        if text is None or entry is None:
            return None
        block, stream = json.loads(text), self.file.stream
        query = parse(block["sql"], stream, self.file.lookups)
        kinds = tuple(aggregate.kind for aggregate in query.aggregates)
        return TruthQuery(
            block["sql"], block["window"], entry.first, build_schemas(ledger_log.ledger_entries)[release], kinds
        )

    def _find_values(self, release: str, truth_query: TruthQuery, tick: int) -> Mapping[str, GroupValues]:
        if not self._is_complete(tick):
            return _build_unknown(truth_query.shape)
        if (release, tick) not in self._answers:
            if len(self._answers) >= MAX_CACHED_ANSWERS:
                del self._answers[next(iter(self._answers))]
            self._answers[release, tick] = self._compute_values(truth_query, tick)
        return self._answers[release, tick]

    def _compute_values(self, truth_query: TruthQuery, tick: int) -> Mapping[str, GroupValues]:
        shape, begins = truth_query.shape, truth_query.find_first_tick(tick)
        if begins is None or begins < self._oldest_tick:
            return _build_unknown(shape)
        found = self._engine.execute(WINDOW_SQL.format(first=begins, last=tick, sql=truth_query.sql))
        names = [column[0] for column in found.description]
        groups = [names.index(column) for column in shape.columns]
        measures = [i for i in range(len(names)) if i not in groups]
        rows = {tuple(row[i] for i in groups): [row[i] for i in measures] for row in found.fetchall()}
        empty: GroupValues = [EMPTY_VALUES.get(kind) for kind in truth_query.kinds]
        at = [rows.get(tuple(label for _, label in place.labels), empty) for place in shape.groups]
        return {
            name: [None if row[i] is None else float(row[i]) for row in at] for i, name in enumerate(shape.measures)
        }


def _build_unknown(shape: ReleaseSchema) -> Mapping[str, GroupValues]:
    return {name: [None] * len(shape.groups) for name in shape.measures}


BATCH_INTERVAL_SECONDS = 0.25  # seconds between batches


class ClinicFeeder(FeederThread):
    """Visits sent in batches with a token, as another system would send them.

    The server counts a batch once, since a batch without acknowledgement is sent again under the same key.
    """

    def __init__(self, address: str, token: str, stream: Stream, truth: "ClinicTruth") -> None:
        super().__init__(address, "clinic")
        self.token, self.start_time, self.end_time, self.truth = token, stream.start, stream.end, truth

    def _run(self) -> None:
        since = self.start_time
        while not self._stop.wait(BATCH_INTERVAL_SECONDS) and (self.end_time is None or since < self.end_time):
            now = time.time_ns() // 1000
            until = now if self.end_time is None else min(now, self.end_time)
            visits = generate_visits_between(self.start_time, since, until)
            if visits and self._deliver(f"clinic-{until}", "\n".join(visit.json_line for visit in visits)):
                self.truth.add_visits(visits)
            since = max(since, until)

    def _deliver(self, key: str, lines: str) -> bool:
        """Send a batch until the server acknowledges it, or the demo ends."""
        headers = {"Authorization": f"Bearer {self.token}", "Batch-Key": key, "Content-Type": "application/x-ndjson"}
        while not self._stop.is_set():
            if self._post("/api/events", lines.encode(), headers):
                return True
            self._stop.wait(BATCH_INTERVAL_SECONDS)
        return False


class ClinicDemo(LiveDemo):
    """The clinic behind the server, with a token for its feeder and one for an analyst."""

    title, key_name = "clinic", "clinic.key"

    def _build_truth(self, runner: Runner) -> LiveTruth:
        self.visits = ClinicTruth(self.file, runner.load_ledger, runner.now)
        return self.visits

    def _build_feeder(self, address: str, tokens: Tokens) -> tuple[FeederThread, Sequence[str]]:
        feeder = ClinicFeeder(address, tokens.create("clinic", "sender"), self.file.stream, self.visits)
        secret = tokens.create("visitor", "analyst", Fraction(ANALYST_SHARE))
        return feeder, (
            f"A synthetic clinic is live at {address}",
            "  a tick a second; switch on “Show the truth” to see the exact numbers, which real readers never see",
            f"  to request a release, sign in as an analyst with {secret}",
        )
