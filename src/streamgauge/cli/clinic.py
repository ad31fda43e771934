"""A synthetic clinic: a flu wave over 90 days that moves through four regions. Nobody real is in it.

Chance comes from a keystream with a known label, so that every demo is about the same clinic.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamgauge.testing import InsecureKeystream

Floats = npt.NDArray[np.float64]

MARK = "# A synthetic clinic, made by `streamgauge demo`. Nobody real is in it.\n"
START = "2026-01-05T00:00:00"  # UTC
DAYS = 90
HOURS = 24 * DAYS
REGIONS = ("north", "south", "east", "west")
SIZES = np.array([0.36, 0.28, 0.21, 0.15])
PEAKS = np.array([33.0, 40.0, 47.0, 55.0])  # days at which the wave is highest
ALWAYS, HEIGHT, LENGTH = 0.05, 2.4, 9.0  # visits for flu as a multiple of all others; days of the wave
TORN = 7  # records that end in the middle, as records do
WELL, ILL = (36.8, 0.35), (38.7, 0.6)  # mean and spread of temperatures

PIPELINE = """
[stream]
name = "visits"
source = "visits.jsonl"
arrival = "finished"
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
    """The stream and its pipeline file."""
    with (folder / "visits.jsonl").open("w") as file:
        file.writelines(lines(events))
    (folder / "clinic.toml").write_text(MARK + PIPELINE)


def lines(events: int) -> Iterator[str]:
    """The records, by time; some are torn."""
    every = max(1, events // TORN)
    for number, (when, region, degrees) in enumerate(visits(events)):
        line = f'{{"ts":"{when}Z","region":"{region}","temperature":{degrees}}}'
        yield (line[: len(line) // 2] if number % every == every // 2 else line) + "\n"


def visits(events: int) -> Iterator[tuple[str, str, float]]:
    """When somebody came, where, and how warm."""
    ill, everyone = intensities()
    cells = np.searchsorted(np.cumsum(everyone.ravel()) / everyone.sum(), uniform("cells", events))
    cells = np.sort(np.minimum(cells, everyone.size - 1))
    hours, regions = np.divmod(cells, len(REGIONS))
    seconds = hours * 3600 + np.floor(3600 * uniform("seconds", events)).astype(np.int64)
    order = np.argsort(seconds, kind="stable")
    times = np.datetime_as_string(np.datetime64(START, "s") + seconds[order], "s")
    warm = temperatures((ill / everyone).ravel()[cells])
    yield from zip(
        times.tolist(), np.array(REGIONS)[regions[order]].tolist(), warm[order].tolist(), strict=True
    )


def intensities() -> tuple[Floats, Floats]:
    """Visits for flu and all visits, by hour and region; only their proportions matter."""
    hours = np.arange(HOURS)[:, None]
    of_day = 0.25 + np.clip(np.sin((hours % 24 - 6) * np.pi / 14), 0, None)
    wave = ALWAYS + HEIGHT * np.exp(-((((hours / 24) - PEAKS) / LENGTH) ** 2))
    return SIZES * of_day * wave, SIZES * of_day * (1 + wave)


def temperatures(chance_of_flu: Floats, of: str = "") -> Floats:
    """How warm people are, each ill with a chance; `of` tells draws apart."""
    events = len(chance_of_flu)
    is_ill = uniform(f"{of}ill", events) < chance_of_flu
    mean, spread = (np.where(is_ill, ill, well) for ill, well in zip(ILL, WELL, strict=True))
    return np.asarray(np.round(np.clip(mean + spread * normal(events, of), 34.5, 42.5), 1))


def normal(size: int, of: str = "") -> Floats:
    """By Box and Muller."""
    radius = np.sqrt(-2 * np.log1p(-uniform(f"{of}radius", size)))
    return np.asarray(radius * np.cos(2 * np.pi * uniform(f"{of}angle", size)))


def uniform(label: str, size: int) -> Floats:
    """Numbers from 0 up to 1, the same in every demo."""
    words = np.empty(8 * size, np.uint8)
    InsecureKeystream(f"streamgauge demo: {label}").fill(words)
    return np.asarray((words.view(np.uint64) >> np.uint64(11)) * 2.0**-53, np.float64)
