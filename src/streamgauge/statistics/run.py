"""Run of a statistic: events in, estimates out, one tick at a time or many.

The order in a tick: columns are read item by item. The contributions of users are bounded,
across groups and before any filter. Events outside the declared groups are dropped. The statistic determines
the increment of each event. The exact vector goes to the counter. Nothing here raises,
logs or refuses because of events: only types, shapes and settings can be wrong.

A run is a single thread of releases (see `streamgauge.continual.run`). It has the run of its counter and
the statistic's own memory. Both are saved and loaded together.

A linear counter gives arrays, under noise whose law the claim knows. A counter that adapts to its data gives
`AdaptiveRelease`, which states its own error.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.adaptive import AdaptiveRelease
from streamgauge.adaptive.estimate import combine_releases
from streamgauge.continual import LimitExceededError, LinearMechanism
from streamgauge.continual.run import NOT_OPEN_MESSAGE, NOT_RERANDOMIZABLE_MESSAGE, ExclusiveState, parse_integers
from streamgauge.continual.state_io import BlankNoise
from streamgauge.continual.validation import check_whole
from streamgauge.noise import Ints, Noise, NoiseSum
from streamgauge.noise.coerce import Floats
from streamgauge.statistics.estimate import TickNoises
from streamgauge.statistics.events import Column, Domain, EventColumns, sort_by_tick, to_column
from streamgauge.statistics.run_state import RunState, pack_run, unpack_run
from streamgauge.statistics.statistic import Increments, NoisySums, Statistic, sum_increments
from streamgauge.statistics.user_bounds import UserContributions

R = TypeVar("R")


class EventRun(ExclusiveState[RunState], Generic[R]):
    """Running statistic, from `statistic.start()` or `statistic.load(saved)`."""

    CHUNK_PLACES: ClassVar[int] = 2**22  # places of the vectors that are added up at once

    def __init__(self, statistic: Statistic[R], width: int, domain: Domain | None, state: RunState) -> None:
        super().__init__(state)
        self.statistic = statistic
        self._identity = statistic.identity()
        self.width = width
        self.domain = domain

    @classmethod
    def create(
        cls, statistic: Statistic[R], width: int, groups: Sequence[Any] | None, noise: Noise | None
    ) -> "EventRun[R]":
        check_whole("width", width)
        domain = None if groups is None else Domain.from_labels("groups", groups)
        wide = int(width) if domain is None else len(domain)
        if width not in (1, wide):
            raise ValueError(f"width must be the number of groups ({wide}), got {width}")
        memory = statistic.initial_memory(wide)
        counter = statistic.counter.start(statistic.vector_size(wide, memory), noise)
        public = statistic.counter.start(wide, BlankNoise()) if statistic.has_public_counts else None
        users = UserContributions.from_unit(statistic.unit) if statistic.bounds_users else None
        return cls(statistic, wide, domain, RunState(counter, public, memory, users))

    @classmethod
    def load(cls, statistic: Statistic[R], saved: bytes, noise: Noise | None) -> "EventRun[R]":
        return cls(statistic, *unpack_run(statistic, saved, noise))

    @property
    def tick(self) -> int:
        """Number of ticks so far."""
        with self._locked() as state:
            return state.counter.tick

    @property
    def record(self) -> dict[str, int]:
        """Record of accesses to the state: announced intrusions, and saved copies."""
        with self._locked() as state:
            return state.counter.record

    def step(self, values: Any = None, *, groups: Any = None, users: Any = None, weights: Any = None) -> R:
        """Process the events of one tick, a column per input; return the release."""
        values = self._choose_values(values, weights)
        events = self._read_events({"values": values, "groups": groups, "users": users})
        with self._exclusive(self._check_next_tick) as state:
            return self._step_events(state, events)

    def feed(
        self, values: Any = None, *, ticks: Any, until: int, groups: Any = None, users: Any = None, weights: Any = None
    ) -> Any:
        """Process the events of all ticks up to `until`.

        `ticks` is a column too, counted from 1. Events of closed ticks, or after `until`, are dropped. Returns the same
        as so many steps, one row per tick.
        """
        check_whole("until", until, least=0)
        when = to_column("ticks", ticks)
        if when.dtype.kind in "mMUS":
            raise ValueError(f"ticks must be whole numbers, counted from 1, got {when.dtype}")
        values = self._choose_values(values, weights)
        events = self._read_events({"values": values, "groups": groups, "users": users, "ticks": when})
        with self._exclusive(partial(self._check_last_tick, until)) as state:
            before = state.counter.tick
            rows, events = sort_by_tick(events, when, before, until)
            if until == before:
                return self._release_nothing(state)
            if self.statistic.HAS_MEMORY or state.users is not None or state.counter.has_extra_noise:
                return self._feed_by_tick(state, events, rows, until - before)
            return self._feed_block(state, events, rows, until - before)

    def step_totals(self, totals: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> R:
        """Process one tick's exact vector from elsewhere: (channels, width) integers.

        The caller must ensure that one unit moves the vectors by no more than the claim's `tick_sensitivity`. Under
        `Tick(N)`, any excess is cut off here. `counts` are the numbers of events, if public.
        """
        self._check_totals(counts)
        vector = self._to_vector("totals", totals, self.statistic.channels)
        known = None if counts is None else self._to_vector("counts", counts, 1)[None]
        with self._exclusive(self._check_next_tick) as state:
            return self._release_vector(state, self.statistic.clip_vector(vector), known)

    def feed_totals(
        self, totals: npt.ArrayLike, counts: npt.ArrayLike | None = None, *, is_bounded: bool = False
    ) -> Any:
        """Process the exact vectors of many ticks, (ticks, channels, width).

        See `step_totals`. Returns the same as so many steps, one row per tick. With `is_bounded` the caller has counted
        no more than N events of a tick under `Tick(N)`, and nothing is cut off.
        """
        self._check_totals(counts, is_bounded)
        vectors = self._to_tick_rows("totals", totals, self.statistic.channels)
        known = None if counts is None else self._to_tick_rows("counts", counts, 1)
        if known is not None and len(known) != len(vectors):
            raise ValueError(f"counts must be of {len(vectors)} ticks, got {len(known)}")
        if not is_bounded:
            vectors = self._clip_vectors(vectors)
        with self._exclusive(partial(self._check_next_ticks, len(vectors))) as state:
            if not len(vectors):
                return self._release_nothing(state)
            if state.counter.has_extra_noise:
                rows = range(len(vectors))
                return self.statistic.join_releases([self._release_row(state, vectors, known, row) for row in rows])
            return self._release_rows(state, vectors, known)

    def build_vectors(self, cells: Ints, groups: Ints, counts: Ints, rows: Ints, ticks: int) -> Ints:
        """Return the exact vectors, (ticks, channels, width), of events in cells. Rows are ticks from 0."""
        with self._locked() as state:
            place = cells, groups, counts, self.width, rows, ticks
            return self.statistic.vectors_from_cells(*place, state.memory)

    def add_partial(self, totals: npt.ArrayLike) -> None:
        """Add part of the open tick's exact vector. `step_totals` closes the tick.

        The last call has the rest of the vector. This is for claims with `open_ticks=True`. See `step_totals` for
        the requirements on vectors.
        """
        vector = self._to_vector("totals", totals, self.statistic.channels)
        if not self.statistic.open_ticks:
            raise TypeError(NOT_OPEN_MESSAGE)
        with self._exclusive(self._check_next_tick) as state:
            state.counter.add_partial(vector)

    def step_keys(self, keys: Any, counts: npt.ArrayLike, *, is_bounded: bool = False) -> R:
        """Process one tick's keys with their numbers of events, counted elsewhere.

        This is for statistics that discover keys, in a run of one group, with one event or one tick as unit:
        contributions of users are not bounded here. A text that is not a key, or has no events, is dropped. With
        `is_bounded` the caller has counted no more than N events under `Tick(N)`.
        """
        rows = self.statistic.read_columns(keys)[0]
        numbers = self._check_key_counts(rows, counts, is_bounded)
        there = np.fromiter((key is not None for key in rows.tolist()), np.bool_, len(rows)) & (numbers > 0)
        with self._exclusive(self._check_next_tick) as state:
            vector = self.statistic.vector_from_keys(rows[there], numbers[there], state.memory)
            self._widen(state, len(vector))
            return self._release_vector(state, vector, None)

    def _check_key_counts(self, rows: Column, counts: npt.ArrayLike, is_bounded: bool) -> Ints:
        statistic, cuts_ticks = self.statistic, self.statistic.max_tick_events is not None
        if statistic.bounds_users or (cuts_ticks and not is_bounded) or self.width > 1:
            raise ValueError("keys must be given as events where units are bounded or grouped, got counts")
        numbers = parse_integers("counts", counts)
        if numbers.shape != (len(rows),):
            raise ValueError(f"counts must be one for each of {len(rows)} keys, got {numbers.shape}")
        return numbers

    def _widen(self, state: RunState, size: int) -> None:
        """Add new columns for keys that were remembered for the first time."""
        if size > state.counter.width:
            state.counter.widen(size - state.counter.width)

    def _release_row(self, state: RunState, vectors: Ints, known: Ints | None, row: int) -> R:
        counts = None if known is None else known[row : row + 1]
        return self._release_vector(state, vectors[row], counts)

    def _release_rows(self, state: RunState, vectors: Ints, known: Ints | None) -> Any:
        """Release piece by piece, so that memory in addition to the sums stays bounded."""
        piece = max(1, self.CHUNK_PLACES // vectors.shape[1])
        parts = (vectors[first : first + piece] for first in range(0, len(vectors), piece))
        fed = [self._feed_counter(state, part) for part in parts]
        return self.statistic.release(self._join_sums(state, fed, self._public_counts(state, known)))

    def _clip_vectors(self, vectors: Ints) -> Ints:
        """Clip each tick by itself, if ticks are units."""
        if self.statistic.max_tick_events is None or not len(vectors):
            return vectors
        return np.stack([self.statistic.clip_vector(vector) for vector in vectors])

    def _check_totals(self, counts: npt.ArrayLike | None, is_bounded: bool = False) -> None:
        if self.statistic.HAS_MEMORY:
            raise ValueError("totals must be those of a statistic without memory, got another: give it events")
        if (counts is None) == self.statistic.has_public_counts:
            raise ValueError("counts must be given just where they are public, got the contrary")
        if not is_bounded:
            self.statistic.check_clipping()

    def _to_tick_rows(self, name: str, numbers: npt.ArrayLike, channels: int) -> Ints:
        """Return whole numbers by tick and channel. The channel axis may be absent if one."""
        whole = parse_integers(name, numbers)
        shapes = [(channels, self.width), (self.width,)][: 1 if channels > 1 else 2]
        if whole.shape[1:] not in shapes:
            raise ValueError(f"{name} must be of shape (ticks, {channels}, {self.width}), got {whole.shape}")
        return whole.reshape(len(whole), channels * self.width)

    def _to_vector(self, name: str, numbers: npt.ArrayLike, rows: int) -> Ints:
        """Return whole numbers by channel and group, or one row if there is one channel."""
        whole = parse_integers(name, numbers)
        if whole.shape != (rows, self.width) and (rows > 1 or whole.shape != (self.width,)):
            raise ValueError(f"{name} must be of shape ({rows}, {self.width}), got {whole.shape}")
        return whole.reshape(-1)

    def noise(self) -> NoiseSum:
        """Return the noise of every sum of the newest release, in its units.

        Announced intrusions are included.
        """
        with self._locked() as state:
            return state.counter.noise().scale(self.statistic.scale)

    def save(self) -> bytes:
        """Return the whole state, with secrets. `statistic.load` continues from it, once."""
        with self._locked() as state:
            return pack_run(self.statistic, self._identity, self.width, self.domain, state)

    def intrude(self) -> Any:
        """Announce an intrusion: add noise, reveal the counter's state, add noise."""
        refusal = self.statistic.counter.intrusion_refusal()
        if refusal:
            raise TypeError(refusal)
        with self._exclusive() as state:
            return state.counter.intrude()

    def rerandomize(self) -> None:
        """Replace open registers by released values and fresh draws, after a lost save."""
        if not self.statistic.open_ticks:
            raise TypeError(NOT_RERANDOMIZABLE_MESSAGE)
        with self._exclusive() as state:
            state.counter.rerandomize()

    def redraw_future_noise(self) -> None:
        """Replace saved draws that another run of the same save may have published with."""
        with self._exclusive() as state:
            state.counter.redraw_future_noise()

    def _choose_values(self, values: Any, weights: Any) -> Any:
        """Return the column of values, which are weights if the statistic reads weights."""
        if weights is not None and not self.statistic.reads_weights:
            raise ValueError(f"weights must be left out for {self.statistic!r}, got a column")
        return values if weights is None else weights

    def _read_events(self, columns: dict[str, Any]) -> EventColumns:
        why = self.statistic.users_reason
        if columns["users"] is None and why and has_columns(columns):
            raise ValueError(f"users must be given, {why}, got None")
        if columns["groups"] is None and self.width > 1 and has_columns(columns):
            raise ValueError(f"groups must be given in a run of {self.width} groups, got None")
        return EventColumns.from_columns(self.statistic, columns, self.domain, self.width)

    def _check_next_tick(self, state: RunState) -> None:
        self._check_next_ticks(1, state)

    def _check_next_ticks(self, ticks: int, state: RunState) -> None:
        self._check_last_tick(state.counter.tick + ticks, state)

    def _check_last_tick(self, tick: int, state: RunState) -> None:
        """Reject a tick in the past or after the horizon, before any change."""
        horizon = self.statistic.last_tick
        if tick < state.counter.tick:
            raise ValueError(f"until must not be before the run's tick {state.counter.tick}, got {tick}")
        if horizon is not None and tick > horizon:
            raise LimitExceededError(f"tick must be at most the horizon {horizon}, got {tick}")

    def _step_events(self, state: RunState, events: EventColumns) -> R:
        if state.users is not None:
            events = events.select(state.users.admit_events(events.users, state.counter.tick + 1))
        events = self.statistic.admit_events(events.select(events.groups >= 0), state.memory)
        marks = self._build_increments(state, events, np.zeros(len(events.groups), np.int64))
        size = self.statistic.vector_size(self.width, state.memory)
        self._widen(state, size)
        counts = self._count_events(state, events.groups[marks.events], 1)
        return self._release_vector(state, sum_increments(marks, size), counts)

    def _feed_by_tick(self, state: RunState, events: EventColumns, rows: Ints, ticks: int) -> Any:
        """Process tick by tick, if one tick depends on the memory of another."""
        ends = np.searchsorted(rows, np.arange(ticks + 1))
        parts = [np.arange(ends[i], ends[i + 1]) for i in range(ticks)]
        return self.statistic.join_releases([self._step_events(state, events.select(part)) for part in parts])

    def _feed_block(self, state: RunState, events: EventColumns, rows: Ints, ticks: int) -> R:
        """Process all ticks at once, added up in pieces, so that memory stays bounded."""
        size = state.counter.width
        inside = events.groups >= 0
        events, rows = events.select(inside), rows[inside]
        piece = max(1, self.CHUNK_PLACES // size)
        fed, counts = [], []
        for first in range(0, max(1, ticks), piece):
            count = min(piece, ticks - first)
            begin, end = np.searchsorted(rows, [first, first + count])
            part, own = events.select(np.arange(begin, end)), rows[begin:end] - first
            marks = self._build_increments(state, part, own)
            of = own[marks.events]
            fed.append(self._feed_counter(state, sum_increments(marks, size, of, count)))
            known = self._count_events(state, part.groups[marks.events] + of * self.width, count)
            counts.append(self._public_counts(state, known))
        return self.statistic.release(self._join_sums(state, fed, np.concatenate(counts)))

    def _build_increments(self, state: RunState, events: EventColumns, rows: Ints) -> Increments:
        """Return the increments of events, of only the first if a tick is the unit."""
        marks = self.statistic.build_increments(events.rows, events.groups, self.width, state.memory)
        most = self.statistic.max_tick_events
        return marks if most is None else marks.select(find_first_of_rows(rows[marks.events], most))

    def _count_events(self, state: RunState, places: Ints, count: int) -> Ints | None:
        """Return the exact numbers of events, if they are public."""
        if state.public is None:
            return None
        return np.bincount(places, minlength=count * self.width).reshape(count, self.width)

    def _public_counts(self, state: RunState, counts: Ints | None) -> Floats:
        if state.public is None or counts is None:
            return np.zeros((0, self.width))
        return np.asarray(state.public.feed(counts), np.float64)

    def _release_vector(self, state: RunState, vector: Ints, counts: Ints | None) -> R:
        """Return the release of one tick, with the noise after announced intrusions."""
        if self.statistic.windows:
            fed = [self._feed_counter(state, vector[None])]
            joined = self._join_sums(state, fed, self._public_counts(state, counts))
            return self.statistic.select_first(self.statistic.release(joined))
        drawn, known = state.counter.step(vector), self._public_counts(state, counts)
        if isinstance(drawn, AdaptiveRelease):
            block = combine_releases([drawn], np.stack)
            sums = NoisySums(block.value, (), self.width, state.memory, known, block)
        else:
            numbers = np.asarray(drawn, np.float64)[None]
            sums = NoisySums(numbers, [state.counter.noise()], self.width, state.memory, known)
        return self.statistic.select_first(self.statistic.release(sums))

    def _release_nothing(self, state: RunState) -> Any:
        """Return the release of no ticks."""
        none = self._feed_counter(state, np.zeros((0, state.counter.width), np.int64))
        return self.statistic.empty_release(self._join_sums(state, [none], np.zeros((0, self.width))))

    def _join_sums(self, state: RunState, fed: Sequence[Any], counts: Floats) -> NoisySums:
        """Return the noisy sums of the newest ticks, with the noise that the claim states."""
        claim = state.counter.mechanism
        drawn = claim.join_releases(fed)
        if not isinstance(claim, LinearMechanism):
            return NoisySums(drawn.value, (), self.width, state.memory, counts, drawn)
        noises = TickNoises(claim, state.counter.tick - len(drawn) + 1, len(drawn))
        windows = {window: replace(noises, window=window) for window in self.statistic.windows}
        sums = np.asarray(drawn, np.float64).reshape(len(drawn), math.prod(drawn.shape[1:]))
        return NoisySums(sums, noises, self.width, state.memory, counts, window_noises=windows)

    def _feed_counter(self, state: RunState, block: Ints) -> Any:
        """Return the counter's releases of some ticks, of each window if there are several."""
        windows = self.statistic.windows
        return state.counter.feed_windows(block, windows) if windows else state.counter.feed(block)

    def __repr__(self) -> str:
        return f"<run of {self.statistic!r}, width {self.width}>"


def has_columns(columns: dict[str, Any]) -> bool:
    return any(value is not None for value in columns.values())


def find_first_of_rows(rows: Ints, most: int) -> Ints:
    """Return the indices of the first `most` items of every row. Rows are in order."""
    return np.flatnonzero(np.arange(len(rows)) - np.searchsorted(rows, rows) < most)
