"""Statistics of users from a table that can be seized, for pan-private pipelines.

    COUNT(DISTINCT user)       number of users who came                    Density, times the universe
    DENSITY(user)              part of the universe that came              Density
    HEAVY_FRACTION(user, k)    part of it that came k times or more        HeavyFraction
    CROPPED_MEAN(user, t)      mean visits, at most t for each user        CroppedMean

Users are whole numbers below a public one: indices of declared values, or hashes. The promise treats two users of one
hash as one. Estimates and their errors count both, as those of `panprivate` do (`hashed`).

Privacy
    Neighbours: streams that differ in all events of one user, however many. Promise: `loss` to an adversary who sees
    all estimates, one for each of `horizon` ticks, and the table once at any moment. It may also see the table
    `intrusions` more times, if these were announced. Proof: that of the table (`streamgauge.panprivate`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np

from streamgauge.noise.coerce import Floats
from streamgauge.panprivate import CroppedMean, Density, HeavyFraction, PanPrivateEstimate
from streamgauge.panprivate.validation import HASHED_BEFORE
from streamgauge.privacy import Loss, Pure
from streamgauge.statistics.estimate import Columns, Estimate

UserMeasure = Literal["density", "heavy_fraction", "cropped_mean"]
SHARE_MEASURE, COUNT_MEASURE = "value", "count"  # measures: part of the universe, and number of users
ENTRY_BYTES = 2  # maximum bytes of an entry


def stack_estimates(estimates: Sequence[PanPrivateEstimate], scale: int = 1) -> Estimate:
    """Return the estimates of some ticks in rows of one group, times `scale`."""

    def to_rows(numbers: Iterable[float]) -> Floats:
        return np.array([*numbers], np.float64)[:, None] * scale

    def intervals(confidence: float) -> tuple[Floats, Floats]:
        ends = [each.interval(confidence) for each in estimates]
        return to_rows(low for low, _ in ends), to_rows(high for _, high in ends)

    return Estimate(
        to_rows(each.value for each in estimates),
        lambda: to_rows(each.stddev for each in estimates),
        np.array([each.reliable for each in estimates], np.bool_)[:, None],
        intervals,
    )


@dataclass(frozen=True)
class UserTableStatistic:
    """One query about users. See the module's claim."""

    HAS_MEMORY: ClassVar[bool] = False
    HAS_CHOICE: ClassVar[bool] = False
    ERROR_GROWS: ClassVar[bool] = True
    channels: ClassVar[int] = 1
    pan_private: ClassVar[bool] = True
    error_depends_on: ClassVar[str] = "who came, and how often: at most as much as is stated"
    loss: Loss
    _: KW_ONLY
    kind: UserMeasure
    universe: int
    horizon: int
    visits: int = 1  # k, or t
    intrusions: int = 0
    hashed: bool = False  # true if several users may share a number

    def __post_init__(self) -> None:
        self.counter  # noqa: B018 - rejects an invalid claim now

    @cached_property
    def counter(self) -> Any:
        """Claim of the table."""
        if not isinstance(self.loss, Pure):
            raise ValueError(f"loss must be Pure for a table of users, got {self.loss!r}")
        settings: dict[str, Any] = {
            "universe": self.universe,
            "releases": self.horizon,
            "intrusions": self.intrusions,
            "hashed": HASHED_BEFORE if self.hashed else False,
        }
        if self.kind == "heavy_fraction":
            return HeavyFraction(self.loss, at_least=self.visits, **settings)
        if self.kind == "cropped_mean":
            return CroppedMean(self.loss, limit=self.visits, **settings)
        return Density(self.loss, **settings)

    @property
    def visits_to_count(self) -> int:
        """Events that a user needs in order to count."""
        return self.visits if self.kind == "heavy_fraction" else 1

    @property
    def memory_numbers(self) -> int:
        """Maximum numbers of 8 bytes in memory."""
        return -(-ENTRY_BYTES * self.universe // 8)

    def stddev(self, measure: str = SHARE_MEASURE, events: float | None = None) -> float:
        """Return the standard error of an estimate of at most `events` events.

        It assumes the users of `describe_users`.
        """
        spread = self.counter.stddev(self._predict_value(events) if self.hashed else None)
        return float(spread) * (self.universe if measure == COUNT_MEASURE else 1)

    def describe_users(self, events: float | None = None) -> str:
        """Return the users that the standard error assumes.

        If they share hashes, it is the maximum that can have come.
        """
        if not self.hashed:
            return "at most, for any users"
        reached = self.visits if self.kind == "cropped_mean" else 1
        often = f" who came {self.visits} times or once" if self.visits > 1 else ""
        return f"at {self._predict_value(events) * self.universe / reached:,.0f} users{often}"

    def _predict_value(self, events: float | None) -> float:
        return 1.0 if events is None else min(events / self.visits_to_count / self.universe, 1.0)

    def build_columns(self, estimates: Sequence[PanPrivateEstimate], confidence: float) -> dict[str, Columns]:
        """Return the estimates of some ticks as columns."""
        share, count = partial(stack_estimates, estimates), partial(stack_estimates, estimates, self.universe)
        return {SHARE_MEASURE: Columns(confidence, share), COUNT_MEASURE: Columns(confidence, count)}
