"""A pan-private mechanism under audit: its runs are attacked by one who sees all releases, and the memory.

What is seen is taken from real runs: the releases, what `save` wrote after a tick, read by one who knows the
code, and what `intrude` handed over: all of it, what groups share too (see `memories`). The log-likelihood
ratio is that of the view as it was found by trying (see `intruders`), where the worst loss is computed as
well, of the first TRIED ticks if there are more.

Many runs are the groups of one start, unless what groups share is not always the same: then each run is a
start of its own, so that one unit has moved it and not one in every run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from streamgauge.audit.exact import Worst, covered, worst_of
from streamgauge.audit.intruders import Intruder, of_one, worst_to
from streamgauge.audit.likelihood import Likelihood, fixed
from streamgauge.audit.linear import LinearView
from streamgauge.audit.memories import Memory
from streamgauge.audit.neighbours import at_first, busy, joined, spread
from streamgauge.audit.subject import Pair
from streamgauge.audit.trying import tried
from streamgauge.continual import Mechanism, Run
from streamgauge.continual.saved import NoNoise, unpack
from streamgauge.noise import Entropy, Ints, Keystream, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss

PROBED = 4  # starts of each neighbour that show whether groups share anything but constants
TRIED = 24  # ticks up to which every place of the intruder is computed


@dataclass(frozen=True)
class Exposed:
    """Streams (groups, ticks), and when the memory is seen: after `peek` ticks, or after any, by lot."""

    streams: Ints = field(repr=False)
    peek: int | None


@dataclass(frozen=True)
class PanPrivateSubject:
    """Releases and memory of the first ticks. `peek` and `asked` are tried at several ticks unless given.

    With `by_lot=True` each run's memory is seen after a tick of its own, drawn evenly, which the view tells.
    """

    mechanism: Mechanism[Any]
    ticks: int
    peek: int | None = None
    asked: int | None = None
    by_lot: bool = False
    noise: Noise | None = field(default=None, repr=False)
    entropy: Entropy | None = field(default=None, repr=False)  # of the lots
    title: str = ""
    asked_ticks: int | None = None  # where fewer are run

    @property
    def name(self) -> str:
        return self.title or f"{self.mechanism!r} with its memory"

    @property
    def loss(self) -> Loss:
        """What the noise is calibrated to, from which the claim follows."""
        return self.mechanism.loss.kept_as

    @cached_property
    def peeks(self) -> Sequence[int]:
        """The ticks at which the memory is seen: those where something is half done."""
        return [self.peek] if self.peek is not None else sorted({self.ticks // 2, max(0, self.ticks - 1)})

    def worst(self) -> Worst:
        """Over the first ticks, if there are too many, which is said of what was seen."""
        ticks = min(self.ticks, TRIED)
        peeks = range(ticks + 1) if self.peek is None else [min(self.peek, ticks)]
        worst = worst_of(worst_to(self.mechanism, ticks, Intruder(peek, self.asked)) for peek in peeks)
        return replace(worst, part=covered(ticks, self.asked_ticks or self.ticks))

    def pairs(self) -> Sequence[Pair]:
        if self.by_lot:
            return [self._pair(None, self._dearest(self.ticks // 2), still=True)]
        return [self._pair(peek, pattern, still) for peek, pattern, still in self._placed()]

    def _placed(self) -> Iterator[tuple[int, tuple[int, ...], bool]]:
        for peek in self.peeks:
            pattern = self._dearest(peek)
            yield peek, pattern, True
            yield peek, pattern, False

    def _dearest(self, peek: int) -> tuple[int, ...]:
        if self.ticks > TRIED:
            return at_first(self.mechanism.unit, self.ticks)
        return worst_to(self.mechanism, self.ticks, Intruder(peek, self.asked)).pattern

    def _pair(self, peek: int | None, pattern: tuple[int, ...], still: bool) -> Pair:
        move = spread(self.mechanism.reach, self.loss.currency == "pure")
        nothing = np.zeros((len(move), self.ticks), np.int64)
        other = nothing if still else busy(nothing)
        one = joined(other, move, pattern)
        seen = "memory seen after any tick" if peek is None else str(Intruder(peek, self.asked))
        name = str(Worst(pattern, 0, f"{seen}{'' if still else ', in a busy stream'}"))
        told = [
            Likelihood(self._linear(when), len(move), fixed(one, other))
            for when in (range(self.ticks + 1) if peek is None else [peek])
        ]
        score = partial(by_tick, told) if peek is None else told[0]
        return Pair(name, Exposed(one, peek), Exposed(other, peek), score)

    def _linear(self, peek: int) -> LinearView:
        return tried(partial(of_one, self.mechanism, Intruder(peek, self.asked)), self.ticks)

    def views(self, data: Exposed, runs: int) -> Floats:
        """All numbers of a run's first group, then of the next; by lot, the tick besides."""
        if data.peek is not None:
            return self._seen(data.streams, data.peek, runs)
        drawn = lots(self.entropy or Keystream(), runs, self.ticks + 1)
        parts = [
            (rows, self._seen(data.streams, peek, len(rows)))
            for peek in range(self.ticks + 1)
            if len(rows := np.flatnonzero(drawn == peek))
        ]
        seen = np.zeros((runs, 1 + max(part.shape[1] for _, part in parts)))
        seen[:, 0] = drawn
        for rows, part in parts:
            seen[rows, 1 : 1 + part.shape[1]] = part
        return seen

    def _seen(self, streams: Ints, peek: int, runs: int) -> Floats:
        """Of real runs: `save` and `intrude` are what an intruder gets."""
        if self.apart:
            alone = (np.concatenate(self._parts(streams, peek)) for _ in range(runs))
            return np.stack([part.T.ravel() for part in alone])
        parts = self._parts(np.tile(streams, (runs, 1)), peek)
        return np.ascontiguousarray(np.concatenate(parts).T).reshape(runs, -1)

    def _parts(self, streams: Ints, peek: int) -> list[Floats]:
        """What one start shows, (numbers, groups) in order."""
        run, seen = self.mechanism.start(len(streams), self.noise), []
        for tick in range(self.ticks + 1):
            if tick:
                seen.append(np.array(run.step(streams[:, tick - 1]), np.float64)[None])
            seen += [self.memory.of_each(state, len(streams)) for state in self._looked(run, tick, peek)]
        return seen

    def _looked(self, run: Run[Any, Any], tick: int, peek: int) -> Iterator[Any]:
        """The states that are got after a tick."""
        if tick == peek:
            yield read(run)
        if tick == self.asked:
            yield run.intrude()

    @cached_property
    def memory(self) -> Memory:
        return Memory.of(self.mechanism)

    @cached_property
    def apart(self) -> bool:
        """Whether what groups share differs from start to start, or between a unit in it and none."""
        found = {shared.tobytes() for busily in (False, True) for shared in self._shared(busily)}
        return len(found) > 1

    def _shared(self, busily: bool) -> Iterator[Floats]:
        """After the last tick: of starts with so much that it would show."""
        for _ in range(PROBED):
            run = self.mechanism.start(2, self.noise)
            for _tick in range(self.ticks):
                run.step(np.full(2, 1000 * busily))
            yield self.memory.of_all(read(run), 2)


def by_tick(scores: Sequence[Likelihood], views: Floats) -> Floats:
    """Of views by lot: each row by the score of the tick that it begins with."""
    told = np.zeros(len(views))
    for peek, score in enumerate(scores):
        rows = np.flatnonzero(views[:, 0] == peek)
        numbers = score.groups * len(score.view.by_data)
        told[rows] = score(views[rows, 1 : 1 + numbers]) if len(rows) else 0.0
    return told


def read(run: Run[Any, Any]) -> Any:
    """The state that a saved run holds, read by one who knows the code."""
    mechanism = run.mechanism
    return unpack(run.save(), mechanism.identity(), lambda width: mechanism.initial(width, NoNoise()))[2]


def lots(entropy: Entropy, runs: int, sides: int) -> Ints:
    """A number below `sides` for each run, evenly but for 2^-50."""
    drawn = np.empty(8 * runs, np.uint8)
    entropy.fill(drawn)
    return (drawn.view(np.uint64) % np.uint64(sides)).astype(np.int64)
