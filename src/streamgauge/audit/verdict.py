"""What an audit found: the loss that was measured, beside the loss that was claimed.

Promise
    A claim that holds is condemned by computation never, by experiment with probability at most 1 -
    confidence: all numbers of one `Measured` hold together with its confidence.
"""

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from streamgauge.audit.exact import ROUNDING, Worst
from streamgauge.privacy import Loss

UNKNOWN = "not computed"
WEAK = 0.5  # of the claim: an attack that shows less saw little


@dataclass(frozen=True)
class Point:
    """What a claim implies, and what was measured there: delta at `epsilon` is at least `shown`."""

    epsilon: float
    delta: float
    shown: float

    @property
    def refuted(self) -> bool:
        return self.shown > self.delta


@dataclass(frozen=True)
class Measured:
    """What many runs on two neighbours show, in the currency of the claim.

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
    points: tuple[Point, ...] = ()  # of the curve that a zCDP claim implies
    points_pair: str = ""  # the neighbours that they are of

    @property
    def refuted(self) -> tuple[Point, ...]:
        return tuple(point for point in self.points if point.refuted)


@dataclass(frozen=True, repr=False)
class Verdict:
    """A claim, what was computed of it and what was measured; at least one of the two.

    Printed, it says the verdict first: "holds: SimpleII(...): claimed Pure(epsilon=1), computed 1, measured
    at least 0.98 with confidence 0.999", or "condemned: ..." with the reasons.
    """

    subject: str
    loss: Loss
    exact: float | None = None  # the worst loss over all neighbours, computed, in the same currency
    exact_pair: str = ""
    measured: Measured | None = None
    between: tuple[float, float] | None = None  # two numbers instead, where it is only known to lie there
    within: float | None = None  # of a pipeline: exact in the ticks that were run, the most that can show
    seen: tuple[str, ...] = ()  # reasons that need no number: of a pipeline, or wrong estimates
    doubts: tuple[str, ...] = ()  # of a pipeline: what was seen, and is no reason
    how: str = ""  # it was computed: of how many ticks
    part: str = ""  # of the ticks that were asked for, where not all were computed

    @classmethod
    def on(
        cls,
        subject: str,
        loss: Loss,
        worst: Worst | None,
        measured: Measured | None,
        faults: tuple[str, ...] = (),
    ) -> "Verdict":
        """With what was computed, if anything was."""
        if worst is None:
            return cls(subject, loss, measured=measured, seen=faults)
        most = float(worst.amount)
        exact, between = (most, None) if worst.decided else (None, (worst.floor, most))
        rest: dict[str, Any] = {"seen": faults, "how": worst.how, "part": worst.part}
        return cls(subject, loss, exact, str(worst), measured, between, **rest)

    @property
    def claimed(self) -> float:
        """The number of the claim: epsilon, or rho."""
        return float(self.loss.amount)

    @property
    def ends(self) -> tuple[float, float] | None:
        """Between which numbers the loss is, by computation."""
        return self.between if self.exact is None else (self.exact, self.exact)

    @property
    def proved(self) -> bool:
        """The claim holds by computation."""
        return self.ends is not None and self.ends[1] <= self._limit

    @property
    def undecided(self) -> bool:
        """The claim lies between the two ends of what was computed: computation says nothing."""
        return self.ends is not None and self.ends[0] <= self._limit < self.ends[1]

    @property
    def condemned(self) -> bool:
        """The claim is false: by computation, or with the stated confidence."""
        return bool(self.reasons)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is condemned, a line each."""
        found = []
        if self.ends is not None and self.ends[0] > self._limit:
            found.append(f"computed {self.computed} > {shown(self.claimed)} for {self.exact_pair}")
        if self.measured is not None:
            found += self._measured_reasons(self.measured)
        return (*found, *self.seen)

    def _measured_reasons(self, measured: Measured) -> list[str]:
        found = []
        if measured.amount > self.claimed:
            found.append(f"measured {shown(measured.amount)} > {shown(self.claimed)} for {measured.pair}")
        for point in measured.refuted:
            told = f"delta {shown(point.shown)} > {shown(point.delta)} at epsilon {shown(point.epsilon)}"
            found.append(f"measured {told} for {measured.points_pair}")
        return found

    @property
    def ratio(self) -> float | None:
        """The measured loss as a part of the claim."""
        return None if self.measured is None else self.measured.amount / self.claimed

    @property
    def weak(self) -> bool:
        """The attack showed less than half of a claim: that it holds says little."""
        return self.ratio is not None and self.ratio < WEAK

    @property
    def words(self) -> str:
        """The verdict in a word or two: "condemned", or "holds" with every doubt."""
        if self.condemned:
            return "condemned"
        doubts = [self._undecided] if self.undecided else []
        doubts += self.doubts
        doubts += ["weak: the audit saw little"] if self.weak else []
        return f"holds ({'; '.join(doubts)})" if doubts else "holds"

    @property
    def _undecided(self) -> str:
        """The reason why computation says nothing."""
        if UNKNOWN not in self.how:
            return "undecided by computation"
        return self.how[self.how.index(UNKNOWN) :].replace(";", ",").partition(",")[0]

    def __repr__(self) -> str:
        numbers = [f"claimed {self.loss}"]
        numbers += [f"computed {self.computed}"] if self.computed else []
        if self.measured is not None:
            sure = f"with confidence {self.measured.confidence:.12g}"
            numbers.append(f"measured at least {shown(self.measured.amount)} {sure}")
        return "\n  ".join([f"{self.words}: {self.subject}: {', '.join(numbers)}", *self.reasons])

    @property
    def _limit(self) -> float:
        return self.claimed * (1 + ROUNDING)

    @property
    def computed(self) -> str:
        """What was computed, in words: a number, or two with a dash."""
        if self.ends is None:
            return ""
        told = shown(self.ends[1]) if self.exact is not None else "-".join(map(shown, self.ends))
        return f"{told} ({self.part})" if self.part else told

    def as_json(self) -> dict[str, Any]:
        """The keys: subject, currency, claimed, exact, exact_pair, between, undecided, proved, within,
        computed_from, computed_part, measured (a table), condemned, reasons."""
        return {
            "subject": self.subject,
            "loss": str(self.loss),
            "currency": self.loss.currency,
            "claimed": self.claimed,
            "exact": self.exact,
            "exact_pair": self.exact_pair,
            "between": None if self.between is None else list(self.between),
            "undecided": self.undecided,
            "proved": self.proved,
            "within": self.within,
            "computed_from": self.how,
            "computed_part": self.part,
            "measured": None if self.measured is None else asdict(self.measured),
            "condemned": self.condemned,
            "reasons": list(self.reasons),
            "doubts": list(self.doubts),
        }


def shown(amount: float) -> str:
    """
    >>> shown(0.91234), shown(float("inf"))
    ('0.9123', 'infinite')
    """
    return "infinite" if amount == inf else f"{amount:.4g}"
