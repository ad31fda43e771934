"""Sizes and errors of sketches beside an exact counter, predicted for a Zipf stream.

An exact counter has a counter for every key. On one machine it is better nearly always: `compare` shows by how much.
"""

from dataclasses import dataclass
from math import pi, sqrt

import numpy as np

from streamgauge.continual import choose
from streamgauge.continual.validation import check_whole
from streamgauge.privacy import Approx, Loss, Pure, Zcdp
from streamgauge.sketches.count_min import CountMin
from streamgauge.sketches.count_sketch import CountSketch
from streamgauge.sketches.misra_gries import MisraGries

SHAPES = (5, 2**13), (17, 2**13), (5, 2**16)
TABLE_SIZES = 2**10, 2**13
EXPONENT = 1.1
MAX_KEYS = 2**26
FIGURES = 3


@dataclass(frozen=True)
class SketchLine:
    """One line of a comparison."""

    name: str
    bytes: int
    noise: float  # standard error of one count, by noise
    rest: float  # by collisions, or the most by which a count falls short
    remark: str = ""

    def __str__(self) -> str:
        return f"{self.name:<26} {self.bytes:>13,} {self.noise:>9.{FIGURES}g} {self.rest:>12.{FIGURES}g}  {self.remark}"


@dataclass(frozen=True)
class SketchComparison:
    """Lines of sketches beside the exact counter, which is the first; print it for a table."""

    keys: int
    events: int
    loss: Loss
    lines: tuple[SketchLine, ...]

    @property
    def advice(self) -> str:
        """The line that fits: the exact counter unless it needs far more memory."""
        exact, *sketches = self.lines
        smaller = [line for line in sketches if line.bytes * 8 <= exact.bytes]
        if not smaller:
            return "use the exact counter: no sketch is eight times smaller"
        best = min(smaller, key=lambda line: line.noise + line.rest)
        return f"use the exact counter, or {best.name} if {exact.bytes:,} bytes do not fit"

    def __str__(self) -> str:
        title = f"{self.keys:,} keys, {self.events:,} events, {self.loss!r}"
        head = f"{'one release':<26} {'bytes':>13} {'noise':>9} {'else at most':>12}"
        return "\n".join([title, head, *map(str, self.lines), self.advice])


def compare(keys: int, events: int, loss: Loss) -> SketchComparison:
    """Return sizes and errors for so many keys and events, Zipf distributed with exponent 1.1.

    Nothing of the data is read. The loss is that of one release: pure, zCDP or approximate.

    >>> import streamgauge as sg
    >>> print(sg.sketches.compare(10**6, 10**6, sg.Zcdp("1/2")).lines[0])
    exact counter                 16,000,000         1            0  any key of a list
    """
    check_whole("keys", keys)
    check_whole("events", events)
    if keys > MAX_KEYS:
        raise ValueError(f"keys must be at most 2**26, got {keys}")
    if not isinstance(loss, Pure | Zcdp | Approx):
        raise ValueError(f"loss must be Pure, Zcdp or Approx, got {loss!r}")
    counts = zipf_counts(keys, events)
    lines = [SketchLine("exact counter", 16 * keys, choose(loss, horizon=1).stddev(1), 0.0, "any key of a list")]
    for rows, columns in SHAPES:
        lines.append(_sketch_line(CountSketch(loss, horizon=1, rows=rows, columns=columns), counts))
    if isinstance(loss, Approx):
        for size in TABLE_SIZES:
            table = MisraGries(loss, counters=size)
            lines.append(_table_line(table, events))
    if isinstance(loss, Pure):
        least = CountMin(loss)
        lines.append(_least_line(least, counts))
    return SketchComparison(keys, events, loss, tuple(lines))


def zipf_counts(keys: int, events: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return expected counts of keys, the largest first."""
    weights = np.arange(1.0, keys + 1) ** -EXPONENT
    return np.asarray(events * weights / weights.sum())


def _sketch_line(claim: CountSketch, counts: np.ndarray[tuple[int], np.dtype[np.float64]]) -> SketchLine:
    factor = sqrt(pi / 2 / claim.rows)
    rest = counts[claim.columns // 8 :]  # the median of rows copes with the largest counts
    collisions = factor * sqrt(float((rest**2).sum()) / claim.columns)
    name = f"CountSketch {claim.rows} x {claim.columns}"
    return SketchLine(name, 8 * claim.cells, factor * claim.stddev(1), collisions, "any key, deletions")


def _table_line(claim: MisraGries, events: int) -> SketchLine:
    shortfall = float(claim.largest_shortfall(events))
    remark = f"frequent keys, from {claim.threshold} up"
    return SketchLine(f"MisraGries {claim.counters}", 40 * claim.counters, claim.stddev, shortfall, remark)


def _least_line(claim: CountMin, counts: np.ndarray[tuple[int], np.dtype[np.float64]]) -> SketchLine:
    rest = float(counts[claim.columns // 8 :].sum()) / claim.columns
    name = f"CountMin {claim.rows} x {claim.columns}"
    noise = sqrt(claim.distribution.variance)
    return SketchLine(name, 8 * claim.rows * claim.columns, noise, rest, "biased, see count_min")
