"""The local model: speed, memory, error against theory, and pure-ldp.

    python benchmarks/localdp.py            # some minutes
    python benchmarks/localdp.py --quick    # fewer runs, a tenth of pure-ldp's reports: a minute or two

Speed. At Apple's published parameters (65,536 hashes, width 1,024, epsilon 4; 2,600 items, drawn evenly) and
at 1,024 hashes. Reports come in batches of a million, no two batches the same; rates are the median of
batches, in seconds of the wall and of processor time, since machines have other things to do. One thread does
all of it.

Error. 500 items, 100,000 reports, counts as 1/rank, a new hash family in each run. The root mean
square of what estimates were off, over the exact standard errors of `variance`, item by item; the error of
that ratio is known from how it varies from run to run, since errors of one sketch are not independent.

pure-ldp is the package of that name (left out where it, or scikit-learn and statsmodels, which it imports,
is not there), with the same numbers for both. Its chance comes from floats of a Mersenne twister, ours is
exact and cryptographic.
"""

import argparse
import resource
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from time import perf_counter, process_time
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

Floats = npt.NDArray[np.float64]
BATCH = 10**6
EMOJI = tuple(f"emoji {number}" for number in range(2600))
APPLE = HadamardCountMeanSketch(Pure(4), hashes=65_536, width=1024)
SMALL = HadamardCountMeanSketch(Pure(4), hashes=1024, width=1024)
SETTLED = 0.015  # the error of a ratio, of 1
SAME = """Flips, widths and corrections of pure-ldp are ours, as floats, but for HR: above epsilon 1 it is
the general version, whose codes support fewer items. Its hashes are xxHash of seeds 0, 1, 2, ..: the same in
every run, so that collisions are the luck of the items. A collector's time has all estimates in it."""
DRAWN = np.random.default_rng(9)


@dataclass(frozen=True)
class Timed:
    wall: float
    cpu: float

    def rate(self, count: int) -> str:
        return f"{count / self.wall:,.0f} | {count / self.cpu:,.0f}"

    def __str__(self) -> str:
        return f"{self.wall:.2f} s | {self.cpu:.2f} s"


def timed(act: Callable[[], Any]) -> tuple[Timed, Any]:
    wall, cpu = perf_counter(), process_time()
    result = act()
    return Timed(perf_counter() - wall, process_time() - cpu), result


def median(times: Sequence[Timed]) -> Timed:
    wall, cpu = (float(np.median([getattr(each, name) for each in times])) for name in ("wall", "cpu"))
    return Timed(wall, cpu)


def row(*cells: object) -> None:
    print("| " + " | ".join(str(each) for each in cells) + " |", flush=True)


def titled(title: str, *columns: str) -> None:
    print(f"\n{title}\n")
    row(*columns)
    print("|---|" + "---:|" * (len(columns) - 1))


def some(items: Sequence[Any], count: int) -> list[Any]:
    return [items[place] for place in DRAWN.integers(0, len(items), count).tolist()]


def peak() -> str:
    """Of the process so far."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:,.0f} MiB"


def protocols(loss: Pure, items: tuple[Any, ...], hashes: int, width: int) -> Iterator[Any]:
    """All six; local hashing has few columns, and so has more rows."""
    yield CountMeanSketch(loss, hashes=hashes, width=width)
    yield HadamardCountMeanSketch(loss, hashes=hashes, width=width)
    yield LocalHashing(loss, hashes=16 * hashes)
    yield RandomisedResponse(loss, items=items)
    yield UnaryEncoding(loss, items=items)
    yield HadamardResponse(loss, items=items)


def print_clients(count: int) -> None:
    titled("Devices, epsilon 4: reports a second", "", "bits", "one by one, wall", "CPU", "at once, wall", "CPU")
    items, few = some(EMOJI, count), max(count // 1000, 100)
    for claim in (APPLE, *protocols(Pure(4), EMOJI, 1024, 1024)):
        alone, _ = timed(partial(one_by_one, claim, items[:few]))
        share = items if claim.report_bits < 64 else items[: count // 100]
        claim.privatise_many(share[:100])
        together, _ = timed(partial(claim.privatise_many, share))
        row(called(claim), claim.report_bits, alone.rate(few), together.rate(len(share)))


def one_by_one(claim: Any, items: Sequence[Any]) -> list[bytes]:
    return [claim.privatise(item) for item in items]


def called(claim: Any) -> str:
    sizes = f"({claim.hashes:,} x {claim.width:,})" if hasattr(claim, "hashes") else f"({len(claim.items)})"
    return f"{type(claim).__name__}{sizes}"


def print_server(batches: int) -> None:
    titled("Collectors of HadamardCountMeanSketch, epsilon 4", "", "wall", "CPU")
    large = [APPLE.privatise_many(some(EMOJI, BATCH)) for _ in range(batches)]
    collector, pages = APPLE.build_collector(), timed(lambda: added(APPLE.build_collector(), large[:1]))[0]
    rates = [timed(partial(collector.add, each))[0] for each in large]
    row("65,536 hashes: reports added a second (bar 5,000,000)", median(rates[1:]).rate(BATCH))
    row("the same, the first million, into memory that was never touched", pages.rate(BATCH))
    whole, found = timed(lambda: collector.estimate(EMOJI))
    row("transform and 2,600 items (bar 15 s)", whole)
    held, most = collector._state.table.nbytes, peak()
    small = SMALL.privatise_many(some(EMOJI, BATCH))
    counted = added(SMALL.build_collector(), [small])
    row("1,024 hashes: reports added a second", timed(lambda: counted.add(small))[0].rate(BATCH))
    row("transform and 10,000 items (bar 1 s)", timed(lambda: counted.estimate(range(10**4)))[0])
    error = float(np.median(found.stddev)) / found.reports
    print(f"\n65,536 x 1,024 cells: {held / 2**20:,.0f} MiB; peak of the process, the {batches} million")
    print(f"reports included, {most}. {found.reports:,} reports: an emoji's share to {error:.2g}.")


def added(collector: Any, batches: Sequence[Any]) -> Any:
    for each in batches:
        collector.add(each)
    return collector


@dataclass(frozen=True)
class Population:
    """Counts of items as 1/rank."""

    items: tuple[int, ...]
    counts: Floats

    @classmethod
    def of(cls, items: int, reports: int) -> "Population":
        weights = 1 / np.arange(1, items + 1)
        counts = np.floor(weights / weights.sum() * reports)
        counts[0] += reports - counts.sum()
        return cls(tuple(range(items)), counts)

    @property
    def devices(self) -> list[int]:
        return np.repeat(self.items, self.counts.astype(np.int64)).tolist()

    def stddevs(self, claim: Any) -> Floats:
        """Return the standard error of an estimate of each item, by theory."""
        squares = float((self.counts**2).sum()) - self.counts**2
        return np.asarray(np.sqrt(claim.variance(self.counts, int(self.counts.sum()), squares)))

    def off(self, claim: Any, estimates: Floats) -> float:
        """The mean square of errors in standard errors."""
        return float((((estimates - self.counts) / self.stddevs(claim)) ** 2).mean())


@dataclass(frozen=True)
class Ratio:
    """Of the root mean square of errors to theory, from runs that are independent."""

    squares: Sequence[float]

    @property
    def value(self) -> float:
        return sqrt(float(np.mean(self.squares)))

    @property
    def error(self) -> float:
        return float(np.std(self.squares, ddof=1)) / sqrt(len(self.squares)) / (2 * self.value)

    def __str__(self) -> str:
        return f"{self.value:.3f} | {self.error:.3f}"


def estimated(claim: Any, people: Population) -> Floats:
    counts: Floats = added(claim.build_collector(), [claim.privatise_many(people.devices)]).estimate(people.items).count
    return counts


def seeded(claim: Any, seed: int) -> Any:
    return replace(claim, seed=seed) if hasattr(claim, "seed") else claim


def print_errors(runs: int, losses: Sequence[Pure]) -> None:
    people = Population.of(500, 10**5)
    for loss in losses:
        title = f"Error over theory, epsilon {loss.epsilon}, 500 items, 10^5 reports, {runs} runs"
        titled(title, "", "stddev of a rare item", "of it collisions", "RMSE / theory (bar 0.95 to 1.05)", "+-")
        for claim in protocols(loss, people.items, 64, 256):
            found = Ratio([people.off(claim, estimated(seeded(claim, run), people)) for run in range(runs)])
            rare, alone = float(people.stddevs(claim)[-1]), claim.stddev(people.counts[-1], 10**5)
            row(called(claim), f"{rare:.0f}", f"{1 - (alone / rare) ** 2:.0%}", found)
            if found.error > SETTLED:
                print(f"(known to {found.error:.1%} only: more runs are needed)")


@dataclass(frozen=True)
class Theirs:
    """A protocol of pure-ldp, and ours of the same settings."""

    name: str
    ours: Any
    parties: Callable[[], tuple[Any, Any]]  # client, server


def theirs(loss: Pure, items: tuple[int, ...]) -> list[Theirs]:
    """Its items are 1, 2, 3, ..."""
    from pure_ldp import frequency_oracles as they

    epsilon, size = float(loss.epsilon), len(items)
    cms, hcms, olh, grr, oue, hadamard = protocols(loss, items, 64, 256)

    class Sketch(they.CMSServer):  # type: ignore[misc]
        d = property(lambda self: 0, lambda self, value: None)  # NumPy takes a shape of None no more

    def sketch(is_hadamard: bool) -> tuple[Any, Any]:
        server = Sketch(epsilon, 64, 256, is_hadamard=is_hadamard)
        return they.CMSClient(epsilon, server.get_hash_funcs(), 256, is_hadamard=is_hadamard), server

    def response() -> tuple[Any, Any]:
        server = they.HadamardResponseServer(epsilon, size)
        return they.HadamardResponseClient(epsilon, size, server.get_hash_funcs()), server

    def hashing() -> tuple[Any, Any]:
        settings: Any = {"k": olh.hashes, "use_olh": True}
        return they.FastLHClient(epsilon, size, **settings), they.FastLHServer(epsilon, size, **settings)

    return [
        Theirs("CMS", cms, lambda: sketch(False)),
        Theirs("HCMS", hcms, lambda: sketch(True)),
        Theirs("FLH (so many hashes)", olh, hashing),
        Theirs("DE (randomised response)", grr, lambda: (they.DEClient(epsilon, size), they.DEServer(epsilon, size))),
        Theirs(
            "OUE", oue, lambda: (they.UEClient(epsilon, size, use_oue=True), they.UEServer(epsilon, size, use_oue=True))
        ),
        Theirs("HR", hadamard, response),
    ]


def print_theirs(reports: int, runs: int, loss: Pure) -> None:
    people = Population.of(100, reports)
    try:
        known = theirs(loss, people.items)
    except ImportError as missing:
        print(f"\npure-ldp is left out: {missing}")
        return
    title = f"Beside pure-ldp, epsilon {loss.epsilon}, 100 items, {reports:,} reports, {runs} runs, CPU"
    columns = ("their us a report: device", "collector", "ours: device", "collector")
    titled(title, "", *columns, "their RMSE / our theory", "+-", "our RMSE / theory", "+-")
    for each in known:
        them = [run_theirs(each, people) for _ in range(runs)]
        us = [run_ours(seeded(each.ours, run), people) for run in range(runs)]
        times = [
            f"{1e6 * min(found[place] for found in side) / reports:.2f}" for side in (them, us) for place in (0, 1)
        ]
        ratios = [Ratio([people.off(each.ours, found[2]) for found in side]) for side in (them, us)]
        row(f"{each.name}; {called(each.ours)}", *times, *ratios)
    print(f"\n{SAME}")


Run = tuple[float, float, Floats]  # seconds of devices and of the collector, and estimates


def run_theirs(protocol: Theirs, people: Population) -> Run:
    client, server = protocol.parties()
    sent, reports = timed(lambda: [client.privatise(item + 1) for item in people.devices])

    def collected() -> Any:
        server.aggregate_all(reports)
        return server.estimate_all([item + 1 for item in people.items], suppress_warnings=True)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        taken, estimates = timed(collected)
    return sent.cpu, taken.cpu, np.asarray(estimates, np.float64)


def run_ours(claim: Any, people: Population) -> Run:
    devices = people.devices
    sent, reports = timed(lambda: claim.privatise_many(devices))
    taken, found = timed(lambda: added(claim.build_collector(), [reports]).estimate(people.items))
    return sent.cpu, taken.cpu, found.count


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer runs and reports")
    quick = parser.parse_args().quick
    print_server(4 if quick else 12)
    print_clients(10**5 if quick else 10**6)
    print_errors(10 if quick else 60, (Pure(2),) if quick else (Pure(1), Pure(2), Pure(4)))
    for loss in (Pure(1),) if quick else (Pure(1), Pure(3)):
        print_theirs(2_000 if quick else 20_000, 3 if quick else 10, loss)


if __name__ == "__main__":
    main()
