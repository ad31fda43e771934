"""Two mechanisms that differ in one mistake: the broken one must be condemned, its honest twin acquitted."""

from collections import abc
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from streamgauge.audit.adapters import Callable
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.subject import Pair, Subject
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
    counted: bool = True  # whether experiments condemn it; what shows too rarely is condemned by computation
    wrong: bool = False  # whether it keeps its claim, and is condemned for its estimates

    @property
    def name(self) -> str:
        return self.broken.name


@dataclass(frozen=True)
class Mistake:
    """A function that can be broken, where there is no mechanism of the package to break."""

    name: str
    why: str
    seen: Seen = field(repr=False)

    def __call__(self, chance: Chance, broken: bool, data: Any, runs: int) -> Any:
        return self.seen(chance, broken, data, runs)

    def twins(self, chance: Chance, pair: Pair, *, loss: Loss = ONE, truth: float = inf) -> Twins:
        """The function broken, and not."""
        broken, honest = (
            Callable(
                title,
                partial(self.seen, chance, is_broken),
                loss,
                pair.one,
                pair.other,
                vectorised=True,
                pair=pair.name,
                evidence=pair.evidence,
            )
            for title, is_broken in ((self.name, True), (f"{self.name}: honest", False))
        )
        return Twins(broken, honest, self.why, truth)


def mistake(name: str, why: str) -> abc.Callable[[Seen], Mistake]:
    """Says of a function what is wrong with it when it is broken."""
    return partial(Mistake, name, why)
