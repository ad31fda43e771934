"""Summaries: what one expression is worth, with the error bars of each number by itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial

from streamgauge.statistics.estimate import Estimate, check_confidence, stacked
from streamgauge.statistics.told import Columns

LINEAR = ("count", "sum")
FIRST = (*LINEAR, "mean")
SECOND = ("variance", "stddev")


@dataclass(frozen=True, eq=False)
class Summaries:
    """`count`, `sum`, `mean` and, with squares, `variance` and `stddev`: an `Estimate` each.

    Each is worked out when it is asked for. Their noise is shared: every interval holds by itself, and the
    errors of one tick and group go together.
    """

    names: tuple[str, ...]
    _made: Callable[[str], Estimate] = field(repr=False)

    @cached_property
    def count(self) -> Estimate:
        """How many values there were."""
        return self._made("count")

    @cached_property
    def sum(self) -> Estimate:
        return self._made("sum")

    @cached_property
    def mean(self) -> Estimate:
        return self._made("mean")

    @cached_property
    def variance(self) -> Estimate:
        """The sample variance."""
        self._check("variance")
        return self._made("variance")

    @cached_property
    def stddev(self) -> Estimate:
        """The standard deviation of the values, not of the noise."""
        self._check("stddev")
        return self._made("stddev")

    def told(self, confidence: float = 0.95) -> dict[str, Columns]:
        """Each of them as columns, by its name."""
        check_confidence(confidence)
        return {name: Columns(confidence, partial(self._of, name)) for name in self.names}

    def of_tick(self, row: int) -> "Summaries":
        """Those of one of several ticks."""
        return Summaries(self.names, lambda name: self._of(name).of_tick(row))

    def _of(self, name: str) -> Estimate:
        found: Estimate = getattr(self, name)
        return found

    def _check(self, name: str) -> None:
        if name not in self.names:
            raise AttributeError(f"squares must be True for a {name}, got False")

    def __repr__(self) -> str:
        return f"Summaries({', '.join(f'{name}={self._of(name)!r}' for name in self.names)})"


def stacked_summaries(releases: Sequence[Summaries]) -> Summaries:
    """The summaries of several ticks, one row each."""
    return Summaries(releases[0].names, lambda name: stacked([release._of(name) for release in releases]))
