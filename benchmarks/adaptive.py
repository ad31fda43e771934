"""PeGaSus compared with Laplace, BD, BA, Binary and the best of `choose`: unit counts, windows and events.

    python benchmarks/adaptive.py [--runs N] [--epsilon 0.1 ...]         # some minutes

Streams. Wifi associations are synthetic, drawn once from a fixed seed, not to favour a mechanism: 2,000
access points over 14 days of 5 minutes (4,032 ticks), rates spread over three powers of ten, a daily rhythm,
quiet weekends; every eighth is in a lecture hall, where twice a day some 40 people come within two ticks.

    quiet       50 access points outside of lecture halls, each a separate stream
    lectures    50 access points of lecture halls: long silence, short bursts
    building    64 access points together
    campus      all of them together: dense

Purchases are real: 69,659 purchases of 23,570 customers of CDNOW, January 1997 to June 1998, 545 days (Fader
and Hardie's public data, as the package `lifetimes` ships it; left out where it is not installed).

    purchases   all of a day: dense, with one steep fall
    crates      those of ten discs or more: few, on most days some
    cohorts     those of customers who came on the same day for the first time, 84 streams: a burst, then few

A stream is called sparse where most of its ticks are empty. No setting was chosen in view of these streams as
they are drawn now: seed and cohorts came after the last change of a mechanism.

Errors are the paper's: the sum of |estimate - truth| over all ticks (and streams of a kind), over the sum
of the truth; 1 is what the answer "always 0" has. Windows end at every tick. Events are jumps: the count is
at least `size` above that of 15 ticks before, the largest 2 % of changes being such; scored by the F-measure,
where 1 is perfect. All keep the same promise: epsilon for one event, which BD and BA do with w = 1.

Each of Laplace, BD, BA, Binary and Pegasus (at the paper's settings, by four smoothers; `quiet` is ours)
answers all columns from one run. `choose` starts one for each
column, which has all of epsilon for that window alone. "Blocks of 64" is a second run of Pegasus, whose
Perturber reads blocks too, for windows that are longer; it has all of epsilon as well. What is cut at 0 uses
that no count is negative.
"""

import argparse
import importlib.metadata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

import streamgauge as sg
from streamgauge import continual
from streamgauge.adaptive.pegasus.pegasus import Pegasus
from streamgauge.adaptive.w_event.absorption import BudgetAbsorption
from streamgauge.adaptive.w_event.distribution import BudgetDistribution
from streamgauge.postprocess import EventMonitor

Floats = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
WINDOWS = (1, 2**4, 2**8, 2**10)
EPSILONS = ("0.01", "0.1", "1")
DAY = 288
APART = 16  # ticks of a jump
RARE = 0.98  # of all changes are none


@dataclass(frozen=True)
class Stream:
    name: str
    counts: Counts  # (ticks, streams of this kind)

    @property
    def empty(self) -> float:
        """The part of ticks without an event: more than half, where a stream is called sparse."""
        return float((self.counts == 0).mean())


def wifi() -> Iterator[Stream]:
    chance = np.random.default_rng(20261116)
    points = associations(chance, 2000, 14)
    halls = np.arange(2000) % 8 == 0
    yield Stream("quiet", points[:, ~halls][:, :50])
    yield Stream("lectures", points[:, halls][:, :50])
    yield Stream("building", points[:, :64].sum(axis=1, keepdims=True))
    yield Stream("campus", points.sum(axis=1, keepdims=True))


def associations(chance: np.random.Generator, points: int, days: int) -> Counts:
    """Draw the devices that associate with each access point in every 5 minutes."""
    rates = 10 ** chance.uniform(-2.5, 0.5, points)
    tick = np.arange(days * DAY)
    rhythm = np.clip(np.sin((tick % DAY - 84) / DAY * 2 * np.pi), 0, None) + 0.02
    rhythm[(tick // DAY) % 7 >= 5] *= 0.1
    counts = chance.poisson(rhythm[:, None] * rates)
    for hall in range(0, points, 8):
        for day in range(days):
            for begin in chance.integers(96, 240, 2) if day % 7 < 5 else ():
                first = day * DAY + int(begin)
                counts[first : first + 2, hall] += chance.poisson(20, 2)
    return np.asarray(counts, np.int64)


def purchases() -> Iterator[Stream]:
    try:
        shipped = importlib.metadata.distribution("lifetimes")
    except importlib.metadata.PackageNotFoundError:
        print("left out: purchases (pip install lifetimes)")
        return
    text = str(shipped.locate_file("lifetimes/datasets/CDNOW_master.txt"))
    customers, dates, discs = np.loadtxt(text, usecols=(0, 1, 2), skiprows=1, dtype=np.int64).T
    days = np.array([f"{date // 10000}-{date // 100 % 100:02d}-{date % 100:02d}" for date in dates], "M8[D]")
    tick = (days - days.min()).astype(np.int64)
    came = np.full(customers.max() + 1, tick.max())
    np.minimum.at(came, customers, tick)
    yield Stream("purchases", by_day(tick, np.zeros_like(tick)))
    yield Stream("crates", by_day(tick[discs >= 10], np.zeros_like(tick[discs >= 10])))
    yield Stream("cohorts", by_day(tick, came[customers]))


def by_day(tick: Counts, kind: Counts) -> Counts:
    counts = np.zeros((int(tick.max()) + 1, int(kind.max()) + 1), np.int64)
    np.add.at(counts, (tick, kind), 1)
    return counts


def windows(ticks: Floats, size: int) -> Floats:
    """Sums of the last `size` ticks, at every tick."""
    sums = np.concatenate([np.zeros((1, ticks.shape[1])), np.cumsum(ticks, axis=0)])
    ends = np.arange(1, len(sums))
    return np.asarray(sums[ends] - sums[np.maximum(ends - size, 0)])


Answers = dict[int, Floats]  # by window
Method = Callable[[Counts, sg.Pure], Answers]


def from_ticks(ticks: Floats) -> Answers:
    return {size: windows(ticks, size) for size in WINDOWS}


def laplace(counts: Counts, loss: sg.Pure) -> Answers:
    return from_ticks(continual.WindowSum(loss, window=1).start(counts.shape[1]).feed(counts).astype(float))


def binary(counts: Counts, loss: sg.Pure) -> Answers:
    claim = continual.Binary(loss, horizon=len(counts))
    running = claim.start(counts.shape[1]).feed(counts).astype(float)
    return from_ticks(np.diff(running, axis=0, prepend=0))


def chosen(counts: Counts, loss: sg.Pure, lowest: float = -np.inf) -> Answers:
    def one(size: int) -> Floats:
        claim = continual.choose(loss, horizon=len(counts), window="each" if size == 1 else f"sliding {size}")
        return np.asarray(np.maximum(claim.start(counts.shape[1]).feed(counts), lowest), float)

    return {size: one(size) for size in WINDOWS}


def one_histogram_each(claim: Callable[[sg.Pure], Any], counts: Counts, loss: sg.Pure) -> Answers:
    """Streams of a kind are no histogram: each has its own run."""
    columns = [claim(loss).start(1).feed(column[:, None]).value for column in counts.T]
    return from_ticks(np.concatenate(columns, axis=1))


def pegasus(counts: Counts, claim: Pegasus, smoothers: Sequence[str]) -> Iterator[tuple[str, Answers]]:
    """All windows, by each smoother, from one run."""
    width = counts.shape[1]
    history = claim.history(width)
    release: Any = claim.start(width).feed(counts)
    history.add(release)
    for smoother in smoothers:
        sliding = {size: history.estimate_sliding(size, smoother) for size in WINDOWS[1:]}
        yield f"Pegasus, {smoother}", {1: history.estimate_counts(smoother), **sliding}


def pegasus_of_blocks(counts: Counts, loss: sg.Pure, size: int) -> Iterator[tuple[str, Answers]]:
    """The same with readings of blocks, as it is and cut at 0."""
    for name, told in pegasus(counts, Pegasus(loss, block=size), ["quiet"]):
        yield f"{name}, blocks of {size}", told
        yield f"{name}, blocks, cut at 0", {window: np.maximum(row, 0.0) for window, row in told.items()}


METHODS: dict[str, Method] = {
    "Laplace": laplace,
    "BD": partial(one_histogram_each, BudgetDistribution),
    "BA": partial(one_histogram_each, BudgetAbsorption),
    "Binary": binary,
    "choose": chosen,
    "choose, cut at 0": partial(chosen, lowest=0.0),
}
OURS = ("quiet", "median", "average", "james_stein")
BLOCK = 64  # ticks


def answers(counts: Counts, loss: sg.Pure) -> Iterator[tuple[str, Answers]]:
    """Yield the answers of every method on a stream."""
    for name, method in METHODS.items():
        yield name, method(counts, loss)
    yield from pegasus_of_blocks(counts, loss, BLOCK)
    yield from pegasus(counts, Pegasus(loss), OURS)


def jumps(stream: Stream) -> EventMonitor:
    """The monitor whose alerts are the largest changes of the true counts."""
    changes = stream.counts[APART - 1 :] - stream.counts[: len(stream.counts) - APART + 1]
    return EventMonitor("jump", size=max(1.0, float(np.quantile(changes, RARE))), window=APART)


def f_measure(told: npt.NDArray[np.bool_], true: npt.NDArray[np.bool_]) -> float:
    """The harmonic mean of precision and recall; 0 if there was no alert or no correct one."""
    right = int((told & true).sum())
    return 2 * right / max(1, int(told.sum()) + int(true.sum()))


@dataclass
class Table:
    """Scores of all methods on one stream, averaged over runs: an error for each window, and F."""

    stream: Stream
    scores: dict[str, list[list[float]]]

    @classmethod
    def of(cls, stream: Stream, loss: sg.Pure, runs: int) -> "Table":
        table, monitor = cls(stream, {}), jumps(stream)
        truth = from_ticks(stream.counts.astype(float))
        width = stream.counts.shape[1]
        events = monitor.start(width).feed(truth[1])
        for _ in range(runs):
            for name, told in answers(stream.counts, loss):
                errors = [float(np.abs(told[w] - truth[w]).sum() / truth[w].sum()) for w in table.windows]
                alerts = monitor.start(width).feed(told[1])
                table.scores.setdefault(name, []).append([*errors, f_measure(alerts, events)])
        return table

    @property
    def windows(self) -> list[int]:
        return [size for size in WINDOWS if size <= len(self.stream.counts) // 2]

    def means(self) -> dict[str, list[float]]:
        return {name: list(np.mean(rows, axis=0)) for name, rows in self.scores.items()}

    def show(self) -> None:
        counts, means = self.stream.counts, self.means()
        heads = ["unit", *(f"2^{size.bit_length() - 1}" for size in self.windows[1:]), "F"]
        title = f"{self.stream.name}: {counts.mean():.3g} a tick, {self.stream.empty:.0%} empty"
        print(f"{title:<34}", *(f"{head:>10}" for head in heads))
        best = [min(rows[i] for rows in means.values()) for i in range(len(self.windows))]
        best.append(max(rows[-1] for rows in means.values()))
        for name, rows in means.items():
            marks = ["*" if row == top else " " for row, top in zip(rows, best, strict=True)]
            print(f"  {name:<32}", *(f"{row:>9.3g}{mark}" for row, mark in zip(rows, marks, strict=True)))

    def lost(self) -> list[str]:
        """List the columns in which another is better than Pegasus with quiet groups, or with blocks for long windows.

        What may be cut at 0 is, on both sides, where that is better.
        """
        means = self.means()
        blocks = [means[f"Pegasus, quiet, blocks{which}"] for which in (f" of {BLOCK}", ", cut at 0")]
        long, plain = np.min(blocks, axis=0), means["Pegasus, quiet"]
        ours = [long[i] if size > BLOCK else plain[i] for i, size in enumerate(self.windows)]
        others = {name: rows for name, rows in means.items() if not name.startswith("Pegasus")}
        found = []
        for place, size in enumerate(self.windows):
            name, rows = min(others.items(), key=lambda item: item[1][place])
            if rows[place] < ours[place]:
                where = f"{self.stream.name} 2^{size.bit_length() - 1}"
                found.append(f"{where}: {name} {rows[place]:.3g}, ours {ours[place]:.3g}")
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=3, help="ten times as many of single streams")
    parser.add_argument("--epsilon", nargs="+", default=EPSILONS)
    asked = parser.parse_args()
    streams = [*wifi(), *purchases()]
    for epsilon in asked.epsilon:
        print(f"\nepsilon {epsilon}: scaled L1 error (lower is better), F-measure of jumps (higher is better)")
        lost = []
        for stream in streams:
            table = Table.of(stream, sg.Pure(epsilon), asked.runs * (1 if stream.counts.shape[1] > 1 else 10))
            table.show()
            lost += table.lost()
        print("others are better at:", *(lost or ["nothing"]), sep="\n  ")


if __name__ == "__main__":
    main()
