"""A claim of the local model under audit: the law of one report, and what a collector makes of it.

Exactly: the law of a report is enumerated for every item (`local_laws`), items that are not on a list
among them, and all pairs of items are compared. Estimates are made of every report by the real collector, and
weighed by these laws (`local_estimates`): so their mean, variance and reach are computed, not measured. By
experiment: real reports of the two items that lose most, byte by byte.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from streamgauge.audit.exact import Worst
from streamgauge.audit.local_estimates import faults_of
from streamgauge.audit.local_laws import Evidence, Input, Law, Told, law_of, worst_of
from streamgauge.audit.subject import Pair
from streamgauge.noise import Chance, EphemeralNoise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Pure

ELSEWHERE = "elsewhere"  # an item that is on no list


@dataclass(frozen=True)
class LocalSubject:
    """A claim over a few items; see the module. With `attacked` these two are what experiments compare."""

    claim: Any
    items: tuple[str, ...]
    title: str = ""
    attacked: tuple[str, str] | None = None
    noise: Chance | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.title or repr(self.claim)

    @property
    def loss(self) -> Pure:
        loss: Pure = self.claim.loss
        return loss

    @cached_property
    def laws(self) -> dict[Input, Law]:
        """Of a report of each item."""
        return {item: law_of(partial(self.claim.privatise, item)) for item in (*self.items, ELSEWHERE)}

    @cached_property
    def told(self) -> Told:
        return worst_of(self.laws)

    def worst(self) -> Worst:
        told, reports = self.told, len(set().union(*self.laws.values()))
        how = f"every report of {len(self.laws)} items, {reports} of them, in fractions"
        also = "; mean, variance and reach of estimates" if self._estimates else ""
        return Worst((), told.epsilon, f"a device with {told.one!r} or {told.other!r}", how=how + also)

    def faults(self) -> tuple[str, ...]:
        """What is wrong with estimates, a line each."""
        return tuple(faults_of(self.claim, self.items, self.laws)) if self._estimates else ()

    @property
    def _estimates(self) -> bool:
        return hasattr(self.claim, "counts")

    def pairs(self) -> Sequence[Pair]:
        one, other = self.attacked or (self.told.one, self.told.other)
        evidence = Evidence(self.laws[one], self.laws[other])
        return [Pair(f"a device with {one!r} or {other!r}", one, other, evidence)]

    def views(self, data: str, runs: int) -> Floats:
        sent = self.claim.privatise_many([data] * runs, self.noise or EphemeralNoise())
        return np.asarray(sent, np.float64)
