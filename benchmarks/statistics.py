"""Error and speed of each statistic, compared with fresh noise at every tick and with the papers.

Every statistic runs over the same stream of 100 groups, for 10^3 ticks (10 events in each, of a group) and
10^5 (one event); RMSE is over all groups and 25 ticks, spread evenly over the stream. "naive" is the same
claim with fresh noise at every tick, the loss split over all of them, measured on 10 groups. The papers'
Algorithms 3 and 4 get what they lack to be private: levels that are counted, noise that scales with the
range, a budget that is split; their answers are clamped to the range.

    python benchmarks/statistics.py             # some minutes
    python benchmarks/statistics.py --quick     # 10^3 ticks only
"""

import argparse
import resource
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

sys.path = [path for path in sys.path if not path.endswith("benchmarks")]  # where `statistics` is this file

import numpy as np
import numpy.typing as npt

import streamgauge as sg
from streamgauge.continual import SimpleI
from streamgauge.statistics import (
    Count,
    Distinct,
    Extremes,
    Histogram,
    Mean,
    Quantile,
    RangeCount,
    Statistic,
    Sum,
    TopK,
    Variance,
)

Floats = npt.NDArray[np.float64]
GROUPS, FEW = 100, 10
LOWER, UPPER, STEP = 0, 5, 0.05  # kilowatt-hours of a meter in half an hour
LOSS = sg.Pure(1)
BLOCK = 1000  # ticks fed at once
EVENTS = {10**3: 10, 10**5: 1}  # of a group in a tick


@dataclass(frozen=True)
class Stream:
    """Events in the order of ticks: reading, user and tariff of a meter."""

    ticks: npt.NDArray[np.int64]
    groups: npt.NDArray[np.int64]
    values: Floats
    users: npt.NDArray[np.int64]
    keys: npt.NDArray[np.int64]

    def between(self, first: int, last: int) -> "Stream":
        return self.only(slice(*np.searchsorted(self.ticks, [first, last + 1])))

    def only(self, part: Any) -> "Stream":
        return Stream(self.ticks[part], self.groups[part], self.values[part], self.users[part], self.keys[part])


def stream(ticks: int) -> Stream:
    rng = np.random.default_rng(7)
    size = ticks * GROUPS * EVENTS[ticks]
    values = np.clip(rng.gamma(2.0, 0.6, size), LOWER, UPPER)
    keys = np.minimum(rng.geometric(0.08, size) - 1, 63)
    return Stream(
        np.repeat(np.arange(1, ticks + 1), GROUPS * EVENTS[ticks]),
        np.tile(np.arange(GROUPS), ticks * EVENTS[ticks]),
        np.round(values / STEP) * STEP,
        rng.integers(0, 1000, size),
        keys,
    )


@dataclass(frozen=True)
class Question:
    """A statistic, its query of the stream, and the true answer."""

    name: str
    claim: Callable[[int, Any], Statistic[Any]]  # horizon, mechanism
    columns: Callable[[Stream], dict[str, Any]]
    answer: Callable[[Any], Floats]  # of a release of one tick: (groups, ...)
    truth: Callable[[Stream], Any]  # of one group's events so far
    naive: bool = True


def claim(cls: Any, **settings: Any) -> Callable[[int, Any], Statistic[Any]]:
    def made(horizon: int, mechanism: Any) -> Statistic[Any]:
        statistic: Statistic[Any] = cls(LOSS, horizon=horizon, mechanism=mechanism, **settings)
        return statistic

    return made


def looked_at(ticks: int) -> list[int]:
    """Ticks spread evenly over the stream."""
    return [ticks * part // 25 for part in range(1, 26)]


def answers(question: Question, data: Stream, ticks: int, mechanism: Any = None) -> tuple[Floats, float]:
    """The answers at the ticks looked at, and events per second."""
    run = question.claim(ticks, mechanism).start(int(data.groups.max()) + 1)
    found, spent, wanted = [], 0.0, looked_at(ticks)
    for last in sorted({*wanted, *range(BLOCK, ticks, BLOCK), ticks}):
        part = data.between(run.tick + 1, last)
        columns = question.columns(part)
        before, begun = run.tick, time.perf_counter()
        release = run.feed(**columns, ticks=part.ticks, groups=part.groups, until=last)
        spent += time.perf_counter() - begun
        if last in wanted:
            newest = release[-1] if isinstance(release, tuple) else release.select_tick(last - before - 1)
            found.append(question.answer(newest))
    return np.array(found), len(data.ticks) / spent


def truths(question: Question, data: Stream, ticks: int) -> Floats:
    by_group = [data.only(data.groups == group) for group in range(GROUPS)]
    rows = [[question.truth(part.between(1, tick)) for part in by_group] for tick in looked_at(ticks)]
    return np.array(rows)


def rmse(found: Floats, truth: Floats) -> float:
    return float(np.sqrt(np.nanmean((found - truth) ** 2)))


def questions() -> Iterator[Question]:
    bounds: dict[str, Any] = {"lower": LOWER, "upper": UPPER, "step": STEP}

    def values(data: Stream) -> dict[str, Any]:
        return {"values": data.values}

    def keys(data: Stream) -> dict[str, Any]:
        return {"values": data.keys}

    def value(release: Any) -> Floats:
        found: Floats = release.value
        return found

    yield Question("Count", claim(Count), values, value, lambda d: np.float64(len(d.values)))
    yield Question("Sum", claim(Sum, **bounds), values, value, lambda d: d.values.sum())
    yield Question("Mean", claim(Mean, **bounds), values, value, lambda d: d.values.mean())
    yield Question("Variance", claim(Variance, **bounds), values, value, lambda d: d.values.var(ddof=1))
    yield Question(
        "Histogram, 64 bins",
        claim(Histogram, domain=range(64)),
        keys,
        value,
        lambda d: np.bincount(d.keys, minlength=64).astype(float),
    )
    yield Question(
        "TopK, 5 of 64: their counts",
        claim(TopK, domain=range(64), k=5),
        keys,
        lambda r: np.sort(np.array(r.counts), axis=-1)[..., ::-1],
        lambda d: np.sort(np.bincount(d.keys, minlength=64))[::-1][:5].astype(float),
    )
    yield from tree_questions(bounds, values, value)


def tree_questions(bounds: dict[str, Any], values: Any, value: Any) -> Iterator[Question]:
    yield Question(
        "RangeCount, 2 <= kWh < 4",
        claim(RangeCount, axes={"kwh": sg.statistics.Axis(LOWER, UPPER, STEP)}),
        lambda d: {"values": {"kwh": d.values}},
        lambda r: r.count(kwh=(2, 4)).value,
        lambda d: np.float64(((d.values > 2 - STEP / 2) & (d.values < 4 - STEP / 2)).sum()),
    )
    yield Question("Quantile, median", claim(Quantile, q=0.5, **bounds), values, value, lambda d: median(d.values))
    yield Question(
        "Extremes, maximum", claim(Extremes, **bounds), values, lambda r: r.maximum, lambda d: d.values.max()
    )
    yield Question(
        "Distinct, of 1000",
        claim(Distinct, universe=1000),
        lambda d: {"users": d.users},
        value,
        lambda d: np.float64(len(np.unique(d.users))),
    )


def median(values: Floats) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])


class PaperCounter:
    """The binary mechanism over a vector of groups, in floats: the papers' p-sums, with counted levels."""

    def __init__(self, ticks: int, epsilon: float, reach: float) -> None:
        self.scale = reach * ticks.bit_length() / epsilon
        self.rng = np.random.default_rng()

    def released(self, block: Floats) -> Floats:
        """Noisy running sums of a (ticks, groups) block."""
        ticks = np.arange(1, len(block) + 1)
        noise = np.zeros_like(block)
        for level in range(len(block).bit_length()):
            nodes = self.rng.laplace(0, self.scale, (len(block) // 2**level + 1, block.shape[1]))
            used = (ticks >> level) & 1 == 1
            noise[used] += nodes[(ticks[used] >> level) - 1]
        sums: Floats = np.cumsum(block, axis=0) + noise
        return sums


@dataclass(frozen=True)
class Ticks:
    """Counts, sums and sums of squares of each tick and group."""

    counts: Floats
    sums: Floats
    squares: Floats


def by_tick(data: Stream, ticks: int) -> Ticks:
    values = data.values.reshape(ticks, -1, GROUPS)
    return Ticks(np.full((ticks, GROUPS), float(values.shape[1])), values.sum(axis=1), (values**2).sum(axis=1))


def paper_mean(data: Ticks, epsilon: float, power: int = 1) -> Floats:
    """Algorithm 3: half of the budget for the count, half for the sum, whose noise knows the range."""
    ticks = len(data.counts)
    counts = PaperCounter(ticks, epsilon / 2, 1).released(data.counts)
    sums = PaperCounter(ticks, epsilon / 2, UPPER**power).released(data.sums if power == 1 else data.squares)
    return np.asarray(np.clip(sums / np.where(counts == 0, 1, counts), LOWER, UPPER**power))


def paper_variance(data: Ticks, epsilon: float) -> Floats:
    """Algorithm 4: a third of the budget for its own count, and one for each of two average mechanisms."""
    counts = PaperCounter(len(data.counts), epsilon / 3, 1).released(data.counts)
    means, powers = paper_mean(data, epsilon / 3), paper_mean(data, epsilon / 3, power=2)
    below = np.where(counts == 1, 2, counts) - 1
    return np.asarray(np.clip(counts * (powers - means**2) / below, 0, (UPPER - LOWER) ** 2 / 4))


def papers(data: Stream, ticks: int) -> dict[str, Floats]:
    rows = np.array(looked_at(ticks)) - 1
    added, epsilon = by_tick(data, ticks), float(LOSS.epsilon)
    return {"Mean": paper_mean(added, epsilon)[rows], "Variance": paper_variance(added, epsilon)[rows]}


def table(ticks: int) -> None:
    data = stream(ticks)
    print(f"\n{ticks:,} ticks, {GROUPS} groups, {len(data.ticks):,} events, {LOSS}")
    names = (("RMSE", 10), ("of truth", 10), ("naive", 10), ("naive/ours", 12), ("paper", 10), ("paper/ours", 12))
    print(f"{'':<29}{''.join(f'{name:>{width}}' for name, width in names)}{'events/s':>13}")
    printed, few = papers(data, ticks), data.only(data.groups < FEW)
    for question in questions():
        truth = truths(question, data, ticks)
        found, speed = answers(question, data, ticks)
        ours, size = rmse(found, truth), float(np.sqrt(np.mean(truth**2)))
        fresh = rmse(answers(question, few, ticks, SimpleI)[0], truth[:, :FEW])
        line = f"{question.name:<29}{ours:>10.4g}{ours / size:>10.2%}{fresh:>10.4g}{fresh / ours:>12.3g}"
        if question.name in printed:
            paper = rmse(printed[question.name], truth)
            line += f"{paper:>10.4g}{paper / ours:>12.3g}"
        else:
            line += " " * 22
        print(f"{line}{speed:>13,.0f}", flush=True)


def million_keys() -> None:
    """A million undeclared keys in one run: the first tick has all of them, later ones few."""
    run = TopK(sg.Approx(1, 1e-6), k=10, horizon=1000).start()
    keys = np.char.add("key ", np.arange(10**6).astype(str))
    spent = []
    for events in (keys, keys, keys[:1000]):
        begun = time.perf_counter()
        run.step(events)
        spent.append(time.perf_counter() - begun)
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("\na million keys, discovered: " + ", ".join(f"{seconds:.2f} s" for seconds in spent), end="")
    print(f" for ticks of 10^6 new, 10^6 known and 10^3 known keys; {size:,.0f} MiB at most so far")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--quick", action="store_true", help="10^3 ticks only")
    quick = parser.parse_args().quick
    million_keys()
    for ticks in (10**3,) if quick else (10**3, 10**5):
        table(ticks)


if __name__ == "__main__":
    main()
