"""Numbers of distinct users: of all so far, or of each tick, in a universe of known size.

Users are the whole numbers from 0 below `universe`; others are dropped. Each group counts its own users. In
memory there is one bit for every user and group, exact and secret: has that user come? Where groups are many
and of Users, there is the number of each user's groups besides. A sketch would need less and tell less; what
this costs is known beforehand, and refused at the start beyond 2**36 bits. (Estimators that survive an
intrusion are another room's; `window="each"` remembers nobody, and may be pan-private.)

    running     a tick's vector has the users of each group who came to it for the first time
    each        a tick's vector has the users of each group

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream. Proof for "running":
    Event: without its event a user may come first at a later tick instead, or never: -1 at one tick and
    +1 at another, in one group. The counter hides any two ticks, each moved by 1 (`counted`).
    n events (Tick, WEvent, both events of a replacement): n such moves one after the other, n in L1 and n^2
    in squared L2; a replacement in its tick: 2, since within one group the tick that both share cancels.
    User: one who is not there at all comes first nowhere: +1 at one tick in each of at most `max_groups`
    groups, whatever the user's events and ticks. Each group is counted by itself, so that this is no more
    than all of them at the dearest tick: max_groups in L1 and in squared L2, at one tick. Of each user the
    first `max_groups` groups count, which is decided by that user's events alone.
    For "each": an event moves its group's users of one tick by 1 at most. A User is in at most `max_groups`
    groups at each of the bounded ticks.

Hashed
    With `hashed`, users are numbers of cells of a hash table of `universe` cells, which several values may
    share. The estimate is of the distinct values, and its error has the chance of the hash (`hash_cells`).
    Cells are no users, so that Users cannot be the unit.

Error
    Unbiased, unless hashed; the standard error is that of the counter, and depends on no data. To protect
    whole users is cheaper than to protect events: a user comes first once.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin: Pan-private streaming algorithms, ICS 2010, estimates the
    density of a known universe from noisy bits; here bits are exact, and no error grows with the universe.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.settings import check_whole
from streamgauge.noise import Ints
from streamgauge.privacy import Event, Loss, Reach, Unit, User
from streamgauge.statistics.columns import Column, whole_numbers
from streamgauge.statistics.contributions import rank
from streamgauge.statistics.estimate import Estimate, linear
from streamgauge.statistics.events import Events
from streamgauge.statistics.hash_cells import HashCells
from streamgauge.statistics.reaches import unit_reach
from streamgauge.statistics.settings import declared
from streamgauge.statistics.statistic import MOST, Marks, Statistic, Told
from streamgauge.statistics.tuned import AskedMechanism

ROOM = 2**36  # bits, one for every user and group
NARROW = 8  # groups up to which the bits of a user are sooner added up than kept as a number


@dataclass(slots=True)
class Seen:
    """Who has come: a row of bits for every group, and in how many groups, where these are many."""

    bits: npt.NDArray[np.uint8] = field(repr=False)  # exact
    counts: npt.NDArray[np.unsignedinteger[Any]] = field(repr=False)  # exact: of each user, or of none

    def of(self, groups: Ints, users: Ints) -> npt.NDArray[np.bool_]:
        return np.asarray(self.bits[groups, users >> 3] >> (users & 7) & 1, np.bool_)

    def add(self, groups: Ints, users: Ints) -> None:
        np.bitwise_or.at(self.bits, (groups, users >> 3), (1 << (users & 7)).astype(np.uint8))
        if len(self.counts):
            np.add.at(self.counts, users, 1)

    def groups_of(self, users: Ints) -> Ints:
        """In how many groups each has come."""
        if len(self.counts):
            return self.counts[users].astype(np.int64)
        return np.asarray((self.bits[:, users >> 3] >> (users & 7) & 1).sum(axis=0, dtype=np.int64))


@dataclass(frozen=True)
class Distinct(Statistic[Estimate]):
    """How many different users there were; see the module's claim.

    >>> from streamgauge import Pure, User
    >>> from streamgauge.testing import SilentNoise
    >>> run = Distinct(Pure(1), universe=1000, horizon=24, unit=User(100, 24)).start(noise=SilentNoise())
    >>> run.step(users=[7, 7, 12]).value, run.step(users=[12, 13, 2000]).value
    (array([2.]), array([3.]))
    """

    REMEMBERS: ClassVar[bool] = True
    NEEDS_VALUES: ClassVar[bool] = False
    loss: Loss
    _: KW_ONLY
    universe: int | None = None
    max_groups: int = 1
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    unit: Unit = Event()
    hashed: bool = False

    def check(self) -> None:
        check_whole("universe", declared("universe", self.universe, "users are numbered from 0 below it"))
        check_whole("max_groups", self.max_groups)
        if self.size_of_universe > MOST:
            raise ValueError(f"universe must be at most 2**31, got {self.universe}")
        if self.max_groups > 1 and not isinstance(self.unit, User):
            raise ValueError(f"max_groups must be 1 unless units are Users, got {self.max_groups}")
        self._check_hashed()
        if self.window not in ("running", "each"):
            why = "a user who comes again leaves one window for another, at ticks without end"
            raise ValueError(f'window must be "running" or "each" ({why}), got {self.window!r}')
        if self.pan_private and self.remembers:
            why = "its memory is who has come: pan-private estimators are a room of their own"
            raise ValueError(f"pan_private must be False for running Distinct ({why}), got True")

    def _check_hashed(self) -> None:
        if not self.hashed:
            return
        HashCells(self.size_of_universe)
        if isinstance(self.unit, User):
            why = "several users may share a cell, whose groups would be bounded together"
            raise ValueError(
                f"unit must be events or ticks where values are hashed ({why}), got {self.unit!r}"
            )

    @property
    def hash_cells(self) -> int | None:
        return self.universe if self.hashed else None

    @property
    def size_of_universe(self) -> int:
        return self.universe or 0

    @property
    def remembers(self) -> bool:
        """Whether it matters who came at earlier ticks."""
        return self.window == "running"

    @property
    def bounds_users(self) -> bool:
        return isinstance(self.unit, User) and not self.remembers

    @property
    def why_users(self) -> str:
        return "since they are what is counted"

    @property
    def counted(self) -> Unit:
        if not isinstance(self.unit, User):
            return Event(replace=True, moves=True) if self.remembers else self.unit
        return Event() if self.remembers else User(1, self.unit.max_ticks)

    @property
    def reach(self) -> Reach:
        if isinstance(self.unit, User):
            groups = self.max_groups if self.remembers else min(self.max_groups, self.unit.events)
            return Reach(groups, groups, groups)
        one = Reach(1, 1)
        return moved(self.unit) if self.remembers else unit_reach(self.unit, one, one)

    def memory(self, width: int) -> Seen:
        users = self.size_of_universe if self.remembers else 0
        if users * width > ROOM:
            rule = "universe must make at most 2**36 bits (take fewer users or fewer groups)"
            raise ValueError(f"{rule}, got {users} x {width} = {users * width}")
        counted = users if isinstance(self.unit, User) and width > NARROW else 0
        most = np.min_scalar_type(min(self.max_groups, width))
        return Seen(np.zeros((width, (users + 7) // 8), np.uint8), np.zeros(counted, most))

    def admitted(self, events: Events, memory: Any) -> Events:
        return Events([events.users], events.groups, events.users)

    def marks(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Marks:
        users, there = whole_numbers(rows[0])
        there &= (users >= 0) & (users < self.size_of_universe)
        events = np.flatnonzero(there)[: self.most_events]  # no event beyond may be remembered
        events = self._counting(events, users, groups, width, memory)
        if self.remembers:
            memory.add(groups[events], users[events])
        return Marks(events, groups[events][:, None], np.ones((1, 1), np.int64))

    def _counting(self, events: Ints, users: Ints, groups: Ints, width: int, memory: Any) -> Ints:
        """The events that are their user's first, in this tick or ever, in a group that counts."""
        _, first = np.unique(users[events] * width + groups[events], return_index=True)
        events = events[np.sort(first)]
        if self.remembers:
            events = events[~memory.of(groups[events], users[events])]
        if not isinstance(self.unit, User):
            return events
        before = memory.groups_of(users[events]) if self.remembers else 0
        return events[rank(users[events]) + before < self.max_groups]

    def release(self, told: Told) -> Estimate:
        counts = linear(told.sums, told.noises, 1.0)
        return HashCells(self.size_of_universe).estimate(counts, told.noises) if self.hashed else counts


def moved(unit: Unit) -> Reach:
    """How far first appearances move with a unit's events, where two ticks are counted for each."""
    ticks = 1 if isinstance(unit, Event) else unit.ticks
    events = unit.events * ticks * (2 if unit.replace else 1)
    in_place = isinstance(unit, Event) and unit.replace and not unit.moves
    return Reach(events, events if in_place else events**2, events)
