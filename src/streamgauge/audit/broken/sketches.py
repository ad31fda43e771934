"""Broken sketches: keys that follow data, rows and keys without noise, bits that are shown twice."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from streamgauge.audit.broken.pairs import UNIT_LOSS, TwinPair, build_twins
from streamgauge.audit.subject import ExperimentNoise
from streamgauge.audit.subjects.sketches import (
    LOOK,
    RELEASE,
    CellSketchSubject,
    CountMinSubject,
    FlipMergeSubject,
    MisraGriesSubject,
    build_keys,
)
from streamgauge.continual.run import Run
from streamgauge.noise import Ints, Noise, RandomSource
from streamgauge.privacy import Approx, Zcdp
from streamgauge.sketches import BitTable, CellHash, CountMin, CountSketch, FlipMerge, ItemHash, MisraGries
from streamgauge.sketches.count_sketch import CountSketchRelease, CountSketchRun
from streamgauge.sketches.flip_merge import FlipMergeRun
from streamgauge.sketches.item_hash import Item
from streamgauge.sketches.misra_gries import MisraGriesRun

SKETCH_RUNS, TABLE_RUNS, COMPUTED_RUNS = 2_000, 12_000, 100
SMALL: dict[str, Any] = {"horizon": 1, "rows": 3, "columns": 2}


class LateKeyRun(CountSketchRun):
    """Draws keys until the items of the first tick fill few cells."""

    def step(self, items: Any, weights: Any = None, events: Any = None) -> CountSketchRelease:
        best = min(build_keys(), key=lambda key: self._count_cells(key, items))
        self.hash = CellHash(ItemHash(best), self.claim.rows, self.claim.columns)
        return super().step(items, weights, events)

    def _count_cells(self, key: bytes, items: Any) -> int:
        hashes = CellHash(ItemHash(key), self.claim.rows, self.claim.columns)
        return sum(len(np.unique(slots)) for slots in hashes.slots(hashes.items.names(items)))


class LateKeySketch(CountSketch):
    """Has a hash key that follows the data: the key, which is public, shows the items."""

    def start(self, key: bytes | None = None, noise: Noise | None = None) -> CountSketchRun:
        run = super().start(key, noise)
        return LateKeyRun(self, run.key, run.counter)


class BareRowRun(CountSketchRun):
    """Releases the last row as it is."""

    def __init__(self, claim: CountSketch, key: bytes, counter: Run[Any, Any]) -> None:
        super().__init__(claim, key, counter)
        self._row = np.zeros(claim.columns, np.int64)

    def step(self, items: Any, weights: Any = None, events: Any = None) -> CountSketchRelease:
        release = super().step(items, weights, events)
        cells = np.zeros((self.claim.rows, self.claim.columns), np.int64)
        self.hash.add(cells, self.hash.items.names(items), weights, self.claim.bound)
        self._row += cells[-1]
        return replace(release, cells=np.concatenate([release.cells[:-1], self._row[None]]))


class BareRowSketch(CountSketch):
    """Adds noise to all rows but the last."""

    def start(self, key: bytes | None = None, noise: Noise | None = None) -> CountSketchRun:
        run = super().start(key, noise)
        return BareRowRun(self, run.key, run.counter)


class UnclippedRun(CountSketchRun):
    """Adds all items of an event."""

    def step(self, items: Any, weights: Any = None, events: Any = None) -> CountSketchRelease:
        cells = np.zeros((self.claim.rows, self.claim.columns), np.int64)
        self.hash.add(cells, self.hash.items.names(items), weights, self.claim.bound)
        noisy = np.asarray(self.counter.step(cells.reshape(-1)), np.float64).reshape(cells.shape)
        return CountSketchRelease(1, noisy, self.hash, 0.0)


class UnclippedSketch(CountSketch):
    """Charges two items of an event as two cells a row, though both may be in one cell."""

    def start(self, key: bytes | None = None, noise: Noise | None = None) -> CountSketchRun:
        run = super().start(key, noise)
        return UnclippedRun(self, run.key, run.counter)


class UnsharedRun(MisraGriesRun):
    """Draws noise for each key alone."""

    def _draw(self, entries: list[tuple[bytes, int]]) -> dict[Item, int]:
        shared = self.source
        self.source = UnsharedNoise(shared)
        try:
            return super()._draw(entries)
        finally:
            self.source = shared


class UnsharedNoise:
    """Noise whose first draw is 0."""

    def __init__(self, source: Noise) -> None:
        self.source = source

    def laplace(self, scale: Any, size: int) -> Ints:
        drawn: Ints = self.source.laplace(scale, size)
        drawn[0] = 0
        return drawn

    def gaussian(self, variance: Any, size: int) -> Ints:
        return self.source.gaussian(variance, size)


class UnsharedMisraGries(MisraGries):
    """Has no noise that all keys share, though one event may take 1 from all counters."""

    def start(self, noise: Noise | None = None) -> MisraGriesRun:
        run = super().start(noise)
        with run._locked() as table:
            return UnsharedRun(self, table, noise)


class ShownBitsRun(FlipMergeRun):
    """Releases the bits of the memory."""

    def release(self) -> BitTable:
        with self._exclusive() as state:
            state.releases += 1
            return BitTable(state.bits.copy(), self.claim.memory_flip, self.key)


class ShownBits(FlipMerge):
    """Releases bits without a second flip: after a look, a changed bit shows that the item came since."""

    def start(self, key: bytes | None = None, noise: RandomSource | None = None) -> FlipMergeRun:
        run = super().start(key, noise)
        with run._locked() as state:
            return ShownBitsRun(self, state, run.source)


class OrTable(BitTable):
    """Bits that are merged by OR, and stated to be flipped as seldom as before."""

    def merge(self, other: BitTable, noise: RandomSource | None = None) -> BitTable:
        return OrTable(self.bits | other.bits, self.flip, self.key)


class OrRun(FlipMergeRun):
    """Releases tables of the broken merge."""

    def release(self) -> BitTable:
        table = super().release()
        return OrTable(table.bits, table.flip, table.key)


class OrFlipMerge(FlipMerge):
    """Merges flipped bits by OR, without new coins: more are set than the flip of the result states."""

    def start(self, key: bytes | None = None, noise: RandomSource | None = None) -> FlipMergeRun:
        run = super().start(key, noise)
        with run._locked() as state:
            return OrRun(self, state, run.source)


class BareCountMin(CountMin):
    """Begins with bare cells, which a look at the memory shows."""

    def start(self, key: bytes | None = None, noise: Noise | None = None) -> Any:
        run = super().start(key, noise)
        with run._locked() as state:
            state.cells.fill(0)
        return run


def every_twin(chance: ExperimentNoise) -> Iterator[TwinPair]:
    cells = partial(CellSketchSubject, noise=chance, has_evidence=False)
    late = LateKeySketch(UNIT_LOSS, **SMALL)
    yield build_twins("CountSketch, a hash key drawn after the data", cells, late, runs=SKETCH_RUNS)
    bare = BareRowSketch(UNIT_LOSS, **SMALL)
    yield build_twins("CountSketch, one row without noise", cells, bare, runs=SKETCH_RUNS)
    unclipped = UnclippedSketch(Zcdp(1), items_per_event=2, **SMALL)
    yield build_twins(
        "CountSketch, items of an event not clipped", cells, unclipped, truth=2.0, runs=COMPUTED_RUNS, is_counted=False
    )
    table = partial(MisraGriesSubject, noise=chance, is_computed=False)
    unshared = UnsharedMisraGries(Approx(1, "1/1000"), counters=2)
    yield build_twins("Misra-Gries, no noise that keys share", table, unshared, truth=2.5, runs=TABLE_RUNS)
    bits = partial(FlipMergeSubject, noise=chance)
    shown = ShownBits(UNIT_LOSS, buckets=1, levels=2, pan_private=True)
    seized = partial(bits, attacked_plan=(LOOK, RELEASE))
    yield build_twins("FlipMerge, released as it was seized", seized, shown, truth=inf, runs=SKETCH_RUNS)
    merged = OrFlipMerge(UNIT_LOSS, buckets=1, levels=2)
    yield build_twins("FlipMerge, merged without new coins", bits, merged, runs=SKETCH_RUNS, has_wrong_estimates=True)
    least = BareCountMin(UNIT_LOSS, rows=3, columns=2, pan_private=True)
    yield build_twins(
        "Count-Min, seized before its noise", partial(CountMinSubject, noise=chance), least, runs=SKETCH_RUNS
    )
