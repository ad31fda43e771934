"""Counts of events, at every tick: running, tick by tick, over a sliding window, or decayed.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof: an event adds 1 to one group, so that its presence moves a tick's vector by 1; a replaced one
    leaves a group and enters another, 2 in L1 and 2 in squared L2. With `unit=Tick(N)` a whole tick is
    protected: of each tick the first N events count, and all of them together move the vector by N.

Hashed
    With `cells`, events are the occupied cells of a hash table, each once a tick. The estimate is then of the
    distinct values that were hashed into it, and its error has the chance of the hash (`hash_cells`).

Error
    Unbiased, unless hashed; the standard error is that of the counter, and depends on no data. With a counter
    that adapts to its data (`mechanism=Pegasus`) it does, and the value may be biased; the interval holds
    whatever they are.

Reference
    The stream aggregates of "private aggregates on streams", Algorithm 2, multiply the noise by the bound N
    of a non-binary stream. That is needed to hide a whole tick; to hide one event, 1 is enough.
"""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual.settings import check_whole
from streamgauge.noise import Ints
from streamgauge.privacy import Event, Loss, Reach, Unit
from streamgauge.statistics.columns import Column, present
from streamgauge.statistics.estimate import Estimate
from streamgauge.statistics.hash_cells import HashCells
from streamgauge.statistics.power_sums import Weights
from streamgauge.statistics.reaches import unit_reach
from streamgauge.statistics.statistic import Marks, Statistic, Told
from streamgauge.statistics.tuned import AskedMechanism


@dataclass(frozen=True)
class Count(Statistic[Estimate]):
    """How many events there were; of a column, how many items are not null. See the module's claim.

    >>> from streamgauge import Pure
    >>> from streamgauge.testing import SilentNoise
    >>> run = Count(Pure(1), horizon=24).start(groups=["north", "south"], noise=SilentNoise())
    >>> run.step(groups=["south", "north", "south"]).value.tolist()
    [1.0, 2.0]
    """

    NEEDS_VALUES: ClassVar[bool] = False
    ADAPTS: ClassVar[bool] = True
    loss: Loss
    _: KW_ONLY
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    unit: Unit = Event()
    open_ticks: bool = False
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
    def reach(self) -> Reach:
        one = Reach(1, 1)
        return unit_reach(self.unit, one, one)

    @property
    def signed(self) -> bool:
        return False

    @property
    def power_weights(self) -> Weights:
        return ((1,),)

    def marks(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Marks:
        events = np.flatnonzero(present(rows[0]))
        return Marks(events, groups[events][:, None], np.ones((1, 1), np.int64))

    def release(self, told: Told) -> Estimate:
        counts = told.estimate(self.scale)
        if self.cells is None:
            return counts
        return HashCells(self.cells).estimate(counts, None if told.released is not None else told.noises)
