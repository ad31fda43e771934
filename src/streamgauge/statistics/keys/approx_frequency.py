"""Totals of some texts of a domain too large to declare, from a CountSketch in every group.

    name of a text       the first 8 bytes of its SHA-256, modulo 2^62; public
    text -> cells        one of `columns` cells in each of `rows` rows, with a sign: a keyed hash of the name
    release              every cell + noise of the counter
    total of an item     the median over rows of its signed cells

The hash key is drawn when a run starts, before its stream, and is saved with the run. `items` are the texts whose
totals are released. Declare the texts and use a histogram if they are few: it has less noise and no collisions.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream, for all cells and so for any
    items. Proof: an event moves one cell of each row of its group by 1. With D rows that is D in L1 and in squared
    L2. Two events may share all cells, so m events move squared L2 by up to D m^2. A replaced event moves a cell of
    each row from +1 to -1 at most: 2D in L1 and 4D in squared L2. An event that is taken back has weight -1, and moves
    cells as far. The key depends on no data, and no promise depends on the key.

Error
    A cell errs by the noise of the counter, and by the other texts in it: sqrt(F2/columns), with F2 the sum of
    squared totals of the group. The median errs by about 1.25/sqrt(D) of both, and by less if few texts have most
    events: the stated error is that of the central 68 % of cells. Noise has D times the variance of a
    count under zCDP, which the median takes back. Intervals are order statistics of the rows, and include both. They
    hold for every stream, for an item that is chosen apart from releases and key. D rows give a confidence of at most
    1 - 2^(1-D): beyond that nothing is certain.

Reference
    See `streamgauge.sketches.count_sketch`, whose cells these are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import sha256
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.memory import WipedArrays
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Sensitivity
from streamgauge.sketches.count_sketch import find_order, measure_spread, median_factor
from streamgauge.sketches.item_hash import ItemHash, check_key, create_key
from streamgauge.sketches.sketch_table import CellHash, check_shape
from streamgauge.statistics.estimate import Columns, Estimate, noise_stddevs
from streamgauge.statistics.events import Column
from streamgauge.statistics.keys.ranking import to_plain_keys
from streamgauge.statistics.statistic import Increments, NoisySums, Statistic, unit_sensitivity
from streamgauge.statistics.validation import require_declared

NAME_BYTES, NAME_LIMIT = 8, 2**62
DEFAULT_ROWS, DEFAULT_COLUMNS = 9, 2**11  # of 9 rows, bounds at 0.95 leave out the least and the largest
MAX_ITEMS = 1024


def name_text(text: str) -> int:
    """Return the name of a text, the same as in SQL.

    >>> name_text("tea")
    3023970469325749739
    """
    return int.from_bytes(sha256(text.encode("utf-8", "replace")).digest()[:NAME_BYTES], "big") % NAME_LIMIT


@dataclass(slots=True)
class HashMemory:
    """Key of a run's hashes."""

    key: npt.NDArray[np.uint8]  # public: drawn before the stream


@dataclass(frozen=True, eq=False, kw_only=True)
class FrequencyEstimates(Estimate):
    """Total of every item in every group: (items, width), by tick."""

    measures: tuple[str, ...]

    def columns(self, confidence: float = 0.95) -> dict[str, Columns]:
        """Return each item as columns."""
        return self.split_columns(self.measures, confidence)


@dataclass(frozen=True, kw_only=True)
class ApproxFrequency(Statistic[Estimate]):
    """Total of each of some texts. See the module's claim.

    >>> from streamgauge import Zcdp
    >>> from streamgauge.testing.noise import SilentNoise
    >>> run = ApproxFrequency(Zcdp(1), items=["tea", "salt"], horizon=24).start(noise=SilentNoise())
    >>> run.step(["tea", "tea", "rice", None]).value[:, 0]
    array([2., 0.])
    """

    items: Sequence[str] | None = None
    rows: int = DEFAULT_ROWS
    hash_columns: int = DEFAULT_COLUMNS
    key: bytes | None = field(default=None, repr=False)  # of the hashes; drawn by each run if None
    open_ticks: bool = False

    def check(self) -> None:
        check_shape(self.rows, self.hash_columns)
        items = tuple(require_declared("items", self.items, "the texts whose totals are released"))
        if not 1 <= len(set(items)) == len(items) <= MAX_ITEMS or not all(type(item) is str for item in items):
            raise ValueError(f"items must be 1 to {MAX_ITEMS} different texts, got {len(items)} items")
        object.__setattr__(self, "items", items)
        if self.key is not None:
            check_key(self.key)

    @property
    def channels(self) -> int:
        return self.rows * self.hash_columns

    @property
    def measures(self) -> tuple[str, ...]:
        return tuple(f"item {place}" for place in range(len(self.items or ())))

    @property
    def tick_sensitivity(self) -> Sensitivity:
        rows = self.rows
        return unit_sensitivity(self.unit, Sensitivity(rows, rows, rows), Sensitivity(2 * rows, 4 * rows, 2 * rows))

    @cached_property
    def names(self) -> Ints:
        """Names of the items."""
        return np.array([name_text(item) for item in self.items or ()], np.int64)

    def read_columns(self, values: Any) -> list[Column]:
        return [to_plain_keys(row) for row in super().read_columns(values)]

    def initial_memory(self, width: int) -> HashMemory:
        return HashMemory(np.frombuffer(self.key if self.key is not None else create_key(), np.uint8).copy())

    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        events = np.array([at for at, text in enumerate(rows[0].tolist()) if type(text) is str], np.int64)
        names = np.array([name_text(text) for text in rows[0][events]], np.int64)
        places, signs = self._find_cells(names, memory)
        return Increments(events, places.T * width + groups[events][:, None], signs.T)

    def vectors_from_cells(  # noqa: PLR0917 - a table of events, and the shape of the vectors
        self,
        cells: Ints,
        places: Ints,
        counts: Ints,
        width: int,
        rows: Ints | None = None,
        ticks: int = 1,
        memory: Any = None,
    ) -> Ints:
        """Return the exact vectors of so many events of each name, with the key in `memory`."""
        when = np.zeros(len(cells), np.int64) if rows is None else rows
        vectors = np.zeros(ticks * self.channels * width, np.int64)
        with WipedArrays() as secret:
            channels, signs = map(secret, self._find_cells(cells, memory))
            for channel, sign in zip(channels, signs, strict=True):
                where = secret((when * self.channels + channel) * width + places)
                np.add.at(vectors, where, sign * counts)
        shape = (self.channels, width) if rows is None else (ticks, self.channels, width)
        return vectors.reshape(shape)

    def _find_cells(self, names: Ints, memory: Any) -> tuple[Ints, Ints]:
        """Return the channel and the sign of names in each row."""
        hashes = CellHash(ItemHash(memory.key.tobytes()), self.rows, self.hash_columns)
        first = np.arange(self.rows)[:, None] * self.hash_columns
        with WipedArrays() as secret:
            words = secret(np.zeros((len(names), 2), np.uint64))
            words[:, 0] = names
            slots = secret(np.array([*hashes.slots(words)], np.int64).reshape(self.rows, len(names)))
            return first + (slots & (self.hash_columns - 1)), 1 - 2 * (slots >= self.hash_columns).astype(np.int64)

    def release(self, sums: NoisySums) -> Estimate:
        places, signs = self._find_cells(self.names, sums.memory)
        channels = sums.channels  # (ticks, rows x columns, width)
        signed = channels[:, places] * signs[:, :, None] + 0.0  # (ticks, rows, items, width)
        found = np.moveaxis(np.sort(signed, axis=1), 1, 0)
        value = found[self.rows // 2]
        noise = noise_stddevs(sums.noises, 3)

        def compute_stddev() -> Floats:
            spread = np.maximum(measure_spread(channels, 1)[:, None], noise)
            return np.broadcast_to(spread * median_factor(self.rows), value.shape)

        return FrequencyEstimates(
            value,
            compute_stddev,
            np.ones(value.shape, np.bool_),
            partial(find_order_bounds, found),
            measures=self.measures,
        )


def find_order_bounds(found: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return order statistics of sorted rows as bounds; infinite ones if there are too few rows."""
    if confidence > 1 - 2.0 ** (1 - len(found)):
        return np.full(found.shape[1:], -inf), np.full(found.shape[1:], inf)
    place = find_order(len(found), confidence)
    return found[place], found[len(found) - 1 - place]
