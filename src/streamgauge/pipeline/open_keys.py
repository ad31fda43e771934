"""Open ticks of a measure whose groups are discovered: how many events of each key have arrived. Secret.

Saved, the keys are octets one after another. How many there are, and how long all of them are, is told in
powers of two and no closer.
"""

from collections.abc import Mapping

import numpy as np

from streamgauge.noise import Ints
from streamgauge.query.measure import Tally
from streamgauge.statistics.keys import joined, parted

FEWEST = 2**10  # rows, saved
SHORTEST = 2**14  # octets, saved


class KeySums:
    """Counts by tick and key."""

    def __init__(self) -> None:
        self._counts: dict[int, dict[str, int]] = {}  # exact

    def add(self, tally: Tally) -> None:
        for tick, place, count in zip(
            tally.ticks.tolist(), tally.places.tolist(), tally.sums[0].tolist(), strict=True
        ):
            own = self._counts.setdefault(tick, {})
            own[tally.keys[place]] = own.get(tally.keys[place], 0) + count

    def close(self, last: int) -> Tally:
        """Takes out all ticks up to `last`."""
        over = sorted(tick for tick in self._counts if tick <= last)
        return _tally({tick: self._counts.pop(tick) for tick in over})

    def saved(self, ticks: int) -> dict[str, Ints]:
        """Everything; rows of tick 0, which is none, hide how much it is."""
        tally = _tally(self._counts)
        octets, lengths = joined(list(tally.keys))
        rows = power(len(lengths), FEWEST) - len(lengths)
        at = np.pad(np.stack([tally.ticks, lengths, tally.sums[0]]), ((0, 0), (0, rows)))
        return {"at": at, "octets": np.pad(octets, (0, power(len(octets), SHORTEST) - len(octets)))}

    def restore(self, arrays: Mapping[str, Ints]) -> None:
        at = arrays["at"]
        ticks, lengths, counts = at[:, at[0] > 0]
        keys = tuple(str(key) for key in parted(arrays["octets"].astype(np.uint8), lengths))
        none = np.zeros(len(keys), np.int64)
        self.add(Tally(ticks, np.arange(len(keys)), none, counts[None], keys))


def power(size: int, least: int) -> int:
    """The next power of two.

    >>> power(0, 4), power(5, 4), power(8, 4)
    (4, 8, 8)
    """
    return max(least, 1 << max(0, size - 1).bit_length())


def _tally(counts: Mapping[int, Mapping[str, int]]) -> Tally:
    """A row for each tick and key."""
    rows = [(tick, key, count) for tick, own in counts.items() for key, count in own.items()]
    numbers = np.array([(tick, count) for tick, _, count in rows], np.int64).reshape(len(rows), 2)
    places, keys = np.arange(len(rows)), tuple(key for _, key, _ in rows)
    return Tally(numbers[:, 0], places, np.zeros(len(rows), np.int64), numbers[:, 1][None], keys)
