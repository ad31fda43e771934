"""Modular incidence: which part of a universe has come 0, 1, .., k-1 times modulo k. Appearances can be
taken back.

    start         c_x = offset                          a residue for each user x of the sample
    x appears     c_x = c_x + 1 modulo k                removed: c_x - 1; exact arithmetic on a noisy entry
    offset        0 with chance 1 - noisy, else any of 0..k-1 alike
    release       h_i = entries that are i + noise      for all i at once
    estimate      f_i = (h_i/m - (1 - gap)/k)/gap       gap = 1 - noisy

Where nobody comes k times or more, one release tells exactly how many came i times, at least i times, and
the mean of what they came, cropped or not: `exactly`, `at_least`, `cropped_mean`. All follow from one
release and cost nothing.

Privacy
    Neighbours: all appearances of one user, and all that take them back. Promise: pure, (intrusions + 1)
    state_loss + releases output_loss.
    Proof: that of `table_claim`. Whatever a user did, c_x is n_x + offset, and an offset of 0 is at most
    1 + k (1 - noisy)/noisy <= e^entry_epsilon times as likely as any other: noisy = k/(e^epsilon - 1 + k),
    rounded up to whole 2^-32. However often, one user's entry is in one bin, so the user moves one unit
    from one bin to another at most: MOVED = 2 in L1, under noise of scale 2/output_loss in each bin (4 with
    `replace`).
    Announced: an offset is added before the hand-over and another after it. What is handed over is c_x plus
    an offset of its own; what the run goes on with is that plus another.

Error
    Unbiased. After J announced intrusions the gap is (1 - noisy)^(2 J + 1). A sum over users of weights
    w(n_x) is estimated with variance [sum_i f_i Var(w(c) | n = i) + noise/m]/(m gap^2) plus that of the
    sample, exactly, where E[g(c) | n = i] = gap g(i) + (1 - gap) mean(g) for every g.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010 promise modular incidence counts; the table here is k-ary
    randomised response of an offset, which is not in the paper, and has no law called the paper's.
"""

from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

from streamgauge.continual.settings import check_whole
from streamgauge.noise import Chance, DiscreteLaplace, Ints
from streamgauge.noise.chance import WORD
from streamgauge.noise.entropy import Wiped
from streamgauge.panprivate.incidences import Incidences
from streamgauge.panprivate.randomised_response import above_one
from streamgauge.panprivate.residues import LARGEST, add_modulo, count, width
from streamgauge.panprivate.splits import best_split
from streamgauge.panprivate.table import Table, blank
from streamgauge.panprivate.table_claim import TableClaim
from streamgauge.panprivate.table_settings import check_asked
from streamgauge.panprivate.users import Universe, pieces


@dataclass(frozen=True)
class ModularIncidence(TableClaim[Table, Incidences]):
    """The parts of the universe by how often they came, modulo `modulus`; see the module's claim."""

    MOVED: ClassVar[int] = 2
    _: KW_ONLY
    modulus: int

    def check_law(self) -> None:
        check_whole("modulus", self.modulus, least=2)
        if self.modulus > LARGEST:
            raise ValueError(f"modulus must be at most 2**16, got {self.modulus}")
        if self.hashed:
            raise ValueError("hashed must be False here, where users of one cell would be one user, got True")
        if self.law != "symmetric":
            raise ValueError(
                f"law must be symmetric for ModularIncidence (the paper has none), got {self.law!r}"
            )
        if self.noisy >= 1:
            raise ValueError(f"loss must be large enough to tell residues apart, got {self.loss!r}")

    @cached_property
    def noisy(self) -> Fraction:
        """The chance that an offset is any of 0..k-1 alike; the rest of it is 0."""
        least = self.modulus / (above_one(self.entry_epsilon) + self.modulus)
        return Fraction(-(-least * WORD // 1), WORD)

    def gap(self, intrusions: int = 0) -> Fraction:
        """What is left of a residue under its offsets after so many announced intrusions."""
        return (1 - self.noisy) ** (2 * intrusions + 1)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """Of each bin of a release."""
        return DiscreteLaplace(self.MOVED * self.moved / self.output_loss.epsilon)

    @cached_property
    def users(self) -> Universe:
        return Universe(self.universe, self.entries, self.seed)

    def best_split(self) -> Fraction:
        check_whole("modulus", self.modulus, least=2)
        return best_split(lambda share: replace(self, split=share).stddev(intrusions=self.intrusions))

    def blank(self, width_: int) -> Table:
        return blank(width_, width(self.modulus))

    def initial(self, noise: Chance) -> Table:
        table = self.blank(self.entries)
        self.rerandomise(table, 0, noise)
        return table

    def copied(self, state: Table) -> Table:
        return state.copy()

    def take(self, state: Table, users: Any, intrusions: int, noise: Chance) -> None:
        for piece in pieces(users):
            with Wiped() as secret:
                count(state.entries, self.users.places(piece, secret), self.modulus, secret)

    def take_back(self, state: Table, users: Any, intrusions: int, noise: Chance) -> None:
        for piece in pieces(users):
            with Wiped() as secret:
                places = self.users.places(piece, secret)
                count(state.entries, places, self.modulus, secret, removed=True)

    def removal_refusal(self) -> str:
        return ""

    def rerandomise(self, state: Table, before: int, noise: Chance) -> None:
        for residues in state.stretches():
            with Wiped() as secret:
                drawn = secret(noise.uniform(self.modulus, len(residues)))
                offsets = secret(drawn.astype(residues.dtype))
                offsets *= secret(secret(noise.coins(self.noisy, len(residues))).astype(offsets.dtype))
                add_modulo(residues, offsets, self.modulus)

    def release(self, state: Table, noise: Chance) -> Ints:
        with Wiped() as secret:
            return secret(state.counts(self.modulus)) + secret(self.noise.draw(noise, self.modulus))

    def estimated(self, released: Ints, intrusions: int) -> Incidences:
        return Incidences(
            released=tuple(released.tolist()),
            universe=self.universe,
            entries=self.entries,
            gap=float(self.gap(intrusions)),
            noise=self.noise,
        )

    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """The standard error of one f_i that is `value`; without one, where it is largest."""
        check_asked(self, value, intrusions)
        gap, m = float(self.gap(intrusions)), self.entries
        other = (1 - gap) / self.modulus
        absent, present = (
            (p * (1 - p) + self.noise.variance / m) / (m * gap * gap) for p in (other, other + gap)
        )
        sampled = (self.universe - m) / (max(1, self.universe - 1) * m)
        if value is None:
            steepest = (present - absent) / (2 * sampled) if sampled else present - absent
            value = min(max(0.5 + steepest, 0.0), 1.0) if sampled else float(present > absent)
        return sqrt(absent + (present - absent) * value + sampled * value * (1 - value))
