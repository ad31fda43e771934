"""The memory of a pan-private run: a table of noisy entries, and the ways to go through it piece by piece."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.noise import Ints
from streamgauge.noise.entropy import Wiped

STRETCH = 1 << 18  # entries worked on at once


@dataclass(slots=True)
class Table:
    """All that a run remembers. Nothing in it is exact."""

    entries: npt.NDArray[Any] = field(repr=False)  # noisy: one for each member of the sample

    def copy(self) -> "Table":
        return Table(self.entries.copy())

    def stretches(self) -> Iterator[npt.NDArray[Any]]:
        """Views of the entries, in order."""
        for start in range(0, len(self.entries), STRETCH):
            yield self.entries[start : start + STRETCH]

    def counts(self, values: int) -> Ints:
        """How many entries are 0, 1, .., values - 1; copies that are made on the way are overwritten."""
        counts = np.zeros(values, np.int64)
        for part in self.stretches():
            with Wiped() as secret:
                counts += secret(np.bincount(secret(part.astype(np.int64)), minlength=values))
        return counts


def blank(width: int, dtype: npt.DTypeLike) -> Table:
    return Table(np.zeros(width, dtype))
