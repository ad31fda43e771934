"""Private sketches under audit: their releases, with the memory if it may be seized.

CountSketch, HeavyKeys    exactly: the vectors of neighbouring events, under many keys, and the matrices of the counter;
                          by experiment: all noisy cells and the key
MisraGries                exactly: the laws of what is published, for all neighbouring tables of a few items
FlipMerge                 exactly: every branch of the code's coins, for an item that comes at any moments between a
                          look and releases; the bits of merged releases have exactly the stated law
CountMin                  exactly: the cells that an event moves; with the memory, whose noise is as wide

Promise
    Keys are enumerated, not proved: an event moves each row of a sketch in one cell, under any key. Laws of bits and
    of tables are complete for these sizes. Memory of a pan-private CountSketch is that of its counter, which is under
    audit as a mechanism.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from hashlib import sha256
from itertools import combinations_with_replacement, product
from math import exp, inf, log
from typing import Any

import numpy as np

from streamgauge import sketches
from streamgauge.audit.exact.kernels import ForkedChance, add_weights, list_branches, score_outcome
from streamgauge.audit.exact.worst_case import WorstCase, compute_loss, is_laplace
from streamgauge.audit.subject import ClaimSubject, Pair, Settings, find_claims, list_settings
from streamgauge.continual.state_io import BlankNoise, unpack
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Approx, Event, Loss
from streamgauge.sketches.flip_merge import SavedBits

KEY = bytes(range(32))
KEY_COUNT = 24  # keys under which vectors are compared
ITEMS = (1, 2, 3)


@dataclass(frozen=True)
class SketchTick:
    """Events of one tick: items, their weights, and the event of each."""

    items: tuple[int, ...] = ()
    weights: tuple[int, ...] = ()
    events: tuple[int, ...] = ()

    def __add__(self, other: "SketchTick") -> "SketchTick":
        mine = self.items + other.items, self.weights + other.weights, self.events + other.events
        return SketchTick(*mine)


def step_sketch(run: Any, tick: SketchTick) -> Any:
    """Step a run with the events of a tick."""
    items, weights = np.array(tick.items, np.int64), np.array(tick.weights, np.int64)
    if getattr(run.claim, "items_per_event", 1) > 1:
        return run.step(items, weights, np.array(tick.events, np.int64))
    return run.step(items, weights)


def read_cells(release: Any) -> Floats:
    """Return all noisy cells of a release, of all levels if it has several."""
    levels = getattr(release, "levels", (release,))
    return np.concatenate([level.cells.reshape(-1) for level in levels])


class VectorTap:
    """Stands in for the run of a counter, and releases what it is given."""

    tick = 0

    def step(self, values: Ints) -> Ints:
        return values.copy()

    def stddev(self) -> float:
        return 0.0


def build_keys() -> Iterator[bytes]:
    yield KEY
    for number in range(KEY_COUNT - 1):
        yield sha256(b"%d" % number).digest()


@dataclass(frozen=True)
class CellEvidence:
    """The log-likelihood ratio of one release of all cells."""

    law: Any  # of the noise of a cell
    one: Ints
    other: Ints

    def __call__(self, views: Floats) -> Floats:
        cells = views[:, : len(self.one)]
        power, price = (1, 1 / self.law.scale) if is_laplace(self.law) else (2, 1 / (2 * self.law.parameter))
        found = np.abs(cells - self.other) ** power - np.abs(cells - self.one) ** power
        return np.asarray(float(price) * found.sum(axis=1))


@dataclass(frozen=True)
class CellSketchSubject(ClaimSubject):
    """CountSketch or HeavyKeys over a tick, or over a few that are computed only."""

    has_evidence: bool = True

    @property
    def loss(self) -> Loss:
        loss: Loss = self.claim.counter.charged_loss
        return loss

    @property
    def ticks(self) -> int:
        return int(self.claim.horizon)

    @cached_property
    def _worst(self) -> tuple[float, bytes, int, SketchTick, SketchTick]:
        strategy = self.claim.counter.strategy(self.ticks)
        found = []
        for key in build_keys():
            vectors = {event: self._find_vector(key, event) for event in {*self._list_events(), SketchTick()}}
            for (one, other), tick in product(self._list_pairs(), range(self.ticks)):
                move = np.zeros((len(vectors[one]), self.ticks), np.int64)
                move[:, tick] = vectors[one] - vectors[other]
                found.append((compute_loss(strategy, move), key, tick, one, other))
        return max(found, key=lambda each: each[0])

    def _list_events(self) -> list[SketchTick]:
        """List the events of a unit: an item, or several, each of the largest weights."""
        size, bound = getattr(self.claim, "items_per_event", 1), self.claim.bound
        return [
            SketchTick(items, weights, (0,) * size)
            for items in combinations_with_replacement(ITEMS, size)
            for weights in product((bound, -bound), repeat=size)
        ]

    def _list_pairs(self) -> Iterator[tuple[SketchTick, SketchTick]]:
        events = self._list_events()
        return product(events, events if self.claim.unit.replace else [SketchTick()])

    def _find_vector(self, key: bytes, event: SketchTick) -> Ints:
        run = self.claim.start(key, BlankNoise())
        run.counter = VectorTap()
        return read_cells(step_sketch(run, event)).astype(np.int64)

    def worst(self) -> WorstCase:
        amount, _, tick, one, other = self._worst
        shown = f"{one.items} for {other.items}" if other.items else f"{one.items}"
        how = f"vectors of events under {KEY_COUNT} keys, matrices of {self.ticks} ticks"
        return WorstCase((tick + 1,), amount, f"with items {shown}", computed_from=how)

    def pairs(self) -> Sequence[Pair]:
        key, one, other = KEY, self._list_events()[0], SketchTick()
        if self.has_evidence:
            _, key, _, one, other = self._worst
        others = SketchTick((2, 3), (1, 1), (7, 8))  # of other people
        both = [(key, each + others) for each in (one, other)]
        vectors = [self._find_vector(*each) for each in both]
        law = self.claim.counter.noise_at(1).terms[0].distribution if self.has_evidence else None
        evidence = CellEvidence(law, *vectors) if self.has_evidence else None
        return [Pair(f"an event with items {one.items}", both[0], both[1], evidence)]

    def views(self, data: tuple[bytes, SketchTick], runs: int) -> Floats:
        """Return all cells of the first tick, and a number of the key, which is public."""
        key, tick = data
        rows = []
        for _ in range(runs):
            run = self.claim.start(key, self.noise)
            rows.append([*read_cells(step_sketch(run, tick)), run.key[0]])
        return np.array(rows, np.float64)


Table = dict[bytes, int]


@dataclass(frozen=True)
class MisraGriesSubject(ClaimSubject):
    """Misra-Gries over all streams of a few items; one release."""

    is_computed: bool = True
    events: int = 3
    copies: int = 30  # of each event of the streams that are attacked

    def worst(self) -> WorstCase | None:
        if not self.is_computed:
            return None
        epsilons = [(self._solve_epsilon(one, other), one, other) for one, other in self._list_tables()]
        epsilon, one, other = max(epsilons, key=lambda each: each[0])
        how = f"laws of all {len(epsilons)} ordered pairs of neighbouring tables"
        return WorstCase((), epsilon, f"tables {one} and {other}", computed_from=how)

    def _list_tables(self) -> list[tuple[dict[Any, int], dict[Any, int]]]:
        found = set()
        for stream in product(ITEMS, repeat=self.events):
            for copies, place in product((0, self.claim.threshold), range(self.events)):
                begun = ITEMS[: self.claim.counters] * copies  # few events alone are never published
                rest = stream[:place] + stream[place + 1 :]
                both = self._build_table((*begun, *stream)), self._build_table((*begun, *rest))
                found |= {both, both[::-1]}
        return [(dict(one), dict(other)) for one, other in sorted(found) if one != other]

    def _build_table(self, stream: Sequence[int]) -> tuple[tuple[bytes, int], ...]:
        table = sketches.misra_gries.MisraGriesTable(self.claim.counters)
        table.update([sketches.misra_gries.encode_key(item) for item in stream])
        return tuple(table.items())

    def _solve_epsilon(self, one: Table, other: Table) -> float:
        """Return the least epsilon at which the delta of the claim holds, by halving."""
        laws, delta = self._compute_laws(one, other), float(self.claim.loss.delta)
        low, high = 0.0, 4 * float(self.claim.loss.epsilon)
        for _ in range(40):
            middle = (low + high) / 2
            excess = float(np.maximum(laws[0] - exp(middle) * laws[1], 0).sum())
            low, high = (middle, high) if excess > delta else (low, middle)
        return high

    def _compute_laws(self, one: Table, other: Table) -> list[Any]:
        """Return the laws of the published counts of the keys of `one`, under both tables."""
        noise, threshold = self.claim.distribution, self.claim.threshold
        far = int(25 * noise.scale)
        counts = np.arange(threshold, threshold + far + max(one.values(), default=0))
        pmf = np.array([noise.pmf(k) for k in range(3 * far + 4 * threshold)])
        laws = []
        for table in (one, other):
            joint: Any = 0.0
            for eta in range(-far, far + 1):
                outcome: Any = np.array(noise.pmf(eta))
                for key in sorted(one):
                    law = np.append(np.zeros(len(counts)), 1.0)
                    if key in table:
                        shown = pmf[np.abs(counts - table[key] - eta)]
                        law = np.append(shown, 1 - noise.tail(threshold - table[key] - eta))
                    outcome = outcome[..., None] * law
                for key in table.keys() - one.keys():
                    outcome = outcome * (1 - noise.tail(threshold - table[key] - eta))
                joint = joint + outcome
            laws.append(joint)
        return laws

    def pairs(self) -> Sequence[Pair]:
        """Return streams of which one has one event more, which takes 1 from every counter."""
        whole = ITEMS[:2] * self.copies
        return [Pair("an item that is in no counter", whole, (*whole, ITEMS[2]))]

    def views(self, data: tuple[int, ...], runs: int) -> Floats:
        run = self.claim.start(self.noise)
        found = np.full((runs, len(ITEMS)), np.nan)
        for row in found:
            run.update(data)
            for item, value in run.release().counts.items():
                row[ITEMS.index(int(item))] = value
        return found


LOOK, RELEASE = "look", "release"
Plan = tuple[str, ...]
Law = Mapping[tuple[int, ...], Fraction]


@dataclass(frozen=True)
class BitEvidence:
    """The log-likelihood ratio of all bits that were seen."""

    one: Law
    other: Law

    def __call__(self, views: Floats) -> Floats:
        rows, place = np.unique(views, axis=0, return_inverse=True)
        scores = [score_outcome(self.one, self.other, tuple(row)) for row in rows.astype(int).tolist()]
        return np.array(scores, np.float64)[place.ravel()]


@dataclass(frozen=True)
class FlipMergeSubject(ClaimSubject):
    """One bucket of FlipMerge: all that is seen of it, for an item that comes at any moments or never."""

    attacked_plan: Plan = ()  # in which the item comes before the last act; else the worst

    @cached_property
    def plans(self) -> list[Plan]:
        """Orders of all releases and a look at the memory, if it may be seized."""
        releases = (RELEASE,) * self.claim.releases
        if not self.claim.pan_private:
            return [releases]
        return [(*releases[:place], LOOK, *releases[place:]) for place in range(len(releases) + 1)]

    def find_law(self, plan: Plan, visits: tuple[int, ...]) -> Law:
        """Return the law of all bits that are seen, over every branch of the code's coins."""
        branches = list_branches(lambda chance: self.run_plan(plan, visits, chance))
        return add_weights((branch.result, branch.weight) for branch in branches)

    def run_plan(self, plan: Plan, visits: tuple[int, ...], chance: Any) -> tuple[int, ...]:
        run, seen = self.claim.start(KEY, chance), list[int]()
        for visit, act in zip(visits, plan, strict=True):
            if visit:
                run.update([ITEMS[0]])
            bits = self._look(run) if act == LOOK else run.release().bits
            seen += bits.reshape(-1).tolist()
        return tuple(seen)

    def _look(self, run: Any) -> Ints:
        none = np.zeros(0, np.uint8)
        blank = SavedBits(0, 0, KEY_BYTES.copy(), none)
        _, _, state = unpack(run.save(), repr(self.claim), lambda width: blank)
        return np.unpackbits(state.bits, count=self.claim.buckets * self.claim.levels).astype(np.int64)

    @cached_property
    def _worst(self) -> tuple[float, Plan, tuple[int, ...]]:
        found = []
        for plan in self.plans:
            absent = self.find_law(plan, (0,) * len(plan))
            for visits in product((0, 1), repeat=len(plan)):
                present = self.find_law(plan, visits)
                for seen in absent.keys() | present.keys():
                    one, other = absent.get(seen, Fraction(0)), present.get(seen, Fraction(0))
                    loss = abs(log(one / other)) if one and other else inf if one or other else 0.0
                    found.append((loss, plan, visits))
        return max(found, key=lambda each: each[0])

    def worst(self) -> WorstCase:
        epsilon, plan, visits = self._worst
        moments = [f"before the {act}" for act, visit in zip(plan, visits, strict=True) if visit]
        how = f"every branch of coins, {len(self.plans)} orders of looks and releases"
        faults = tuple(self._find_faults())
        return WorstCase((), epsilon, f"an item that comes {' and '.join(moments)}", computed_from=how, faults=faults)

    def _find_faults(self) -> Iterator[str]:
        """Yield each bit of a merge that has another law than the flipped bit of the union."""
        for visits in product((False, True), repeat=2):
            branches = [*list_branches(partial(self._merge, visits))]
            ones = sum(branch.weight for branch in branches if branch.result[0])
            flip = branches[0].result[1]
            if ones != (1 - flip if any(visits) else flip):
                yield f"merged bit is set with probability {float(ones):.4g}, stated {float(flip):.4g} flipped"

    def _merge(self, visits: tuple[bool, ...], chance: ForkedChance) -> tuple[int, Fraction]:
        """Return the item's bit after a merge of two releases, and the stated flip."""
        tables = []
        for visit in visits:
            run = self.claim.start(KEY, chance)
            if visit:
                run.update([ITEMS[0]])
            tables.append(run.release())
        merged = tables[0].merge(tables[1], chance)
        place = int(sketches.flip_merge.find_bits(sketches.ItemHash(KEY), [ITEMS[0]], *tables[0].bits.shape)[0])
        return int(merged.bits.reshape(-1)[place]), merged.flip

    def pairs(self) -> Sequence[Pair]:
        plan, visits = self.attacked_plan, (0,) * (len(self.attacked_plan) - 1) + (1,)
        if not plan:
            _, plan, visits = self._worst
        both = [(plan, visits), (plan, (0,) * len(plan))]
        return [Pair("an item that comes or not", both[0], both[1], BitEvidence(*(self.find_law(*b) for b in both)))]

    def views(self, data: tuple[Plan, tuple[int, ...]], runs: int) -> Floats:
        return np.array([self.run_plan(*data, self.noise) for _ in range(runs)], np.float64)


KEY_BYTES = np.frombuffer(KEY, np.uint8)


@dataclass(frozen=True)
class CountMinSubject(ClaimSubject):
    """One release of Count-Min, and a look at its cells if they may be seized."""

    has_look: bool = False

    def worst(self) -> WorstCase:
        moves = [
            (np.abs(self._find_vector(key, one) - self._find_vector(key, other)).sum(), one, other)
            for key in build_keys()
            for one, other in product(self._list_events(), self._list_events() if self.claim.unit.replace else [()])
        ]
        move, one, other = max(moves, key=lambda each: each[0])
        how = f"cells that events move under {KEY_COUNT} keys"
        return WorstCase((), float(move / self.claim.distribution.scale), f"{one} or {other}", computed_from=how)

    def _list_events(self) -> list[tuple[int, ...]]:
        return [(item, weight) for item in ITEMS for weight in (self.claim.bound, -self.claim.bound)]

    def _find_vector(self, key: bytes, event: tuple[int, ...]) -> Ints:
        run = self.claim.start(key, BlankNoise())
        if event:
            run.update([event[0]], [event[1]])
        return np.asarray(run.release().cells.reshape(-1))

    def pairs(self) -> Sequence[Pair]:
        return [Pair("an item that comes or not", (ITEMS[0], ITEMS[1]), (ITEMS[1],))]

    def views(self, data: tuple[int, ...], runs: int) -> Floats:
        rows = []
        for _ in range(runs):
            run = self.claim.start(KEY, self.noise)
            run.update(data)
            look = self._look(run) if self.claim.pan_private else ()
            rows.append([*look, *run.release().cells.reshape(-1)])
        return np.array(rows, np.float64)

    def _look(self, run: Any) -> Floats:
        shape = self.claim.rows, self.claim.columns
        blank = sketches.count_min.CellState(0, KEY_BYTES.copy(), np.zeros(shape, np.int64))
        return np.asarray(unpack(run.save(), repr(self.claim), lambda width: blank)[2].cells.reshape(-1))


SMALL: Settings = {"rows": 3, "columns": 2}
COMPUTED: Settings = {**SMALL, "horizon": 3, "bound": 2}
CLASS_SETTINGS: dict[str, Sequence[Settings]] = {
    "CountSketch": (
        {**SMALL, "horizon": 1},
        COMPUTED,
        {**COMPUTED, "items_per_event": 2},
        {**COMPUTED, "unit": Event(replace=True)},
    ),
    "HeavyKeys": ({**SMALL, "horizon": 1, "levels": 1}, {**COMPUTED, "levels": 2}),
    "MisraGries": ({"counters": 2},),
    "FlipMerge": (
        {"buckets": 1, "levels": 2},
        {"buckets": 1, "levels": 2, "pan_private": True},
        {"buckets": 1, "levels": 2, "pan_private": True, "releases": 2, "memory_share": Fraction(2, 3)},
    ),
    "CountMin": ({**SMALL}, {**SMALL, "pan_private": True}, {**SMALL, "unit": Event(replace=True)}),
}
SKETCH_RUNS = 4_000  # each is a run of its own
SUBJECTS: dict[str, Callable[..., ClaimSubject]] = {
    "CountSketch": CellSketchSubject,
    "HeavyKeys": CellSketchSubject,
    "MisraGries": MisraGriesSubject,
    "FlipMerge": FlipMergeSubject,
    "CountMin": CountMinSubject,
}
MISRA_GRIES_LOSS = Approx(1, Fraction(1, 1000))


def find_sketches() -> dict[str, type[Any]]:
    """Return all private sketches: classes that have a loss, and can be started."""
    return find_claims(sketches, "start")


def build_sketch_subjects(cls: type[Any]) -> Iterator[tuple[Any, Settings]]:
    """Return settings that are tried, and what builds the subject of a claim of the class."""
    if cls.__name__ not in SUBJECTS:
        raise TypeError(f"subject of {cls.__name__} must be in the catalogue, got none")
    for settings in list_settings(cls, CLASS_SETTINGS, {"loss"}):
        yield SUBJECTS[cls.__name__], settings
