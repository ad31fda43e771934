"""A pan-private estimator under audit: attacked by one who sees all releases, and once the memory.

Exactly: the real code is run along all ways of chance (`seized_kernels`). All estimates, all announced
intrusions and one unannounced look come in every order, and between any two of them one user comes or not,
as often as it likes (`seized_search`). By experiment: real runs on the two streams that lose most, what is
seen of each in a row. The acts are public, and so are the same in both streams but for who comes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import inf, log
from typing import Any

import numpy as np

from streamgauge.audit.exact import Worst
from streamgauge.audit.seized_evidence import Evidence, Seizure, memory, told
from streamgauge.audit.seized_kernels import ESTIMATE, INTRUDE, Overheard, SeizedKernel, shown
from streamgauge.audit.seized_search import FREE, LOOK, Pairs, Story, Streams, product_of, worst_seizure
from streamgauge.audit.subject import Pair
from streamgauge.noise import Chance, Ints, Keystream
from streamgauge.noise.chance import throw, toss
from streamgauge.noise.entropy import Bytes
from streamgauge.noise.laws import LaplaceLaw
from streamgauge.noise.numbers import Floats
from streamgauge.noise.source import sample
from streamgauge.panprivate import TableClaim
from streamgauge.privacy import Loss

NOBODY, SOMEBODY, ANOTHER = -1, 0, 1
OFTEN = 3  # times that one user comes in one act, at most: once round a cycle of 2, and on to any step of it


@dataclass(frozen=True)
class SeizedSubject:
    """A claim of `streamgauge.panprivate` over a universe of one or two; see the module.

    With `streams` these two are what experiments attack, whatever was computed.
    """

    claim: Any
    title: str = ""
    streams: Streams | None = None
    noise: Chance | None = field(default=None, repr=False)
    often: int = OFTEN

    @property
    def name(self) -> str:
        return self.title or repr(self.claim)

    @property
    def loss(self) -> Loss:
        loss: Loss = self.claim.loss
        return loss

    def worst(self) -> Worst:
        ratio, streams = self._worst
        pattern = tuple(
            tick for tick, (a, b) in enumerate(zip(streams.one, streams.other, strict=True), 1) if a != b
        )
        entries, acts = self.claim.entries, len(streams.one)
        how = f"all ways of chance, all orders of {acts} acts, {entries} entr{'ies' if entries > 1 else 'y'}"
        return Worst(pattern, inf if ratio == inf else log(ratio), looked(streams.peek), how=how)

    @cached_property
    def _kernel(self) -> SeizedKernel:
        return SeizedKernel(self.claim)

    @cached_property
    def _worst(self) -> tuple[Fraction | float, Streams]:
        return worst_seizure(self._kernel, story(self.claim), choices(self.claim, self.often))

    def pairs(self) -> Sequence[Pair]:
        streams = self.streams or self._worst[1]
        name = f"a user who comes or not, {looked(streams.peek)}"
        both = Seizure(streams.one, streams.peek), Seizure(streams.other, streams.peek)
        return [Pair(name, *both, Evidence(self._kernel, *both))]

    def views(self, data: Seizure, runs: int) -> Floats:
        source = self.noise or OneKey()
        return np.array([list(self._seen(data, source)) for _ in range(runs)], np.float64)

    def _seen(self, data: Seizure, source: Chance) -> Iterator[float]:
        """All numbers of one run."""
        run = self.claim.start(source)
        run.claim = Overheard(run.claim)
        for done in range(len(data.acts) + 1):
            if done:
                yield from told(self.claim, shown(run, data.acts[done - 1]))
            if done == data.peek:
                yield from memory(self.claim, run.save())


def story(claim: Any) -> Story:
    """All that is paid for, beside one look, in every order.

    Before each time that something is seen a user may come. Ticks are seen themselves, and are among what
    comes in every order: two for each thing beside them and two more, so that the user may come in one of
    them here and in the other there. Where a user is replaced by another there is one act more each time, for
    either of the two to come besides.
    """
    more = 1 if claim.replace else 0
    if isinstance(claim, TableClaim):
        return Story({LOOK: 1, INTRUDE: claim.intrusions, ESTIMATE: claim.releases}, free=1 + more)
    ticks = (2 + more) * (2 + claim.intrusions)
    return Story({LOOK: 1, INTRUDE: claim.intrusions, FREE: ticks}, free=0)


def choices(claim: Any, often: int) -> Pairs:
    """What may happen in either world at a free act: one user comes, or another instead."""
    table = isinstance(claim, TableClaim)
    if claim.replace:
        nobody = () if table else (NOBODY,)
        return [(same, same) for same in (nobody, (SOMEBODY,), (ANOTHER,))] + [((SOMEBODY,), (ANOTHER,))]
    return product_of(
        [(SOMEBODY,) * times for times in range(often + 1)] if table else [(NOBODY,), (SOMEBODY,)]
    )


def looked(peek: int | None) -> str:
    return "memory never seen" if peek is None else f"memory seen after {peek} acts"


class OneKey:
    """The chance of an experiment: many small draws, which a key for each would make slow."""

    def __init__(self, entropy: Any = None) -> None:
        self._entropy = entropy or Keystream()

    def coins(self, chance: Fraction, size: int) -> Bytes:
        return toss(self._entropy, chance, size)

    def uniform(self, sides: int, size: int) -> Ints:
        return throw(self._entropy, sides, size)

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return sample(LaplaceLaw(scale), self._entropy, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        raise TypeError("chance must be asked for coins, dice and Laplace noise, got Gaussian noise")
