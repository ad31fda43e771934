"""The keys that have come, each with a column of the counters: exact and secret, but for those published.

Saved, their number and the length of all of them together are told in powers of two, and no closer.
"""

from dataclasses import dataclass, field

import numpy as np

from streamgauge.noise import Ints
from streamgauge.statistics.columns import Bools, Column
from streamgauge.statistics.estimate import Floats
from streamgauge.statistics.key_contributions import KeyContributions, SavedKeys
from streamgauge.statistics.keys import Octets, joined, parted
from streamgauge.statistics.ranking import Key, largest

FEWEST = 64  # columns at the start
SHORTEST = 2**12  # octets of all keys, saved
GROUP, COUNT, SEEN, PUBLISHED = range(4)


@dataclass(slots=True)
class SavedTable:
    """A table as arrays, one row per column of the counters, in the order in which keys came."""

    tick: int
    octets: Octets = field(repr=False)  # exact: all keys, one after the other, then zeros
    lengths: Ints = field(repr=False)  # exact; 0 for columns without a key
    facts: Ints = field(repr=False)  # exact
    bounds: SavedKeys = field(repr=False)


class KeyTable:
    """Which key of which group has which column, and the facts of each: see the rows of `facts`."""

    def __init__(self, bounds: KeyContributions) -> None:
        self.tick = 0
        self.bounds = bounds
        self.keys: list[Key] = []
        self.facts = np.zeros((4, FEWEST), np.int64)
        self._columns: dict[int, dict[Key, int]] = {}  # by group

    @property
    def capacity(self) -> int:
        """How many columns there are; doubled whenever they are used up."""
        return self.facts.shape[1]

    def take(self, keys: Column, groups: Ints, span: int | None, counts: Ints | None = None) -> Ints:
        """The columns of one tick's events, new keys included; `span` is the window, if it ends.

        With `counts`, each item stands for so many events, one at least.
        """
        self.tick += 1
        fresh = len(self.keys)
        found = map(self._column, keys.tolist(), groups.tolist())
        columns = np.fromiter(found, np.int64, len(keys))
        while self.capacity < len(self.keys):
            self.facts = np.pad(self.facts, ((0, 0), (0, self.capacity)))
        if span == 1:
            self.facts[COUNT] = 0
        self.facts[GROUP, columns[columns >= fresh]] = groups[columns >= fresh]
        np.add.at(self.facts[COUNT], columns, 1 if counts is None else counts)
        self.facts[SEEN, columns] = self.tick
        return columns

    def _column(self, key: Key, group: int) -> int:
        own = self._columns.get(group)
        if own is None:
            own = self._columns[group] = {}
        column = own.get(key)
        if column is None:
            column = own[key] = len(self.keys)
            self.keys.append(key)
        return column

    def eligible(self, least: int, span: int | None) -> Bools:
        """Which columns have so many events in the window; in one that slides, any."""
        came, seen = self.facts[COUNT], self.facts[SEEN]
        recent = came > 0 if span in (None, 1) else seen > max(0, self.tick - (span or 0))
        return np.asarray((came >= least) & recent, np.bool_)

    def publish(self, columns: Bools) -> None:
        self.facts[PUBLISHED] |= columns

    def ranked(self, counts: Floats, k: int, width: int) -> list[tuple[tuple[Key, ...], Floats]]:
        """Of each group, the k published keys of largest count."""
        published = np.flatnonzero(self.facts[PUBLISHED])
        groups = self.facts[GROUP, published]
        inner = np.argsort(groups, kind="stable")
        parts = np.split(published[inner], np.searchsorted(groups[inner], np.arange(1, width)))
        return [self._ranked(part, counts[part], k) for part in parts]

    def _ranked(self, columns: Ints, counts: Floats, k: int) -> tuple[tuple[Key, ...], Floats]:
        keys = [self.keys[column] for column in columns.tolist()]
        first = largest(counts, keys, k)
        return tuple(keys[place] for place in first), counts[first]

    def saved(self) -> SavedTable:
        octets, lengths = joined(self.keys)
        more = max(SHORTEST, 1 << (len(octets) - 1).bit_length()) - len(octets)
        octets, lengths = np.pad(octets, (0, more)), np.pad(lengths, (0, self.capacity - len(lengths)))
        return SavedTable(self.tick, octets[:, None], lengths[:, None], self.facts.T, self.bounds.saved())

    @classmethod
    def restored(cls, bounds: KeyContributions, saved: SavedTable) -> "KeyTable":
        table = cls(bounds)
        table.tick = saved.tick
        table.facts = np.ascontiguousarray(saved.facts.T)
        keys = parted(saved.octets[:, 0], saved.lengths[saved.lengths > 0])
        for key, group in zip(keys, table.facts[GROUP, : len(keys)].tolist(), strict=True):
            table._column(key, group)
        return table
