"""Lying devices: their effect on an estimate and its error bar.

    python benchmarks/liars.py            # half a minute
    python benchmarks/liars.py --quick    # fewer runs

A part of 10^5 devices promotes the rarest of 500 items, which have counts as 1/rank: with honest reports of
it, or with the report that moves its estimate most. Bias is the estimate of all reports less that of the
honest ones. Error bars come from the sketch. The last column shows how much wider those of an item without
devices become if liars repeat few different reports.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge import Pure
from streamgauge.localdp import (
    CountMeanSketch,
    HadamardCountMeanSketch,
    HadamardResponse,
    LocalHashing,
    RandomisedResponse,
    UnaryEncoding,
)

PARTS = (0.001, 0.01, 0.1)
DRAWN = np.random.default_rng(9)


@dataclass(frozen=True)
class Population:
    """Counts of items as 1/rank."""

    items: tuple[int, ...]
    counts: npt.NDArray[np.float64]

    @classmethod
    def of(cls, items: int, reports: int) -> "Population":
        weights = 1 / np.arange(1, items + 1)
        counts = np.floor(weights / weights.sum() * reports)
        counts[0] += reports - counts.sum()
        return cls(tuple(range(items)), counts)

    @property
    def devices(self) -> list[int]:
        return np.repeat(self.items, self.counts.astype(np.int64)).tolist()

    def stddev(self, claim: Any) -> float:
        """Return the standard error of an estimate of the rarest item, by theory."""
        rare, squares = self.counts[-1], float((self.counts[:-1] ** 2).sum())
        return float(np.sqrt(claim.variance(rare, int(self.counts.sum()), squares)))


def protocols(loss: Pure, items: tuple[int, ...]) -> Iterator[Any]:
    yield CountMeanSketch(loss, hashes=64, width=256)
    yield HadamardCountMeanSketch(loss, hashes=64, width=256)
    yield LocalHashing(loss, hashes=1024)
    yield from (each(loss, items=items) for each in (RandomisedResponse, UnaryEncoding, HadamardResponse))


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def titled(title: str, *columns: str) -> None:
    print(f"\n{title}\n")
    row(*columns)
    row("---", *["---:"] * (len(columns) - 1))


def added(collector: Any, reports: Any) -> Any:
    collector.add(reports)
    return collector


def forged(claim: Any, item: int, count: int) -> list[bytes]:
    """Reports that move the estimate of an item up the most."""
    if isinstance(claim, HadamardCountMeanSketch):
        places = zip(*(DRAWN.integers(0, most, count).tolist() for most in (claim.hashes, claim.width)), strict=True)
        return [claim.encode(item, place, line, 0) for place, line in places]
    if isinstance(claim, CountMeanSketch):
        nothing = [0] * claim.width
        return [claim.encode(item, place, nothing) for place in DRAWN.integers(0, claim.hashes, count).tolist()]
    if isinstance(claim, LocalHashing):
        return [claim.encode(item, place, 1, 0) for place in DRAWN.integers(0, claim.hashes, count).tolist()]
    if isinstance(claim, UnaryEncoding):
        return [claim.encode(item, 1, [0] * len(claim.items))] * count
    if isinstance(claim, HadamardResponse):
        return [claim.encode(item, code, 0) for code in DRAWN.integers(0, claim.codes, count).tolist()]
    return [claim.encode(item, 1, 0)] * count


def print_liars(loss: Pure, runs: int) -> None:
    people = Population.of(500, 10**5)
    item = f"one item of {people.counts[-1]:.0f}"
    title = f"Lying devices, epsilon {loss.epsilon}, 10^5 devices, {item}: bias for each of them"
    columns = [f"{part:.1%} {how}" for part in PARTS for how in ("honest reports", "forged")]
    titled(title, "", "influence", *columns)
    for claim in protocols(loss, people.items):
        cells = [f"{np.mean(found):.2f}" for part in PARTS for found in biases(claim, people, part, runs)]
        row(type(claim).__name__, f"{claim.influence:.2f}", *cells)
    print("\nWhat that makes of a share of the item, by theory: part x influence, in standard errors of it")
    for claim in protocols(loss, people.items):
        error = people.stddev(claim)
        told = ", ".join(f"{part:.1%}: {part * len(people.devices) * claim.influence / error:.1f}" for part in PARTS)
        print(f"- {type(claim).__name__}: {told}")


def biases(claim: Any, people: Population, part: float, runs: int) -> tuple[list[float], list[float]]:
    """For each liar, of runs: with honest reports of the last item, and with forged ones."""
    item, liars = people.items[-1], round(part * len(people.devices))
    honest = people.devices[: len(people.devices) - liars]
    found: tuple[list[float], list[float]] = ([], [])
    for run in range(runs):
        mine = replace(claim, seed=run) if claim.hash_shape else claim
        before = added(mine.build_collector(), mine.privatise_many(honest))
        for kind, sent in zip(found, (mine.privatise_many([item] * liars), forged(mine, item, liars)), strict=True):
            after = added(before + mine.build_collector(), sent)
            kind.append(float(after.estimate([item]).count[0] - before.estimate([item]).count[0]) / liars)
    return found


def print_bars(loss: Pure) -> None:
    people = Population.of(500, 10**5)
    title = f"Lying devices, epsilon {loss.epsilon}, 10^5 devices: standard error, of that of as many honest ones"
    few = (1, 16, 256)
    titled(title, "", *(f"{part:.0%}, {count} reports" for part in PARTS[1:] for count in few))
    for claim in [each for each in protocols(loss, people.items) if each.hash_shape]:
        row(type(claim).__name__, *(f"{widened(claim, people, part, n):.2f}" for part in PARTS[1:] for n in few))


def widened(claim: Any, people: Population, part: float, different: int) -> float:
    """Return the factor by which an error bar widens if a part of all devices sends so few different reports."""
    sent = np.asarray(claim.privatise_many(people.devices))
    liars = round(part * len(sent))
    told = np.concatenate([sent[liars:], sent[DRAWN.integers(0, different, liars)]])
    bars = [added(claim.build_collector(), each).estimate(["nobody's"]).stddev[0] for each in (told, sent)]
    return float(bars[0] / bars[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer runs")
    print_liars(Pure(2), 2 if parser.parse_args().quick else 10)
    print_bars(Pure(2))


if __name__ == "__main__":
    main()
