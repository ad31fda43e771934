"""How often do 95 % intervals of means and variances hold the truth? From 5 events to a million, in percent.

Eight streams (even, normal, skewed, constant, at a bound, two-valued), each seen by 8,000 runs under noise of
their own; a row has the least and the largest coverage over the streams. A second table has few events at
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


def streams(count: int) -> Iterator[Floats]:
    rng, places = np.random.default_rng(count), np.arange(count)
    yield np.linspace(0, 10, count)
    yield np.clip(rng.normal(5, 1, count), 0, 10)
    yield np.clip(rng.gamma(2, 0.6, count), 0, 10)
    for value in (3.0, 5.0, 10.0):
        yield np.full(count, value)
    for every in (2, 10):
        yield np.where(places % every == 0, 10.0, 0.0)


def at_bounds(count: int) -> Iterator[Floats]:
    """Some at the upper bound, the others at the lower one."""
    for above in sorted({1, count // 4, count // 3, count // 2}):
        yield np.where(np.arange(count) < above, 10.0, 0.0)


def covered(claim: Any, values: Floats, confidence: float, ticks: int) -> float:
    """How many of RUNS runs, which saw these values at their first tick, hold the truth some ticks later."""
    run = claim.start(RUNS)
    vector = np.repeat(claim.compute_totals(values)[:, None], RUNS, axis=1)
    for tick in range(ticks):
        counts = np.full(RUNS, 0 if tick else len(values)) if claim.has_public_counts else None
        estimate = run.step_totals(vector if tick == 0 else np.zeros_like(vector), counts)
    low, high = estimate.interval(confidence)
    seen = claim.moments.grid.reals(claim.moments.grid.integers(values))
    truth = seen.mean() if isinstance(claim, Mean) else seen.var(ddof=1)
    return float(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean())


def row(name: str, claim: Any, confidence: float = 0.95, ticks: int = 3, *, hard: bool = False) -> None:
    cells = []
    for count in FEW if hard else COUNTS:
        tried = at_bounds(count) if hard else streams(count)
        found = [covered(claim, values, confidence, ticks) for values in tried]
        cells.append(f"{100 * min(found):5.1f} to {100 * max(found):5.1f}")
    print(f"{name:<42}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


def hard_rows() -> None:
    print(f"{'events, at both bounds':<42}" + "".join(f"{count:>16,}" for count in FEW))
    for epsilon in ("1/2", 1, 2, 4, 8):
        for step in (0.1, 10):
            bounds = {**BOUNDS, "step": step}
            row(f"Variance, epsilon {epsilon}, step {step}", Variance(sg.Pure(epsilon), **bounds), ticks=1, hard=True)
        public = Variance(sg.Pure(epsilon), **BOUNDS, **PUBLIC)
        row(f"Variance, epsilon {epsilon}, public counts", public, ticks=1, hard=True)


def main() -> None:
    if "--hard" in sys.argv:
        return hard_rows()
    print(f"{'events':<42}" + "".join(f"{count:>16,}" for count in COUNTS))
    for cls in (Mean, Variance):
        for loss in (sg.Pure(1), sg.Zcdp("1/20")):
            row(f"{cls.__name__}, {loss}", cls(loss, **BOUNDS))
        row(f"{cls.__name__}, {sg.Pure(1)}, public counts", cls(sg.Pure(1), **BOUNDS, **PUBLIC))
        row(f"{cls.__name__}, {sg.Pure(1)}, at 99 %", cls(sg.Pure(1), **BOUNDS), 0.99)
    hard_rows()
    return None


if __name__ == "__main__":
    main()
