"""Keys with the most events at every tick, of a declared domain or discovered.

With `domain`, every label has a counter, as in a histogram, and a release ranks all of them. Without it, keys
are discovered. A key is published from the first tick at which its noisy count passes a threshold. No
single unit's key passes that threshold but by chance delta. A release ranks the published keys. A key belongs to its
group: the same text in two groups is two keys.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof, declared domain: counters as in `statistics.keys.histogram`. Ranking is post-processing.
    Proof, discovered keys: `loss` must be Approx, or there must be a separate `delta`. With one, counters
    have `loss` and thresholds spend delta. Under Approx, there are two splits. Either counters are pure at epsilon and
    all of delta goes to thresholds, or counters have (epsilon, delta/2) through zCDP and thresholds the other half.
    `selection` is the one that predicts the lower threshold at the horizon. The rest is in
    `statistics.keys.discovery`, and for a zCDP loss with a separate delta in `privacy.slack`. A
    User's events in a tick and ticks are bounded as everywhere.
    `max_keys` and `max_per_key` bound how many keys a user uses over the stream, and how often each
    (see `statistics.keys.discovery`): `max_per_key=1` counts users instead of events.

    Not hidden: time and memory. New keys need new columns, twice as many whenever they are used up. So
    the time and the memory of a step grow with the secret number of keys, in powers of two, and a step
    at which they double takes longer than others. An observer who can measure either learns of keys that were never
    published. The promise is about releases: the machine that makes them must not be observable. Unless a
    mechanism is requested by name, the counter is the best of those whose new columns need few draws
    (`cheap_zero_state`). If there is none, as in decayed windows, it is the best of all, and a step that
    doubles needs as many draws for each new column as there were ticks.

Error
    Counts are unbiased before selection. Intervals are valid after it, see `Ranking`. A hidden key has no
    estimate: a key below the threshold need not be rare.

Reference
    See `streamgauge.statistics.keys.discovery`. The Sparse-Gumbel variant, which pays for every change of the
    list, is not implemented: the counters pay once, and also give the counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.continual import Hybrid, Kary, LinearMechanism, compare
from streamgauge.continual.mechanism import UNBOUNDED_PLANNING_TICKS
from streamgauge.continual.validation import MAX_TICK, check_whole
from streamgauge.noise import Ints
from streamgauge.privacy import AdditiveLoss, Approx, Event, Loss, Pure, Sensitivity, Unit, User
from streamgauge.privacy.rationals import Number
from streamgauge.statistics.estimate import Floats
from streamgauge.statistics.events import Column, Domain, EventColumns
from streamgauge.statistics.keys.discovery import (
    MIN_COLUMNS,
    KeyContributions,
    KeyExposure,
    KeySelection,
    KeyTable,
    find_lowest_threshold,
)
from streamgauge.statistics.keys.histogram import build_label_increments, label_sensitivity
from streamgauge.statistics.keys.ranking import Ranking, to_plain_keys
from streamgauge.statistics.mechanism_config import require_linear
from streamgauge.statistics.statistic import MAX_VECTOR_PLACES, EmptyMemory, Increments, NoisySums, Statistic

MIN_DELTA_SHARE = Fraction(1, 2**900)  # of delta, for one key at one tick: floats cannot represent less
MAX_FED_ZERO_TICKS = 2**11  # ticks of zeros that a new column can get
MAX_CANDIDATE_KEYS = 2**20  # keys of a group for which intervals are valid if their number is secret


@dataclass(frozen=True, kw_only=True)
class TopK(Statistic[Ranking]):
    """The k keys of each group with the largest noisy counts. See the module's claim.

    >>> from streamgauge import Approx
    >>> from streamgauge.testing.noise import SilentNoise
    >>> run = TopK(Approx(1, 1e-6), k=2, horizon=24).start(noise=SilentNoise())
    >>> print(run.step(["tea"] * 200 + ["coffee"] * 300 + ["water"]))
    'coffee': 300 +- 29.75
    'tea': 200 +- 29.75
    """

    k: int
    domain: Sequence[Any] | None = None
    delta: Number | None = None
    at_least: int = 1
    max_keys: int | None = None
    max_per_key: int | None = None

    @property
    def HAS_MEMORY(self) -> bool:  # type: ignore[override]  # noqa: N802 - here it depends on the settings
        return self.domain is None

    CAN_GROW = HAS_MEMORY

    def check(self) -> None:
        check_whole("k", self.k)
        check_whole("at_least", self.at_least)
        if self.domain is None:
            self._check_discovery()
        else:
            object.__setattr__(self, "domain", self.labels.labels)
            others = ("delta", "at_least", "max_keys", "max_per_key")
            self._refuse_unless_default("where the domain is declared", *others)

    def _check_discovery(self) -> None:
        if isinstance(self.loss, Approx):
            self._refuse_unless_default("where the loss has one", "delta")
        elif self.delta is None:
            why = "no other can hide a key that one unit alone has: declare the domain, or a delta"
            raise ValueError(f"loss must be Approx where keys are discovered ({why}), got {self.loss!r}")
        else:
            object.__setattr__(self, "delta", Approx(1, self.delta).delta)
        if self.pan_private:
            raise ValueError("pan_private must be False where keys are discovered and remembered, got True")
        if not isinstance(self.unit, User):
            self._refuse_unless_default("unless units are Users", "max_keys", "max_per_key")
        elif self.unit.per is not None:
            self._refuse_unless_default("where users renew", "max_keys", "max_per_key")
        if self.window_ticks not in (None, 1):
            self._refuse_unless_default("in windows that slide", "at_least")
        for name in ("max_keys", "max_per_key"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        for _, delta in self.loss_splits:
            self._check_delta(delta)

    def _check_delta(self, delta: Fraction) -> None:
        """Reject a delta whose share at the last tick is too small for floats."""
        if self.exposure.delta_share(delta, self.horizon or MAX_TICK) < MIN_DELTA_SHARE:
            raise ValueError(f"delta must leave every key and tick a share of at least 2**-900, got {delta}")

    def _refuse_unless_default(self, reason: str, *names: str) -> None:
        for name in names:
            value, default = getattr(self, name), getattr(type(self), name)
            if value != default:
                raise ValueError(f"{name} must be {default} {reason}, got {value!r}")

    @cached_property
    def labels(self) -> Domain:
        return Domain.from_labels("domain", () if self.domain is None else self.domain)

    @property
    def window_ticks(self) -> int | None:
        """Window in ticks; None if counts have no end."""
        kind, _, ticks = str(self.window).partition(" ")
        return 1 if kind == "each" else int(ticks) if kind == "sliding" and ticks.isdecimal() else None

    @cached_property
    def exposure(self) -> KeyExposure:
        """Bounds on the keys that one unit makes eligible."""
        return KeyExposure.from_unit(self.unit, self.window_ticks, self.horizon, self.max_keys, self.max_per_key)

    @property
    def loss_splits(self) -> list[tuple[Loss, Fraction]]:
        """Loss of the counters, and the part of delta that thresholds spend."""
        if isinstance(self.loss, Approx):
            epsilon, delta = self.loss.epsilon, self.loss.delta
            return [(Pure(epsilon), delta), (Approx(epsilon, delta / 2), delta / 2)]
        return [(self.loss, Fraction(self.delta or 0))]

    @cached_property
    def selection(self) -> KeySelection:
        """Counter and delta of the thresholds, by the lower threshold at the end."""
        found, refusals = [], []
        for counter_loss, rest in self.loss_splits:
            try:
                found.append(KeySelection(self.build_counter(counter_loss), rest, self.exposure, self.at_least))
            except ValueError as refusal:
                refusals.append(refusal)
        if not found:
            raise refusals[-1]
        return find_lowest_threshold(found, self.horizon or UNBOUNDED_PLANNING_TICKS)

    @property
    def native_charge(self) -> tuple[AdditiveLoss, Fraction]:
        """Charge of a ledger in native terms: the counters' loss, the thresholds' delta."""
        return self.counter.charged_loss, Fraction(0) if self.domain is not None else self.selection.delta

    @cached_property
    def counter(self) -> LinearMechanism[Any]:
        if self.domain is not None:
            return self.build_counter(self.loss)
        counter, numbers = self.selection.counter, MIN_COLUMNS * self.selection.counter.memory()
        if numbers > MAX_VECTOR_PLACES:
            rule = f"window must leave the first {MIN_COLUMNS} columns at most 2**31 numbers"
            raise ValueError(f"{rule}, got {numbers} for {self.window!r}")
        return counter

    def build_counter(self, loss: Loss) -> LinearMechanism[Any]:
        """Return the best counter that adds columns cheaply, if columns may be added.

        Without such a counter it is the best of all. Over few ticks every counter adds columns cheaply.
        """
        if self.domain is not None or self.mechanism is not None:
            return require_linear(super().build_counter(loss), type(self).__name__)
        settings: dict[str, Any] = {"unit": self.counter_unit, "bound": self.tick_sensitivity}
        found = compare(loss, horizon=self.horizon, window=self.window, **settings)
        made = [c.mechanism for c in found.candidates if c.mechanism is not None and not c.refusal]
        if self.horizon is None and self.window == "running":
            made.append(Hybrid(loss, inner=Kary, **settings))
        short = self.horizon is not None and self.horizon <= MAX_FED_ZERO_TICKS
        cheap = [mechanism for mechanism in made if short or mechanism.cheap_zero_state]
        return min(cheap, key=lambda mechanism: mechanism.rmse(found.ticks), default=found.best)

    @property
    def counter_unit(self) -> Unit:
        """Unit of the counter. With a bound per key, a user is like an event of that size.

        See `KeyExposure.sensitivity`.
        """
        return self.unit if self.max_per_key is None else Event()

    @property
    def tick_sensitivity(self) -> Sensitivity:
        return label_sensitivity(self.unit) if self.max_per_key is None else self.exposure.sensitivity()

    @property
    def channels(self) -> int:
        return 1 if self.domain is None else len(self.labels)

    def read_columns(self, values: Any) -> list[Column]:
        rows = super().read_columns(values)
        return rows if self.domain is not None else [to_plain_keys(rows[0])]

    def initial_memory(self, width: int) -> Any:
        return EmptyMemory() if self.domain is not None else KeyTable(self._build_bounds())

    def _build_bounds(self) -> KeyContributions:
        return KeyContributions(self.max_keys, self.max_per_key)

    def vector_size(self, width: int, memory: Any) -> int:
        return super().vector_size(width, memory) if self.domain is not None else int(memory.capacity)

    def pack_memory(self, memory: Any) -> Any:
        return memory if self.domain is not None else memory.to_saved()

    def unpack_memory(self, saved: Any) -> Any:
        if self.domain is not None:
            return saved
        return KeyTable.from_saved(self._build_bounds().restore(saved.bounds), saved)

    def admit_events(self, events: EventColumns, memory: Any) -> EventColumns:
        if self.domain is not None or not memory.bounds.bounded:
            return events
        return events.select(memory.bounds.admit_events(events.users, events.rows[0], events.groups))

    def build_increments(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Increments:
        if self.domain is not None:
            return build_label_increments(self.labels, rows[0], groups, width)
        keys = rows[0]
        there = np.fromiter((key is not None for key in keys.tolist()), np.bool_, len(keys))
        events = np.flatnonzero(there)[: self.max_tick_events]  # no later event may add its key
        columns = memory.find_columns(keys[events], groups[events], self.window_ticks)
        return Increments(events, columns[:, None], np.ones((1, 1), np.int64))

    def vector_from_keys(self, keys: Column, counts: Ints, memory: Any) -> Ints:
        """Return the exact vector of so many events of each key. Keys may repeat."""
        columns = memory.find_columns(keys, np.zeros(len(keys), np.int64), self.window_ticks, counts)
        vector = np.zeros(memory.capacity, np.int64)
        np.add.at(vector, columns, counts)
        return vector

    @property
    def measures(self) -> tuple[str, ...]:
        return ()

    def release(self, sums: NoisySums) -> Any:
        """Return the rankings of all ticks of the release."""
        if self.domain is None:
            return (self._rank_discovered(sums),)
        return tuple(map(self._rank_channels, sums.channels, sums.noises))

    def _rank_channels(self, channels: Floats, noise: Any) -> Ranking:
        """Return the k largest channels of each group, with ties in the declared order."""
        first = np.argsort(-channels, axis=0, kind="stable")[: self.k]
        keys = tuple(tuple(self.labels.labels[code] for code in codes) for codes in first.T)
        counts = tuple(np.take_along_axis(channels, first, axis=0).T)
        return Ranking(keys, counts, noise.stddev, len(self.labels), noise)

    def _rank_discovered(self, sums: NoisySums) -> Ranking:
        table, counts, noise = sums.memory, sums.sums[0], sums.noises[0]
        threshold = self.selection.threshold(table.tick)
        table.publish((counts > threshold) & table.find_eligible(self.at_least, self.window_ticks))
        ranked = table.rank_keys(counts, self.k, sums.width)
        keys, sizes = zip(*ranked, strict=True)
        return Ranking(keys, sizes, noise.stddev, MAX_CANDIDATE_KEYS, noise)

    def empty_release(self, sums: NoisySums) -> Any:
        return ()

    def select_first(self, release: Any) -> Ranking:
        one: Ranking = release[0]
        return one

    def join_releases(self, releases: Sequence[Ranking]) -> Any:
        return tuple(releases)
