"""Sizes of robust sketches of the second moment: proved ones, and ones that hold in practice.

Switching: lambda = ceil(ln(largest)/ln((1 + alpha/2)(1 - e)/(1 + e))) with copy error e = alpha/8. An answer starts
at 0, so lambda + 2 copies. Each has 8 ln(2 lambda steps/beta)/e^2 rows and fails with probability beta/(lambda steps).
Private median: the generalisation bound needs a total epsilon of 1/100, delta = beta/(100 steps), and
ln(2 epsilon/delta)/epsilon^2 copies. As many phases as switches have 1/(100 sqrt(2 phases ln(1/delta))) each, by
advanced composition. Ranks of medians and counts of the sparse vector must be right to a tenth of the copies. In
practice 61 copies of 200 rows withstood the attacks here, with epsilon 2 a phase.
"""

from dataclasses import dataclass
from math import ceil, log, log1p, sqrt

from streamgauge.continual.validation import check_whole

PRACTICAL_ROWS, PRACTICAL_COPIES, PRACTICAL_MEDIAN_COPIES = 200, 60, 61
TOTAL_EPSILON, RANK_SHARE, GRID_STEPS = 0.01, 0.1, 8
NUMBER_BYTES, EXACT_BYTES = 8, 16


@dataclass(frozen=True)
class RobustSizes:
    """Copies and rows of both wrappers; print it for a table."""

    alpha: float
    steps: int
    switching_copies: int
    switching_rows: int
    median_copies: int

    @property
    def exact_bytes(self) -> int:
        """Bytes of exact counters, with a new item in each step."""
        return EXACT_BYTES * self.steps

    def __str__(self) -> str:
        rows = [
            ("exact counters", 1, self.steps, self.exact_bytes, "always right"),
            self._line("switching, proved", self.switching_copies, self.switching_rows, "any adversary"),
            self._line("switching, in practice", PRACTICAL_COPIES, PRACTICAL_ROWS, "withstood the attacks"),
            self._line("private median, proved", self.median_copies, self.switching_rows, "any adversary"),
            self._line("private median, in practice", PRACTICAL_MEDIAN_COPIES, PRACTICAL_ROWS, "withstood the attacks"),
        ]
        head = f"{f'alpha {self.alpha}, {self.steps:,} steps':<28} {'copies':>10} {'numbers':>10} {'bytes':>18}"
        lines = [
            f"{name:<28} {copies:>10,} {size:>10,} {space:>18,}  {note}" for name, copies, size, space, note in rows
        ]
        cheaper = self.switching_copies * self.switching_rows * NUMBER_BYTES < self.exact_bytes
        advice = "use SketchSwitching" if cheaper else "use exact counters: the proved sketches are larger"
        return "\n".join([head, *lines, advice])

    def _line(self, name: str, copies: int, rows: int, note: str) -> tuple[str, int, int, int, str]:
        return name, copies, rows, copies * rows * NUMBER_BYTES, note


def find_sizes(alpha: float, steps: int, *, largest: float = 1e3, beta: float = 0.01) -> RobustSizes:
    """Return sizes for a value that grows by the factor `largest` in so many steps, failing with probability beta.

    >>> sizes = find_sizes(0.3, 3000)
    >>> sizes.switching_copies, sizes.switching_rows
    (109, 102273)
    """
    check_whole("steps", steps)
    if not 0 < alpha < 1 or not 0 < beta < 1 or largest <= 1:
        raise ValueError(f"alpha and beta must be between 0 and 1 and largest above 1, got {alpha}, {beta}, {largest}")
    error = alpha / 8
    switches = ceil(log(largest) / log((1 + alpha / 2) * (1 - error) / (1 + error)))
    rows = ceil(8 * log(2 * switches * steps / beta) / error**2)
    delta = TOTAL_EPSILON * beta / steps
    phase = TOTAL_EPSILON / sqrt(2 * switches * log(1 / delta)) / (1 + TOTAL_EPSILON)  # epsilon of one
    points = log(largest) / log1p(alpha / GRID_STEPS) + 2
    ranks = 4 / phase * log(3 * points * switches / beta), 12 / phase * log(6 * steps / beta)
    copies = ceil(max(log(2 * TOTAL_EPSILON / delta) / TOTAL_EPSILON**2, max(ranks) / RANK_SHARE))
    return RobustSizes(alpha, steps, switches + 2, rows, copies)
