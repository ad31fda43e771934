"""Thresholds for keys discovered from the data: one unit's key passes with delta.

Consider a noisy counter for every conceivable key. A key is *eligible* at a tick if the
window has at least `at_least` events of it. It is published at the first tick at which it is eligible and its
noisy count is above a threshold, and stays published. Nothing is released of other keys, not even 0.

    threshold at tick t     V + at_least - 1 + h_t     with P(noise of tick t > h_t) <= share_t
    V                       the most that one unit adds to one key in a window
    share_t                 delta over all (key, tick) pairs at which one unit can make a key eligible:
                            K keys (twice as many if events are replaced) times all ticks; in windows
                            of W ticks, W for each tick of each key; 6 delta/(pi^2 t^2 K) without an end

Privacy
    Neighbours: streams x, x' that differ in one unit, chosen in view of earlier releases. Promise: counters
    with (epsilon, delta_1) and thresholds with delta_2 together have (epsilon, delta_1 + delta_2).
    Proof: the release is f_x(counters on x), and f_x depends on x only through the eligible keys at each tick. So

        P(f_x'(counters on x') in S) <= P(f_x(counters on x') in S) + P(f_x' and f_x differ on x')
                                     <= e^epsilon P(f_x(counters on x) in S) + delta_1 + delta_2.

    The first step costs no e^epsilon. The second is the counters' promise, f_x being post-processing. The two
    differ only if a key crosses its threshold at a tick at which it is eligible in one stream and not in
    the other. There one stream has fewer than `at_least` events of it, so that x' has at most
    V + at_least - 1, and its noise alone is above h_t. The union over all such pairs is delta_2. Adaptivity:
    before a key is published, releases depend on its noise only through the fact that it has not crossed. So along
    the one history in which it has not, all pairs are chosen without its noise. x and x' may be exchanged.

    Columns of a run are counters without a key at first: their noise depends on no data, and a new key gets
    the next free one. The number of keys is not capped: a cap would let one key displace another.

**Table of keys.** It has a column of the counters for each key, exact and secret, except for published keys.
The saved form reveals their number and total length to a power of two only.

**Bounds on users.** Each user may use a bounded number of keys, each a bounded number of times, over the whole stream.
The first `max_keys` keys of each user count (the same key in two groups is two), each for the user's first
`max_per_key` events of it. A user's events alone decide which of them survive: no user
displaces another. In windows too the bounds are over the stream: after using them up, a user is not counted
in any later window. (Noise there may rest on less, see `KeyExposure.sensitivity`.)

The memory of users is exact and secret: keyed hashes of 128 bits represent users, and users with keys. Their key is
drawn at the start and saved with the run.

Reference
    Cardoso, Rogers: Differentially private histograms under continual observation, 2021; the key selection of
    DP-SQLP, 2023. Discrete noise equals h_t with a chance that counts: the comparison is strict. The h_t are
    half widths of the tick's own noise, certified, not of the widest.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np

from streamgauge.continual import LinearMechanism
from streamgauge.noise import Ints, NoiseSum
from streamgauge.noise.entropy import read_system_key
from streamgauge.privacy import Sensitivity, Unit
from streamgauge.statistics.estimate import Floats
from streamgauge.statistics.events import Bools, Column
from streamgauge.statistics.keys.ranking import Key, Octets, find_largest, join_keys, key_to_bytes, split_keys
from streamgauge.statistics.user_bounds import DIGEST_BYTES, counts_from_arrays, counts_to_arrays, encode_users

BASEL_LOWER_BOUND = Fraction(6079, 10000)  # below 6/pi^2, so BASEL_LOWER_BOUND/t^2 sums over all ticks to less than 1
ROUNDING_MARGIN = 1 + Fraction(1, 2**40)  # more than the error of the logarithm in a half width


@dataclass(frozen=True)
class KeyExposure:
    """Bounds on the exposure of one unit: keys, amount of each, (key, tick) pairs."""

    keys: int  # K
    max_per_key: int  # V
    events: int  # of the unit, in either world
    pairs: int | None  # None: every tick of a stream without an end

    @classmethod
    def from_unit(
        cls,
        unit: Unit,
        span: int | None,
        horizon: int | None,
        max_keys: int | None = None,
        max_per_key: int | None = None,
    ) -> "KeyExposure":
        """Return the exposure of a unit in a window of `span` ticks, None without an end.

        The other bounds are those of users.
        """
        touched = 1 if getattr(unit, "moves", False) else unit.ticks
        ticks, worlds = min(touched, horizon or touched), 2 if unit.replace else 1
        most = min(unit.events * ticks, max_per_key or unit.events * ticks)
        keys = min(unit.events * ticks, max_keys or unit.events * ticks)
        events = min(unit.events * ticks, keys * most)
        if span is None:
            return cls(keys * worlds, most, events, None if horizon is None else keys * worlds * horizon)
        pairs = span * min(events, keys * ticks)
        bounded = min(pairs, keys * horizon) if horizon else pairs
        return cls(keys * worlds, min(most, unit.events * min(ticks, span)), events, bounded * worlds)

    def delta_share(self, delta: Fraction, tick: int) -> Fraction:
        """Return the part of delta that one pair at `tick` may spend."""
        return delta / self.pairs if self.pairs else delta * BASEL_LOWER_BOUND / (self.keys * tick**2)

    def sensitivity(self) -> Sensitivity:
        """Return how far a unit moves the counters if it adds at most V to one key.

        It moves them as far as if all its events were at one tick. Proof if V is over the whole stream: its additions
        to a key over ticks, d >= 0 with sum at most V, are V times a mean of single ticks. So |C d| is at most V times
        the longest column, in L1 and in L2. The events of all keys sum to `events`. Their squares are largest in as few
        keys as possible.

        In windows, V is over a window only, and a key may get more over the stream. The bound is valid all the same:
        the counters of windows are WindowSum and WindowBridge, whose blocks are no longer than the window. So every
        p-sum of a key moves by at most V, and the p-sums of each level, over all keys and blocks, by `events` in all.
        The squares of a level sum to the same amount as here.
        """
        full, rest = divmod(self.events, self.max_per_key)
        return Sensitivity(self.events, full * self.max_per_key**2 + rest**2, self.events)


@dataclass(frozen=True)
class KeySelection:
    """Counter, and the part of delta that its thresholds spend."""

    counter: LinearMechanism[Any]
    delta: Fraction
    exposure: KeyExposure
    at_least: int

    def threshold(self, tick: int) -> float:
        """Return the threshold. A key is published if its noisy count is above."""
        most = self.exposure.max_per_key + self.at_least - 1
        off = most * self.counter.deviation(tick)
        return (
            most + off + upper_noise_quantile(self.counter.noise_at(tick), self.exposure.delta_share(self.delta, tick))
        )


def find_lowest_threshold(selections: Sequence[KeySelection], tick: int) -> KeySelection:
    """Return the selection of least threshold at `tick`."""
    return min(selections, key=lambda selection: selection.threshold(tick))


@lru_cache(maxsize=4096)
def upper_noise_quantile(noise: NoiseSum, share: Fraction) -> float:
    """Return h with P(noise > h) <= share.

    The law is symmetric, so the share is half of the mass outside of a half width.
    """
    outside = 2 * min(share, Fraction(1, 4)) / ROUNDING_MARGIN
    parts = int(1 / outside)
    return noise.simultaneous_half_width(float(1 - outside * parts), parts)


UNBOUNDED_EVENTS = 2**62


@dataclass(slots=True)
class SavedKeys:
    """Memory of users and their keys as arrays."""

    secret: Octets = field(repr=False)
    users: Octets = field(repr=False)  # exact: one row per user
    keys: Ints = field(repr=False)  # exact: number of keys of each user
    pairs: Octets = field(repr=False)  # exact: one row per user and key
    uses: Ints = field(repr=False)  # exact: number of uses


class KeyContributions:
    """Uses of keys by each user. `admit_events` returns the events that survive."""

    def __init__(self, max_keys: int | None, max_per_key: int | None) -> None:
        self.bounded = max_keys is not None or max_per_key is not None
        self.max_keys = max_keys or UNBOUNDED_EVENTS
        self.max_per_key = max_per_key or UNBOUNDED_EVENTS
        self._secret = read_system_key()
        self._keys: dict[bytes, int] = {}
        self._uses: dict[bytes, int] = {}

    def admit_events(self, users: Column, keys: Column, groups: Ints) -> Ints:
        """Return the indices of the events that survive, in order, and remember them."""
        codes, names = encode_users(users)
        digests = [self._digest(name) for name in names]
        events = zip(codes.tolist(), keys.tolist(), groups.tolist(), strict=True)
        admitted = (
            code >= 0 and key is not None and self._count_event(digests[code], key, group)
            for code, key, group in events
        )
        return np.flatnonzero(np.fromiter(admitted, np.bool_, len(codes)))

    def _count_event(self, user: bytes, key: Key, group: int) -> bool:
        """Count one event of this user for this key, if the bounds allow it."""
        pair = self._digest(user + group.to_bytes(8, "little") + key_to_bytes(key))
        uses, touched = self._uses.get(pair, 0), self._keys.get(user, 0)
        if uses >= self.max_per_key or (not uses and touched >= self.max_keys):
            return False
        self._uses[pair] = uses + 1
        self._keys[user] = touched + (not uses)
        return True

    def _digest(self, data: bytes) -> bytes:
        return blake2b(data, digest_size=DIGEST_BYTES, key=self._secret).digest()

    def to_saved(self) -> SavedKeys:
        return SavedKeys(
            np.frombuffer(self._secret, np.uint8), *counts_to_arrays(self._keys), *counts_to_arrays(self._uses)
        )

    def restore(self, saved: SavedKeys) -> "KeyContributions":
        """Continue from a saved state."""
        self._secret = saved.secret.tobytes()
        self._keys, self._uses = (
            counts_from_arrays(saved.users, saved.keys),
            counts_from_arrays(saved.pairs, saved.uses),
        )
        return self


MIN_COLUMNS = 64  # columns at the start
MIN_KEY_BYTES = 2**12  # bytes of all saved keys
GROUP_ROW, COUNT_ROW, LAST_TICK_ROW, PUBLISHED_ROW = range(4)


@dataclass(slots=True)
class SavedKeyTable:
    """Saved table of keys: one row per column of the counters, in order of arrival."""

    tick: int
    octets: Octets = field(repr=False)  # exact: all keys, one after the other, then zeros
    lengths: Ints = field(repr=False)  # exact; 0 for columns without a key
    facts: Ints = field(repr=False)  # exact
    bounds: SavedKeys = field(repr=False)


class KeyTable:
    """Columns of the keys of each group, and the facts of each (rows of `facts`)."""

    def __init__(self, bounds: KeyContributions) -> None:
        self.tick = 0
        self.bounds = bounds
        self.keys: list[Key] = []
        self.facts = np.zeros((4, MIN_COLUMNS), np.int64)
        self._columns: dict[int, dict[Key, int]] = {}  # by group

    @property
    def capacity(self) -> int:
        """Number of columns. It doubles whenever they are used up."""
        return self.facts.shape[1]

    def find_columns(self, keys: Column, groups: Ints, span: int | None, counts: Ints | None = None) -> Ints:
        """Return the columns of one tick's events, including new keys.

        `span` is the window, if it ends. With `counts`, each item represents that many events, at least one.
        """
        self.tick += 1
        fresh = len(self.keys)
        found = map(self._find_column, keys.tolist(), groups.tolist())
        columns = np.fromiter(found, np.int64, len(keys))
        while self.capacity < len(self.keys):
            self.facts = np.pad(self.facts, ((0, 0), (0, self.capacity)))
        if span == 1:
            self.facts[COUNT_ROW] = 0
        self.facts[GROUP_ROW, columns[columns >= fresh]] = groups[columns >= fresh]
        np.add.at(self.facts[COUNT_ROW], columns, 1 if counts is None else counts)
        self.facts[LAST_TICK_ROW, columns] = self.tick
        return columns

    def _find_column(self, key: Key, group: int) -> int:
        own = self._columns.get(group)
        if own is None:
            own = self._columns[group] = {}
        column = own.get(key)
        if column is None:
            column = own[key] = len(self.keys)
            self.keys.append(key)
        return column

    def find_eligible(self, least: int, span: int | None) -> Bools:
        """Return the columns with at least `least` events in the window.

        In a sliding window, any event there suffices.
        """
        came, last_ticks = self.facts[COUNT_ROW], self.facts[LAST_TICK_ROW]
        recent = came > 0 if span in (None, 1) else last_ticks > max(0, self.tick - (span or 0))
        return np.asarray((came >= least) & recent, np.bool_)

    def publish(self, columns: Bools) -> None:
        self.facts[PUBLISHED_ROW] |= columns

    def rank_keys(self, counts: Floats, k: int, width: int) -> list[tuple[tuple[Key, ...], Floats]]:
        """Return the k published keys of largest count, for each group."""
        published = np.flatnonzero(self.facts[PUBLISHED_ROW])
        groups = self.facts[GROUP_ROW, published]
        inner = np.argsort(groups, kind="stable")
        parts = np.split(published[inner], np.searchsorted(groups[inner], np.arange(1, width)))
        return [self._rank_columns(part, counts[part], k) for part in parts]

    def _rank_columns(self, columns: Ints, counts: Floats, k: int) -> tuple[tuple[Key, ...], Floats]:
        keys = [self.keys[column] for column in columns.tolist()]
        first = find_largest(counts, keys, k)
        return tuple(keys[place] for place in first), counts[first]

    def to_saved(self) -> SavedKeyTable:
        octets, lengths = join_keys(self.keys)
        more = max(MIN_KEY_BYTES, 1 << (len(octets) - 1).bit_length()) - len(octets)
        octets, lengths = np.pad(octets, (0, more)), np.pad(lengths, (0, self.capacity - len(lengths)))
        return SavedKeyTable(self.tick, octets[:, None], lengths[:, None], self.facts.T, self.bounds.to_saved())

    @classmethod
    def from_saved(cls, bounds: KeyContributions, saved: SavedKeyTable) -> "KeyTable":
        table = cls(bounds)
        table.tick = saved.tick
        table.facts = np.ascontiguousarray(saved.facts.T)
        keys = split_keys(saved.octets[:, 0], saved.lengths[saved.lengths > 0])
        for key, group in zip(keys, table.facts[GROUP_ROW, : len(keys)].tolist(), strict=True):
            table._find_column(key, group)
        return table
