"""An entry of the ledger: what one release was charged, what of it still counts, and how it is told."""

from dataclasses import dataclass
from fractions import Fraction

from streamgauge.privacy.exact import shown
from streamgauge.privacy.terms import Term, Weight
from streamgauge.privacy.timeline import Step, Timeline

Row = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Charge:
    """One entry of the ledger. `covers` is what still counts of its timeline, None if all was given back."""

    number: int
    name: str
    timeline: Timeline
    native: bool
    per_tick: bool
    covers: Timeline | None
    ended: int | None = None  # the last tick ingested when it ended
    delta: Fraction = Fraction(0)  # what it takes of the budget's delta, beside its loss

    @property
    def slack(self) -> Term | None:
        """Its delta, if it takes one and still counts: every unit that touches it loses all of it, once."""
        if not self.delta or self.covers is None:
            return None
        return Term(self.delta, (Weight(*self.covers.span, Fraction(1)),), native=True)

    def rows(self) -> list[Row]:
        """Its lines in the ledger's table: name, first and last tick, loss, and a note."""
        if self.covers is None:
            return [(self.name, "-", "-", "given back", self._note)]
        return [self._row(step) for step in self.covers.steps]

    def _row(self, step: Step) -> Row:
        last = "on" if step.last is None else str(step.last)
        beside = f" and delta {shown(self.delta)}" if self.delta else ""
        return self.name, str(step.first), last, f"{step.loss}{beside}", self._note

    @property
    def _note(self) -> str:
        kind = "of the whole unit" if self.native else "of the unit in a tick" if self.per_tick else ""
        return ", ".join(filter(None, (kind, "" if self.ended is None else f"ended after {self.ended}")))
