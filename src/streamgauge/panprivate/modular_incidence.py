"""Modular incidence: the parts of a universe by their visit counts modulo k.

Appearances can be removed:

    start         c_x = offset                          a residue for each user x of the sample
    x appears     c_x = c_x + 1 modulo k                removed: c_x - 1; exact arithmetic on a noisy entry
    offset        0 with chance 1 - noisy, else any of 0..k-1 alike
    release       h_i = entries that are i + noise      for all i at once
    estimate      f_i = (h_i/m - (1 - gap)/k)/gap       gap = 1 - noisy

If no user comes k times or more, one release estimates the parts that came i times, at least i times, and the mean
of visits, cropped or not: `exactly`, `at_least`, `cropped_mean`. All follow from one release without cost. Every
number is a sum of weights w(n_x) over users, over the universe. Residues with one weight are grouped: `weights` are
the different ones, `sizes` the numbers of residues with each, and `shares` the parts of the users with each.

Batches contain a user as often as it appears. If k divides the range of an entry, entries are counted up and reduced
afterwards. Otherwise entries are of 16 bits, a piece is shorter than their range, and the increase of an entry is
the number of appearances of its user. In both cases all copies of a user in a piece write the same number, and
stored entries are reduced.

Privacy
    Neighbours: all appearances of one user, and all removals of them. Promise: pure, (intrusions + 1)
    state_loss + releases output_loss.
    Proof: that of `mechanism`. For any behaviour of a user, c_x is n_x + offset, and an offset of 0 is at most
    1 + k (1 - noisy)/noisy <= e^entry_epsilon times as likely as any other: noisy = k/(e^epsilon - 1 + k),
    rounded up to whole 2^-32. One user's entry is in one bin, so the user moves one unit from one bin to
    another at most: BIN_SENSITIVITY = 2 in L1, under noise of scale 2/output_loss in each bin (4 with
    `replace`).
    Announced: an offset is added before the hand-over and another after it. The intruder gets c_x plus an
    offset of its own. The run continues with that plus another.

Error
    Unbiased. After J announced intrusions the gap is (1 - noisy)^(2 J + 1). A sum over users of weights
    w(n_x) is estimated with variance [sum_i f_i Var(w(c) | n = i) + noise/m]/(m gap^2) plus that of the
    sample, exactly, where E[g(c) | n = i] = gap g(i) + (1 - gap) mean(g) for every g.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin 2010 promise modular incidence counts. The table here is k-ary
    randomised response of an offset, which is not in the paper. It has no law called the paper's.
"""

from dataclasses import KW_ONLY, dataclass, field
from fractions import Fraction
from functools import cached_property
from math import sqrt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.validation import check_whole
from streamgauge.memory import WipedArrays
from streamgauge.noise import DiscreteLaplace, Ints, RandomSource
from streamgauge.noise.bernoulli import WORD_RANGE
from streamgauge.noise.coerce import Floats
from streamgauge.panprivate.error_bounds import (
    EntryDeviation,
    NoiseDeviation,
    SymmetricRegion,
    build_sampling_deviation,
    max_quadratic,
    sampling_factor,
)
from streamgauge.panprivate.estimate import PanPrivateEstimate
from streamgauge.panprivate.mechanism import TableMechanism
from streamgauge.panprivate.randomised_response import expm1_lower_bound
from streamgauge.panprivate.run import NoisyTable
from streamgauge.panprivate.users import split_batch
from streamgauge.panprivate.validation import check_prediction


@dataclass(frozen=True)
class IncidenceHistogram:
    """Parts of the universe that came 0, 1, .., k-1 times modulo k: unbiased, public.

    `exactly`, `at_least` and `cropped_mean` read residues as counts. They are right if no user came k times.
    """

    released_counts: tuple[int, ...]
    universe: int
    entries: int
    gap: float = field(repr=False)
    noise: DiscreteLaplace = field(repr=False)

    @property
    def modulus(self) -> int:
        return len(self.released_counts)

    @property
    def value(self) -> Floats:
        """f_0, .., f_(k-1)."""
        bins = np.array(self.released_counts, np.float64) / self.entries
        return np.asarray((bins - (1 - self.gap) / self.modulus) / self.gap)

    @property
    def stddev(self) -> Floats:
        """The standard error of each part, if the estimate is the truth."""
        return np.array([self.exactly(i).stddev for i in range(self.modulus)])

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return bounds of each part by itself."""
        found = [self.exactly(i).interval(confidence) for i in range(self.modulus)]
        return np.array([low for low, _ in found]), np.array([high for _, high in found])

    def exactly(self, times: int) -> PanPrivateEstimate:
        """Return the part that came so many times."""
        return self._build_estimate((self._list_residues("times", times, 0) == times).astype(np.float64))

    def at_least(self, times: int) -> PanPrivateEstimate:
        """Return the part that came so many times or more."""
        return self._build_estimate((self._list_residues("times", times, 0) >= times).astype(np.float64))

    def cropped_mean(self, limit: int) -> PanPrivateEstimate:
        """Return the mean over the universe of min(visits, limit)."""
        return self._build_estimate(np.minimum(self._list_residues("limit", limit, 1), limit).astype(np.float64))

    def _list_residues(self, name: str, value: int, least: int) -> Ints:
        """Return the residues, once `value` is checked against them."""
        check_whole(name, value, least)
        if value >= self.modulus:
            raise ValueError(f"{name} must be at most {self.modulus - 1} with a modulus of {self.modulus}, got {value}")
        return np.arange(self.modulus)

    def _build_estimate(self, by_residue: Floats) -> PanPrivateEstimate:
        weights, place, sizes = np.unique(by_residue, return_inverse=True, return_counts=True)
        value, found = float(by_residue @ self.value), np.clip(np.bincount(place, self.value), 0, None)
        shares: Floats = np.asarray(found / found.sum() if found.sum() > 0 else sizes / self.modulus)
        entries, noise = self._response_deviations(weights, sizes)
        sample = build_sampling_deviation(float(weights[-1] - weights[0]), self.entries, self.universe)
        region = SymmetricRegion(value, [entries, *noise, *sample])
        stddev = self.predict_stddev(weights, sizes, shares)
        return PanPrivateEstimate(value, stddev, self.universe, region, highest=float(weights[-1]))

    def predict_stddev(self, weights: Floats, sizes: Ints, shares: Floats) -> float:
        """Return the standard error of a sum of weights with these shares of the users."""
        entries, draws = self._response_deviations(weights, sizes)
        noise = sum(draw.variance_range[1] for draw in draws)
        spread = max(float(shares @ weights**2 - (shares @ weights) ** 2), 0.0)
        sampled = sampling_factor(self.entries, self.universe) * spread
        return sqrt(self.entries * float(shares @ entries.moments(2)) + noise + sampled)

    def _response_deviations(self, weights: Floats, sizes: Ints) -> tuple[EntryDeviation, list[NoiseDeviation]]:
        """Return the deviations of entries and of noise.

        An entry has its true weight, or that of any residue.
        """
        one = 1 / (self.entries * self.gap)
        chances = np.asarray(self.gap * np.eye(len(weights)) + (1 - self.gap) * (sizes / self.modulus))
        noise = [NoiseDeviation(one * float(w), self.noise, int(n)) for w, n in zip(weights, sizes, strict=True)]
        return EntryDeviation(self.entries, one, weights, chances), noise


Residues = npt.NDArray[Any]  # unsigned

MAX_MODULUS = 2**16
BYTE_VALUES = 2**8


def add_counts(entries: Residues, places: Ints, modulus: int, secret: WipedArrays, *, removed: bool = False) -> None:
    """Add 1 for each place, or subtract it, as often as the place is present.

    There are fewer than 2^16 places.
    """
    move = np.subtract if removed else np.add
    if is_wrapping(entries, modulus):
        move.at(entries, places, entries.dtype.type(1))
        after = secret(entries.take(places, mode="clip"))
        np.bitwise_and(after, after.dtype.type(modulus - 1), out=after)
    else:
        before = secret(entries.take(places, mode="clip"))
        move.at(entries, places, entries.dtype.type(1))
        after = secret(entries.take(places, mode="clip"))
        np.subtract(*((before, after) if removed else (after, before)), out=after)
        np.remainder(after, entries.dtype.type(modulus), out=after)
        if removed:
            np.subtract(entries.dtype.type(modulus), after, out=after, where=secret(np.not_equal(after, 0)))
        add_modulo(after, before, modulus)
    entries[places] = after


def add_modulo(residues: Residues, more: Residues, modulus: int) -> None:
    """Add residues to residues, without passing the range of an entry."""
    if is_wrapping(residues, modulus):
        np.add(residues, more, out=residues)
        np.bitwise_and(residues, residues.dtype.type(modulus - 1), out=residues)
        return
    k = residues.dtype.type(modulus)
    with WipedArrays() as secret:
        distance = secret(np.subtract(k, more))
        excess = secret(secret(np.greater_equal(residues, distance)).astype(residues.dtype))
        excess *= k
        np.add(residues, more, out=residues)
        np.subtract(residues, excess, out=residues)


def is_wrapping(entries: Residues, modulus: int) -> bool:
    return (int(np.iinfo(entries.dtype).max) + 1) % modulus == 0


@dataclass(frozen=True)
class ModularIncidence(TableMechanism[NoisyTable, IncidenceHistogram]):
    """The parts of the universe by visit count modulo `modulus`.

    See the module's claim.
    """

    BIN_SENSITIVITY: ClassVar[int] = 2
    _: KW_ONLY
    modulus: int

    def check_law(self) -> None:
        check_whole("modulus", self.modulus, least=2)
        if self.modulus > MAX_MODULUS:
            raise ValueError(f"modulus must be at most 2**16, got {self.modulus}")
        if self.hashed:
            raise ValueError("hashed must be False here, where users of one cell would be one user, got True")
        if self.law != "symmetric":
            raise ValueError(f"law must be symmetric for ModularIncidence (the paper has none), got {self.law!r}")
        if self.offset_probability >= 1:
            raise ValueError(f"loss must be large enough to tell residues apart, got {self.loss!r}")

    @cached_property
    def offset_probability(self) -> Fraction:
        """The chance that an offset is uniform over 0..k-1; otherwise it is 0."""
        least = self.modulus / (expm1_lower_bound(self.entry_epsilon) + self.modulus)
        return Fraction(-(-least * WORD_RANGE // 1), WORD_RANGE)

    def gap_after(self, intrusions: int = 0) -> Fraction:
        """Return the part of a residue that offsets leave after announced intrusions."""
        return (1 - self.offset_probability) ** (2 * intrusions + 1)

    @cached_property
    def noise(self) -> DiscreteLaplace:
        """The noise of each bin of a release."""
        return DiscreteLaplace(self.BIN_SENSITIVITY * self.entries_per_unit / self.output_loss.epsilon)

    def find_best_split(self) -> Fraction:
        check_whole("modulus", self.modulus, least=2)
        return super().find_best_split()

    def blank_table(self, width: int) -> NoisyTable:
        """Return a table of one byte an entry if that wraps by itself, else of two."""
        return NoisyTable(np.zeros(width, np.uint8 if BYTE_VALUES % self.modulus == 0 else np.uint16))

    def initial(self, noise: RandomSource) -> NoisyTable:
        table = self.blank_table(self.entries)
        self.rerandomize(table, 0, noise)
        return table

    def add_users(self, state: NoisyTable, users: Any, intrusions: int, noise: RandomSource) -> None:
        self._move_users(state, users, removed=False)

    def remove_users(self, state: NoisyTable, users: Any, intrusions: int, noise: RandomSource) -> None:
        self._move_users(state, users, removed=True)

    def _move_users(self, state: NoisyTable, users: Any, *, removed: bool) -> None:
        for piece in split_batch(users):
            with WipedArrays() as secret:
                places = self.users.find_places(piece, secret)
                add_counts(state.entries, places, self.modulus, secret, removed=removed)

    def removal_refusal(self) -> str:
        return ""

    def rerandomize(self, state: NoisyTable, before: int, noise: RandomSource) -> None:
        for residues in state.iterate_chunks():
            with WipedArrays() as secret:
                drawn = secret(noise.uniform(self.modulus, len(residues)))
                offsets = secret(drawn.astype(residues.dtype))
                offsets *= secret(secret(noise.coins(self.offset_probability, len(residues))).astype(offsets.dtype))
                add_modulo(residues, offsets, self.modulus)

    def release(self, state: NoisyTable, noise: RandomSource) -> Ints:
        with WipedArrays() as secret:
            return secret(state.count_values(self.modulus)) + secret(self.noise.draw(noise, self.modulus))

    def build_estimate(self, released: Ints, intrusions: int) -> IncidenceHistogram:
        gap = float(self.gap_after(intrusions))
        return IncidenceHistogram(tuple(released.tolist()), self.universe, self.entries, gap, self.noise)

    def stddev(self, value: float | None = None, intrusions: int = 0) -> float:
        """Return the standard error of one f_i that is `value`; without one, the largest."""
        check_prediction(self, value, intrusions)
        gap, m = float(self.gap_after(intrusions)), self.entries
        other = (1 - gap) / self.modulus
        absent, present = ((p * (1 - p) + self.noise.variance / m) / (m * gap * gap) for p in (other, other + gap))
        sampled = sampling_factor(m, self.universe)
        at = max_quadratic(absent, present, sampled) if value is None else value
        return sqrt(absent + (present - absent) * at + sampled * at * (1 - at))
