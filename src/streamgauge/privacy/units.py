"""Units of privacy: whose presence a release hides, and how far one reaches.

    unit                                 one unit is                          ticks it touches
    Event()                              one event, there or not              1
    Event(replace=True)                  one event, with another value        1
    Event(replace=True, moves=True)      ... and another tick                 any 2
    Tick(max_events)                     all that happened in a tick          1
    WEvent(w)                            one event a tick, in a window        w consecutive
    User(max_events_per_tick, max_ticks) all that one person did              any max_ticks
    User(..., per=P, renewal=L)          ... in any P consecutive ticks       see `count_changed_ticks`
    XAdjacent()                          all that one person did, unbounded   any

`sensitivity(lower, upper)` is how far a unit moves one tick's vector, if each event adds a value clipped to
[lower, upper] to one group. `worst_case_loss(terms, power)` is the largest loss of a unit under a timeline of
charges. The arithmetic is in sensitivity.py, timeline.py and worst_case.py.

The bounds of `Tick` and `User` and the window of `WEvent` must be enforced across groups and before filters.

Users whose contributions renew
    Ticks are cut into blocks of L: 1 to L, L + 1 to 2L, and so on, for all users alike. In each block the events of a
    user count in at most q ticks: those of its first q different ticks, in the order in which events are counted.
    P = kL, and `max_ticks` = kq is the allowance of k whole blocks.

    Neighbours: streams x, x' such that x' lacks all events that one user has in some window of at most P consecutive
    ticks, and else is equal. After the bounds they differ in whole ticks of that user.

    Why blocks, and not "fewer than `max_ticks` of the last P ticks". There an event decides which of the user's later
    events count, and these decide again: with max_ticks = 1, P = 3 and an event in each tick, ticks 1, 4, 7, ... count;
    without the event of tick 1 it is ticks 2, 5, 8, ... A window changes ticks without end, and no loss covers it.

    Proof of `count_changed_ticks`. Blocks do not know of each other, so only those change that the window touches: at
    most k + 1. All but the first and last of them lie in it: there x' has nothing, and at most q ticks of x change.
    Of the first and last it has u and v ticks, with u + v <= L if there are k + 1. A block of which it has y ticks
    loses r <= min(q, y) of those that counted. Of z <= L - y other ticks with events, the first min(z, q - r) counted
    in x, and the first min(z, q) count in x'. So r + min(z, q) - min(z, q - r) ticks change. This rises in r and z, to

        h(y)  =  min(q, y) + min(q, L - y) - min(L - y, q - min(q, y)).

    If q <= L/2, no h is above 2q. Else h rises by 2 a tick up to y = L - q, by 1 up to y = q with h(q) = L, and falls.
    So h(u) + h(v) is at most min(4q, 3L - 2q), also in fewer blocks. (A bound of all ticks, q = L, costs the P ticks of
    the window.) The changed ticks lie in the k + 1 blocks: in P + L consecutive ticks.

    Longer times: two streams that differ in all that a user did in n windows have a chain of n neighbours between them.
    So a user loses at most n times the epsilon, or n^2 times the rho, of one window.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

from streamgauge.privacy.rationals import Number, parse_whole
from streamgauge.privacy.sensitivity import Sensitivity, event_sensitivity
from streamgauge.privacy.timeline import LossTerm, Span
from streamgauge.privacy.worst_case import cut_terms, worst_case_set, worst_case_window

UNLIMITED_TICKS = 2**62  # ticks: more than any stream has


class Unit(Protocol):
    """The properties of a unit that the ledger and the mechanisms use."""

    @property
    def ticks(self) -> int:
        """The most ticks that one unit touches."""
        ...

    @property
    def events(self) -> int:
        """The most events that one unit has in one tick."""
        ...

    @property
    def consecutive(self) -> bool:
        """True if its ticks lie in one window; else they may be any."""
        ...

    @property
    def frees_unused_ticks(self) -> bool:
        """True if a charge that ends gives back the ticks that were never ingested."""
        ...

    @property
    def spans_groups(self) -> bool:
        """True if one unit can be in several groups although each event is in one."""
        ...

    @property
    def replace(self) -> bool: ...

    def sensitivity(
        self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True
    ) -> Sensitivity: ...

    def worst_case_loss(self, terms: Sequence[LossTerm], power: int, touching: Span) -> Fraction:
        """Return the most that one unit which touches `touching` loses, or a bound above it."""
        ...


@dataclass(frozen=True, slots=True)
class Event:
    """One event; neighbouring streams differ in its presence.

    With `replace` they differ in its value instead. With `moves` the other value may carry another tick. The event
    is then removed at one tick and added at another, and pays for both.

    >>> Event().sensitivity(0, 5), Event(replace=True).sensitivity(1, 1, groups=10)
    (Sensitivity(l1=5, l2_squared=25, coordinates=1), Sensitivity(l1=2, l2_squared=2, coordinates=2))
    """

    events: ClassVar[int] = 1
    frees_unused_ticks: ClassVar[bool] = True
    spans_groups: ClassVar[bool] = False
    replace: bool = False
    _: KW_ONLY
    moves: bool = False

    def __post_init__(self) -> None:
        if self.moves and not self.replace:
            raise ValueError("moves must be False unless events are replaced, got True")

    @property
    def ticks(self) -> int:
        return 2 if self.moves else 1

    @property
    def consecutive(self) -> bool:
        return not self.moves

    def sensitivity(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Sensitivity:
        """Return `event_sensitivity`; an event that moves is removed at its tick."""
        decides = value_decides or self.moves
        return event_sensitivity(lower, upper, replace=self.replace, groups=groups, value_decides=decides)

    def worst_case_loss(self, terms: Sequence[LossTerm], power: int, touching: Span) -> Fraction:
        if self.moves:
            return worst_case_set(terms, power, 2)
        return worst_case_window(terms, power, 1, touching)


@dataclass(frozen=True, slots=True)
class Tick:
    """All events of one tick, at most `max_events`: an N-bounded stream.

    Neighbouring streams differ in the presence of all of that tick's events, of all people: one has none of them. In
    a tick of more than `max_events`, a few that are absent let as many others count. So one event is hidden at the same
    loss if `max_events` is 2 or more, and any set of events in one tick at twice the epsilon: remove all, add the rest.

    >>> Tick(max_events=100).sensitivity(0, 5, groups=3)
    Sensitivity(l1=500, l2_squared=250000, coordinates=100)
    """

    ticks: ClassVar[int] = 1
    consecutive: ClassVar[bool] = True
    frees_unused_ticks: ClassVar[bool] = True
    spans_groups: ClassVar[bool] = True
    replace: ClassVar[bool] = False
    block_ticks: ClassVar[int] = 1  # bounded like a user who is everybody, and whose contributions renew at each tick
    ticks_per_block: ClassVar[int] = 1
    max_events: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_events", parse_whole(self.max_events, "max_events"))

    @property
    def events(self) -> int:
        return self.max_events

    def sensitivity(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Sensitivity:
        """Return the sensitivity to all events of the tick in one group."""
        return event_sensitivity(lower, upper, replace=False, groups=groups).scale(self.max_events)

    def worst_case_loss(self, terms: Sequence[LossTerm], power: int, touching: Span) -> Fraction:
        return worst_case_window(terms, power, 1, touching)


@dataclass(frozen=True, slots=True)
class WEvent:
    """One event a tick over any window of w consecutive ticks (Kellaris et al. 2014)."""

    events: ClassVar[int] = 1
    consecutive: ClassVar[bool] = True
    frees_unused_ticks: ClassVar[bool] = True
    spans_groups: ClassVar[bool] = True
    w: int
    replace: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "w", parse_whole(self.w, "w"))

    @property
    def ticks(self) -> int:
        return self.w

    def sensitivity(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Sensitivity:
        return event_sensitivity(lower, upper, replace=self.replace, groups=groups, value_decides=value_decides)

    def worst_case_loss(self, terms: Sequence[LossTerm], power: int, touching: Span) -> Fraction:
        return worst_case_window(terms, power, self.w, touching)


@dataclass(frozen=True, slots=True, repr=False)
class User:
    """All events of one person, bounded per tick and in number of ticks.

    Neighbouring streams differ in that person's presence. An ended charge frees nothing. A person's loss stays, and
    the bounds of a later release may count that person's ticks from zero.

    With `per`, contributions renew, and streams differ in that person's presence in one window of so many ticks. There
    are at most `max_ticks` of `per` ticks (all by default), in even parts in each block of `renewal` ticks (one block
    by default). An ended charge frees the ticks that were never ingested.

    >>> User(max_events_per_tick=2, max_ticks=30).sensitivity(0, 5)
    Sensitivity(l1=10, l2_squared=100, coordinates=2)
    >>> [User(2, 60, per=720, renewal=days * 24).ticks for days in (30, 5, 1)], User(2, per=30).ticks
    ([240, 90, 66], 30)
    """

    spans_groups: ClassVar[bool] = True
    replace: ClassVar[bool] = False
    max_events_per_tick: int
    max_ticks: int | None = None  # of `per`; None: all of them
    _: KW_ONLY
    per: int | None = None  # ticks
    renewal: int | None = None  # ticks; None: `per`

    def __post_init__(self) -> None:
        if self.max_ticks is None and self.per is None:
            raise ValueError("max_ticks must be given unless contributions renew (per), got None")
        if self.renewal is not None and self.per is None:
            raise ValueError(f"renewal must be None without per, got {self.renewal}")
        for name in ("max_events_per_tick", "max_ticks", "per", "renewal"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, parse_whole(getattr(self, name), name))
        if self.per is not None:
            self._set_renewal(self.per)

    def _set_renewal(self, per: int) -> None:
        """Set the defaults; reject parts that are not even."""
        block = per if self.renewal is None else self.renewal
        most = per if self.max_ticks is None else self.max_ticks
        if per % block:
            raise ValueError(f"renewal must divide per = {per}, got {block}")
        if most > per:
            raise ValueError(f"max_ticks must be at most per = {per}, got {most}")
        if most % (per // block):
            rule = f"max_ticks must be a multiple of per / renewal = {per // block}"
            raise ValueError(f"{rule}, so that each block has as many, got {most}")
        object.__setattr__(self, "renewal", block)
        object.__setattr__(self, "max_ticks", most)

    @property
    def block_ticks(self) -> int | None:
        """Ticks of a block, after which contributions renew; None if they never do."""
        return self.renewal

    @property
    def ticks_per_block(self) -> int:
        """Ticks of a block, or of all time, in which one user contributes."""
        most = self.max_ticks or 0
        return most if self.per is None or self.renewal is None else most * self.renewal // self.per

    @property
    def ticks(self) -> int:
        if self.per is None or self.renewal is None:
            return self.max_ticks or 0
        return count_changed_ticks(self.ticks_per_block, self.renewal, self.per // self.renewal)

    @property
    def span(self) -> int | None:
        """Consecutive ticks among which one unit's are; None: they may be anywhere."""
        if self.per is None or self.renewal is None:
            return None
        return self.per if self.consecutive else self.per + self.renewal

    @property
    def events(self) -> int:
        return self.max_events_per_tick

    @property
    def consecutive(self) -> bool:
        return self.per is not None and self.max_ticks == self.per

    @property
    def frees_unused_ticks(self) -> bool:
        return self.per is not None

    def sensitivity(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Sensitivity:
        """Return the sensitivity to all events of the tick in one group."""
        return event_sensitivity(lower, upper, replace=False, groups=groups).scale(self.max_events_per_tick)

    def worst_case_loss(self, terms: Sequence[LossTerm], power: int, touching: Span) -> Fraction:
        """Return the worst-case loss over all ticks, or over a window and the block that it reaches into.

        A person whose contributions never renew and who touches the interval may have spent the other ticks anywhere.
        """
        if self.span is None:
            return worst_case_set(terms, power, self.ticks)
        window = worst_case_window(terms, power, self.span, touching)
        if self.consecutive or all(term.is_native for term in terms):
            return window
        parts = cut_terms([terms], self.span, touching)
        return min(window, max((worst_case_set(part, power, self.ticks) for (part,) in parts), default=Fraction(0)))

    def __repr__(self) -> str:
        renewed = "" if self.per is None else f", per={self.per}, renewal={self.renewal}"
        return f"User(max_events_per_tick={self.max_events_per_tick}, max_ticks={self.max_ticks}{renewed})"


def count_changed_ticks(per_block: int, block: int, blocks: int) -> int:
    """Return the most ticks in which a user who is absent from a window of so many blocks differs.

    >>> [count_changed_ticks(q, 24, 30) for q in (1, 2, 12, 23, 24)]
    [33, 66, 396, 693, 720]
    """
    return (blocks - 1) * per_block + min(4 * per_block, 3 * block - 2 * per_block)


@dataclass(frozen=True, slots=True)
class XAdjacent:
    """All appearances of one element of the universe (Dwork et al. 2010).

    Neighbouring streams differ in how often and when that element appears, if at all. With `replace` they differ in
    the owner of its appearances. Nothing bounds how far such a unit moves a sum. It is the unit of the
    pan-private tables, which need no bound.
    """

    ticks: ClassVar[int] = UNLIMITED_TICKS
    events: ClassVar[int] = 1
    consecutive: ClassVar[bool] = False
    frees_unused_ticks: ClassVar[bool] = False
    spans_groups: ClassVar[bool] = True
    replace: bool = False

    def sensitivity(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Sensitivity:
        raise ValueError("unit must bound how often one of it appears in a tick, got XAdjacent")

    def worst_case_loss(self, terms: Sequence[LossTerm], power: int, touching: Span) -> Fraction:
        return worst_case_set(terms, power, UNLIMITED_TICKS)


def is_charged_whole(unit: Unit) -> bool:
    """Return whether a release's loss covers all that one unit does, not one event or one tick of it."""
    return unit.ticks > 1 or not isinstance(unit, Event | Tick)
