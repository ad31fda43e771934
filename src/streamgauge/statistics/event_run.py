"""A run of a statistic: events in, estimates out, one tick at a time or many at once.

The order of things within a tick: columns are read item by item; the contributions of users are bounded,
across groups and before any filter; events outside the declared groups are dropped; the statistic says
what each event adds; the exact vector goes to the counter. Whatever the events are, nothing here raises,
logs or refuses because of them: only types, shapes and settings can be wrong.

A run is a single thread of releases (see `streamgauge.continual.single`). It holds the run of its counter and
what the statistic itself remembers; both are saved and loaded together.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual import HorizonPassed
from streamgauge.continual.run import CLOSED, NEVER_OPEN, integers
from streamgauge.continual.saved import NoNoise
from streamgauge.continual.settings import check_whole
from streamgauge.continual.single import Single
from streamgauge.noise import Ints, Noise, NoiseSum
from streamgauge.statistics.columns import Column, Domain, column
from streamgauge.statistics.contributions import Contributions
from streamgauge.statistics.drawn import Drawn
from streamgauge.statistics.estimate import Floats
from streamgauge.statistics.events import Events, in_order
from streamgauge.statistics.held import Held, packed, unpacked
from streamgauge.statistics.statistic import Marks, Statistic, Told, tally

R = TypeVar("R")
CHUNK = 2**22  # places of the vectors that are added up at once


class EventRun(Single[Held], Generic[R]):
    """A statistic at work; make one with `statistic.start()` or `statistic.load(saved)`."""

    def __init__(self, statistic: Statistic[R], width: int, domain: Domain | None, held: Held) -> None:
        super().__init__(held)
        self.statistic = statistic
        self.width = width
        self.domain = domain

    @classmethod
    def new(
        cls, statistic: Statistic[R], width: int, groups: Sequence[Any] | None, noise: Noise | None
    ) -> "EventRun[R]":
        check_whole("width", width)
        domain = None if groups is None else Domain.of("groups", groups)
        wide = int(width) if domain is None else len(domain)
        if width not in (1, wide):
            raise ValueError(f"width must be the number of groups ({wide}), got {width}")
        memory = statistic.memory(wide)
        counter = statistic.counter.start(statistic.size(wide, memory), noise)
        public = statistic.counter.start(wide, NoNoise()) if statistic.counts_are_public else None
        users = Contributions.of(statistic.unit) if statistic.bounds_users else None
        return cls(statistic, wide, domain, Held(counter, public, memory, users))

    @classmethod
    def restored(cls, statistic: Statistic[R], saved: bytes, noise: Noise | None) -> "EventRun[R]":
        return cls(statistic, *unpacked(statistic, saved, noise))

    @property
    def tick(self) -> int:
        """The number of ticks taken so far."""
        with self._alone() as held:
            return held.counter.tick

    @property
    def record(self) -> dict[str, int]:
        """Who may have seen the state: announced intrusions, and copies written out."""
        with self._alone() as held:
            return held.counter.record

    def step(self, values: Any = None, *, groups: Any = None, users: Any = None) -> R:
        """Takes the events of one tick, a column of each thing; returns the release."""
        events = self._events({"values": values, "groups": groups, "users": users})
        with self._taken(self._one_more) as held:
            return self._one(held, events)

    def feed(
        self, values: Any = None, *, ticks: Any, until: int, groups: Any = None, users: Any = None
    ) -> Any:
        """Takes the events of all ticks up to `until`; `ticks` is a column too, counted from 1.

        Events of ticks that are over, or come after `until`, are dropped. Returns what as many steps would,
        one row per tick.
        """
        check_whole("until", until, least=0)
        when = column("ticks", ticks)
        if when.dtype.kind in "mMUS":
            raise ValueError(f"ticks must be whole numbers, counted from 1, got {when.dtype}")
        events = self._events({"values": values, "groups": groups, "users": users, "ticks": when})
        with self._taken(partial(self._until, until)) as held:
            before = held.counter.tick
            rows, events = in_order(events, when, before, until)
            if until == before:
                return self.statistic.none(self._told(held, Drawn.nothing(held.counter)))
            if self.statistic.REMEMBERS or held.users is not None or held.counter.noisier:
                return self._each(held, events, rows, until - before)
            return self._block(held, events, rows, until - before)

    def take(self, totals: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> R:
        """Takes one tick's exact vector, made elsewhere: (channels, width) whole numbers.

        Whoever makes the vectors must see to it that one unit moves them by no more than the claim's `reach`;
        under `Tick(N)`, what is beyond is cut off here. `counts` are the numbers of events, where public.
        """
        self._check_taken(counts)
        vector = self._shaped("totals", totals, self.statistic.channels)
        known = None if counts is None else self._shaped("counts", counts, 1)[None]
        with self._taken(self._one_more) as held:
            return self._release(held, self.statistic.cut(vector), known)

    def take_all(self, totals: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> Any:
        """Takes the exact vectors of many ticks, (ticks, channels, width); see `take`.

        Returns what as many takes would, one row per tick.
        """
        self._check_taken(counts)
        vectors = self._rows_of("totals", totals, self.statistic.channels)
        known = None if counts is None else self._rows_of("counts", counts, 1)
        if known is not None and len(known) != len(vectors):
            raise ValueError(f"counts must be of {len(vectors)} ticks, got {len(known)}")
        with self._taken(partial(self._so_many_more, len(vectors))) as held:
            if not len(vectors):
                return self.statistic.none(self._told(held, Drawn.nothing(held.counter)))
            if held.counter.noisier:
                rows = range(len(vectors))
                return self.statistic.joined([self._one_of(held, vectors, known, row) for row in rows])
            return self._all_of(held, vectors, known)

    def absorb(self, totals: npt.ArrayLike) -> None:
        """Takes part of the open tick's exact vector; `take` closes the tick with what is left of it.

        For claims with `open_ticks=True`; see `take` for who makes the vectors.
        """
        vector = self._shaped("totals", totals, self.statistic.channels)
        if not self.statistic.open_ticks:
            raise TypeError(CLOSED)
        with self._taken(self._one_more) as held:
            held.counter.absorb(vector)

    def take_keys(self, keys: Any, counts: npt.ArrayLike) -> R:
        """Takes one tick's keys, each with its number of events, which were counted elsewhere.

        For statistics that discover keys, in a run of one group, where events are the units or one of them a
        tick is: nobody's contributions are bounded here. What is no key, or has no events, is dropped.
        """
        rows = self.statistic.read(keys)[0]
        numbers = self._shaped_as(rows, counts)
        there = np.fromiter((key is not None for key in rows.tolist()), np.bool_, len(rows)) & (numbers > 0)
        with self._taken(self._one_more) as held:
            vector = self.statistic.of_keys(rows[there], numbers[there], held.memory)
            self._widen(held, len(vector))
            return self._release(held, vector, None)

    def _shaped_as(self, rows: Column, counts: npt.ArrayLike) -> Ints:
        statistic = self.statistic
        if statistic.bounds_users or statistic.most_events is not None or self.width > 1:
            raise ValueError("keys must be given as events where units are bounded or grouped, got counts")
        numbers = integers("counts", counts)
        if numbers.shape != (len(rows),):
            raise ValueError(f"counts must be one for each of {len(rows)} keys, got {numbers.shape}")
        return numbers

    def _widen(self, held: Held, size: int) -> None:
        """Gives new columns to what was remembered for the first time."""
        if size > held.counter.width:
            held.counter.widen(size - held.counter.width)

    def _one_of(self, held: Held, vectors: Ints, known: Ints | None, row: int) -> R:
        counts = None if known is None else known[row : row + 1]
        return self._release(held, self.statistic.cut(vectors[row]), counts)

    def _all_of(self, held: Held, vectors: Ints, known: Ints | None) -> Any:
        """Piece by piece, so that what is needed besides the sums stays bounded."""
        piece = max(1, CHUNK // vectors.shape[1])
        parts = (vectors[first : first + piece] for first in range(0, len(vectors), piece))
        drawn = Drawn.joined(held.counter, [held.counter.feed(self._cut(part)) for part in parts])
        return self.statistic.release(self._told(held, drawn, self._public_counts(held, known)))

    def _cut(self, vectors: Ints) -> Ints:
        """Each tick by itself, where ticks are units."""
        if self.statistic.most_events is None:
            return vectors
        return np.stack([self.statistic.cut(vector) for vector in vectors])

    def _check_taken(self, counts: npt.ArrayLike | None) -> None:
        if self.statistic.REMEMBERS:
            raise ValueError(
                "totals must be those of a statistic without memory, got another: give it events"
            )
        if (counts is None) == self.statistic.counts_are_public:
            raise ValueError("counts must be given just where they are public, got the contrary")
        self.statistic.check_cut()

    def _rows_of(self, name: str, numbers: npt.ArrayLike, channels: int) -> Ints:
        """Whole numbers, a row for each tick and in it one for each channel, unless there is but one."""
        whole = integers(name, numbers)
        shapes = [(channels, self.width), (self.width,)][: 1 if channels > 1 else 2]
        if whole.shape[1:] not in shapes:
            raise ValueError(f"{name} must be of shape (ticks, {channels}, {self.width}), got {whole.shape}")
        return whole.reshape(len(whole), channels * self.width)

    def _shaped(self, name: str, numbers: npt.ArrayLike, rows: int) -> Ints:
        """Whole numbers, one row per channel and one column per group, or in one row if there is one."""
        whole = integers(name, numbers)
        if whole.shape != (rows, self.width) and (rows > 1 or whole.shape != (self.width,)):
            raise ValueError(f"{name} must be of shape ({rows}, {self.width}), got {whole.shape}")
        return whole.reshape(-1)

    def noise(self) -> NoiseSum:
        """The noise in every sum of the newest release, in its units, announced intrusions included."""
        with self._alone() as held:
            return held.counter.noise().times(self.statistic.scale)

    def save(self) -> bytes:
        """All that the run remembers, secrets included; `statistic.load` goes on from it, once."""
        with self._alone() as held:
            return packed(self.statistic, self.width, self.domain, held)

    def intrude(self) -> Any:
        """An announced intrusion: noise, hand over the counter's state, noise."""
        refusal = self.statistic.counter.intrusion_refusal()
        if refusal:
            raise TypeError(refusal)
        with self._taken() as held:
            return held.counter.intrude()

    def begin_anew(self) -> None:
        """Lets open registers go for what was released and fresh draws, where the run saved was lost."""
        if not self.statistic.open_ticks:
            raise TypeError(NEVER_OPEN)
        with self._taken() as held:
            held.counter.begin_anew()

    def _events(self, columns: dict[str, Any]) -> Events:
        why = self.statistic.why_users
        if columns["users"] is None and why and any_given(columns):
            raise ValueError(f"users must be given, {why}, got None")
        if columns["groups"] is None and self.width > 1 and any_given(columns):
            raise ValueError(f"groups must be given in a run of {self.width} groups, got None")
        return Events.read(self.statistic, columns, self.domain, self.width)

    def _one_more(self, held: Held) -> None:
        self._so_many_more(1, held)

    def _so_many_more(self, ticks: int, held: Held) -> None:
        self._until(held.counter.tick + ticks, held)

    def _until(self, tick: int, held: Held) -> None:
        """Refuses to go back, or past the horizon, before anything is changed."""
        horizon = self.statistic.last_tick
        if tick < held.counter.tick:
            raise ValueError(f"until must not be before the run's tick {held.counter.tick}, got {tick}")
        if horizon is not None and tick > horizon:
            raise HorizonPassed(f"tick must be at most the horizon {horizon}, got {tick}")

    def _one(self, held: Held, events: Events) -> R:
        if held.users is not None:
            events = events.only(held.users.admitted(events.users))
        events = self.statistic.admitted(events.only(events.groups >= 0), held.memory)
        marks = self._marks(held, events, np.zeros(len(events.groups), np.int64))
        size = self.statistic.size(self.width, held.memory)
        self._widen(held, size)
        counts = self._counts(held, events.groups[marks.events], 1)
        return self._release(held, tally(marks, size), counts)

    def _each(self, held: Held, events: Events, rows: Ints, ticks: int) -> Any:
        """Tick by tick, where one tick depends on what was remembered of another."""
        ends = np.searchsorted(rows, np.arange(ticks + 1))
        parts = [np.arange(ends[i], ends[i + 1]) for i in range(ticks)]
        return self.statistic.joined([self._one(held, events.only(part)) for part in parts])

    def _block(self, held: Held, events: Events, rows: Ints, ticks: int) -> R:
        """All ticks at once, added up piece by piece, so that memory stays bounded."""
        size = held.counter.width
        inside = events.groups >= 0
        events, rows = events.only(inside), rows[inside]
        piece = max(1, CHUNK // size)
        fed, counts = [], []
        for first in range(0, max(1, ticks), piece):
            count = min(piece, ticks - first)
            begin, end = np.searchsorted(rows, [first, first + count])
            part, own = events.only(np.arange(begin, end)), rows[begin:end] - first
            marks = self._marks(held, part, own)
            of = own[marks.events]
            fed.append(held.counter.feed(tally(marks, size, of, count)))
            known = self._counts(held, part.groups[marks.events] + of * self.width, count)
            counts.append(self._public_counts(held, known))
        drawn = Drawn.joined(held.counter, fed)
        return self.statistic.release(self._told(held, drawn, np.concatenate(counts)))

    def _marks(self, held: Held, events: Events, rows: Ints) -> Marks:
        """What events add; where a whole tick is the unit, its first events only."""
        marks = self.statistic.marks(events.rows, events.groups, self.width, held.memory)
        most = self.statistic.most_events
        return marks if most is None else marks.only(first_of_each(rows[marks.events], most))

    def _counts(self, held: Held, places: Ints, count: int) -> Ints | None:
        """The exact numbers of events, where they are public."""
        if held.public is None:
            return None
        return np.bincount(places, minlength=count * self.width).reshape(count, self.width)

    def _public_counts(self, held: Held, counts: Ints | None) -> Floats:
        if held.public is None or counts is None:
            return np.zeros((0, self.width))
        return np.asarray(held.public.feed(counts), np.float64)

    def _release(self, held: Held, vector: Ints, counts: Ints | None) -> R:
        """The release of one tick."""
        drawn = Drawn.step(held.counter, vector)
        told = self._told(held, drawn, self._public_counts(held, counts))
        return self.statistic.first(self.statistic.release(told))

    def _told(self, held: Held, drawn: Drawn, counts: Floats | None = None) -> Told:
        """What the newest ticks are told of."""
        known = np.zeros((0, self.width)) if counts is None else counts
        return Told(drawn.sums, drawn.noises, self.width, held.memory, known, drawn.released)

    def __repr__(self) -> str:
        return f"<run of {self.statistic!r}, width {self.width}>"


def any_given(columns: dict[str, Any]) -> bool:
    return any(value is not None for value in columns.values())


def first_of_each(rows: Ints, most: int) -> Ints:
    """The places of the first `most` of every row; rows are in order."""
    return np.flatnonzero(np.arange(len(rows)) - np.searchsorted(rows, rows) < most)
