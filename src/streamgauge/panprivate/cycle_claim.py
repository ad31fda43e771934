"""What the claims over a table of cycles share: everything but their weights; see `cycle` for the promise.

`weights` say which mean over users is estimated: T(n) = base + sum of w_j for j < min(n, t).
"""

from abc import abstractmethod
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np

from streamgauge.continual.settings import check_whole
from streamgauge.noise import Chance, DiscreteLaplace, Ints
from streamgauge.noise.entropy import Wiped
from streamgauge.noise.numbers import Floats
from streamgauge.panprivate.compound import Compound
from streamgauge.panprivate.cycle import Cycle
from streamgauge.panprivate.deviations import Around, Deviation, Noise, Responses, drawn, largest, sampled
from streamgauge.panprivate.estimated import Estimated
from streamgauge.panprivate.randomised_response import Response, response
from streamgauge.panprivate.splits import best_split
from streamgauge.panprivate.table import Table, blank
from streamgauge.panprivate.table_claim import TableClaim
from streamgauge.panprivate.table_settings import check_asked
from streamgauge.panprivate.users import Cells, Universe, entry_of, pieces


@dataclass(frozen=True)
class CycleClaim(TableClaim[Table, Estimated]):
    """A mean over users of what depends on how often they came."""

    MOVE: ClassVar[int] = 2  # how far one entry moves a release

    @property
    @abstractmethod
    def length(self) -> int:
        """t: appearances beyond as many make no difference."""

    @property
    @abstractmethod
    def weights(self) -> Ints:
        """w_j in {-1, 0, 1} for j < t."""

    @property
    def base(self) -> int:
        """T(0)."""
        return 0

    def check_law(self) -> None:
        _ = self.cycle.kept, self.noise

    def check_length(self, name: str, value: int, least: int, most: int) -> None:
        check_whole(name, value, least)
        if value > most:
            raise ValueError(f"{name} must be at most {most}, since an entry has two bytes, got {value}")

    @cached_property
    def cycle(self) -> Cycle:
        epsilon = self.entry_epsilon
        return Cycle(self.length, response(self.law, epsilon), epsilon)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        return DiscreteLaplace(self.MOVE * self.moved / self.output_loss.epsilon)

    @cached_property
    def users(self) -> Universe | Cells:
        return entry_of(self)

    def best_split(self) -> Fraction:
        return best_split(lambda share: replace(self, split=share).rough(self.intrusions))

    def rough(self, intrusions: int) -> float:
        """To first order."""
        if self.hashed:
            return self.compound(intrusions).stddev_at(1.0, self.typical)
        return self.stddev(intrusions=intrusions)

    def blank(self, width: int) -> Table:
        return blank(width, np.uint16)

    def initial(self, noise: Chance) -> Table:
        return self.cycle.begun(self.entries, noise)

    def copied(self, state: Table) -> Table:
        return state.copy()

    def take(self, state: Table, users: Any, intrusions: int, noise: Chance) -> None:
        for piece in pieces(users):
            with Wiped() as secret:
                self.cycle.advance(state, self.users.places(piece, secret), noise)

    def rerandomise(self, state: Table, before: int, noise: Chance) -> None:
        self.cycle.forget(state, noise)

    def release(self, state: Table, noise: Chance) -> Ints:
        """The weighted sum or, where users share cells, every s_j: an entry is in one of them."""
        with Wiped() as secret:
            signed = self.cycle.signed(state, secret)
            sums = signed if self.hashed else secret(self.weights[None] @ signed)
            return np.asarray(sums + secret(self.noise.draw(noise, len(sums))))

    def estimated(self, released: Ints, intrusions: int) -> Estimated:
        laws = self.cycle.laws(intrusions)
        if self.hashed:
            return self.compound(intrusions).estimated(released, self.universe)
        mean = Fraction(self.length * int(released[0]), self.entries) - self._resting(laws)
        value = self.base + float(mean / (2 * laws.gap))
        stddev = self.stddev(min(max(value, 0.0), self.highest), intrusions)
        within = Around(value, self._parts(intrusions))
        return Estimated(value, stddev, self.universe, within, highest=self.highest)

    def compound(self, intrusions: int) -> Compound:
        laws = self.cycle.laws(intrusions)
        return Compound(self.weights, self.entries, self.universe, laws, self.noise)

    @property
    def typical(self) -> int:
        """How often users come in predictions for cells that they share."""
        return self.length

    def _resting(self, laws: Response) -> Fraction:
        """t times the mean of what the entry of a user who never came adds to a release."""
        return (2 * laws.absent - 1) * int(self.weights.sum())

    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """The standard error where `value` is the truth (see the claim); without one, where it is largest.

        Hashed: if all users came `typical` times, or once, whichever is larger; without a value, at 1. Where
        first order says little, the most that an estimate can be off.
        """
        check_asked(self, value, intrusions)
        if self.hashed:
            return self.compound(intrusions).expected(1.0 if value is None else value, self.typical)
        ends = self._response_variance(0.0, intrusions), self._response_variance(self.highest, intrusions)
        bent = self._bent(intrusions) + sampled(self.entries, self.universe) * self.highest**2
        at = largest(*ends, bent) if value is None else value / self.highest
        return sqrt(ends[0] + (ends[1] - ends[0]) * at + bent * at * (1 - at))

    def _response_variance(self, end: float, intrusions: int) -> float:
        """If T is the same for all users: that of entries and noise."""
        laws, t = self.cycle.laws(intrusions), self.length
        mean = float(self._resting(laws) + 2 * laws.gap * Fraction(end - self.base)) / t
        each = int(np.abs(self.weights).sum()) / t - mean**2
        return (each + self.noise.variance / self.entries) * (t / (2 * float(laws.gap))) ** 2 / self.entries

    def _bent(self, intrusions: int) -> float:
        """What the variance gains over the straight line between its ends if all users are alike, T
        between."""
        return 0.0

    def _parts(self, intrusions: int) -> list[Deviation]:
        laws, m = self.cycle.laws(intrusions), self.entries
        weight = self.length / (2 * float(laws.gap) * m)
        plus, minus = self._chances(laws)
        sample = drawn(self.highest, m, self.universe)
        return [Responses(m, weight, plus, minus), Noise(weight, self.noise), *sample]

    def _chances(self, laws: Response) -> tuple[Floats, Floats]:
        """The chances of an entry to add 1 and to add -1, for users who came 0, 1, ..., t times."""
        absent, present = float(laws.absent), float(laws.present)
        up, down = (self.weights > 0).astype(np.float64), (self.weights < 0).astype(np.float64)
        plus = up * absent + down * (1 - absent)
        moved = np.concatenate([[0.0], np.cumsum((up - down) * (present - absent))])
        plus = (plus.sum() + moved) / self.length
        return plus, (up + down).sum() / self.length - plus
