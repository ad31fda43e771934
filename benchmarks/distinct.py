"""Coverage of 95 % intervals of COUNT(DISTINCT x) on hashed columns, in percent.

Tables of 2^12, 2^16 and 2^20 cells, loads (distinct values for each cell) from 0.01 to 3, and losses from
noise that dominates to noise that is hardly there; `running` and `each`, units event and user. A run draws
the number of occupied cells from its exact law, which is worked out value by value. Then it draws the noise
of the counter that the planner chooses, and computes the interval of the estimate. In parentheses after each
coverage is the median width of the intervals, in percent of the number of values.

With --pipeline, whole pipelines run instead, over files of 4,043 and 2,995 distinct values. The hash and the
noise are fresh in every run.

    python benchmarks/distinct.py             # 20,000 runs a cell: about 10 minutes
    python benchmarks/distinct.py --runs 2000
    python benchmarks/distinct.py --pipeline  # a few seconds
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import streamgauge as sg
from streamgauge.plan.aggregates.distinct import build_distinct
from streamgauge.plan.aggregates.function import PartSettings
from streamgauge.sql.query import Codes
from streamgauge.statistics.statistic import NoisySums
from streamgauge.store.keys import create_key

CELLS = 2**12, 2**16, 2**20
LOADS = 0.01, 0.03, 0.1, 0.3, 1.0, 3.0
LOSSES = "1/10", 1, 5, 50
UNITS = {"event": sg.Event(), "user": sg.User(4, 8)}
TICKS = {"each": 1, "running": 5}  # the tick whose interval is measured
HORIZON = 8
FAR = 12  # standard deviations of occupied cells that are followed
Floats = npt.NDArray[np.float64]

FILE = """
[stream]
name = "flights"
source = "flights.csv"
time = "ts"
tick = "1d"
start = "2026-01-01"
end = "2026-01-11"
unit = "event"
budget = {{ epsilon = {epsilon} }}
key = "file:planes.key"

[stream.columns]
tailnum = {{ hash_cells = {cells}, expected_distinct = {values} }}

[[release]]
name = "planes"
sql = "SELECT COUNT(DISTINCT tailnum) FROM flights"
window = "running"
epsilon = {epsilon}
"""


def occupied_laws(cells: int, numbers: list[int]) -> Iterator[tuple[int, Floats]]:
    """Yield the law of occupied cells for each number of values: the first count, and chances from it on.

    The (m+1)-th value finds an empty cell with chance 1 - k/n. Chances below e^-72 of all are dropped.
    """
    first, law, width = 0, np.ones(1), 2 * FAR * int(np.sqrt(cells * 0.1) + 20)
    for value in range(1, numbers[-1] + 1):
        empty = 1 - np.arange(first, first + len(law)) / cells
        grown = np.append(law * (1 - empty), 0.0)
        grown[1:] += law * empty
        mean = cells * -np.expm1(value * np.log1p(-1 / cells))
        drop = max(0, int(mean - width / 2) - first)
        first, law = first + drop, grown[drop : drop + width]
        if value in numbers:
            yield first, law / law.sum()


def build_statistic(cells: int, loss: sg.Pure, window: str, unit: Any) -> Any:
    """Build the planner's statistic of COUNT(DISTINCT x), without groups."""
    return build_distinct(Codes("x", cells, "x", is_hashed=True), PartSettings(loss, HORIZON, window, None, unit, 1))


def measure_coverage(statistic: Any, counts: npt.NDArray[np.int64], truth: int, tick: int) -> tuple[float, float]:
    """Return the share of intervals that cover the truth, and their relative width."""
    counter = statistic.counter.start(len(counts))
    for number in range(tick):
        sums = counter.step(counts if number == 0 else np.zeros_like(counts))
    noises = [statistic.counter.noise_at(tick)]
    sums_release = NoisySums(np.asarray(sums, float)[None], noises, len(counts), None, np.zeros((0, 1)))
    low, high = statistic.release(sums_release).interval()
    return float(((low <= truth) & (truth <= high)).mean()), float(np.median(high - low)) / truth


def show_grid(runs: int) -> None:
    print(
        f"{'cells':>8} {'load':>5} {'values':>9} {'epsilon':>7}"
        + "".join(f"{w + ' ' + u:>22}" for w in TICKS for u in UNITS)
    )
    rng, outside = np.random.default_rng(1), []
    for cells in CELLS:
        numbers = [max(1, round(load * cells)) for load in LOADS]
        for load, truth, (first, law) in zip(LOADS, numbers, occupied_laws(cells, numbers), strict=True):
            for loss in LOSSES:
                row = []
                for window, tick in TICKS.items():
                    for name, unit in UNITS.items():
                        counts = first + rng.choice(len(law), runs, p=law)
                        coverage, width = measure_coverage(
                            build_statistic(cells, sg.Pure(loss), window, unit), counts, truth, tick
                        )
                        row.append(f"{100 * coverage:5.1f} ({100 * width:.3g} %)")
                        outside += (
                            [] if 0.94 <= coverage <= 0.98 else [(cells, load, str(loss), window, name, coverage)]
                        )
                print(
                    f"{cells:>8} {load:>5} {truth:>9,} {loss!s:>7}" + "".join(f"{cell:>22}" for cell in row), flush=True
                )
    print(f"outside of 94 to 98 %: {len(outside)}")
    for cells, load, loss, window, name, coverage in outside:
        print(f"  {cells} cells, load {load}, epsilon {loss}, {window}, {name}: {100 * coverage:.1f} %")


def show_pipelines() -> None:
    print(f"{'values':>7} {'cells':>7} {'epsilon':>7}   published")
    for values, cells, epsilon in ((4043, 65536, 1), (4043, 4096, 1), (2995, 4096, 50)):
        with tempfile.TemporaryDirectory() as folder:
            print(f"{values:>7,} {cells:>7,} {epsilon:>7}   {run_pipeline(Path(folder), values, cells, epsilon)}")


def run_pipeline(folder: Path, values: int, cells: int, epsilon: int) -> str:
    rows = [f"2026-01-{1 + plane % 10:02d}T12:00:00Z,N{plane}" for plane in range(values)]
    (folder / "flights.csv").write_text("ts,tailnum\n" + "\n".join(rows) + "\n", encoding="utf-8")
    file = folder / "planes.toml"
    file.write_text(FILE.format(values=values, cells=cells, epsilon=epsilon), encoding="utf-8")
    create_key(folder / "planes.key")
    pipeline = sg.Pipeline.from_file(file)
    pipeline.run()
    last = pipeline.releases("planes")[-1]
    low, value, high = (float(array[0, 0]) for array in (last.low, last.value, last.high))
    hints = [hint for release in pipeline.plan().releases for part in release.choices for hint in part.hints]
    return "\n".join([f"{value:,.0f} [{low:,.0f}, {high:,.0f}]", *(f"{'':>26}{hint}" for hint in hints)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20_000)
    parser.add_argument("--pipeline", action="store_true")
    options = parser.parse_args()
    show_pipelines() if options.pipeline else show_grid(options.runs)


if __name__ == "__main__":
    main()
