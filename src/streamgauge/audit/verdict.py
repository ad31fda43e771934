"""The result of an audit: the measured loss, compared with the claimed one.

Promise
    Computation never condemns a claim that holds. An experiment does with probability at most 1 - confidence: all
    numbers of one `Measurement` hold together with its confidence.
"""

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from streamgauge.audit.exact.worst_case import ROUNDING_TOLERANCE, WorstCase
from streamgauge.privacy import Loss

NOT_COMPUTED = "not computed"
WEAK_RATIO = 0.5  # of the claim: an attack that shows less saw little


@dataclass(frozen=True)
class CurvePoint:
    """A point of a claim's curve: measured delta at `epsilon` is at least `measured_delta`."""

    epsilon: float
    delta: float
    measured_delta: float


@dataclass(frozen=True)
class Measurement:
    """The loss that many runs on two neighbours show, in the currency of the claim.

    `amount` is epsilon under a pure claim, rho under a zCDP one, and epsilon at the claim's delta otherwise.
    """

    pair: str
    score: str
    runs: int  # of each neighbour, training aside
    confidence: float  # with which all of these numbers hold together
    amount: float
    epsilon: float  # at `delta`
    delta: float
    delta_at_claim: float  # what is shown of delta at the claimed epsilon
    seconds: float
    points: tuple[CurvePoint, ...] = ()  # of the curve that a zCDP claim implies
    points_pair: str = ""  # the neighbours that they are of

    @property
    def refuted_points(self) -> tuple[CurvePoint, ...]:
        return tuple(point for point in self.points if point.measured_delta > point.delta)


@dataclass(frozen=True, repr=False)
class Verdict:
    """A claim, what was computed of it and what was measured; at least one of the two.

    Printed, it says the verdict first: "holds: SimpleII(...): claimed Pure(epsilon=1), computed 1, measured
    at least 0.98 with confidence 0.999", or "condemned: ..." with the reasons.
    """

    subject: str
    loss: Loss
    worst: WorstCase | None = None  # of all neighbours, computed, in the same currency
    measurement: Measurement | None = None
    exact_in_run: float | None = None  # of a pipeline: exact in the ticks that were run, the most that can show
    direct_reasons: tuple[str, ...] = ()  # reasons that need no number, of a pipeline
    doubts: tuple[str, ...] = ()  # of a pipeline: what was seen, and is no reason
    comparison: str = ""  # of a pipeline: what was compared, if nothing was computed

    @property
    def claimed(self) -> float:
        """The number of the claim: epsilon, or rho."""
        return float(self.loss.amount)

    @property
    def exact(self) -> float | None:
        """The computed loss; None if it is not one number."""
        return float(self.worst.amount) if self.worst is not None and self.worst.is_decided else None

    @property
    def computed_bounds(self) -> tuple[float, float] | None:
        """Two numbers instead, if the loss is only known to lie between them."""
        return None if self.worst is None or self.worst.is_decided else (self.worst.floor, float(self.worst.amount))

    @property
    def loss_bounds(self) -> tuple[float, float] | None:
        """Between which numbers the loss is, by computation."""
        return self.computed_bounds if self.exact is None else (self.exact, self.exact)

    @property
    def computed_from(self) -> str:
        """The ticks that were computed, and those at which the code was tried."""
        return self.comparison if self.worst is None else self.worst.computed_from

    @property
    def computed_part(self) -> str:
        """The part of the requested ticks that was computed, if not all."""
        return "" if self.worst is None else self.worst.computed_part

    @property
    def is_proved(self) -> bool:
        """The claim holds by computation."""
        return self.loss_bounds is not None and self.loss_bounds[1] <= self._limit

    @property
    def is_undecided(self) -> bool:
        """The claim lies between the two ends of what was computed: computation says nothing."""
        return self.loss_bounds is not None and self.loss_bounds[0] <= self._limit < self.loss_bounds[1]

    @property
    def is_condemned(self) -> bool:
        """The claim is false: by computation, or with the stated confidence."""
        return bool(self.reasons)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Reasons of a condemnation, a line each."""
        found = []
        if self.loss_bounds is not None and self.loss_bounds[0] > self._limit:
            found.append(f"computed {self.computed_text} > {format_amount(self.claimed)} for {self.worst}")
        measured, claimed = self.measurement, format_amount(self.claimed)
        if measured is not None and measured.amount > self.claimed:
            found.append(f"measured {format_amount(measured.amount)} > {claimed} for {measured.pair}")
        for point in measured.refuted_points if measured is not None else ():
            shown = f"{format_amount(point.measured_delta)} > {format_amount(point.delta)}"
            at = f"at epsilon {format_amount(point.epsilon)}"
            found.append(f"measured delta {shown} {at} for {measured.points_pair}")  # type: ignore[union-attr]
        return (*found, *self.direct_reasons, *(self.worst.faults if self.worst is not None else ()))

    @property
    def ratio(self) -> float | None:
        """The measured loss as a part of the claim."""
        return None if self.measurement is None else self.measurement.amount / self.claimed

    @property
    def summary(self) -> str:
        """The verdict in a word or two: "condemned", or "holds" with every doubt."""
        if self.is_condemned:
            return "condemned"
        doubts = [self._undecided_reason] if self.is_undecided else []
        doubts += self.doubts
        doubts += ["weak: the audit saw little"] if (self.ratio is not None and self.ratio < WEAK_RATIO) else []
        return f"holds ({'; '.join(doubts)})" if doubts else "holds"

    @property
    def _undecided_reason(self) -> str:
        """The reason why computation says nothing."""
        if NOT_COMPUTED not in self.computed_from:
            return "undecided by computation"
        return self.computed_from[self.computed_from.index(NOT_COMPUTED) :].replace(";", ",").partition(",")[0]

    def __repr__(self) -> str:
        numbers = [f"claimed {self.loss}"]
        numbers += [f"computed {self.computed_text}"] if self.computed_text else []
        if self.measurement is not None:
            sure = f"with confidence {self.measurement.confidence:.12g}"
            numbers.append(f"measured at least {format_amount(self.measurement.amount)} {sure}")
        return "\n  ".join([f"{self.summary}: {self.subject}: {', '.join(numbers)}", *self.reasons])

    @property
    def _limit(self) -> float:
        return self.claimed * (1 + ROUNDING_TOLERANCE)

    @property
    def computed_text(self) -> str:
        """The computed loss as text: a number, or two with a dash."""
        if self.loss_bounds is None:
            return ""
        ends = self.loss_bounds if self.exact is None else self.loss_bounds[1:]
        shown = "-".join(map(format_amount, ends))
        return f"{shown} ({self.computed_part})" if self.computed_part else shown

    def to_json(self) -> dict[str, Any]:
        """Return a table for JSON; `measurement` is a table of its own."""
        return {
            "subject": self.subject,
            "loss": str(self.loss),
            "currency": self.loss.currency,
            "claimed_loss": self.claimed,
            "exact_loss": self.exact,
            "exact_pair": "" if self.worst is None else str(self.worst),
            "exact_bounds": None if self.computed_bounds is None else list(self.computed_bounds),
            "is_undecided": self.is_undecided,
            "is_proved": self.is_proved,
            "exact_loss_of_run": self.exact_in_run,
            "computed_from": self.computed_from,
            "computed_part": self.computed_part,
            "measurement": None if self.measurement is None else asdict(self.measurement),
            "is_condemned": self.is_condemned,
            "reasons": list(self.reasons),
            "doubts": list(self.doubts),
        }


def format_amount(amount: float) -> str:
    """
    >>> format_amount(0.91234), format_amount(float("inf"))
    ('0.9123', 'infinite')
    """
    return "infinite" if amount == inf else f"{amount:.4g}"
