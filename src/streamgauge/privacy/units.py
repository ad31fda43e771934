"""Units of privacy: whose presence a release must hide, and how far one of them reaches.

    unit                                 one unit is                          ticks it touches
    Event()                              one event, there or not              1
    Event(replace=True)                  one event, with another value        1
    Event(replace=True, moves=True)      ... and another tick                 any 2
    Tick(max_events)                     all that happened in a tick          1
    WEvent(w)                            one event a tick, in a window        w consecutive
    User(max_events_per_tick, max_ticks) all that one person did              any max_ticks
    XAdjacent()                          all that one person did, unbounded   any

A unit answers two questions. `reach(lower, upper)`: how far can it move one tick's vector, if each event adds
a value clipped to [lower, upper] to one group? `dearest(terms, power)`: which unit loses most under a
timeline of charges? (The arithmetic is in reach.py, terms.py, windows.py and sets.py.)

The bounds of `Tick` and `User` and the window of `WEvent` must be enforced across groups and before filters.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Protocol

from streamgauge.privacy.exact import Number, whole
from streamgauge.privacy.reach import Reach, event_reach
from streamgauge.privacy.sets import dearest_set
from streamgauge.privacy.terms import Span, Term
from streamgauge.privacy.windows import dearest_window

ANY = 2**62  # ticks: more than any stream has


class Unit(Protocol):
    """What the ledger and the mechanisms ask of a unit."""

    @property
    def ticks(self) -> int:
        """How many ticks one unit touches at most."""
        ...

    @property
    def events(self) -> int:
        """How many events it has at most in one tick."""
        ...

    @property
    def consecutive(self) -> bool:
        """Whether its ticks lie in one window; else they may be any."""
        ...

    @property
    def frees(self) -> bool:
        """Whether a charge that ends gives back the ticks that were never ingested."""
        ...

    @property
    def spans_groups(self) -> bool:
        """Whether one unit can be in several groups although each event is in one."""
        ...

    @property
    def replace(self) -> bool: ...

    def reach(
        self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True
    ) -> Reach: ...

    def dearest(self, terms: Sequence[Term], power: int, touching: Span) -> Fraction:
        """The most that one unit which touches `touching` loses, or a bound above it."""
        ...


@dataclass(frozen=True, slots=True)
class Event:
    """One event. Neighbouring streams differ in its presence or, with `replace`, in its value.

    `moves` says that the other value may carry another tick: the event is then removed at one tick and added
    at another, and pays for both.

    >>> Event().reach(0, 5), Event(replace=True).reach(1, 1, groups=10)
    (Reach(l1=5, l2_squared=25, coordinates=1), Reach(l1=2, l2_squared=2, coordinates=2))
    """

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
    def events(self) -> int:
        return 1

    @property
    def consecutive(self) -> bool:
        return not self.moves

    @property
    def frees(self) -> bool:
        return True

    @property
    def spans_groups(self) -> bool:
        return False

    def reach(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Reach:
        """See `event_reach`; an event that may move to another tick is removed at its own."""
        decides = value_decides or self.moves
        return event_reach(lower, upper, replace=self.replace, groups=groups, value_decides=decides)

    def dearest(self, terms: Sequence[Term], power: int, touching: Span) -> Fraction:
        if self.moves:
            return dearest_set(terms, power, 2)
        return dearest_window(terms, power, 1, touching)


@dataclass(frozen=True, slots=True)
class Tick:
    """All that happens in one tick, at most `max_events` events: an N-bounded stream, N = max_events.

    Neighbouring streams differ in whether that tick's events are there, whoever's they are. It hides any one
    event, and any set of them that falls into one tick.

    >>> Tick(max_events=100).reach(0, 5, groups=3)
    Reach(l1=500, l2_squared=250000, coordinates=100)
    """

    max_events: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "max_events", whole(self.max_events, "max_events"))

    @property
    def ticks(self) -> int:
        return 1

    @property
    def events(self) -> int:
        return self.max_events

    @property
    def consecutive(self) -> bool:
        return True

    @property
    def frees(self) -> bool:
        return True

    @property
    def spans_groups(self) -> bool:
        return True

    @property
    def replace(self) -> bool:
        return False

    def reach(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Reach:
        """All events of the tick in one group, each at the dearest value."""
        return event_reach(lower, upper, replace=False, groups=groups).times(self.max_events)

    def dearest(self, terms: Sequence[Term], power: int, touching: Span) -> Fraction:
        return dearest_window(terms, power, 1, touching)


@dataclass(frozen=True, slots=True)
class WEvent:
    """One event a tick over any window of w consecutive ticks (Kellaris et al. 2014)."""

    w: int
    replace: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "w", whole(self.w, "w"))

    @property
    def ticks(self) -> int:
        return self.w

    @property
    def events(self) -> int:
        return 1

    @property
    def consecutive(self) -> bool:
        return True

    @property
    def frees(self) -> bool:
        return True

    @property
    def spans_groups(self) -> bool:
        return True

    def reach(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Reach:
        """See `event_reach`."""
        return event_reach(lower, upper, replace=self.replace, groups=groups, value_decides=value_decides)

    def dearest(self, terms: Sequence[Term], power: int, touching: Span) -> Fraction:
        return dearest_window(terms, power, self.w, touching)


@dataclass(frozen=True, slots=True)
class User:
    """All events of one person, who has at most so many in a tick and appears in at most so many ticks.

    Neighbouring streams differ in that person's presence. An ended charge frees nothing: what a person has
    lost stays lost, and whoever bounds a later release may count that person's ticks afresh.

    >>> User(max_events_per_tick=2, max_ticks=30).reach(0, 5)
    Reach(l1=10, l2_squared=100, coordinates=2)
    """

    max_events_per_tick: int
    max_ticks: int

    def __post_init__(self) -> None:
        for name in ("max_events_per_tick", "max_ticks"):
            object.__setattr__(self, name, whole(getattr(self, name), name))

    @property
    def ticks(self) -> int:
        return self.max_ticks

    @property
    def events(self) -> int:
        return self.max_events_per_tick

    @property
    def consecutive(self) -> bool:
        return False

    @property
    def frees(self) -> bool:
        return False

    @property
    def spans_groups(self) -> bool:
        return True

    @property
    def replace(self) -> bool:
        return False

    def reach(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Reach:
        """All events of the tick in one group, each at the dearest value."""
        return event_reach(lower, upper, replace=False, groups=groups).times(self.max_events_per_tick)

    def dearest(self, terms: Sequence[Term], power: int, touching: Span) -> Fraction:
        """A person who touches the interval may have spent the other ticks anywhere: all ticks count."""
        return dearest_set(terms, power, self.max_ticks)


@dataclass(frozen=True, slots=True)
class XAdjacent:
    """All appearances of one element of the universe, however many, wherever they are (Dwork et al. 2010).

    Neighbouring streams differ in how often and when that element appears, not at all included; with
    `replace`, in whose its appearances are. Nothing bounds how far such a unit moves a sum: it is that of the
    pan-private tables, which need no bound.
    """

    replace: bool = False

    @property
    def ticks(self) -> int:
        """Any number: as many as there can be."""
        return ANY

    @property
    def events(self) -> int:
        return 1

    @property
    def consecutive(self) -> bool:
        return False

    @property
    def frees(self) -> bool:
        return False

    @property
    def spans_groups(self) -> bool:
        return True

    def reach(self, lower: Number, upper: Number, *, groups: int = 1, value_decides: bool = True) -> Reach:
        raise ValueError("unit must bound how often one of it appears in a tick, got XAdjacent")

    def dearest(self, terms: Sequence[Term], power: int, touching: Span) -> Fraction:
        """Everything counts."""
        return dearest_set(terms, power, ANY)
