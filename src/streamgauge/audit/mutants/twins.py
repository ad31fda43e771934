"""Two mechanisms that differ in one mistake: the broken one must be condemned, its honest twin acquitted."""

from collections import abc
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from streamgauge.audit.adapters import Callable
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.subject import Score, Subject
from streamgauge.privacy import Loss, Pure

RUNS = 60_000  # of each neighbour, that are enough to condemn
ONE = Pure(1)

Seen = abc.Callable[[Chance, bool, Any, int], Any]  # chance, broken or honest, data, runs: one row a run


@dataclass(frozen=True)
class Twins:
    """A broken mechanism, why it is wrong and what it loses in truth; and the honest one of the same claim.

    Both are attacked on the same neighbours.
    """

    broken: Subject
    honest: Subject
    why: str
    truth: float = inf  # or a bound above it; infinite where one neighbour shows what the other cannot
    runs: int = RUNS

    @property
    def name(self) -> str:
        return self.broken.name


def twins_of(
    seen: Seen,
    chance: Chance,
    name: str,
    why: str,
    *,
    one: Any,
    other: Any,
    pair: str,
    loss: Loss = ONE,
    truth: float = inf,
    evidence: Score | None = None,
) -> Twins:
    """Twins out of one function that can be broken."""
    broken, honest = (
        Callable(
            title, partial(seen, chance, is_broken), loss, one, other, True, pair=pair, evidence=evidence
        )
        for title, is_broken in ((name, True), (f"{name}: honest", False))
    )
    return Twins(broken, honest, why, truth)
