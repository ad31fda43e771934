"""Counts of events at every tick: running, by tick, sliding or decayed.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof: an event adds 1 to one group, so its presence moves a tick's vector by 1. A replaced one
    leaves a group and enters another, 2 in L1 and 2 in squared L2. With `unit=Tick(N)` a whole tick is
    protected: the first N events of each tick count, and all of them together move the vector by N.

Hashed
    With `cells`, events are the occupied cells of a hash table, each once a tick. The estimate is then of the
    number of distinct values that were hashed, and its error includes the chance of the hash (`hash_cells`).

Error
    Unbiased, unless hashed. The standard error is that of the counter, and depends on no data. With a counter
    that adapts to its data (`mechanism=Pegasus`) it does, and the value may be biased. The interval is valid
    for all data.

Reference
    The stream aggregates of "private aggregates on streams", Algorithm 2, multiply the noise by the bound N
    of a non-binary stream. That is needed to hide a whole tick. To hide one event, 1 is enough.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual.validation import check_whole
from streamgauge.noise import Ints
from streamgauge.privacy import Sensitivity
from streamgauge.statistics.estimate import Estimate
from streamgauge.statistics.events import Column, find_present
from streamgauge.statistics.keys.hash_cells import HashCells
from streamgauge.statistics.statistic import Increments, NoisySums, Statistic, Weights, unit_sensitivity


@dataclass(frozen=True, kw_only=True)
class Count(Statistic[Estimate]):
    """Number of events, or of a column's items that are not null. See the module.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing.noise import SilentNoise
    >>> run = Count(Pure(1), horizon=24).start(groups=["north", "south"], noise=SilentNoise())
    >>> run.step(groups=["south", "north", "south"]).value.tolist()
    [1.0, 2.0]
    """

    NEEDS_VALUES: ClassVar[bool] = False
    CAN_ADAPT: ClassVar[bool] = True
    CAN_SPAN_GROUPS: ClassVar[bool] = True
    open_ticks: bool = False
    shorter_windows: tuple[int, ...] = ()  # ticks: more sliding windows, from the same run and loss
    cells: int | None = None

    def check(self) -> None:
        if self.cells is None:
            return
        check_whole("cells", self.cells)
        HashCells(self.cells)
        if self.window != "each":
            why = "a cell that is occupied again would count again"
            raise ValueError(f'window must be "each" where cells are counted ({why}), got {self.window!r}')

    @property
    def hash_cells(self) -> int | None:
        return self.cells

    @property
    def tick_sensitivity(self) -> Sensitivity:
        one = Sensitivity(1, 1)
        return unit_sensitivity(self.unit, one, one, groups=self.groups_per_event)

    @property
    def is_signed(self) -> bool:
        return False

    @property
    def power_weights(self) -> Weights:
        return ((1,),)

    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        events = np.flatnonzero(find_present(rows[0]))
        return Increments(events, groups[events][:, None], np.ones((1, 1), np.int64))

    def release(self, sums: NoisySums) -> Estimate:
        counts = sums.estimate(self.scale)
        if self.cells is None:
            return counts
        return HashCells(self.cells).estimate(counts, None if sums.release is not None else sums.noises)
