"""Do sparse counters win where there are few events? Errors of running counts, from 10 events to one a tick.

Events come at any tick, evenly; errors are over all ticks and groups, mean absolute / root mean square.
`zero` publishes 0 for ever. Binary and `choose` are as wrong whatever the data. The sparse counter is the one
that `sparse_choice` fits to so many events; next to it is the prediction. Cascading buffers are
pan-private, and so is the mechanism that is compared with them. The first table has the break-even: the most
events for which the sparse counter is predicted to be less wrong than `choose`.

    python benchmarks/sparse.py            # about ten minutes: T = 2^10, 2^14, 2^16
    python benchmarks/sparse.py --quick    # T = 2^10 and 2^14: five minutes
    python benchmarks/sparse.py --long     # T = 2^20 too: an hour
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge import Pure
from streamgauge.adaptive.sparse.cascading_buffers import CascadingBuffers
from streamgauge.adaptive.sparse.choice import compare
from streamgauge.continual import Binary, choose

Ints = npt.NDArray[np.int64]
GROUPS = 48
EPSILONS = ("1", "1/10")
DENSITIES = (10, 100, 1000, 10_000)


@dataclass
class Errors:
    """Mean absolute and root mean square, of as many ticks as were added."""

    ticks: int = 0
    absolute: float = 0.0
    squared: float = 0.0

    def add(self, off: npt.NDArray[np.float64]) -> None:
        self.ticks += 1
        self.absolute += float(np.abs(off).mean())
        self.squared += float(np.square(off).mean())

    def __str__(self) -> str:
        return f"{self.absolute / self.ticks:.3g} / {sqrt(self.squared / self.ticks):.3g}"


def streams(ticks: int, events: int) -> Ints:
    rng, values = np.random.default_rng(events), np.zeros((ticks, GROUPS), np.int64)
    for group in range(GROUPS):
        np.add.at(values[:, group], rng.integers(0, ticks, events), 1)
    return values


def adaptive(claim: Any, values: Ints) -> Errors:
    run, total, errors = claim.start(GROUPS), np.zeros(GROUPS, np.int64), Errors()
    for row in values:
        total += row
        errors.add(run.step(row).value - total)
    return errors


def linear(claim: Any, values: Ints) -> Errors:
    errors = Errors()
    for off in claim.start(GROUPS).feed(values) - np.cumsum(values, axis=0):
        errors.add(off)
    return errors


def silent(values: Ints) -> Errors:
    errors = Errors()
    for total in np.cumsum(values, axis=0):
        errors.add(total)
    return errors


def cells(ticks: int, events: int, loss: Pure) -> Iterator[str]:
    values = streams(ticks, events)
    offers = compare(loss, horizon=ticks, expected=events / ticks)
    yield str(silent(values))
    yield str(linear(Binary(loss, horizon=ticks), values))
    yield str(linear(choose(loss, horizon=ticks), values))
    yield str(adaptive(offers.offers[0].mechanism, values))
    yield f"{offers.offers[0].rmse:.3g}"
    yield "yes" if not offers.offers[0].refusal else "no"
    yield str(linear(choose(loss, horizon=ticks, pan_private=True), values))
    yield str(adaptive(CascadingBuffers(loss, horizon=ticks, pan_private=True), values))


HEADINGS = ("zero", "Binary", "choose", "SparseCounter", "predicted", "offered", "choose (pan)", "Cascading (pan)")


def print_errors(ticks: int, epsilon: str) -> None:
    print(f"\nT = {ticks}, epsilon = {epsilon}: mean absolute / rms error\n")
    print("| events | " + " | ".join(HEADINGS) + " |\n|" + "---:|" * (1 + len(HEADINGS)))
    for events in sorted({*(n for n in DENSITIES if n < ticks), ticks}):
        print(f"| {events} | " + " | ".join(cells(ticks, events, Pure(epsilon))) + " |", flush=True)


def wins(ticks: int, events: int, loss: Pure) -> bool:
    return not compare(loss, horizon=ticks, expected=events / ticks).offers[0].refusal


def break_even(ticks: int, loss: Pure) -> int:
    """The most events of which fewer win, by halving."""
    least, most = 1, 2**40
    while most - least > max(1, least // 50):
        middle = (least + most) // 2 if most < 2 * least else int(sqrt(least * most))
        least, most = (middle, most) if wins(ticks, middle, loss) else (least, middle)
    return least


def print_break_even(horizons: list[int]) -> None:
    print("\nBreak-even with `choose`, by prediction: events (events a tick)\n")
    print("| T | " + " | ".join(f"epsilon = {epsilon}" for epsilon in EPSILONS) + " |\n|---:|---:|---:|")
    for ticks in horizons:
        found = [break_even(ticks, Pure(epsilon)) for epsilon in EPSILONS]
        print(f"| {ticks} | " + " | ".join(f"{n} ({n / ticks:.3g})" for n in found) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="T = 2^10 and 2^14 only")
    parser.add_argument("--long", action="store_true", help="T = 2^20 too")
    asked = parser.parse_args()
    horizons = [2**10, 2**14] + [2**16] * (not asked.quick) + [2**20] * asked.long
    print_break_even([2**10, 2**12, 2**14, 2**16, 2**18, 2**20])
    for ticks in horizons:
        for epsilon in EPSILONS:
            print_errors(ticks, epsilon)


if __name__ == "__main__":
    main()
