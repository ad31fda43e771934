"""Rankings: the keys of largest noisy count, with intervals that hold although the keys were selected."""

from dataclasses import dataclass, field

import numpy as np

from streamgauge.noise import NoiseSum
from streamgauge.statistics.estimate import Floats, check_confidence

Key = str | int | bool | bytes
CONFIDENCE = 0.95  # of the intervals that are printed


@dataclass(frozen=True, eq=False)
class Ranking:
    """The keys of each group, largest noisy count first, at one tick.

    Who looks at the largest of many noisy counts looks at those whose noise was high. The intervals allow for
    it: with the chosen confidence they hold for all keys of a group at once, listed or not, if there are at
    most `among` of them. That is the number of declared keys; where keys are discovered their number is
    secret, and `among` is what the claim assumes.
    """

    keys: tuple[tuple[Key, ...], ...]  # of each group
    counts: tuple[Floats, ...]  # of each group, in the order of its keys
    stddev: float  # the standard error of each count, had the key been named beforehand
    among: int
    noise: NoiseSum = field(repr=False)

    def half_width(self, confidence: float = CONFIDENCE) -> float:
        """How far any count of a group may be off, with `confidence` for all of its keys at once."""
        return self.noise.simultaneous(confidence, self.among)

    def interval(self, confidence: float = CONFIDENCE) -> tuple[tuple[Floats, Floats], ...]:
        """Lower and upper bounds for each group, in the order of its keys."""
        check_confidence(confidence)
        half = self.half_width(confidence)
        return tuple((counts - half, counts + half) for counts in self.counts)

    def __str__(self) -> str:
        half = self.half_width()
        lines = [] if len(self.keys) == 1 else ["group  key: count"]
        for group, (keys, counts) in enumerate(zip(self.keys, self.counts, strict=True)):
            shown = "" if len(self.keys) == 1 else f"{group:>5}  "
            lines += [f"{shown}{key!r}: {n:.6g} +- {half:.4g}" for key, n in zip(keys, counts, strict=True)]
        return "\n".join(lines) or "no keys"


def order(key: Key) -> tuple[int, Key]:
    """Whole numbers first, then text, then bytes: an order that every mixture of keys has."""
    return (str, bytes).index(type(key)) + 1 if type(key) in (str, bytes) else 0, key


def largest(counts: Floats, keys: list[Key], k: int) -> list[int]:
    """The places of the k largest counts; those of equal counts in the order of their keys.

    >>> largest(np.array([1.0, 3.0, 3.0]), ["c", "b", "a"], 2)
    [2, 1]
    """
    least = np.partition(counts, -k)[-k] if len(counts) > k else -np.inf
    places = [int(place) for place in np.flatnonzero(counts >= least)]
    return sorted(places, key=lambda place: (-counts[place], order(keys[place])))[:k]
