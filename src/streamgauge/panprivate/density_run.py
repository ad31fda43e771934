"""A run of a continual density: every tick is a release, which the loss of the claim pays for once and for
all.

    step(users)    one tick: a user, or -1 or None for nothing, in each slot, hashed users or not; returns the
                   estimate so far
    estimate()     the newest again, for nothing
    intrude()      an announced intrusion: noise, hand over bits and counter, noise

See `table_run`: nothing exact is left after a step but sums of signs, which were released.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from streamgauge.continual import HorizonPassed
from streamgauge.noise import Chance, Ints
from streamgauge.noise.entropy import Bytes
from streamgauge.panprivate.estimated import Estimated
from streamgauge.panprivate.table_run import TableRun
from streamgauge.panprivate.users import check_batch

if TYPE_CHECKING:
    from streamgauge.panprivate.continual_density import ContinualDensity


TICKS, SLOTS, ONES = range(3)


@dataclass(slots=True)
class Marks:
    """All that a run remembers."""

    bits: Bytes = field(repr=False)  # noisy: one for each member of the sample
    stretches: Ints  # public: ticks, slots and ones between announced intrusions
    counter: Any = field(repr=False)  # noisy: what the counter remembers, if there is one

    def copy(self) -> "Marks":
        return Marks(self.bits.copy(), self.stretches.copy(), deepcopy(self.counter))


class DensityRun(TableRun[Marks, Estimated]):
    """A continual density at work; make one with `claim.start()` or `claim.load(saved)`."""

    claim: Any  # a ContinualDensity

    def __init__(self, claim: Any, state: Marks, noise: Chance | None, **record: int) -> None:
        super().__init__(claim, state, noise, **record)

    def step(self, users: Any) -> Estimated:
        """One tick, each item a slot; the estimate of all ticks so far."""
        check_batch(users)
        with self._taken(partial(in_time, self.claim, self.intrusions)) as state:
            stretch = state.stretches[:, self.intrusions]
            slots, ones = self.claim.signed(state, users, self.intrusions, self._noise)
            stretch[ONES] = self.claim.heard(state, ones, int(stretch[ONES]), self._noise)
            stretch[SLOTS] += slots
            stretch[TICKS] += 1
            self.releases += 1
            known = state.stretches.copy()
        return self._told(known)

    def add(self, users: Any) -> None:
        raise TypeError("add must not be asked of ContinualDensity, whose ticks are steps: use step()")

    def estimate(self) -> Estimated:
        """The newest, which was paid for."""
        with self._alone() as state:
            known = state.stretches.copy()
        return self._told(known)

    def _told(self, known: Ints) -> Estimated:
        told: Estimated = self.claim.estimated(known, self.intrusions)
        return told


def in_time(claim: "ContinualDensity", intrusions: int, state: Marks) -> None:
    """Refuses to go past the horizon of the counter, which begins anew at announced intrusions."""
    horizon = None if claim.counter is None else claim.counter.horizon
    tick = int(state.stretches[TICKS, intrusions]) + 1
    if horizon is not None and tick > horizon:
        raise HorizonPassed(f"tick must be at most the counter's horizon {horizon}, got {tick}")
