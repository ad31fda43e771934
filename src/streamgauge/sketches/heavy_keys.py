"""Frequent keys of a domain that cannot be listed: CountSketches of prefixes.

    key (a whole number below 16^levels) -> its prefixes of 4, 8, ... bits, one for each level
    each level has a CountSketch of its own; `find` walks from the shortest prefixes to keys, past rare ones

Privacy
    Neighbours and promise as for `CountSketch`, over the tables of all levels as one vector. Proof: a key moves one
    cell of each row of each level by at most `bound` = Z, so L1 is levels D Z and squared L2 is levels D Z^2. Levels
    share no cell. Keys outside of the domain are dropped, by a rule that looks at that key alone.

Error
    An estimate errs as one of `CountSketch` whose squared L2 is `levels` times as large. A key is found if all its
    prefixes are estimated above the threshold. Prefixes have at least the count of the key (insertions only). So keys
    some standard errors above the threshold are found. With deletions, a prefix may sum to less than a key.

Reference
    Cormode, Muthukrishnan: An improved data stream summary: the count-min sketch, 2005 (dyadic search); here digits of
    4 bits, CountSketch and noise.
"""

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.continual import LinearMechanism, choose
from streamgauge.continual.run import Run
from streamgauge.continual.state_io import SavedBytes
from streamgauge.continual.validation import check_whole
from streamgauge.noise import Ints, Noise
from streamgauge.privacy import Event, Loss, Sensitivity, Unit
from streamgauge.sketches.count_sketch import (
    DEFAULT_MEMORY_NUMBERS,
    DEFAULT_ROWS,
    CountSketchRelease,
    check_unit,
    limit_items,
    pack_run,
    sketch_sensitivity,
    unpack_run,
)
from streamgauge.sketches.item_hash import (
    ItemHash,
    Items,
    check_key,
    create_key,
    derive_key,
    list_parsed,
    parse_weights,
)
from streamgauge.sketches.sketch_table import CellHash, check_shape

DIGIT_BITS, MAX_LEVELS = 4, 15
LEVEL_PERSON = b"sg.sketches.levl"
MAX_FOUND = 4096


@dataclass(frozen=True)
class FoundKey:
    """A key whose count is estimated above the threshold."""

    key: int
    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class HeavyKeysRelease:
    """Noisy cells of all levels at one tick."""

    tick: int
    levels: tuple[CountSketchRelease, ...] = field(repr=False)

    def find(self, threshold: float, *, max_keys: int = 1024, confidence: float = 0.9) -> list[FoundKey]:
        """Return the keys estimated at `threshold` or more, the largest first.

        At most `max_keys` prefixes of a level are followed, the largest first. An interval holds for a key that is
        chosen apart from the release. Those of found keys are chosen by it, so they lean to the high side.
        """
        check_whole("max_keys", max_keys)
        if max_keys > MAX_FOUND:
            raise ValueError(f"max_keys must be at most {MAX_FOUND}, got {max_keys}")
        prefixes = np.zeros(1, np.int64)
        for level in self.levels:
            children = ((prefixes << DIGIT_BITS)[:, None] + np.arange(2**DIGIT_BITS)).reshape(-1)
            values = level.estimate(children, 0).value
            largest = np.lexsort((children, -values))[:max_keys]
            prefixes = children[largest[values[largest] >= threshold]]
        found = self.levels[-1].estimate(prefixes, confidence)
        columns = found.value.tolist(), found.lower.tolist(), found.upper.tolist()
        return [FoundKey(*each) for each in zip(prefixes.tolist(), *columns, strict=True)]


@dataclass(frozen=True)
class HeavyKeys:
    """Running totals of keys and prefixes, for frequent keys below 16^levels.

    >>> import streamgauge as sg
    >>> sg.sketches.HeavyKeys(sg.Zcdp(1), horizon=1, levels=4).sensitivity
    Sensitivity(l1=28, l2_squared=28, coordinates=28)
    """

    loss: Loss
    _: KW_ONLY
    levels: int
    horizon: int | None = None
    rows: int = DEFAULT_ROWS
    columns: int = 2**12
    bound: int = 1
    pan_private: bool = False
    unit: Unit = Event()
    memory: int = DEFAULT_MEMORY_NUMBERS

    def __post_init__(self) -> None:
        check_shape(self.rows, self.columns)
        check_whole("bound", self.bound)
        check_whole("levels", self.levels)
        if self.levels > MAX_LEVELS:
            raise ValueError(f"levels must be at most {MAX_LEVELS}, got {self.levels}")
        check_unit(self.unit)
        self.counter  # noqa: B018 - settings that no counter keeps are rejected now

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """The most that one unit moves the cells of a tick, over all levels."""
        return sketch_sensitivity(self.rows * self.levels, self.bound, 1, self.unit)

    @cached_property
    def counter(self) -> LinearMechanism[Any]:
        settings: dict[str, Any] = {"horizon": self.horizon, "pan_private": self.pan_private, "memory": self.memory}
        return choose(self.loss, bound=self.sensitivity, unit=self.unit, **settings)

    def start(self, key: bytes | None = None, noise: Noise | None = None) -> "HeavyKeysRun":
        made = check_key(key) if key is not None else create_key()
        return HeavyKeysRun(self, made, self.counter.start(self.levels * self.rows * self.columns, noise))

    def load(self, saved: SavedBytes, noise: Noise | None = None) -> "HeavyKeysRun":
        key, counter = unpack_run(saved, repr(self))
        return HeavyKeysRun(self, key, self.counter.load(counter, noise))


class HeavyKeysRun:
    """Heavy keys at work: keys of a tick in, noisy cells of all levels out."""

    def __init__(self, claim: HeavyKeys, key: bytes, counter: Run[Any, Any]) -> None:
        self.claim = claim
        self.key = key
        self.counter = counter
        keys = (derive_key(key, LEVEL_PERSON, level) for level in range(claim.levels))
        self.hashes = tuple(CellHash(ItemHash(each), claim.rows, claim.columns) for each in keys)

    @property
    def tick(self) -> int:
        return self.counter.tick

    def step(self, keys: Items, weights: npt.ArrayLike | None = None) -> HeavyKeysRelease:
        """Close a tick and release it."""
        parsed, inside = self._parse_keys(keys)
        heavy = parse_weights(weights, self.claim.bound, len(parsed))
        shape = self.claim.levels, self.claim.rows, self.claim.columns
        cells = np.zeros(shape, np.int64)
        kept, kept_weights = limit_items(self.claim.unit, parsed[inside], None if heavy is None else heavy[inside])
        for level, place in enumerate(self.hashes):
            prefixes = kept >> (DIGIT_BITS * (self.claim.levels - 1 - level))
            place.add(cells[level], place.items.names(prefixes), kept_weights, self.claim.bound)
        noisy = np.asarray(self.counter.step(cells.reshape(-1)), np.float64).reshape(shape)
        stddev, tick = self.counter.stddev(), self.counter.tick
        found = (CountSketchRelease(tick, part, place, stddev) for part, place in zip(noisy, self.hashes, strict=True))
        return HeavyKeysRelease(tick, tuple(found))

    def _parse_keys(self, keys: Items) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return keys as numbers, and whether each is in the domain."""
        end = 1 << DIGIT_BITS * self.claim.levels
        if isinstance(keys, np.ndarray) and keys.dtype.kind in "iu" and not isinstance(keys, np.ma.MaskedArray):
            flat = keys.reshape(-1)
            inside = (flat >= 0) & (flat < np.array(min(end, np.iinfo(flat.dtype).max)).astype(flat.dtype))
            if end > np.iinfo(flat.dtype).max:
                inside = flat >= 0
            return np.where(inside, flat, 0).astype(np.int64), inside
        items = list_parsed(keys)
        inside = np.array([isinstance(item, int) and 0 <= item < end for item in items], np.bool_)
        return np.array([item if fits else 0 for item, fits in zip(items, inside, strict=True)], np.int64), inside

    def save(self) -> bytes:
        """Return key and state of the run, secrets included."""
        return pack_run(repr(self.claim), self.key, self.counter)

    def __repr__(self) -> str:
        return f"<run of {self.claim!r}>"
