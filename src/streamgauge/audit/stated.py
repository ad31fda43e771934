"""A claim of (epsilon, delta), attacked as it is stated: with it, the way by which its noise was found.

An (epsilon, delta) claim is kept through a rho, and `MechanismSubject` attacks that rho. Here the claim
itself is: epsilon at its delta is computed from the laws of the noise (see `loss_curve`), for the unit that
loses most, and measured. So a conversion that gives away too much is condemned, whatever the rho is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import Any

from streamgauge.audit.exact import Pattern, Worst
from streamgauge.audit.loss_curve import Row, epsilon_between
from streamgauge.audit.mechanisms import MechanismSubject
from streamgauge.audit.subject import Pair
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Approx


@dataclass(frozen=True)
class StatedSubject:
    """All releases of the first ticks, held against an (epsilon, delta): the mechanism's own unless given."""

    mechanism: Mechanism[Any]
    ticks: int
    claim: Approx | None = None
    noise: Noise | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.claim or self.mechanism.loss, Approx):
            raise ValueError(f"claim must be an epsilon and a delta, got {self.mechanism.loss}")

    @property
    def name(self) -> str:
        return f"{self.mechanism!r} as stated"

    @property
    def loss(self) -> Approx:
        stated: Any = self.claim or self.mechanism.loss
        return stated  # type: ignore[no-any-return]

    @cached_property
    def kept(self) -> MechanismSubject:
        """The same releases, held against what is kept."""
        return MechanismSubject(self.mechanism, self.ticks, self.noise)

    def worst(self) -> Worst:
        """Of the unit that loses most rho; to one who sees all that is measured, as others do at most."""
        known = self.kept.worst()
        low, high = epsilon_between(self._moved(known.pattern), float(self.loss.delta))
        return Worst(known.pattern, high, least=low if self.kept.view.injective else 0.0, how=known.how)

    def _moved(self, pattern: Pattern) -> list[Row]:
        """How far a unit moves each row, and the parameter of its noise."""
        strategy, reach = self.mechanism.strategy(self.ticks), sqrt(self.mechanism.reach.l2_squared)
        columns = [strategy.column(tick) for tick in pattern]
        moves = (float(sum(map(abs, row))) * reach for row in zip(*columns, strict=True))
        laws: Sequence[Any] = strategy.distributions
        return [(move, float(law.parameter)) for move, law in zip(moves, laws, strict=True)]

    def pairs(self) -> Sequence[Pair]:
        return self.kept.pairs()

    def views(self, data: Ints, runs: int) -> Floats:
        return self.kept.views(data, runs)
