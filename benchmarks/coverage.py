"""Coverage of 95 % intervals of means and variances, from 5 events to a million.

Eight streams (even, normal, skewed, constant, at a bound, two-valued), each with 8,000 runs under independent
noise. A row has the least and the largest coverage over the streams. A second table has few events at
both bounds, in several proportions, where variances are hardest, and grids of two places up. The laws that
CI holds them to are tests/laws/test_statistics_coverage.py and tests/statistics/test_spread.py.

    python benchmarks/coverage.py             # two minutes
    python benchmarks/coverage.py --hard      # the second table alone
"""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import streamgauge as sg
from streamgauge.statistics import Mean, Variance

RUNS = 8000
COUNTS = (5, 20, 100, 1000, 10**4, 10**6)
FEW = (5, 6, 7, 8, 10, 15, 30, 100)
BOUNDS: dict[str, Any] = {"lower": 0, "upper": 10, "step": 0.1, "horizon": 1000}
PUBLIC: dict[str, Any] = {"public_counts": True, "unit": sg.Event(replace=True)}
Floats = npt.NDArray[np.float64]


def build_streams(count: int) -> Iterator[Floats]:
    rng, places = np.random.default_rng(count), np.arange(count)
    yield np.linspace(0, 10, count)
    yield np.clip(rng.normal(5, 1, count), 0, 10)
    yield np.clip(rng.gamma(2, 0.6, count), 0, 10)
    for value in (3.0, 5.0, 10.0):
        yield np.full(count, value)
    for every in (2, 10):
        yield np.where(places % every == 0, 10.0, 0.0)


def build_bound_streams(count: int) -> Iterator[Floats]:
    """Build streams with some events at the upper bound and the others at the lower."""
    for above in sorted({1, count // 4, count // 3, count // 2}):
        yield np.where(np.arange(count) < above, 10.0, 0.0)


def measure_coverage(claim: Any, values: Floats, confidence: float, ticks: int) -> float:
    """Return the share of runs whose interval covers the truth after `ticks` ticks."""
    run = claim.start(RUNS)
    vector = np.repeat(claim.compute_totals(values)[:, None], RUNS, axis=1)
    for tick in range(ticks):
        counts = np.full(RUNS, 0 if tick else len(values)) if claim.has_public_counts else None
        estimate = run.step_totals(vector if tick == 0 else np.zeros_like(vector), counts)
    low, high = estimate.interval(confidence)
    rounded = claim.moments.grid.reals(claim.moments.grid.integers(values))
    truth = rounded.mean() if isinstance(claim, Mean) else rounded.var(ddof=1)
    return float(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean())


def print_row(name: str, claim: Any, confidence: float = 0.95, ticks: int = 3, *, hard: bool = False) -> None:
    cells = []
    for count in FEW if hard else COUNTS:
        candidates = build_bound_streams(count) if hard else build_streams(count)
        coverages = [measure_coverage(claim, values, confidence, ticks) for values in candidates]
        cells.append(f"{100 * min(coverages):5.1f} to {100 * max(coverages):5.1f}")
    print(f"{name:<42}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


def print_hard_rows() -> None:
    print(f"{'events, at both bounds':<42}" + "".join(f"{count:>16,}" for count in FEW))
    for epsilon in ("1/2", 1, 2, 4, 8):
        for step in (0.1, 10):
            bounds = {**BOUNDS, "step": step}
            print_row(
                f"Variance, epsilon {epsilon}, step {step}", Variance(sg.Pure(epsilon), **bounds), ticks=1, hard=True
            )
        public = Variance(sg.Pure(epsilon), **BOUNDS, **PUBLIC)
        print_row(f"Variance, epsilon {epsilon}, public counts", public, ticks=1, hard=True)


def main() -> None:
    if "--hard" in sys.argv:
        return print_hard_rows()
    print(f"{'events':<42}" + "".join(f"{count:>16,}" for count in COUNTS))
    for cls in (Mean, Variance):
        for loss in (sg.Pure(1), sg.Zcdp("1/20")):
            print_row(f"{cls.__name__}, {loss}", cls(loss, **BOUNDS))
        print_row(f"{cls.__name__}, {sg.Pure(1)}, public counts", cls(sg.Pure(1), **BOUNDS, **PUBLIC))
        print_row(f"{cls.__name__}, {sg.Pure(1)}, at 99 %", cls(sg.Pure(1), **BOUNDS), 0.99)
    print_hard_rows()
    return None


if __name__ == "__main__":
    main()
