"""Pan-private estimators, their stated errors, the truth, and a HyperLogLog without privacy.

    python benchmarks/panprivate.py            # universes of 10^4 to 10^7: some minutes
    python benchmarks/panprivate.py --quick    # up to 10^5, and speed: a minute

Errors. 3 users of 10 come, once, twice, ... with chances 1/2, 1/4, ..., 7 times at most, in any order. A
claim that reserves J announced intrusions has J of them, evenly over the stream, and the whole loss is
epsilon all the same. A cell is the standard error that estimates state (the median of runs) / the root mean
square of what they were off; of 3 runs that is known to half of itself, of 200 to a twentieth. `held` is how
many intervals of 95 % did. Parts are of the universe; the cropped mean is of visits. HyperLogLog is that of
the package `datasketches` (left out where it is not installed), with 2^12 registers of a byte, and with
about as many as `Density` has entries. It is not private.

Speed. Events into 10^7 entries, users drawn evenly, and NumPy's `table[users] = 1` of the same users, which
remembers them exactly: both in each of seven rounds; the best rate, and the median of the ratios. Seconds are
of processor time, since what else a machine does is no matter here; one thread does all of it.
"""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from importlib.util import find_spec
from math import sqrt
from time import process_time
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge import Pure
from streamgauge.panprivate import (
    ContinualDensity,
    CroppedMean,
    Density,
    HeavyFraction,
    Incidence,
    ModularIncidence,
    MultiplicativeDensity,
    PanPrivateEstimate,
)

Ints = npt.NDArray[np.int64]
RUNS = {10**4: 200, 10**5: 60, 10**6: 12, 10**7: 3}
CAME, FEW = 0.3, 0.001
MOST = 7  # visits of one user
TICKS = 24
INTRUSIONS = (0, 1, 2)
REGISTERS, LARGEST = 12, 21  # of a HyperLogLog, as powers of two
ENTRIES = 10**7
EVENTS = 4 * 10**6
ROUNDS = 7


@dataclass(frozen=True)
class Kind:
    """An estimator, its true value from the visits of each user, and its value in a release."""

    name: str
    claim: Callable[..., Any]
    truth: Callable[[Ints], float]
    read: Callable[[Any], PanPrivateEstimate] = lambda estimate: estimate


def density(visits: Ints) -> float:
    return float((visits > 0).mean())


KINDS = (
    Kind("Density", Density, density),
    Kind("Density, the paper's law", lambda loss, **rest: Density(loss, law="paper", **rest), density),
    Kind("MultiplicativeDensity", MultiplicativeDensity, density),
    Kind("ContinualDensity", ContinualDensity, density),
    Kind(
        "CroppedMean(limit=4)",
        lambda loss, **rest: CroppedMean(loss, limit=4, **rest),
        lambda visits: float(np.minimum(visits, 4).mean()),
    ),
    Kind(
        "HeavyFraction(at_least=3)",
        lambda loss, **rest: HeavyFraction(loss, at_least=3, **rest),
        lambda visits: float((visits >= 3).mean()),
    ),
    Kind(
        "Incidence(exactly=2)",
        lambda loss, **rest: Incidence(loss, exactly=2, **rest),
        lambda visits: float((visits == 2).mean()),
    ),
    Kind(
        "ModularIncidence(modulus=8), 2 visits",
        lambda loss, **rest: ModularIncidence(loss, modulus=8, **rest),
        lambda visits: float((visits == 2).mean()),
        lambda found: found.exactly(2),
    ),
)
FOR_FEW = (KINDS[0], KINDS[2])


@dataclass(frozen=True)
class Stream:
    visits: Ints  # of each user
    users: Ints  # as they come

    @classmethod
    def of(cls, universe: int, came: float) -> "Stream":
        chance = np.random.default_rng(universe)
        visits = np.zeros(universe, np.int64)
        there = chance.permutation(universe)[: round(came * universe)]
        visits[there] = np.minimum(chance.geometric(0.5, len(there)), MOST)
        return cls(visits, chance.permutation(np.repeat(np.arange(universe), visits)))


def run(kind: Kind, claim: Any, users: Ints) -> PanPrivateEstimate:
    """One run over the stream, with as many announced intrusions as the claim reserves."""
    started = claim.start()
    for place, part in enumerate(np.array_split(users, claim.intrusions + 1)):
        if place:
            started.intrude()
        if isinstance(claim, ContinualDensity):
            for tick in np.array_split(part, TICKS):
                started.step(tick)
        else:
            started.add(part)
    return kind.read(started.estimate())


@dataclass(frozen=True)
class Scores:
    stated: float
    measured: float
    held: int  # intervals of 95 %
    runs: int

    @classmethod
    def of(cls, truth: float, estimates: list[tuple[float, float, bool]]) -> "Scores":
        values, errors, held = zip(*estimates, strict=True)
        off = np.array(values) - truth
        return cls(float(np.median(errors)), sqrt(float(np.mean(off**2))), sum(held), len(off))

    def __str__(self) -> str:
        return f"{self.stated:.2g} / {self.measured:.2g}"


def scores(kind: Kind, stream: Stream, loss: Pure, intrusions: int, runs: int) -> Scores:
    claim, truth = (kind.claim(loss, universe=len(stream.visits), intrusions=intrusions), kind.truth(stream.visits))
    found = []
    for _ in range(runs):
        estimate = run(kind, claim, stream.users)
        low, high = estimate.interval(0.95)
        found.append((estimate.value, estimate.stddev, low <= truth <= high))
    return Scores.of(truth, found)


def hyperloglog(stream: Stream, registers: int, runs: int) -> Scores | None:
    """Names differ from run to run, since its hash does not."""
    try:
        from datasketches import hll_sketch, tgt_hll_type
    except ImportError:
        return None
    universe, truth, found = len(stream.visits), density(stream.visits), []
    for number in range(runs):
        sketch = hll_sketch(registers, tgt_hll_type.HLL_8)
        for user in (stream.users + number * universe).tolist():
            sketch.update(user)
        low, high = sketch.get_lower_bound(1) / universe, sketch.get_upper_bound(1) / universe
        widest = sketch.get_lower_bound(2) / universe <= truth <= sketch.get_upper_bound(2) / universe
        found.append((sketch.get_estimate() / universe, (high - low) / 2, widest))
    return Scores.of(truth, found)


def print_errors(universe: int, loss: Pure, runs: int) -> None:
    stream = Stream.of(universe, CAME)
    print(f"\nUniverse {universe:,}, {len(stream.users):,} visits, epsilon {loss.epsilon}, {runs} runs a cell\n")
    print("| stated / measured | truth | " + " | ".join(f"{J} announced" for J in INTRUSIONS) + " | held |")
    print("|---|---:|" + "---:|" * len(INTRUSIONS) + "---:|")
    for kind in KINDS:
        cells = [scores(kind, stream, loss, J, runs) for J in INTRUSIONS]
        held = f"{sum(cell.held for cell in cells)}/{sum(cell.runs for cell in cells)}"
        row = (kind.name, f"{kind.truth(stream.visits):.4f}", *map(str, cells), held)
        print("| " + " | ".join(row) + " |", flush=True)
    for registers in (REGISTERS, min(LARGEST, universe.bit_length() - 1)):
        if found := hyperloglog(stream, registers, runs):
            name = f"HyperLogLog of 2^{registers} bytes, not private"
            row = (name, f"{density(stream.visits):.4f}", str(found), "-", "-", f"{found.held}/{found.runs}")
            print("| " + " | ".join(row) + " |", flush=True)


def print_few(universes: list[int], loss: Pure) -> None:
    print(f"\nOne user of {1 / FEW:,.0f} came: stated / measured, in users, epsilon {loss.epsilon}\n")
    print("| universe | came | " + " | ".join([*(kind.name for kind in FOR_FEW), "HyperLogLog"]) + " |")
    print("|---:|" + "---:|" * (2 + len(FOR_FEW)))
    for universe in universes:
        stream, runs = Stream.of(universe, FEW), RUNS[universe]
        found = [scores(kind, stream, loss, 0, runs) for kind in FOR_FEW] + [hyperloglog(stream, REGISTERS, runs)]
        cells = [f"{each.stated * universe:,.0f} / {each.measured * universe:,.0f}" if each else "-" for each in found]
        print(f"| {universe:,} | {round(FEW * universe):,} | " + " | ".join(cells) + " |", flush=True)


def print_prices(universes: list[int]) -> None:
    print(f"\nPrice of announced intrusions: predicted standard error of Density where {CAME} came\n")
    print("| universe | epsilon | " + " | ".join(f"{J} reserved, {J} made" for J in INTRUSIONS) + " |")
    print("|---:|---:|" + "---:|" * len(INTRUSIONS))
    for universe in universes:
        for epsilon in ("1/2", "1", "2", "4"):
            claims = [Density(Pure(epsilon), universe=universe, intrusions=J) for J in INTRUSIONS]
            cells = [f"{claim.stddev(CAME, claim.intrusions):.2g}" for claim in claims]
            print(f"| {universe:,} | {epsilon} | " + " | ".join(cells) + " |")


def timed(act: Callable[[Ints], object], users: Ints) -> float:
    began = process_time()
    act(users)
    return process_time() - began


def scattered(table: npt.NDArray[np.uint8]) -> Callable[[Ints], None]:
    def scatter(users: Ints) -> None:
        table[users] = 1

    return scatter


def bytes_of(state: Any) -> int:
    held = (getattr(state, each.name) for each in fields(state))
    return sum(each.nbytes for each in held if isinstance(each, np.ndarray))


def at_full_size(loss: Pure) -> Iterator[tuple[str, Any]]:
    for kind in KINDS:
        yield kind.name, kind.claim(loss, universe=ENTRIES)
    yield "ModularIncidence(modulus=10)", ModularIncidence(loss, universe=ENTRIES, modulus=10)
    yield "Density, hashed", Density(loss, universe=ENTRIES, hashed=True)
    yield "Density, a sample of 10^6", Density(loss, universe=ENTRIES, sample=ENTRIES // 10)


def print_speed(loss: Pure) -> None:
    users = np.random.default_rng(1).integers(0, ENTRIES, EVENTS)
    scatter = scattered(np.zeros(ENTRIES, np.uint8))
    print(f"\nSpeed: {EVENTS:,} events into {ENTRIES:,} entries\n")
    print("| | million events a CPU second | time, in scatters | bytes a user | to begin | to estimate |")
    print("|---|---:|---:|---:|---:|---:|")
    print(f"| `table[users] = 1` | {fastest(scatter, users):.0f} | 1 | 1 | - | - |")
    for name, claim in at_full_size(loss):
        began = process_time()
        started = claim.start()
        begun = process_time() - began
        act = started.step if isinstance(claim, ContinualDensity) else started.add
        rounds = [(timed(scatter, users), timed(act, users)) for _ in range(ROUNDS)]
        rate = EVENTS / min(ours for _, ours in rounds) / 1e6
        ratio = float(np.median([ours / theirs for theirs, ours in rounds]))
        estimate = timed(lambda _: started.estimate(), users)  # noqa: B023 - called at once
        size = bytes_of(claim.blank_table(claim.entries)) / ENTRIES
        print(f"| {name} | {rate:.1f} | {ratio:.1f} | {size:.2f} | {begun:.2f} s | {estimate:.2f} s |", flush=True)


def fastest(act: Callable[[Ints], object], users: Ints) -> float:
    """Million events a second, the best of some rounds."""
    return len(users) / min(timed(act, users) for _ in range(ROUNDS)) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="universes up to 10^5, fewer runs")
    parser.add_argument("--epsilon", default="1", help="the whole loss (default 1)")
    parser.add_argument("--universe", type=int, choices=RUNS, help="this one only")
    asked = parser.parse_args()
    universes = [asked.universe] if asked.universe else [10**4, 10**5] if asked.quick else list(RUNS)
    loss = Pure(asked.epsilon)
    if find_spec("datasketches") is None:
        print("left out: HyperLogLog (pip install datasketches)")
    print_speed(loss)
    print_prices(universes)
    print_few([each for each in universes if each > 10**4] or universes, loss)
    for universe in universes:
        print_errors(universe, loss, max(3, RUNS[universe] // 4) if asked.quick else RUNS[universe])


if __name__ == "__main__":
    main()
