"""The keys with the most events, at every tick: of a declared domain, or discovered from the data.

With `domain`, every label has a counter, as in a histogram, and a release ranks all of them. Without, keys
are discovered: a key is published from the first tick at which its noisy count passes a threshold that no
single unit's key passes but by chance delta, and a release ranks those published. A key is one of its group:
the same text in two groups is two keys.

Privacy
    Neighbours: streams that differ in one `unit`. Promise: `loss` over the whole stream.
    Proof, declared domain: counters as in `streamgauge.statistics.histogram`; ranking is post-processing.
    Proof, discovered keys: `loss` must be Approx, or there must be a `delta` beside it. With one, counters
    keep `loss` and thresholds take delta. Under Approx, either counters are kept pure at epsilon and all of
    delta goes to thresholds, or they keep (epsilon, delta/2) through zCDP and thresholds take the other half;
    `selection` is whichever predicts the lower threshold at the horizon. The rest is in
    `streamgauge.statistics.discovery`, and for a zCDP loss beside a delta in `streamgauge.privacy.slack`. A
    User's events in a tick and ticks are bounded as everywhere;
    `max_keys` and `max_per_key` bound how many keys a user touches over the stream, and how often each
    (see key_contributions.py): `max_per_key=1` counts users instead of events.

    Not hidden: time and memory. New keys take new columns, twice as many whenever they are used up, so
    that the time and the memory of a step grow with the secret number of keys, in powers of two, and a step
    at which they double takes longer than others. Whoever can measure either learns of keys that were never
    published: the releases keep the promise, the machine that makes them must not be watched. Unless a
    mechanism is asked for by name, the counter is the best of those whose new columns take few draws
    (`sleeps_cheaply`); where there is none, as in decayed windows, it is the best of all, and a step that
    doubles takes as many draws for each new column as there were ticks.

Error
    Counts are unbiased before selection; intervals hold after it, see `Ranking`. What a threshold hides is no
    estimate: keys below it are not said to be rare.

Reference
    See `streamgauge.statistics.discovery`. The Sparse-Gumbel variant, which pays for every change of the
    list, is not here: the counters pay once, and also tell the counts.
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from streamgauge.continual import Hybrid, Kary, Mechanism, compare
from streamgauge.continual.mechanism import AHEAD
from streamgauge.continual.settings import FARTHEST, check_whole
from streamgauge.noise import Ints
from streamgauge.privacy import Approx, Event, Loss, Pure, Reach, Unit, User, Zcdp
from streamgauge.privacy.exact import Number
from streamgauge.statistics.columns import Column, Domain
from streamgauge.statistics.discovery import Exposure, Selection, lowest
from streamgauge.statistics.estimate import Floats
from streamgauge.statistics.events import Events
from streamgauge.statistics.histogram import label_marks, label_reach
from streamgauge.statistics.key_contributions import KeyContributions
from streamgauge.statistics.key_table import FEWEST, KeyTable
from streamgauge.statistics.keys import plain_keys
from streamgauge.statistics.ranking import Ranking
from streamgauge.statistics.statistic import MOST, Marks, Nothing, Statistic, Told
from streamgauge.statistics.tuned import AskedMechanism, linear_of

LEAST = Fraction(1, 2**900)  # of delta, for one key at one tick: beyond it no float can follow
SHORT = 2**11  # ticks of zeros that a new column can be fed
AMONG = 2**20  # keys of a group, known or not, for which intervals hold where their number is secret


@dataclass(frozen=True)
class TopK(Statistic[Ranking]):
    """The k keys of each group with the largest noisy counts; see the module's claim.

    >>> from streamgauge import Approx
    >>> from streamgauge.testing import SilentNoise
    >>> run = TopK(Approx(1, 1e-6), k=2, horizon=24).start(noise=SilentNoise())
    >>> print(run.step(["tea"] * 200 + ["coffee"] * 300 + ["water"]))
    'coffee': 300 +- 17
    'tea': 200 +- 17
    """

    loss: Loss
    _: KW_ONLY
    k: int
    domain: Sequence[Any] | None = None
    delta: Number | None = None
    at_least: int = 1
    max_keys: int | None = None
    max_per_key: int | None = None
    horizon: int | None = None
    window: str = "running"
    mechanism: AskedMechanism = None
    pan_private: bool = False
    unit: Unit = Event()

    @property
    def REMEMBERS(self) -> bool:  # type: ignore[override]  # noqa: N802 - here it depends on the settings
        return self.domain is None

    GROWS = REMEMBERS

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
        if self.span not in (None, 1):
            self._refuse_unless_default("in windows that slide", "at_least")
        for name in ("max_keys", "max_per_key"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name))
        for _, delta in self.ways:
            self._check_delta(delta)

    def _check_delta(self, delta: Fraction) -> None:
        """Refuses one of which the last tick's share is less than floats can tell."""
        if self.exposure.share(delta, self.horizon or FARTHEST) < LEAST:
            raise ValueError(f"delta must leave every key and tick a share of at least 2**-900, got {delta}")

    def _refuse_unless_default(self, where: str, *names: str) -> None:
        for name in names:
            value, default = getattr(self, name), getattr(type(self), name)
            if value != default:
                raise ValueError(f"{name} must be {default} {where}, got {value!r}")

    @cached_property
    def labels(self) -> Domain:
        return Domain.of("domain", () if self.domain is None else self.domain)

    @property
    def span(self) -> int | None:
        """The window in ticks; None if counts have no end."""
        kind, _, ticks = str(self.window).partition(" ")
        return 1 if kind == "each" else int(ticks) if kind == "sliding" and ticks.isdecimal() else None

    @cached_property
    def exposure(self) -> Exposure:
        """What one unit can make eligible."""
        return Exposure.of(self.unit, self.span, self.horizon, self.max_keys, self.max_per_key)

    @property
    def ways(self) -> list[tuple[Loss, Fraction]]:
        """What counters may keep, and what thresholds take of delta beside it."""
        if isinstance(self.loss, Approx):
            epsilon, delta = self.loss.epsilon, self.loss.delta
            return [(Pure(epsilon), delta), (Approx(epsilon, delta / 2), delta / 2)]
        return [(self.loss, Fraction(self.delta or 0))]

    @cached_property
    def selection(self) -> Selection:
        """The counter, and what thresholds take of delta: the way of the lower threshold at the end."""
        found, refusals = [], []
        for kept, rest in self.ways:
            try:
                found.append(Selection(self.counter_of(kept), rest, self.exposure, self.at_least))
            except ValueError as refusal:
                refusals.append(refusal)
        if not found:
            raise refusals[-1]
        return lowest(found, self.horizon or AHEAD)

    @property
    def charged(self) -> tuple[Pure | Zcdp, Fraction]:
        """What a ledger is charged, natively: what the counters lose, and the delta of the thresholds."""
        return self.counter.loss.kept_as, Fraction(0) if self.domain is not None else self.selection.delta

    @cached_property
    def counter(self) -> Mechanism[Any]:
        if self.domain is not None:
            return self.counter_of(self.loss)
        counter, numbers = self.selection.counter, FEWEST * self.selection.counter.memory()
        if numbers > MOST:
            rule = f"window must leave the first {FEWEST} columns at most 2**31 numbers"
            raise ValueError(f"{rule}, got {numbers} for {self.window!r}")
        return counter

    def counter_of(self, loss: Loss) -> Mechanism[Any]:
        """Where columns are to come, the best counter of those that make them cheaply, if there is one.

        Over few ticks every counter does.
        """
        if self.domain is not None or self.mechanism is not None:
            return linear_of(super().counter_of(loss), type(self).__name__)
        asked: dict[str, Any] = {"unit": self.counted, "bound": self.reach}
        found = compare(loss, horizon=self.horizon, window=self.window, **asked)
        made = [c.mechanism for c in found.candidates if c.mechanism is not None and not c.refused]
        if self.horizon is None and self.window == "running":
            made.append(Hybrid(loss, inner=Kary, **asked))
        short = self.horizon is not None and self.horizon <= SHORT
        cheap = [mechanism for mechanism in made if short or mechanism.sleeps_cheaply]
        return min(cheap, key=lambda mechanism: mechanism.rmse(found.ticks), default=found.best)

    @property
    def counted(self) -> Unit:
        """With a bound per key, a user is as an event of that size: see `Exposure.reach`."""
        return self.unit if self.max_per_key is None else Event()

    @property
    def reach(self) -> Reach:
        return label_reach(self.unit) if self.max_per_key is None else self.exposure.reach()

    @property
    def channels(self) -> int:
        return 1 if self.domain is None else len(self.labels)

    def read(self, values: Any) -> list[Column]:
        rows = super().read(values)
        return rows if self.domain is not None else [plain_keys(rows[0])]

    def memory(self, width: int) -> Any:
        return Nothing() if self.domain is not None else KeyTable(self._bounds())

    def _bounds(self) -> KeyContributions:
        return KeyContributions(self.max_keys, self.max_per_key)

    def size(self, width: int, memory: Any) -> int:
        return super().size(width, memory) if self.domain is not None else int(memory.capacity)

    def packed(self, memory: Any) -> Any:
        return memory if self.domain is not None else memory.saved()

    def unpacked(self, saved: Any) -> Any:
        if self.domain is not None:
            return saved
        return KeyTable.restored(self._bounds().restore(saved.bounds), saved)

    def admitted(self, events: Events, memory: Any) -> Events:
        if self.domain is not None or not memory.bounds.bounded:
            return events
        return events.only(memory.bounds.admitted(events.users, events.rows[0], events.groups))

    def marks(self, rows: list[Column], groups: Ints, width: int, memory: Any) -> Marks:
        if self.domain is not None:
            return label_marks(self.labels, rows[0], groups, width)
        keys = rows[0]
        there = np.fromiter((key is not None for key in keys.tolist()), np.bool_, len(keys))
        events = np.flatnonzero(there)[: self.most_events]  # no event beyond may leave its key
        columns = memory.take(keys[events], groups[events], self.span)
        return Marks(events, columns[:, None], np.ones((1, 1), np.int64))

    def of_keys(self, keys: Column, counts: Ints, memory: Any) -> Ints:
        """The exact vector of so many events of each key; a key may come more than once."""
        columns = memory.take(keys, np.zeros(len(keys), np.int64), self.span, counts)
        vector = np.zeros(memory.capacity, np.int64)
        np.add.at(vector, columns, counts)
        return vector

    @property
    def measures(self) -> tuple[str, ...]:
        return ()

    def release(self, told: Told) -> Any:
        """The rankings of all ticks told of."""
        if self.domain is None:
            return (self._discovered(told),)
        return tuple(map(self._ranked, told.channels, told.noises))

    def _ranked(self, channels: Floats, noise: Any) -> Ranking:
        """Of each group the k largest of its channels, ties in the declared order."""
        first = np.argsort(-channels, axis=0, kind="stable")[: self.k]
        keys = tuple(tuple(self.labels.labels[code] for code in codes) for codes in first.T)
        counts = tuple(np.take_along_axis(channels, first, axis=0).T)
        return Ranking(keys, counts, noise.stddev, len(self.labels), noise)

    def _discovered(self, told: Told) -> Ranking:
        table, counts, noise = told.memory, told.sums[0], told.noises[0]
        threshold = self.selection.threshold(table.tick)
        table.publish((counts > threshold) & table.eligible(self.at_least, self.span))
        ranked = table.ranked(counts, self.k, told.width)
        keys, sizes = zip(*ranked, strict=True)
        return Ranking(keys, sizes, noise.stddev, AMONG, noise)

    def none(self, told: Told) -> Any:
        return ()

    def first(self, release: Any) -> Ranking:
        one: Ranking = release[0]
        return one

    def joined(self, releases: Sequence[Ranking]) -> Any:
        return tuple(releases)
