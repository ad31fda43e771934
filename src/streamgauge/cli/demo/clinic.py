"""A synthetic clinic: a flu wave over 90 days that moves through four regions, and its truth.

The numbers come from a keystream with a known label, so every demo has the same clinic. The truth is plain SQL
over its records. Readers of a real clinic never see it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streamgauge.cli.console import add_row, build_cell, build_table
from streamgauge.cli.views.releases import build_sparkline, build_trend
from streamgauge.noise.entropy import draw_bytes
from streamgauge.releases.release import Releases
from streamgauge.releases.tables import format_rounded
from streamgauge.runtime.pipeline import Pipeline
from streamgauge.testing.noise import InsecureKeystream

ClinicArray = npt.NDArray[np.float64]

CLINIC_MARK = "# A synthetic clinic, made by `streamgauge demo`. All people are synthetic.\n"
START_TIME = "2026-01-05T00:00:00"  # UTC
DAYS = 90
HOURS = 24 * DAYS
REGIONS = ("north", "south", "east", "west")
REGION_SHARES = np.array([0.36, 0.28, 0.21, 0.15])
PEAK_DAYS = np.array([33.0, 40.0, 47.0, 55.0])  # days at which the wave is highest
BASE_FLU_RATIO, PEAK_FLU_RATIO = 0.05, 2.4  # visits for flu as a multiple of all others
WAVE_DAYS = 9.0
TORN_RECORDS = 7  # records that end in the middle, as records do
WELL_TEMPERATURE, ILL_TEMPERATURE = (36.8, 0.35), (38.7, 0.6)  # mean and spread of temperatures

PIPELINE_TEXT = """
[stream]
name = "visits"
source = "visits.jsonl"
mode = "batch"
time = "ts"
tick = "6h"
start = "2026-01-05T00:00:00Z"
end = "2026-04-05T00:00:00Z"
unit = "event"
budget = { epsilon = 1.0 }
key = "file:clinic.key"   # beside the data, as a demo may: keep yours on another disk

[stream.columns]
region = { values = ["north", "south", "east", "west"] }
temperature = { bounds = [35.0, 42.0], grid = 0.1 }

[[release]]
name = "fever_by_region"
sql = "SELECT region, COUNT(*), AVG(temperature) FROM visits WHERE temperature > 38 GROUP BY region"
window = "running"
epsilon = 0.4

[[release]]
name = "fever_this_week"
sql = "SELECT region, COUNT(*) FROM visits WHERE temperature > 38 GROUP BY region"
window = "sliding 7d"
epsilon = 0.3

[[release]]
name = "median_temperature"
sql = "SELECT MEDIAN(temperature) FROM visits"
window = "sliding 7d"
epsilon = 0.3

[[sink]]
to = "releases.jsonl"
"""


def write_clinic(folder: Path, events: int) -> None:
    """Write the records and the pipeline file."""
    with (folder / "visits.jsonl").open("w") as file:
        file.writelines(generate_lines(events))
    (folder / "clinic.toml").write_text(CLINIC_MARK + PIPELINE_TEXT)


def generate_lines(events: int) -> Iterator[str]:
    """Yield the records by time; some are torn."""
    every = max(1, events // TORN_RECORDS)
    for number, (when, region, degrees) in enumerate(generate_visits(events)):
        line = f'{{"ts":"{when}Z","region":"{region}","temperature":{degrees}}}'
        yield (line[: len(line) // 2] if number % every == every // 2 else line) + "\n"


def generate_visits(events: int) -> Iterator[tuple[str, str, float]]:
    """Yield time, region and temperature of each visit."""
    ill, everyone = compute_intensities()
    cells = np.searchsorted(np.cumsum(everyone.ravel()) / everyone.sum(), draw_uniform("cells", events))
    cells = np.sort(np.minimum(cells, everyone.size - 1))
    hours, regions = np.divmod(cells, len(REGIONS))
    seconds = hours * 3600 + np.floor(3600 * draw_uniform("seconds", events)).astype(np.int64)
    order = np.argsort(seconds, kind="stable")
    times = np.datetime_as_string(np.datetime64(START_TIME, "s") + seconds[order], "s")
    warm = draw_temperatures((ill / everyone).ravel()[cells])
    yield from zip(times.tolist(), np.array(REGIONS)[regions[order]].tolist(), warm[order].tolist(), strict=True)


def compute_intensities() -> tuple[ClinicArray, ClinicArray]:
    """Return the rates of flu visits and of all visits, by hour and region; only ratios matter."""
    hours = np.arange(HOURS)[:, None]
    of_day = 0.25 + np.clip(np.sin((hours % 24 - 6) * np.pi / 14), 0, None)
    wave = BASE_FLU_RATIO + PEAK_FLU_RATIO * np.exp(-((((hours / 24) - PEAK_DAYS) / WAVE_DAYS) ** 2))
    return REGION_SHARES * of_day * wave, REGION_SHARES * of_day * (1 + wave)


def draw_temperatures(chance_of_flu: ClinicArray, label: str = "") -> ClinicArray:
    """Return temperatures of people who are ill with a given probability; `label` names the draws."""
    events = len(chance_of_flu)
    is_ill = draw_uniform(f"{label}ill", events) < chance_of_flu
    radius = np.sqrt(-2 * np.log1p(-draw_uniform(f"{label}radius", events)))  # by Box and Muller
    normal = radius * np.cos(2 * np.pi * draw_uniform(f"{label}angle", events))
    mean, spread = (np.where(is_ill, ill, well) for ill, well in zip(ILL_TEMPERATURE, WELL_TEMPERATURE, strict=True))
    return np.asarray(np.round(np.clip(mean + spread * normal, 34.5, 42.5), 1))


def draw_uniform(label: str, size: int) -> ClinicArray:
    """Return numbers in [0, 1), the same in every demo."""
    words = draw_bytes(InsecureKeystream(f"streamgauge demo: {label}"), 8 * size).view(np.uint64)
    return np.asarray((words >> np.uint64(11)) * 2.0**-53, np.float64)


CLINIC_TICKS = 4 * DAYS
WINDOW_TICKS = {"fever_by_region": CLINIC_TICKS, "fever_this_week": 28, "median_temperature": 28}  # in ticks
FEVER_CONDITION = "temperature > 38"
VISITS_SQL = """
CREATE TABLE visits AS
SELECT 1 + (epoch_us(ts) - epoch_us($start::TIMESTAMP)) // 21600000000 AS tick, region,
       least(greatest(temperature, 35), 42) AS temperature
FROM read_json($path, format = 'newline_delimited', ignore_errors = true,
               columns = {ts: 'TIMESTAMP', region: 'VARCHAR', temperature: 'DOUBLE'})
"""
TRUTH_SQL = """
SELECT now.tick, {group} AS "group", {value} AS value
FROM range(1, {ticks} + 1) AS now(tick)
JOIN visits ON visits.tick BETWEEN now.tick - {window} + 1 AND now.tick
WHERE {where} GROUP BY ALL
"""
TRUTH_QUERIES: Mapping[tuple[str, str], tuple[str, str, str]] = {  # group, value, where
    ("fever_by_region", "count"): ("region", "count(*)", FEVER_CONDITION),
    ("fever_by_region", "avg_temperature"): ("region", "avg(temperature)", FEVER_CONDITION),
    ("fever_this_week", "count"): ("region", "count(*)", FEVER_CONDITION),
    ("median_temperature", "median_temperature"): ("'all'", "median(temperature)", "true"),
}


@dataclass(frozen=True)
class TruthComparison:
    """A measure of a release beside its truth. All arrays are (ticks, groups)."""

    releases: Releases
    measure: str
    truth: ClinicArray

    @property
    def is_covered(self) -> npt.NDArray[np.bool_]:
        """True if the published interval contains the truth."""
        low, high = self.releases.lows(self.measure), self.releases.highs(self.measure)
        return np.asarray((low <= self.truth) & (self.truth <= high))

    @property
    def has_truth(self) -> npt.NDArray[np.bool_]:
        """True if the truth is defined: an empty group has no mean."""
        return np.isfinite(self.truth)


def compare_truth(path: Path, published: Mapping[str, Releases]) -> list[TruthComparison]:
    """Return every measure of every release at every tick, with its truth."""
    import duckdb

    with duckdb.connect(":memory:", config={"temp_directory": ""}) as engine:
        engine.execute(VISITS_SQL, {"path": str(path), "start": START_TIME})
        return [
            TruthComparison(published[name], measure, _compute_truth(engine, published[name], measure))
            for name, measure in TRUTH_QUERIES
        ]


def _compute_truth(engine: Any, releases: Releases, measure: str) -> ClinicArray:
    group, value, where = TRUTH_QUERIES[releases.release, measure]
    window = WINDOW_TICKS[releases.release]
    sql = TRUTH_SQL.format(group=group, value=value, where=where, window=window, ticks=CLINIC_TICKS)
    places = [str(dict(place.labels).get("region", "all")) for place in releases.shape.groups]
    truth = np.full((CLINIC_TICKS + 1, len(places)), 0.0 if value == "count(*)" else np.nan)
    for tick, label, number in engine.execute(sql).fetchall():
        truth[tick, places.index(label)] = number
    return truth[releases.ticks]


MIDDLE_TICK = CLINIC_TICKS // 2
TREND_CHARS, LABEL_CHARS, NUMBER_CHARS = 10, 6, 8  # characters of columns, so that tables line up
NUMBER_COLUMNS = ("truth", "released", "error", "± 95 %")


def show_truth(console: Console, pipeline: Pipeline, visits: Path) -> None:
    """Print each measure and group half-way, and the share of intervals that contain the truth."""
    published = {release.name: pipeline.releases(release.name) for release in pipeline.file.releases}
    found = compare_truth(visits, published)
    console.print(build_cell(f"half-way, at tick {MIDDLE_TICK}; trends are over all ticks", "dim"))
    for comparison in found:
        console.print()
        console.print(_build_table(comparison, ascii_only=not console.encoding.startswith("utf")))
    console.print()
    console.print(coverage_text(found))


def _build_table(comparison: TruthComparison, *, ascii_only: bool) -> Table:
    columns = (*NUMBER_COLUMNS, "inside", "the truth", "as released")
    table = build_table(
        "", *columns, right_aligned=NUMBER_COLUMNS, title=f"{comparison.releases.release}: {comparison.measure}"
    )
    for column, least in zip(table.columns, (LABEL_CHARS, *[NUMBER_CHARS] * len(NUMBER_COLUMNS)), strict=False):
        column.min_width = least
    for place in range(comparison.truth.shape[1]):
        add_row(table, *_build_row(comparison, place, ascii_only=ascii_only))
    return table


def _build_row(comparison: TruthComparison, place: int, *, ascii_only: bool) -> list[str | Text]:
    releases = comparison.releases
    values = releases.values(comparison.measure)[:, place]
    lows, highs = (part(comparison.measure)[:, place] for part in (releases.lows, releases.highs))
    low, high = lows[MIDDLE_TICK - 1], highs[MIDDLE_TICK - 1]
    truth, value = float(comparison.truth[MIDDLE_TICK - 1, place]), float(values[MIDDLE_TICK - 1])
    half = float(high - low) / 2
    inside = Text("yes", "green") if comparison.is_covered[MIDDLE_TICK - 1, place] else Text("no", "yellow")
    shown = [format_rounded(number, half) for number in (truth, value, value - truth, half)]
    real = build_sparkline(comparison.truth[:, place], TREND_CHARS, ascii_only=ascii_only)
    drawn = build_trend(values, lows, highs, TREND_CHARS, ascii_only=ascii_only)
    group = releases.shape.groups[place].labels
    label = str(group[0][1]) if group else "all"
    return [label, *shown, inside, Text(real, "dim"), Text(drawn, "cyan")]


def coverage_text(found: Sequence[TruthComparison]) -> str:
    """Return the share of published intervals that contain the truth."""
    inside = sum(int(np.sum(comparison.is_covered & comparison.has_truth)) for comparison in found)
    all_of_them = sum(int(np.sum(comparison.has_truth)) for comparison in found)
    share = inside / max(1, all_of_them)
    return f"{share:.1%} of {all_of_them:,} intervals contain the truth; at least 95 % are promised, each by itself"
