"""Who is audited: whatever claims a loss, can be run on two neighbours, and shows something to readers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss

if TYPE_CHECKING:
    from streamgauge.audit.exact import Worst

Score = Callable[[Floats], Floats]  # of views, one row each: the larger, the more it looks like `one`


@dataclass(frozen=True)
class Pair:
    """Two inputs that differ in one unit."""

    name: str
    one: Any = field(repr=False)
    other: Any = field(repr=False)
    evidence: Score | None = field(default=None, repr=False)  # the log-likelihood ratio, where it is known


class Subject(Protocol):
    """Anything with a claim."""

    @property
    def name(self) -> str: ...

    @property
    def loss(self) -> Loss:
        """What it claims to lose between the two of any pair."""
        ...

    def pairs(self) -> Sequence[Pair]:
        """Neighbours that are worth an attack, the dearest first."""
        ...

    def views(self, data: Any, runs: int) -> Floats:
        """What an attacker sees in each of so many independent runs on `data`: one row each, all of one law.

        NaN stands for what is not there.
        """
        ...


@runtime_checkable
class Computed(Protocol):
    """A subject whose worst loss can be computed as well."""

    def worst(self) -> "Worst":
        """The dearest of all neighbours, in the currency of the claim."""
        ...


@runtime_checkable
class Estimating(Protocol):
    """A subject whose estimates can be computed, and held against what it states of them."""

    def faults(self) -> tuple[str, ...]:
        """What is wrong with them, a line each."""
        ...
