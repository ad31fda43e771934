"""The synthetic clinic, live: a tick a second, and waves of flu that move through four regions.

Visits are drawn second by second from a keystream with a known label, so that every demo has the same ones.
Nobody real is in it.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from streamgauge.cli.clinic import MARK, REGIONS, SIZES, Floats, temperatures, uniform
from streamgauge.query.released import moment

SECOND = 10**6  # microseconds: a tick
VISITS = 260.0  # a second without flu, in all regions
WAVE, WIDTH, APART = 150, 22.0, 18  # seconds from one wave to the next, its width, and from region to region
ALWAYS, HEIGHT = 0.08, 1.5  # visits for flu as a multiple of all others
SHARE = "1/2"  # of the budget: what the analyst of the demo may spend

PIPELINE = """
[stream]
name = "visits"
source = "http"
time = "ts"
tick = "1s"
start = "{start}"{end}
lateness = "2s"
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
    """Somebody who came."""

    time: int  # microseconds since 1970
    region: str
    temperature: float

    @property
    def line(self) -> str:
        return f'{{"ts":"{moment(self.time)}","region":"{self.region}","temperature":{self.temperature}}}'


def write_live_clinic(folder: Path, start: int, ticks: int | None) -> Path:
    """The pipeline file of a clinic that opens at `start`, for so many ticks or for ever."""
    end = "" if ticks is None else f'\nend = "{moment(start + ticks * SECOND)}"'
    path = folder / "clinic.toml"
    path.write_text(MARK + PIPELINE.format(start=moment(start), end=end))
    return path


def visits_between(start: int, since: int, until: int) -> Sequence[Visit]:
    """Who comes from `since` up to `until`: the same however the time is cut into such parts."""
    first, last = (since - start) // SECOND, (until - start - 1) // SECOND
    found = [visit for second in range(max(0, first), last + 1) for visit in visits_of(start, second)]
    return [visit for visit in found if since <= visit.time < until]


def visits_of(start: int, second: int) -> list[Visit]:
    """Who comes in one second of the stream, by time."""
    flu = flu_of(second)
    counts = np.floor(VISITS * SIZES * (1 + flu) + uniform(f"live count {second}", len(REGIONS)))
    regions = np.repeat(np.arange(len(REGIONS)), counts.astype(np.int64))
    warm = temperatures((flu / (1 + flu))[regions], f"live {second} ")
    moments = np.floor(SECOND * uniform(f"live moments {second}", len(regions))).astype(np.int64)
    begin = start + second * SECOND
    return sorted(
        Visit(begin + at, REGIONS[region], degrees)
        for at, region, degrees in zip(moments.tolist(), regions.tolist(), warm.tolist(), strict=True)
    )


def flu_of(second: int) -> Floats:
    """Visits for flu as a multiple of all others, by region."""
    into = (second - APART * np.arange(len(REGIONS))) % WAVE
    return np.asarray(ALWAYS + HEIGHT * np.exp(-(((into - WAVE / 3) / WIDTH) ** 2)))
