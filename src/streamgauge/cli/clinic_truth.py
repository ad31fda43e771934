"""The truth about the synthetic clinic, by plain SQL over its records: of a real one no reader may see it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.cli.clinic import DAYS, START
from streamgauge.query.released import Releases

Floats = npt.NDArray[np.float64]

TICKS = 4 * DAYS
WINDOWS = {"fever_by_region": TICKS, "fever_this_week": 28, "median_temperature": 28}  # in ticks
FEVER = "temperature > 38"
VISITS = """
CREATE TABLE visits AS
SELECT 1 + (epoch_us(ts) - epoch_us($start::TIMESTAMP)) // 21600000000 AS tick, region,
       least(greatest(temperature, 35), 42) AS temperature
FROM read_json($path, format = 'newline_delimited', ignore_errors = true,
               columns = {ts: 'TIMESTAMP', region: 'VARCHAR', temperature: 'DOUBLE'})
"""
TRUTH = """
SELECT now.tick, {group} AS "group", {value} AS value
FROM range(1, {ticks} + 1) AS now(tick)
JOIN visits ON visits.tick BETWEEN now.tick - {window} + 1 AND now.tick
WHERE {where} GROUP BY ALL
"""
ASKED: Mapping[tuple[str, str], tuple[str, str, str]] = {  # group, value, where
    ("fever_by_region", "count"): ("region", "count(*)", FEVER),
    ("fever_by_region", "avg_temperature"): ("region", "avg(temperature)", FEVER),
    ("fever_this_week", "count"): ("region", "count(*)", FEVER),
    ("median_temperature", "median_temperature"): ("'all'", "median(temperature)", "true"),
}


@dataclass(frozen=True)
class Beside:
    """A measure of a release beside its truth; all arrays are (ticks, places)."""

    releases: Releases
    measure: str
    truth: Floats

    @property
    def inside(self) -> npt.NDArray[np.bool_]:
        """Whether the truth lies in the interval that was published."""
        low, high = self.releases.lows(self.measure), self.releases.highs(self.measure)
        return np.asarray((low <= self.truth) & (self.truth <= high))

    @property
    def known(self) -> npt.NDArray[np.bool_]:
        """Where there is a truth: nobody is the mean of nothing."""
        return np.isfinite(self.truth)


def beside_truth(path: Path, published: Mapping[str, Releases]) -> list[Beside]:
    """Every measure of every release, at every tick."""
    import duckdb

    with duckdb.connect(":memory:", config={"temp_directory": ""}) as engine:
        engine.execute(VISITS, {"path": str(path), "start": START})
        return [
            Beside(published[name], measure, _truth(engine, published[name], measure))
            for name, measure in ASKED
        ]


def _truth(engine: Any, releases: Releases, measure: str) -> Floats:
    group, value, where = ASKED[releases.release, measure]
    window = WINDOWS[releases.release]
    sql = TRUTH.format(group=group, value=value, where=where, window=window, ticks=TICKS)
    places = [str(dict(place.labels).get("region", "all")) for place in releases.shape.places]
    truth = np.full((TICKS + 1, len(places)), 0.0 if value == "count(*)" else np.nan)
    for tick, label, number in engine.execute(sql).fetchall():
        truth[tick, places.index(label)] = number
    return truth[releases.ticks]
