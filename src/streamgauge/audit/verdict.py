"""What an audit found: the loss that was measured, beside the loss that was claimed."""

from dataclasses import asdict, dataclass
from math import inf
from typing import Any

from streamgauge.privacy import Loss


@dataclass(frozen=True)
class Measured:
    """What many runs on two neighbours show, in the currency of the claim.

    `amount` is epsilon under a pure claim, rho under a zCDP one, and epsilon at the claim's delta otherwise.
    """

    pair: str
    score: str
    runs: int  # of each neighbour, training aside
    confidence: float
    amount: float
    epsilon: float  # at `delta`
    delta: float
    delta_at_claim: float  # what is shown of delta at the claimed epsilon
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """A claim, what was computed of it and what was measured; at least one of the two."""

    subject: str
    loss: Loss
    exact: float | None = None  # the worst loss over all neighbours, computed, in the same currency
    exact_pair: str = ""
    measured: Measured | None = None

    @property
    def claimed(self) -> float:
        """The number of the claim: epsilon, or rho."""
        return float(self.loss.amount)

    @property
    def condemned(self) -> bool:
        """The claim is false: by computation, or with the stated confidence."""
        return bool(self.reasons)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why it is condemned, a line each."""
        found = []
        if self.exact is not None and self.exact > self.claimed * (1 + ROUNDING):
            found.append(f"computed {_shown(self.exact)} > {_shown(self.claimed)} for {self.exact_pair}")
        if self.measured is not None and self.measured.amount > self.claimed:
            found.append(
                f"measured {_shown(self.measured.amount)} > {_shown(self.claimed)} for {self.measured.pair}"
            )
        return tuple(found)

    def as_json(self) -> dict[str, Any]:
        """The keys: subject, currency, claimed, exact, measured (a table of its own), condemned, reasons."""
        return {
            "subject": self.subject,
            "loss": str(self.loss),
            "currency": self.loss.currency,
            "claimed": self.claimed,
            "exact": self.exact,
            "measured": None if self.measured is None else asdict(self.measured),
            "condemned": self.condemned,
            "reasons": list(self.reasons),
        }


ROUNDING = 1e-9


def _shown(amount: float) -> str:
    return "infinite" if amount == inf else f"{amount:.4g}"
