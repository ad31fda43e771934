"""A counter of the package that claims some loss, whatever its noise was calibrated to.

A mechanism with too little noise is the same mechanism keeping a larger loss, which it does not claim. So a
twin with a wrong constant is a mechanism of the package, rightly calibrated to what it truly loses; only the
claim is false. What it loses is computed at every horizon, and attacked.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from streamgauge.audit.exact import Worst, price
from streamgauge.audit.mechanisms import MechanismSubject
from streamgauge.audit.subject import Pair
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss


@dataclass(frozen=True)
class Claimed:
    """A mechanism over its whole horizon, and a claim of what that loses."""

    name: str
    loss: Loss
    mechanism: Mechanism[Any]
    noise: Noise = field(repr=False)

    @cached_property
    def subject(self) -> MechanismSubject:
        return MechanismSubject(self.mechanism, self.mechanism.horizon or 1, self.noise)

    def worst(self) -> Worst:
        """What it truly loses, computed."""
        return self.subject.worst()

    def pairs(self) -> Sequence[Pair]:
        """The dearest neighbours."""
        return self.subject.pairs()[:1]

    def views(self, data: Ints, runs: int) -> Floats:
        return self.subject.views(data, runs)


def under(mechanism: Mechanism[Any], cost: Fraction) -> Mechanism[Any]:
    """The same mechanism under noise in which a move by one loses so much: 1/scale, or 1/(2 parameter).

    >>> from streamgauge import Pure
    >>> from streamgauge.continual import SimpleI
    >>> under(SimpleI(Pure(1), horizon=3), Fraction(1)).loss
    Pure(epsilon=3)
    """
    claim: Any = mechanism  # a dataclass, as all claims are
    loss = mechanism.loss.kept_as
    truth = loss.amount * cost / price(mechanism.distribution)
    other: Mechanism[Any] = replace(claim, loss=type(loss).from_amount(truth))
    return other
