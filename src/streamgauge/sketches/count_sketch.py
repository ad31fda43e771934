"""Continual private CountSketch: totals of any item of an unknown domain, with deletions.

    rows x columns cells, one vector for a running count           items never have to be declared
    each tick:  cells += signs of the tick's items                 h_i, s_i: a keyed hash, fixed before the stream
    release:    cells + noise of the counter                       `CountSketchRelease.estimate` reads any item

The counter is the one of least error for the loss (`sg.continual.choose`), over rows x columns numbers side by side.

Privacy
    Neighbours: streams that differ in one unit. An event has one item, or up to `items_per_event`, with weights
    that are clipped to [-bound, bound]. Of a tick that is the unit, the first `unit.events` items count. The number of
    ticks and the key are public. Users are not bounded here, so they are no unit: see `statistics.ApproxFrequency`.
    Promise: `loss` over all releases, even if items are chosen in view of past releases. With `pan_private=True` also
    for the cells in memory, by the promise of the counter.
    Proof: an item moves one cell of each row by at most `bound` = Z. With D rows that is D Z in L1 and D Z^2 in
    squared L2. Two items of an event may share cells, so K items move squared L2 by up to D (K Z)^2. The event's own
    vector is clipped to D K Z^2, by a rule that looks at that event alone, and L1 is at most D K Z. A replacement
    moves twice as far, as from +Z to -Z of one item: 2 D Z and 4 D Z^2. `sensitivity` has these numbers. The counter
    has the rest of the proof. Hashing uses neither data nor noise.

Error
    Each row errs by noise of the counter and by the items that share its cell. Both are symmetric about 0 and
    independent between rows, for an item that is chosen apart from key and noise. So the order statistics of
    the rows are an interval for the truth: all D rows are on one side with probability at most 2^(1-D). It holds for
    every stream. The median errs by about 1.25 sqrt(cell variance + F2/columns)/sqrt(D). Noise has variance
    D Z^2/(2 rho) for one release under zCDP: the median takes the D back.

Reference
    Charikar, Chen, Farach-Colton: Finding frequent items in data streams, 2002; Pagh, Thorup: Improved utility
    analysis of private CountSketch, 2022. Theirs is one release with Gaussian noise. Here it is continual and exact
    until noised, hashes are keyed AES, and intervals are order statistics of the rows.
"""

from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from math import comb, isqrt, pi, sqrt
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual import LinearMechanism, choose
from streamgauge.continual.run import Run
from streamgauge.continual.state_io import SavedBytes, pack, unpack
from streamgauge.continual.validation import check_whole
from streamgauge.memory import WipedArrays
from streamgauge.noise import Ints, Noise
from streamgauge.noise.coerce import Floats
from streamgauge.noise.entropy import KEY_BYTES, Bytes
from streamgauge.prime_field import Words
from streamgauge.privacy import Event, Loss, Sensitivity, Tick, Unit, WEvent
from streamgauge.sketches.item_hash import ItemHash, Items, check_key, create_key, parse_weights
from streamgauge.sketches.sketch_table import CellHash, SketchTable, check_shape

DEFAULT_ROWS, DEFAULT_COLUMNS = 7, 2**14
DEFAULT_MEMORY_NUMBERS = 64  # numbers that the counter may keep for each cell
MAX_BOUND = 2**31
CLIP_BITS = 64
NORMAL_SHARE = 0.6827  # of normal numbers that are at most a standard error
Number = TypeVar("Number", bound=np.generic)


@dataclass(frozen=True)
class SketchEstimate:
    """Estimated totals of items, with intervals. All of it follows from a release."""

    value: Floats
    lower: Floats
    upper: Floats
    stddev: float  # about; noise and collisions


@dataclass(frozen=True)
class CountSketchRelease:
    """Noisy cells of one tick. Any item can be read, at no further loss."""

    tick: int
    cells: Floats = field(repr=False)
    hash: CellHash = field(repr=False)
    noise_stddev: float  # exact, of a cell

    @property
    def collision_stddev(self) -> float:
        """Standard error of a cell by items that share it, from the central 68 % of noisy cells."""
        return sqrt(max(float(measure_spread(self.cells, None)) ** 2 - self.noise_stddev**2, 0.0))

    @property
    def stddev(self) -> float:
        """Standard error of an estimate, about; the median of rows falls short of a mean by pi/2."""
        spread = self.noise_stddev**2 + self.collision_stddev**2
        return sqrt(spread) * median_factor(self.hash.rows)

    def estimate(self, items: Items, confidence: float = 0.9) -> SketchEstimate:
        """Return the totals of items, with intervals for each item by itself.

        Intervals include noise and collisions, and hold for items chosen apart from this release and its key.
        """
        place = find_order(self.hash.rows, confidence)
        found = np.sort(self.hash.read(self.cells, self.hash.items.names(items)), axis=0)
        middle = self.hash.rows // 2
        return SketchEstimate(found[middle], found[place], found[self.hash.rows - 1 - place], self.stddev)


def measure_spread(cells: Floats, axis: int | None) -> Floats:
    """Return the size that 68 % of cells do not exceed: of normal ones their standard error.

    The largest cells do not count, with which the median of rows copes.
    """
    return np.asarray(np.quantile(np.abs(cells), NORMAL_SHARE, axis=axis))


def median_factor(rows: int) -> float:
    """Return about the standard error of a median of so many rows, in errors of one; pi/2 is its loss to a mean."""
    return sqrt((pi / 2 if rows > 1 else 1) / rows)


def find_order(rows: int, confidence: float) -> int:
    """Return the largest j so that order statistics j and rows - 1 - j (from 0) hold with this confidence.

    >>> find_order(7, 0.9), find_order(7, 0.98)
    (0, 0)
    """
    if not 0 <= confidence <= 1 - 2.0 ** (1 - rows):
        most = 1 - 2.0 ** (1 - rows)
        raise ValueError(f"confidence must be between 0 and {most} for {rows} rows, got {confidence}")
    place, outside = 0, 1
    while 2 * (outside + comb(rows, place + 1)) <= (1 - confidence) * 2**rows and place + 1 <= rows // 2:
        place += 1
        outside += comb(rows, place)
    return place


@dataclass(frozen=True)
class CountSketch:
    """Running totals of any item, private at every tick.

    >>> import streamgauge as sg
    >>> claim = sg.sketches.CountSketch(sg.Zcdp("1/2"), horizon=1, rows=5, columns=4096)
    >>> claim.sensitivity
    Sensitivity(l1=5, l2_squared=5, coordinates=5)
    """

    loss: Loss
    _: KW_ONLY
    horizon: int | None = None
    rows: int = DEFAULT_ROWS
    columns: int = DEFAULT_COLUMNS
    bound: int = 1  # largest weight of an item
    items_per_event: int = 1
    pan_private: bool = False
    unit: Unit = Event()
    window: str = "running"
    memory: int = DEFAULT_MEMORY_NUMBERS  # numbers that the counter may keep for each cell

    def __post_init__(self) -> None:
        check_shape(self.rows, self.columns)
        check_whole("bound", self.bound)
        check_whole("items_per_event", self.items_per_event)
        if max(self.bound, self.items_per_event) > MAX_BOUND:
            raise ValueError(f"bound must be at most 2**31, got {max(self.bound, self.items_per_event)}")
        check_unit(self.unit, self.items_per_event)
        self.counter  # noqa: B018 - settings that no counter keeps are rejected now

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """The most that one unit moves the cells of a tick."""
        return sketch_sensitivity(self.rows, self.bound, self.items_per_event, self.unit)

    @cached_property
    def counter(self) -> LinearMechanism[Any]:
        return choose(
            self.loss,
            horizon=self.horizon,
            window=self.window,
            pan_private=self.pan_private,
            bound=self.sensitivity,
            unit=self.unit,
            memory=self.memory,
        )

    @property
    def cells(self) -> int:
        return self.rows * self.columns

    def stddev(self, tick: int) -> float:
        """Return the standard error of a cell at `tick` by noise alone, exact."""
        return self.counter.stddev(tick)

    def memory_bytes(self) -> int:
        """Return the bytes of a run."""
        return 8 * self.counter.memory() * self.cells

    def table(self, key: bytes) -> SketchTable:
        """Return an empty exact table of a key, for one machine of several. Its memory is exact."""
        if isinstance(self.unit, Tick):
            raise ValueError("unit must be one event for tables, which do not bound a tick, got Tick")
        return SketchTable(CellHash(ItemHash(key), self.rows, self.columns), self.bound)

    def start(self, key: bytes | None = None, noise: Noise | None = None) -> "CountSketchRun":
        """Start a run with a fresh key, or with one that other machines have too."""
        made = check_key(key) if key is not None else create_key()
        return CountSketchRun(self, made, self.counter.start(self.cells, noise))

    def load(self, saved: SavedBytes, noise: Noise | None = None) -> "CountSketchRun":
        """Load a run that `CountSketchRun.save` wrote."""
        key, counter = unpack_run(saved, repr(self))
        return CountSketchRun(self, key, self.counter.load(counter, noise))


def sketch_sensitivity(rows: int, bound: int, items: int, unit: Unit) -> Sensitivity:
    """Return the sensitivity of a table to a unit whose events have so many items, clipped; see the module."""
    one = Sensitivity(rows * items * bound, rows * items * bound**2, rows * items)
    return one.scale(unit.events * (2 if unit.replace else 1))


def check_unit(unit: Unit, items_per_event: int = 1) -> None:
    """Reject units that a sketch does not bound."""
    if not isinstance(unit, Event | WEvent | Tick):
        where = "users are bounded by statistics.ApproxFrequency"
        raise ValueError(f"unit must be Event, WEvent or Tick ({where}), got {unit!r}")
    if isinstance(unit, Tick) and items_per_event > 1:
        raise ValueError(f"items_per_event must be 1 where ticks are the unit, got {items_per_event}")


def limit_items(
    unit: Unit, items: npt.NDArray[Number], weights: Ints | None
) -> tuple[npt.NDArray[Number], Ints | None]:
    """Return the items that count: the first ones of a tick that is the unit."""
    most = unit.events if isinstance(unit, Tick) else None
    return items[:most], None if weights is None else weights[:most]


class CountSketchRun:
    """A CountSketch at work: items of a tick in, noisy cells out."""

    def __init__(self, claim: CountSketch, key: bytes, counter: Run[Any, Any]) -> None:
        self.claim = claim
        self.counter = counter
        self.hash = CellHash(ItemHash(key), claim.rows, claim.columns)

    @property
    def key(self) -> bytes:
        """Key of the hashes, for the tables of other machines."""
        return self.hash.items.key

    @property
    def tick(self) -> int:
        return self.counter.tick

    def step(
        self, items: Items | SketchTable, weights: npt.ArrayLike | None = None, events: npt.ArrayLike | None = None
    ) -> CountSketchRelease:
        """Close a tick and release it.

        Args:
            items: The items of the tick, or the exact table of all machines.
            weights: A whole number for each item, clipped to the bound. The default is 1.
            events: A whole number for each item that says to which event it belongs, if events have several.
        """
        if isinstance(items, SketchTable):
            return self.step_table(items)
        with WipedArrays() as secret:
            every_name = secret(self.hash.items.names(items))
            every_weight = parse_weights(weights, self.claim.bound, len(every_name))
            names, parsed = limit_items(self.claim.unit, every_name, every_weight)
            cells = secret(np.zeros((self.claim.rows, self.claim.columns), np.int64))
            if self.claim.items_per_event == 1:
                if events is not None:
                    raise ValueError("events must be None where an event has one item, got numbers")
                self.hash.add(cells, names, parsed, self.claim.bound)
            else:
                self._add_events(cells, names, parsed, events)
            return self._release(cells)

    def step_table(self, table: SketchTable) -> CountSketchRelease:
        """Close a tick whose items were added up in a table of this key, and empty the table.

        An item counts in one tick: if it stayed in the table, the next step would count it again.
        """
        if self.claim.items_per_event > 1:
            raise ValueError("items must be a list where events have several, which tables do not clip, got a table")
        if table.hash.items.key != self.key or table.cells.shape != (self.claim.rows, self.claim.columns):
            raise ValueError("table must have the key and shape of this run, got another")
        if table.bound != self.claim.bound:
            raise ValueError(f"table must have the bound {self.claim.bound}, got {table.bound}")
        release = self._release(table.cells)
        table.cells.fill(0)
        return release

    def _release(self, cells: Ints) -> CountSketchRelease:
        shape = self.claim.rows, self.claim.columns
        noisy = np.asarray(self.counter.step(cells.reshape(-1)), np.float64).reshape(shape)
        return CountSketchRelease(self.counter.tick, noisy, self.hash, self.counter.stddev())

    def _add_events(self, cells: Ints, names: Words, weights: Ints | None, events: npt.ArrayLike | None) -> None:
        """Add the clipped vectors of events; each keeps its first items."""
        numbers = np.asarray(events) if events is not None else np.empty(0)
        if numbers.dtype.kind not in "iu" or numbers.shape != (len(names),):
            raise ValueError("events must be a whole number for each item where events have several, got others")
        order = np.argsort(numbers, kind="stable")
        labels, starts = np.unique(numbers[order], return_index=True)
        rank = np.arange(len(order)) - np.repeat(starts, np.diff([*starts, len(order)]))
        keep = order[rank < self.claim.items_per_event]
        owner = np.searchsorted(labels, numbers[keep])
        heavy = np.ones(len(keep), np.int64) if weights is None else weights[keep]
        places, moves, owners = [], [], []
        for row, slots in enumerate(self.hash.slots(names[keep])):
            places.append(row * self.claim.columns + (slots & (self.claim.columns - 1)))
            moves.append(np.where(slots < self.claim.columns, heavy, -heavy))
            owners.append(owner)
        limit = self.claim.rows * self.claim.items_per_event * self.claim.bound**2
        place, move = clip_vectors(np.concatenate(owners), np.concatenate(places), np.concatenate(moves), limit)
        np.add.at(cells.reshape(-1), place, move)

    def save(self) -> bytes:
        """Return key and state of the run, secrets included."""
        return pack_run(repr(self.claim), self.key, self.counter)

    def __repr__(self) -> str:
        return f"<run of {self.claim!r}>"


def clip_vectors(owners: Ints, places: Ints, moves: Ints, limit: int) -> tuple[Ints, Ints]:
    """Return the entries of vectors, shrunk towards 0 to a squared norm of at most `limit` each.

    Entries of one vector in one place add up first. All arithmetic is on integers: a factor is rounded down to
    2^-64, entries are cut towards 0.
    """
    order = np.lexsort((places, owners))
    owners, places, moves = owners[order], places[order], moves[order]
    first = np.flatnonzero(np.diff(owners, prepend=-1) | np.diff(places, prepend=-1))
    if not len(first):
        return places, moves
    sums = np.add.reduceat(moves, first)
    norms = np.zeros(int(owners[-1]) + 1, np.object_)
    np.add.at(norms, owners[first], sums.astype(np.object_) ** 2)
    factors = np.array(
        [2**CLIP_BITS if norm <= limit else isqrt((limit << 2 * CLIP_BITS) // norm) for norm in norms.tolist()],
        np.object_,
    )
    wide = sums.astype(np.object_) * factors[owners[first]]
    clipped = np.where(sums >= 0, wide >> CLIP_BITS, -(-wide >> CLIP_BITS)).astype(np.int64)
    return places[first], clipped


@dataclass
class SavedRun:
    """A key and a saved counter, as arrays."""

    tick: int
    key: Bytes
    counter: Bytes


def pack_run(identity: str, key: bytes, counter: Run[Any, Any]) -> bytes:
    inner = np.frombuffer(counter.save(), np.uint8)
    state = SavedRun(counter.tick, np.frombuffer(key, np.uint8), inner)
    return pack(identity, 1, {}, state)


def unpack_run(saved: SavedBytes, identity: str) -> tuple[bytes, bytes]:
    """Return the key and the saved counter."""
    _, _, state = unpack(
        saved, identity, lambda width: SavedRun(0, np.zeros(KEY_BYTES, np.uint8), np.zeros(0, np.uint8))
    )
    return state.key.tobytes(), state.counter.tobytes()
