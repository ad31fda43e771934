"""Statistics of users from a table that can be seized: what SQL asks of users in a pan-private pipeline.

    COUNT(DISTINCT user)       how many users came                         Density, times the universe
    DENSITY(user)              which part of the universe came             Density
    HEAVY_FRACTION(user, k)    which part of it came k times or more       HeavyFraction
    CROPPED_MEAN(user, t)      how often they came, at most t times each   CroppedMean

Users are whole numbers below a public one: places of declared values, or hashes. Two users of one hash are
one to the promise; estimates and their errors count both, as those of `panprivate` do (`hashed`).

Privacy
    Neighbours: streams that differ in all events of one user, however many. Promise: `loss` to who sees all
    estimates, one for each of `horizon` ticks, and the table once at any moment; and `intrusions` times more
    where it was announced. Proof: that of the table (`streamgauge.panprivate`).
"""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from streamgauge.noise.numbers import Bools, Floats
from streamgauge.panprivate import CroppedMean, Density, Estimated, HeavyFraction
from streamgauge.panprivate.table_settings import BEFORE
from streamgauge.privacy import Loss, Pure
from streamgauge.statistics.told import Columns

Asked = Literal["density", "heavy_fraction", "cropped_mean"]
SHARE, COUNT = "value", "count"  # measures: of the universe, and as many users
EACH = 2  # bytes of an entry, at most


@dataclass(frozen=True)
class UserEstimates:
    """Estimates of some ticks, in the order of the ticks."""

    estimates: tuple[Estimated, ...]
    scale: int = 1  # the universe, where users are counted

    @property
    def value(self) -> Floats:
        return self._rows([each.value for each in self.estimates])

    @property
    def stddev(self) -> Floats:
        return self._rows([each.stddev for each in self.estimates])

    @property
    def enough(self) -> Bools:
        return np.array([each.enough for each in self.estimates], np.bool_)[:, None]

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        ends = [each.interval(confidence) for each in self.estimates]
        return self._rows([low for low, _ in ends]), self._rows([high for _, high in ends])

    def times(self, universe: int) -> "UserEstimates":
        """The same in users."""
        return UserEstimates(self.estimates, universe)

    def _rows(self, numbers: list[float]) -> Floats:
        return np.array(numbers, np.float64)[:, None] * self.scale


@dataclass(frozen=True)
class UserTable:
    """One thing that is asked of users; see the module's claim."""

    REMEMBERS: ClassVar[bool] = False
    channels: ClassVar[int] = 1
    pan_private: ClassVar[bool] = True
    depends: ClassVar[str] = "who came, and how often: at most as much as is told"
    loss: Loss
    _: KW_ONLY
    kind: Asked
    universe: int
    horizon: int
    times: int = 1  # k, or t
    intrusions: int = 0
    hashed: bool = False  # whether users are numbers that several of them may share

    def __post_init__(self) -> None:
        self.counter  # noqa: B018 - refuses now what cannot be kept

    @cached_property
    def counter(self) -> Any:
        """The table's claim."""
        if not isinstance(self.loss, Pure):
            raise ValueError(f"loss must be Pure for a table of users, got {self.loss!r}")
        asked: dict[str, Any] = {
            "universe": self.universe,
            "releases": self.horizon,
            "intrusions": self.intrusions,
            "hashed": BEFORE if self.hashed else False,
        }
        if self.kind == "heavy_fraction":
            return HeavyFraction(self.loss, at_least=self.times, **asked)
        if self.kind == "cropped_mean":
            return CroppedMean(self.loss, limit=self.times, **asked)
        return Density(self.loss, **asked)

    @property
    def numbers(self) -> int:
        """How many numbers of 8 bytes it keeps, at most."""
        return -(-EACH * self.universe // 8)

    def stddev(self, measure: str = SHARE, events: float | None = None) -> float:
        """The standard error of an estimate under what `told_of` says of users, of so many events at most."""
        spread = self.counter.stddev(self._value(events) if self.hashed else None)
        return float(spread) * (self.universe if measure == COUNT else 1)

    def told_of(self, events: float | None = None) -> str:
        """Of whom the standard error is; if users share hashes, of as many as can have come, or have one."""
        if not self.hashed:
            return "at most, whoever came"
        reached = self.times if self.kind == "cropped_mean" else 1
        often = f" who came {self.times} times or once" if self.times > 1 else ""
        return f"at {self._value(events) * self.universe / reached:,.0f} users{often}"

    def _value(self, events: float | None) -> float:
        needed = self.times if self.kind == "heavy_fraction" else 1  # events of one who counts
        return 1.0 if events is None else min(events / needed / self.universe, 1.0)

    def told(self, estimates: Sequence[Estimated], confidence: float) -> dict[str, Columns]:
        """Estimates of some ticks as columns."""
        share = UserEstimates(tuple(estimates))
        count = share.times(self.universe)
        return {SHARE: Columns(confidence, lambda: share), COUNT: Columns(confidence, lambda: count)}
