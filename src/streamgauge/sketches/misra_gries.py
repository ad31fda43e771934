"""Private Misra-Gries: frequent items of an unknown domain, from k counters, without deletions.

    item in the table     its counter + 1
    else, a counter is 0  the *smallest* such key is replaced by the item, with 1; dummies are smaller than all items
    else                  all counters - 1
    release               counter + noise of the key + one noise shared by all keys, if at least `threshold`

Privacy
    Neighbours: streams that differ in one event, or in up to `items_per_unit` events. The number of releases is public.
    Promise: (epsilon, delta), for each release. A release ends an epoch and the next begins with an empty table. So
    a unit in one epoch pays once. A unit of several epochs pays for each.
    Proof: tables of neighbours differ by 1 in one counter, or by 1 in all. Each table has at most two keys that the
    other lacks, of count at most 1 (enumerated in tests/sketches). Let these keys count one more, or 0, in the other
    table: then one law of the noise, shared or of a key, is shifted by 1, at e^epsilon. This changes the release only
    if one of these four keys reaches the threshold. It has the probability `missed`, at most delta.
    m events: run at epsilon/m, and delta' with delta' (e^epsilon - 1)/(e^(epsilon/m) - 1) <= delta (group privacy).
    The table in memory is exact: there is no pan-private mode.

Error
    A counter is at most the true count, and short of it by at most n/(k + 1) of n events. Noise has twice the variance
    of a Laplace draw. An item is published if its noisy counter reaches the threshold: 18 at (1, 10^-6).

Reference
    Lebeda, Tětek: Better differentially private approximate histograms and heavy hitters using the Misra-Gries sketch,
    2023. Their discrete threshold is 1 + 2 ceil(ln(6 e^epsilon/((e^epsilon + 1) delta))/epsilon), 33 at (1, 10^-6).
    Here it is the least one of the exact law of five draws.
"""

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from heapq import heapify, heappop, heappush
from math import expm1
from typing import Any, Final

import numpy as np

from streamgauge.continual.run import ExclusiveState
from streamgauge.continual.state_io import InvalidSaveError, SavedBytes, pack, unpack
from streamgauge.continual.validation import check_whole
from streamgauge.noise import DiscreteLaplace, Noise, SecureNoise
from streamgauge.noise.entropy import Bytes
from streamgauge.privacy import Approx
from streamgauge.sketches.item_hash import Item, Items, list_parsed

FOREIGN_KEYS = 4  # keys that one of two neighbouring tables lacks
FLOAT_MARGIN = 1 + 1e-9  # on probabilities in floats, far above their error
MAX_COUNTERS = 2**24
MAX_EPSILON = 256
MIN_DELTA = Fraction(1, 10**280)  # of one item; far below it, floats of probabilities are 0
TEXT_TAG, NUMBER_TAG = b"t", b"n"
DUMMY_TAG: Final = b"d"  # the smallest of the tags


def publication_probability(noise: DiscreteLaplace, threshold: int) -> float:
    """Return P(eta + max of 4 draws >= threshold - 1), from above."""
    far = 1
    while noise.tail(far) > 1e-20 * noise.tail(max(threshold, 1)):
        far *= 2
    total = noise.tail(far)
    for eta in range(-far, far):
        total += noise.pmf(eta) * -expm1(FOREIGN_KEYS * _log1m(noise.tail(threshold - 1 - eta)))
    return min(1.0, total * FLOAT_MARGIN)


def _log1m(chance: float) -> float:
    return float(np.log1p(-chance)) if chance < 1 else -np.inf


def find_threshold(epsilon: Fraction, delta: Fraction) -> int:
    """Return the smallest safe threshold.

    >>> find_threshold(Fraction(1), Fraction(1, 10**6))
    18
    """
    noise = DiscreteLaplace(1 / epsilon)
    low, high = 1, 2
    while publication_probability(noise, high) > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if publication_probability(noise, middle) > delta else (low, middle)
    return high


@dataclass(frozen=True)
class MisraGries:
    """Frequent items of each epoch, from `counters` counters.

    >>> import streamgauge as sg
    >>> claim = sg.sketches.MisraGries(sg.Approx(1, "1/1000000"), counters=1024)
    >>> claim.threshold, claim.largest_shortfall(10**6)
    (18, 975)
    """

    loss: Approx
    _: KW_ONLY
    counters: int = 1024
    items_per_unit: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.loss, Approx):
            raise ValueError(f"loss must be Approx (a rare item must stay unpublished by chance), got {self.loss!r}")
        check_whole("counters", self.counters)
        check_whole("items_per_unit", self.items_per_unit)
        if self.counters > MAX_COUNTERS:
            raise ValueError(f"counters must be at most 2**24, got {self.counters}")
        if self.loss.epsilon > MAX_EPSILON:
            raise ValueError(f"epsilon must be at most {MAX_EPSILON}, got {self.loss.epsilon}")
        if self.item_loss.delta < MIN_DELTA:
            raise ValueError(f"delta of an item must be at least 1e-280, got {self.loss.delta} of a unit")
        self.threshold  # noqa: B018 - settings without a threshold are rejected now

    @property
    def item_loss(self) -> Approx:
        """The loss of one of a unit's items, by group privacy."""
        if self.items_per_unit == 1:
            return self.loss
        epsilon = self.loss.epsilon / self.items_per_unit
        ratio = expm1(float(epsilon)) / expm1(float(self.loss.epsilon)) / FLOAT_MARGIN
        return Approx(epsilon, self.loss.delta * Fraction(ratio))

    @cached_property
    def distribution(self) -> DiscreteLaplace:
        """The noise of a key, and the law of the shared noise."""
        return DiscreteLaplace(1 / self.item_loss.epsilon)

    @cached_property
    def threshold(self) -> int:
        """The smallest noisy count that is published."""
        return find_threshold(self.item_loss.epsilon, self.item_loss.delta)

    @property
    def missed(self) -> float:
        """The probability of a release that only one of two neighbours can have, from above."""
        return publication_probability(self.distribution, self.threshold)

    @property
    def stddev(self) -> float:
        """Standard error of a published count, by noise alone."""
        return float((2 * self.distribution.variance) ** 0.5)

    def largest_shortfall(self, events: int) -> int:
        """Return the most by which a counter is below the true count after so many events."""
        return events // (self.counters + 1)

    def start(self, noise: Noise | None = None) -> "MisraGriesRun":
        return MisraGriesRun(self, MisraGriesTable(self.counters), noise)

    def load(self, saved: SavedBytes, noise: Noise | None = None) -> "MisraGriesRun":
        """Load a run that `MisraGriesRun.save` wrote."""
        _, record, state = unpack(saved, repr(self), lambda width: SavedTable(0, *(np.zeros(0, np.uint8),) * 2))
        table = MisraGriesTable.from_bytes(self.counters, state)
        return MisraGriesRun(self, table, noise, record["epochs"])


@dataclass
class SavedTable:
    """A table as bytes: keys with their lengths, and counters."""

    events: int
    keys: Bytes
    counts: Bytes


def encode_key(item: Item) -> bytes:
    """Return an item as bytes; their order is that of keys."""
    return TEXT_TAG + item.encode() if isinstance(item, str) else NUMBER_TAG + b"%d" % item


def decode_key(key: bytes) -> Item:
    return key[1:].decode() if key[:1] == TEXT_TAG else int(key[1:])


@dataclass
class MisraGriesTable:
    """The counters, exact. A counter is stored with the number of common decrements added."""

    size: int
    events: int = 0
    base: int = 0  # common decrements so far
    counts: dict[bytes, int] = field(default_factory=dict, repr=False)
    zeros: list[bytes] = field(default_factory=list, repr=False)  # heap of all keys at 0, and of some that were

    def __post_init__(self) -> None:
        if not self.counts:
            self.clear()
        self.zeros = [key for key, count in self.counts.items() if count == self.base]
        heapify(self.zeros)

    def clear(self) -> None:
        """Begin again with dummies only."""
        self.events = self.base = 0
        self.counts = {DUMMY_TAG + place.to_bytes(4, "big"): 0 for place in range(self.size)}
        self.zeros = sorted(self.counts)

    def update(self, keys: Iterator[bytes] | list[bytes]) -> None:
        counts = self.counts
        for key in keys:
            self.events += 1
            if key in counts:
                counts[key] += 1
            elif (smallest := self._pop_zero()) is not None:
                del counts[smallest]
                counts[key] = self.base + 1
            else:
                self._decrement()

    def _pop_zero(self) -> bytes | None:
        """Remove and return the smallest key at 0; skip those that have left 0 or the table."""
        while self.zeros:
            key = heappop(self.zeros)
            if self.counts.get(key) == self.base:
                return key
        return None

    def _decrement(self) -> None:
        self.base += 1
        for key, count in self.counts.items():
            if count == self.base:
                heappush(self.zeros, key)

    def items(self) -> list[tuple[bytes, int]]:
        """Return all keys but dummies with their counts, in the order of keys."""
        return sorted((key, count - self.base) for key, count in self.counts.items() if key[:1] != DUMMY_TAG)

    def to_saved(self) -> SavedTable:
        keys = sorted(self.counts)
        octets = b"".join(len(key).to_bytes(4, "little") + key for key in keys)
        counts = np.array([self.counts[key] - self.base for key in keys], "<i8")
        return SavedTable(self.events, np.frombuffer(octets, np.uint8), counts.view(np.uint8))

    @classmethod
    def from_bytes(cls, size: int, saved: SavedTable) -> "MisraGriesTable":
        octets, keys = saved.keys.tobytes(), []
        while octets:
            end = 4 + int.from_bytes(octets[:4], "little")
            keys.append(octets[4:end])
            octets = octets[end:]
        counts = np.frombuffer(saved.counts.tobytes(), "<i8").tolist()
        if len(keys) != size or len(counts) != size:
            raise InvalidSaveError("saved must hold a table of its claim, got another")
        return cls(size, saved.events, 0, dict(zip(keys, counts, strict=True)))


@dataclass(frozen=True)
class HeavyItems:
    """Published items of an epoch with their noisy counts, the largest first."""

    epoch: int
    counts: dict[Item, int]
    stddev: float


class MisraGriesRun(ExclusiveState[MisraGriesTable]):
    """A table at work: items in, one release an epoch."""

    def __init__(self, claim: MisraGries, table: MisraGriesTable, noise: Noise | None, epochs: int = 0) -> None:
        super().__init__(table)
        self.claim = claim
        self.source = noise if noise is not None else SecureNoise()
        self.epochs = epochs  # releases so far

    def update(self, items: Items) -> None:
        """Count items, in their order."""
        keys = [encode_key(item) for item in list_parsed(items)]
        with self._exclusive() as table:
            table.update(keys)

    def release(self) -> HeavyItems:
        """Publish the epoch and begin the next one with an empty table."""
        with self._exclusive() as table:
            found = self._draw(table.items())
            table.clear()
            self.epochs += 1
        return HeavyItems(self.epochs, found, self.claim.stddev)

    def _draw(self, entries: list[tuple[bytes, int]]) -> dict[Item, int]:
        """Return the noisy counts from the threshold on. Their order follows from them alone."""
        law = self.claim.distribution
        draws = law.draw(self.source, self.claim.counters + 1).tolist()
        noisy = ((key, count + draws[0] + draw) for (key, count), draw in zip(entries, draws[1:], strict=False))
        published = [(decode_key(key), value) for key, value in noisy if value >= self.claim.threshold]
        return dict(sorted(published, key=lambda each: (-each[1], str(each[0]))))

    def save(self) -> bytes:
        """Return the state of the run, which is exact."""
        with self._locked() as table:
            return pack(repr(self.claim), 1, {"epochs": self.epochs}, table.to_saved())

    def __repr__(self) -> str:
        return f"<run of {self.claim!r}>"


def count_all(items: Any) -> dict[Item, int]:
    """Return exact counts of items, for comparisons."""
    found: dict[Item, int] = {}
    for item in list_parsed(items):
        found[item] = found.get(item, 0) + 1
    return found
