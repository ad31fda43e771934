"""Units of privacy: whose presence a release hides, and how far one reaches.

    unit                                 one unit is                          ticks it touches
    Event()                              one event, there or not              1
    Event(replace=True)                  one event, with another value        1
    Event(replace=True, moves=True)      ... and another tick                 any 2
    Tick(max_events)                     all that happened in a tick          1
    WEvent(w)                            one event a tick, in a window        w consecutive
    User(max_events_per_tick, max_ticks) all that one person did              any max_ticks
    XAdjacent()                          all that one person did, unbounded   any

`sensitivity(lower, upper)` is how far a unit moves one tick's vector, if each event adds a value clipped to
[lower, upper] to one group. `worst_case_loss(terms, power)` is the largest loss of a unit under a timeline of
charges. The arithmetic is in sensitivity.py, timeline.py and worst_case.py.

The bounds of `Tick` and `User` and the window of `WEvent` must be enforced across groups and before filters.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import ClassVar, Protocol

from streamgauge.privacy.rationals import Number, parse_whole
from streamgauge.privacy.sensitivity import Sensitivity, event_sensitivity
from streamgauge.privacy.timeline import LossTerm, Span
from streamgauge.privacy.worst_case import worst_case_set, worst_case_window

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

    Neighbouring streams differ in the presence of that tick's events, of all people. It hides any one
    event, and any set of events in one tick.

    >>> Tick(max_events=100).sensitivity(0, 5, groups=3)
    Sensitivity(l1=500, l2_squared=250000, coordinates=100)
    """

    ticks: ClassVar[int] = 1
    consecutive: ClassVar[bool] = True
    frees_unused_ticks: ClassVar[bool] = True
    spans_groups: ClassVar[bool] = True
    replace: ClassVar[bool] = False
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


@dataclass(frozen=True, slots=True)
class User:
    """All events of one person, bounded per tick and in number of ticks.

    Neighbouring streams differ in that person's presence. An ended charge frees nothing. A person's loss stays, and
    the bounds of a later release may count that person's ticks from zero.

    >>> User(max_events_per_tick=2, max_ticks=30).sensitivity(0, 5)
    Sensitivity(l1=10, l2_squared=100, coordinates=2)
    """

    consecutive: ClassVar[bool] = False
    frees_unused_ticks: ClassVar[bool] = False
    spans_groups: ClassVar[bool] = True
    replace: ClassVar[bool] = False
    max_events_per_tick: int
    max_ticks: int

    def __post_init__(self) -> None:
        for name in ("max_events_per_tick", "max_ticks"):
            object.__setattr__(self, name, parse_whole(getattr(self, name), name))

    @property
    def ticks(self) -> int:
        return self.max_ticks

    @property
    def events(self) -> int:
        return self.max_events_per_tick

    def sensitivity(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Sensitivity:
        """Return the sensitivity to all events of the tick in one group."""
        return event_sensitivity(lower, upper, replace=False, groups=groups).scale(self.max_events_per_tick)

    def worst_case_loss(self, terms: Sequence[LossTerm], power: int, touching: Span) -> Fraction:
        """Return the worst-case loss over all ticks.

        A person who touches the interval may have spent the other ticks anywhere.
        """
        return worst_case_set(terms, power, self.max_ticks)


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
