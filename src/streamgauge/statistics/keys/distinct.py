"""Numbers of distinct users, of all so far or by tick, in a known universe.

Users are the whole numbers from 0 below `universe`; others are dropped. Each group counts its own users. The memory
has one bit for every user and group, exact and secret, set if that user has come. If there are many groups
and the unit is User, it also has the number of each user's groups. A sketch would need less memory but be
less accurate. The cost is known beforehand, and refused at the start beyond 2**36 bits. (Estimators that survive an
intrusion are those of `panprivate`. `window="each"` remembers no user, and may be pan-private.)

    running     a tick's vector has the users of each group who came for the first time
    each        a tick's vector has the users of each group

With `max_changes=w` users may leave: events have `weights`, and a user is there while the sum of the weights of its
events is above 0. A tick's vector has the users of each group who are there now and were not before, less those
who were and are not. A user changes at most w times, over all groups, the first ones in the order of ticks and
groups. Then it stays as it is. The memory has the exact sum of every user and group, and the changes of every user.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream. Proof for "running":
    Event: without its event a user may come first at a later tick instead, or never: -1 at one tick and
    +1 at another, in one group. The counter hides any two ticks, each moved by 1 (`counter_unit`).
    n events (Tick, WEvent, both events of a replacement): n such moves one after the other, n in L1 and n^2
    in squared L2. A replacement in its tick: 2, since in one group the tick that both share cancels.
    User: an absent user comes first nowhere. A present one adds +1 at one tick in each of at most `max_groups`
    groups, for any events and ticks of the user. Each group is counted by itself, so this is no more
    than all of them at the worst-case tick: max_groups in L1 and in squared L2, at one tick. The first
    `max_groups` groups of each user count, which that user's events alone decide.
    For "each": an event moves its group's users of one tick by 1 at most. A User is in at most `max_groups`
    groups at each of the bounded ticks.

    For `max_changes`: in each group a user's changes are +1 and -1 in turn, since a tick's net change is too. They
    are at most w in all, decided by that user's events alone. Counters whose columns overlap less with distance
    charge so many alternating moves w times one (`has_falling_overlaps`), not w^2. A whole user, who is absent
    elsewhere, is therefore w in L1 and in squared L2 of *one* tick. An event changes the history of one user into
    another one, also of at most w changes: by the triangle inequality 2w in L1 and (2 sqrt w)^2 = 4w in squared
    L2. Events of n users: n such moves, 2nw and 4 n^2 w.

Hashed
    With `hashed`, users are numbers of cells of a hash table of `universe` cells, which several values may
    share. The estimate is of the distinct values, and its error includes the chance of the hash (`hash_cells`).
    Cells are not users, so User cannot be the unit.

Error
    Unbiased, unless hashed. The standard error is that of the counter, and depends on no data. Protection of
    whole users is cheaper than protection of events: a user comes first once.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin: Pan-private streaming algorithms, ICS 2010, estimates the
    density of a known universe from noisy bits. Here bits are exact, and no error grows with the universe.
    Jain, Kalemaj, Raskhodnikova, Sivakumar, Smith: Counting distinct elements in the turnstile model with
    differential privacy under continual observation, 2023 (arXiv 2306.06723) bounds the changes of an item. There
    a group of w events is charged. Here alternating signs are used. We know of no published account of that.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.validation import check_whole
from streamgauge.noise import Ints
from streamgauge.privacy import Event, Sensitivity, Tick, Unit, User
from streamgauge.statistics.estimate import Estimate, build_linear_estimate
from streamgauge.statistics.events import Column, EventColumns, to_whole_numbers
from streamgauge.statistics.keys.hash_cells import HashCells
from streamgauge.statistics.statistic import MAX_VECTOR_PLACES, Increments, NoisySums, Statistic, unit_sensitivity
from streamgauge.statistics.user_bounds import rank_by_code
from streamgauge.statistics.validation import require_declared

MAX_BITMAP_BITS = 2**36  # bits, one for every user and group
MAX_CHANGES = 2**16 - 1  # of one user
MAX_SUMMED_GROUPS = 8  # up to it, adding up a user's bits is faster than a stored number


@dataclass(slots=True)
class UserBitmap:
    """Users so far: a row of bits per group, and their numbers of groups if many."""

    bits: npt.NDArray[np.uint8] = field(repr=False)  # exact
    counts: npt.NDArray[np.unsignedinteger[Any]] = field(repr=False)  # exact: of each user, or empty

    def contains(self, groups: Ints, users: Ints) -> npt.NDArray[np.bool_]:
        return np.asarray(self.bits[groups, users >> 3] >> (users & 7) & 1, np.bool_)

    def add(self, groups: Ints, users: Ints) -> None:
        np.bitwise_or.at(self.bits, (groups, users >> 3), (1 << (users & 7)).astype(np.uint8))
        if len(self.counts):
            np.add.at(self.counts, users, 1)

    def count_groups(self, users: Ints) -> Ints:
        """Return the number of groups in which each user has come."""
        if len(self.counts):
            return self.counts[users].astype(np.int64)
        return np.asarray((self.bits[:, users >> 3] >> (users & 7) & 1).sum(axis=0, dtype=np.int64))


@dataclass(frozen=True, kw_only=True)
class Distinct(Statistic[Estimate]):
    """Number of different users. See the module's claim.

    >>> from streamgauge import Pure, User
    >>> from streamgauge.testing.noise import SilentNoise
    >>> run = Distinct(Pure(1), universe=1000, horizon=24, unit=User(100, 24)).start(noise=SilentNoise())
    >>> run.step(users=[7, 7, 12]).value, run.step(users=[12, 13, 2000]).value
    (array([2.]), array([3.]))
    """

    HAS_MEMORY: ClassVar[bool] = True
    NEEDS_VALUES: ClassVar[bool] = False
    universe: int | None = None
    max_groups: int = 1
    hashed: bool = False
    max_changes: int | None = None

    def check(self) -> None:
        check_whole("universe", require_declared("universe", self.universe, "users are numbered from 0 below it"))
        check_whole("max_groups", self.max_groups)
        if self.universe_size > MAX_VECTOR_PLACES:
            raise ValueError(f"universe must be at most 2**31, got {self.universe}")
        if isinstance(self.unit, User) and self.unit.per is not None and self.remembers_users:
            why = "a first appearance would move to another window"
            raise ValueError(f"unit must not renew for running Distinct ({why}), got {self.unit!r}")
        if self.max_groups > 1 and not isinstance(self.unit, User):
            raise ValueError(f"max_groups must be 1 unless units are Users, got {self.max_groups}")
        self._check_hashed()
        self._check_changes()
        if self.window not in ("running", "each"):
            why = "a user who comes again leaves one window for another, at ticks without end"
            raise ValueError(f'window must be "running" or "each" ({why}), got {self.window!r}')
        if self.pan_private and self.remembers_users:
            why = "its memory is who has come: pan-private estimators are a room of their own"
            raise ValueError(f"pan_private must be False for running Distinct ({why}), got True")

    def _check_changes(self) -> None:
        if self.max_changes is None:
            return
        check_whole("max_changes", self.max_changes)
        if self.max_changes > MAX_CHANGES:
            raise ValueError(f"max_changes must be at most {MAX_CHANGES}, got {self.max_changes}")
        if self.window != "running":
            raise ValueError(f'window must be "running" where users leave, got {self.window!r}')
        if self.max_groups > 1:
            why = "max_changes bounds all groups together"
            raise ValueError(f"max_groups must be 1 where users leave ({why}), got {self.max_groups}")

    def _check_hashed(self) -> None:
        if not self.hashed:
            return
        HashCells(self.universe_size)
        if isinstance(self.unit, User):
            why = "several users may share a cell, whose groups would be bounded together"
            raise ValueError(f"unit must be events or ticks where values are hashed ({why}), got {self.unit!r}")

    @property
    def hash_cells(self) -> int | None:
        return self.universe if self.hashed else None

    @property
    def universe_size(self) -> int:
        return self.universe or 0

    @property
    def remembers_users(self) -> bool:
        """True if users of earlier ticks matter."""
        return self.window == "running"

    @property
    def bounds_users(self) -> bool:
        return isinstance(self.unit, User) and not self.remembers_users

    @property
    def users_reason(self) -> str:
        return "since they are what is counted"

    @property
    def alternates(self) -> bool:
        return self.max_changes is not None

    @property
    def reads_weights(self) -> bool:
        return self.max_changes is not None

    @property
    def counter_unit(self) -> Unit:
        if self.max_changes is not None:
            return Tick(1)
        if not isinstance(self.unit, User):
            return Event(replace=True, moves=True) if self.remembers_users else self.unit
        return Event() if self.remembers_users else replace(self.unit, max_events_per_tick=1)

    @property
    def tick_sensitivity(self) -> Sensitivity:
        if self.max_changes is not None:
            return change_sensitivity(self.unit, self.max_changes)
        if isinstance(self.unit, User):
            groups = self.max_groups if self.remembers_users else min(self.max_groups, self.unit.events)
            return Sensitivity(groups, groups, groups)
        one = Sensitivity(1, 1)
        return appearance_sensitivity(self.unit) if self.remembers_users else unit_sensitivity(self.unit, one, one)

    def initial_memory(self, width: int) -> "UserBitmap | UserSums":
        if self.max_changes is not None:
            return UserSums.empty(self.universe_size, width, self.max_changes)
        users = self.universe_size if self.remembers_users else 0
        if users * width > MAX_BITMAP_BITS:
            rule = "universe must make at most 2**36 bits (take fewer users or fewer groups)"
            raise ValueError(f"{rule}, got {users} x {width} = {users * width}")
        counted = users if isinstance(self.unit, User) and width > MAX_SUMMED_GROUPS else 0
        most = np.min_scalar_type(min(self.max_groups, width))
        return UserBitmap(np.zeros((width, (users + 7) // 8), np.uint8), np.zeros(counted, most))

    def admit_events(self, events: EventColumns, memory: Any) -> EventColumns:
        return EventColumns([events.users, *events.rows], events.groups, events.users)

    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        users, there = to_whole_numbers(rows[0])
        there &= (users >= 0) & (users < self.universe_size)
        if self.max_changes is not None:
            return self._build_changes(rows, users, there, groups, memory)
        events = np.flatnonzero(there)[: self.max_tick_events]  # no later event may be remembered
        events = self._find_first_events(events, users, groups, width, memory)
        if self.remembers_users:
            memory.add(groups[events], users[events])
        return Increments(events, groups[events][:, None], np.ones((1, 1), np.int64))

    def _build_changes(
        self, rows: list[Column], users: Ints, there: npt.NDArray[np.bool_], groups: Ints, memory: Any
    ) -> Increments:
        """Return a tick's net changes, up or down, of the users that may change."""
        weights, whole = to_whole_numbers(rows[1]) if len(rows) > 1 else (np.ones(len(users), np.int64), there)
        events = np.flatnonzero(there & whole)[: self.max_tick_events]
        width = len(memory.sums)
        _, first, pairs = np.unique(users[events] * width + groups[events], return_index=True, return_inverse=True)
        net = np.zeros(len(first), np.int64)
        np.add.at(net, pairs, weights[events])
        events = events[first]  # in the order of users, then of groups
        signs = memory.add(groups[events], users[events], net)
        changed = np.flatnonzero(signs)
        who = users[events[changed]]
        changed = changed[rank_by_code(who) + memory.changes[who] < self.max_changes]
        np.add.at(memory.changes, users[events[changed]], 1)
        return Increments(events[changed], groups[events[changed]][:, None], signs[changed][:, None])

    def _find_first_events(self, events: Ints, users: Ints, groups: Ints, width: int, memory: Any) -> Ints:
        """Return the events that are their user's first in a group that counts.

        First means in this tick, or ever.
        """
        _, first = np.unique(users[events] * width + groups[events], return_index=True)
        events = events[np.sort(first)]
        if self.remembers_users:
            events = events[~memory.contains(groups[events], users[events])]
        if not isinstance(self.unit, User):
            return events
        before = memory.count_groups(users[events]) if self.remembers_users else 0
        return events[rank_by_code(users[events]) + before < self.max_groups]

    def release(self, sums: NoisySums) -> Estimate:
        counts = build_linear_estimate(sums.sums, sums.noises, 1.0)
        return HashCells(self.universe_size).estimate(counts, sums.noises) if self.hashed else counts


@dataclass(slots=True)
class UserSums:
    """Sums of weights by group and user, and the changes of each user."""

    sums: Ints = field(repr=False)  # exact
    changes: npt.NDArray[np.unsignedinteger[Any]] = field(repr=False)  # exact

    @classmethod
    def empty(cls, users: int, width: int, max_changes: int) -> "UserSums":
        if 64 * users * width > MAX_BITMAP_BITS:
            rule = "universe must make at most 2**30 sums where users leave (take fewer users or fewer groups)"
            raise ValueError(f"{rule}, got {users} x {width} = {users * width}")
        return cls(np.zeros((width, users), np.int64), np.zeros(users, np.min_scalar_type(max_changes)))

    def add(self, groups: Ints, users: Ints, weights: Ints) -> Ints:
        """Add weights of different pairs; return +1 for each that is there now and was not, -1 for the contrary."""
        before = self.sums[groups, users]
        self.sums[groups, users] = now = before + weights
        return (now > 0).astype(np.int64) - (before > 0)


def change_sensitivity(unit: Unit, changes: int) -> Sensitivity:
    """Return the move of one tick that costs as much as a unit's alternating changes."""
    if isinstance(unit, User):
        return Sensitivity(changes, changes, changes)
    users = unit.events * (1 if isinstance(unit, Event) else unit.ticks) * (2 if unit.replace else 1)
    return Sensitivity(2 * users * changes, 4 * users**2 * changes, 2 * users * changes)


def appearance_sensitivity(unit: Unit) -> Sensitivity:
    """Return how far a unit's events move first appearances, with two ticks for each."""
    ticks = 1 if isinstance(unit, Event) else unit.ticks
    events = unit.events * ticks * (2 if unit.replace else 1)
    in_place = isinstance(unit, Event) and unit.replace and not unit.moves
    return Sensitivity(events, events if in_place else events**2, events)
