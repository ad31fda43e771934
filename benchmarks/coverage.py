"""How often do 95 % intervals of means and variances hold the truth? From 5 events to a million, in percent.

Eight streams (even, normal, skewed, constant, at a bound, two-valued), each seen by 8,000 runs under noise of
their own; a row has the least and the largest coverage over the streams. The law that CI holds them to is
tests/laws/test_statistics_coverage.py.

    python benchmarks/coverage.py             # about a minute
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

import streamgauge as sg
from streamgauge.statistics import Mean, Variance

RUNS = 8000
COUNTS = (5, 20, 100, 1000, 10**4, 10**6)
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


def covered(claim: Any, values: Floats, confidence: float, ticks: int) -> float:
    """How many of RUNS runs, which saw these values at their first tick, hold the truth some ticks later."""
    run = claim.start(RUNS)
    vector = np.repeat(claim.totals(values)[:, None], RUNS, axis=1)
    for tick in range(ticks):
        counts = np.full(RUNS, 0 if tick else len(values)) if claim.counts_are_public else None
        estimate = run.take(vector if tick == 0 else np.zeros_like(vector), counts)
    low, high = estimate.interval(confidence)
    seen = claim.moments.grid.reals(claim.moments.grid.integers(values))
    truth = seen.mean() if isinstance(claim, Mean) else seen.var(ddof=1)
    return float(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean())


def row(name: str, claim: Any, confidence: float = 0.95, ticks: int = 3) -> None:
    cells = []
    for count in COUNTS:
        found = [covered(claim, values, confidence, ticks) for values in streams(count)]
        cells.append(f"{100 * min(found):5.1f} to {100 * max(found):5.1f}")
    print(f"{name:<42}" + "".join(f"{cell:>16}" for cell in cells), flush=True)


def main() -> None:
    print(f"{'events':<42}" + "".join(f"{count:>16,}" for count in COUNTS))
    for cls in (Mean, Variance):
        for loss in (sg.Pure(1), sg.Zcdp("1/20")):
            row(f"{cls.__name__}, {loss}", cls(loss, **BOUNDS))
        row(f"{cls.__name__}, {sg.Pure(1)}, public counts", cls(sg.Pure(1), **BOUNDS, **PUBLIC))
        row(f"{cls.__name__}, {sg.Pure(1)}, at 99 %", cls(sg.Pure(1), **BOUNDS), 0.99)


if __name__ == "__main__":
    main()
