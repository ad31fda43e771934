"""A sketch from which items that are known have been taken out: what is left tells of the others.

An item of f reports is expected to have f/(k m c) H[l, h_j(item)] in the cell of row j and line l. Taking
that off leaves the sketch of all other reports, with the chance of all of them. Which items collide with it
is known, as hashes are public, so that its collisions go with it; what stays is the error of f, times the
part of rows in which another item meets it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgauge.localdp.hadamard import transformed
from streamgauge.localdp.hadamard_count_mean_sketch import HadamardCountMeanSketch
from streamgauge.noise.numbers import Floats

AT_ONCE = 2**20  # cells


@dataclass(frozen=True, eq=False)
class Residue:
    """Of the table of a sketch: `left` of its reports were not taken out."""

    sketch: HadamardCountMeanSketch
    table: Any  # noisy
    reports: int
    left: float

    @classmethod
    def whole(cls, sketch: HadamardCountMeanSketch, table: Any, reports: int) -> "Residue":
        return cls(sketch, table, reports, float(reports))

    @property
    def off(self) -> float:
        """What is taken off every count for the reports that collide by chance."""
        return self.sketch.stretch * self.left / self.sketch.width

    def counts(self, items: Sequence[str]) -> Floats:
        """Of reports of each item that were not taken out."""
        return self.sketch.counts(self.table, 0, items) - self.off

    def squares(self, copies: int = 1) -> float:
        """An estimate of the sum of squares of the counts of what is left."""
        return self.sketch.squares(self.table, self.reports, copies)

    def without(self, items: Sequence[str], counts: Floats) -> "Residue":
        """What is left without so many reports of each of some items."""
        sketch, words = self.sketch, self.sketch.family.words(items)
        table = np.empty(self.table.shape)
        step = max(AT_ONCE // max(sketch.width, len(items)), 1)
        for first in range(0, sketch.hashes, step):
            rows = np.arange(first, min(first + step, sketch.hashes))[:, None]
            cells = np.zeros((len(rows), sketch.width))
            np.add.at(cells, (rows - first, sketch.family.columns(rows, words)), counts)
            expected = transformed(cells) / (sketch.hashes * sketch.width * sketch.scale)
            table[rows[:, 0]] = self.table[rows[:, 0]] - expected
        return Residue(sketch, table, self.reports, self.left - float(counts.sum()))
