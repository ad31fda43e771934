"""Loss profiles: losses of one unit to every release, for all units that matter.

A profile has one amount for each pure release, the sum over zCDP releases, and the sum of deltas. A unit that
touches the ticks W, with Q as in timeline.py, has

    pure: peak_r * Q        zCDP: sum over r of peak_r * Q^2        delta: sum over r that it touches

`find_profiles` lists profiles such that every unit is bounded by one of them in all amounts. A bound that rises
with the amounts is then largest at a listed profile. The list is exact: each profile belongs to a unit.

Windows of w ticks, by their start s
    With w = 1, and for native charges, amounts change at jumps only. A stretch between two jumps is listed if
    something ends after it. Other charges are linear in s between bends (worst_case.py). If between two bends
    no amount falls, or none rises, one end of the stretch has the largest amounts. Any other stretch is listed
    start by start.
Any k ticks
    The timeline is cut into segments of constant weights. A segment is dropped if another one has at least
    its weights and as many as k ticks. For the others, each placement of the ticks is listed. In a segment of
    native charges alone one tick is enough.

A list of more than `MAX_PROFILES` profiles is not made. The caller then needs another bound.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise
from math import inf

from streamgauge.privacy.timeline import LossTerm, Span
from streamgauge.privacy.units import Unit

MAX_PROFILES = 200  # profiles of a list that is made start by start, or tick by tick
MAX_TERMS = 100  # charges, or segments, of a list that is made tick by tick
ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class ChargeTerms:
    """The charges of a ledger, each in its own currency, and their deltas."""

    pure: tuple[LossTerm, ...] = ()
    zcdp: tuple[LossTerm, ...] = ()
    delta_terms: tuple[LossTerm, ...] = ()

    @property
    def all_terms(self) -> tuple[LossTerm, ...]:
        return (*self.pure, *self.zcdp, *self.delta_terms)

    def build_profile(self, amounts: Sequence[Fraction]) -> "LossProfile":
        """Build the profile of a unit from its Q of every term."""
        cut, end = len(self.pure), len(self.pure) + len(self.zcdp)
        pure = Counter(term.peak * q for term, q in zip(self.pure, amounts[:cut], strict=True) if q)
        rho = sum((term.peak * q * q for term, q in zip(self.zcdp, amounts[cut:end], strict=True)), ZERO)
        delta = sum((term.peak * q for term, q in zip(self.delta_terms, amounts[end:], strict=True)), ZERO)
        return LossProfile(pure, rho, delta)


@dataclass(frozen=True, slots=True)
class LossProfile:
    """The losses of one unit.

    Pure releases are counted by amount. Rhos and deltas are sums.
    """

    pure: Counter[Fraction]
    rho: Fraction
    delta: Fraction


def find_profiles(terms: ChargeTerms, unit: Unit, touching: Span) -> list[LossProfile] | None:
    """Return profiles that bound all units which touch the interval.

    Return None if there are too many.
    """
    if not unit.consecutive:
        return _list_sets(terms, unit.ticks)
    if unit.ticks == 1 or all(term.is_native for term in terms.all_terms):
        return list(_sweep_jumps(terms, unit.ticks, touching))
    return _list_windows(terms, unit.ticks, touching)


def _sweep_jumps(terms: ChargeTerms, w: int, touching: Span) -> Iterator[LossProfile]:
    """Yield the profile of each stretch of starts that something ends after.

    Yield the last stretch as well.
    """
    low: float = touching[0] - w + 1
    high: float = inf if touching[1] is None else touching[1]
    ups: defaultdict[float, list[tuple[int, Fraction]]] = defaultdict(list)
    downs: defaultdict[float, list[tuple[int, Fraction]]] = defaultdict(list)
    for kind, group in enumerate((terms.pure, terms.zcdp, terms.delta_terms)):
        for term in group:
            for weight in term.weights:
                start, after = max(weight.first - w + 1, low), weight.end + 1
                if start <= high and after > low:
                    amount = term.peak if weight.q == 1 else term.peak * weight.q ** (2 if kind == 1 else 1)
                    ups[start].append((kind, amount))
                    downs[after].append((kind, amount))
    pure: Counter[Fraction] = Counter()
    sums = [ZERO, ZERO, ZERO]
    rose = True
    for start in sorted({*ups, *(after for after in downs if after <= high)}):
        if rose and start in downs:
            yield LossProfile(+pure, sums[1], sums[2])
        rose = start in ups
        for sign, changes in ((-1, downs.get(start, ())), (1, ups.get(start, ()))):
            for kind, amount in changes:
                if kind == 0:
                    pure[amount] += sign
                else:
                    sums[kind] += sign * amount
    if rose:
        yield LossProfile(+pure, sums[1], sums[2])


def _list_windows(terms: ChargeTerms, w: int, touching: Span) -> list[LossProfile] | None:
    """List windows at bends and jumps, and all of a stretch in which amounts rise and fall."""
    low, high = touching[0] - w + 1, inf if touching[1] is None else touching[1]
    points = {low} if touching[1] is None else {low, touching[1]}
    for term in terms.all_terms:
        for weight in term.weights:
            ends = [] if weight.last is None else [weight.last + 1 - w, weight.last, weight.last + 1]
            points |= {weight.first - w, weight.first - w + 1, weight.first, *ends}
    starts = sorted(point for point in points if low <= point <= high)
    found = [[_window_weight(term, start, w) for term in terms.all_terms] for start in starts]
    listed = [True] * len(starts)
    between: list[list[Fraction]] = []
    for i, (before, after) in enumerate(pairwise(found)):
        rises = any(a < b for a, b in zip(before, after, strict=True))
        falls = any(a > b for a, b in zip(before, after, strict=True))
        if rises and falls:
            if starts[i + 1] - starts[i] + len(between) > MAX_PROFILES:
                return None
            inside = range(starts[i] + 1, starts[i + 1])
            between += [[_window_weight(term, start, w) for term in terms.all_terms] for start in inside]
        else:
            listed[i + 1 if falls else i] = False
    remaining = [amounts for amounts, is_listed in zip(found, listed, strict=True) if is_listed]
    return [terms.build_profile(amounts) for amounts in remaining + between] or [terms.build_profile(found[0])]


def _window_weight(term: LossTerm, start: int, w: int) -> Fraction:
    """Return Q of the window of w ticks from `start`."""
    overlaps = [
        (weight.q, int(min(weight.end, start + w - 1)) - max(weight.first, start) + 1)
        for weight in term.weights
        if weight.first < start + w and start <= weight.end
    ]
    if term.is_native:
        return Fraction(bool(overlaps))
    return sum((q * ticks for q, ticks in overlaps), ZERO)


@dataclass(frozen=True, slots=True)
class _ChargeSegment:
    """A stretch of ticks with the same charges.

    It has a bit for each charge, and weights unless charges are native.
    """

    length: float
    charges: int
    weights: tuple[Fraction, ...]

    @property
    def is_native(self) -> bool:
        """True if one tick is enough, since all its charges are native."""
        return not any(self.weights)

    def dominates(self, other: "_ChargeSegment", k: int) -> bool:
        """Return whether ticks of the other segment lose at least as much here."""
        if other.charges & ~self.charges or not (self.is_native or self.length >= k):
            return False
        return all(own >= others for own, others in zip(self.weights, other.weights, strict=True))


def _list_sets(terms: ChargeTerms, k: int) -> list[LossProfile] | None:
    """List every placement of k ticks in segments that are not dominated."""
    every = terms.all_terms
    if common := _find_common_weights(every, k):
        return [terms.build_profile(common)]
    if len(every) > MAX_TERMS:
        return None
    segments = _drop_dominated(_cut_segments(every), k)
    lengths = [1 if segment.is_native else min(segment.length, k) for segment in segments]
    if sum(lengths) <= k:
        return [terms.build_profile(_set_weights(every, segments, [int(length) for length in lengths]))]
    if len(segments) > MAX_TERMS:
        return None
    ways = list(islice(_place_ticks(lengths, k), MAX_PROFILES + 1))
    return (
        None if len(ways) > MAX_PROFILES else [terms.build_profile(_set_weights(every, segments, way)) for way in ways]
    )


def _find_common_weights(terms: Sequence[LossTerm], k: int) -> list[Fraction] | None:
    """Return Q of k ticks that touch every charge at its peak, if there are such ticks."""
    weights = [term.weights[0] for term in terms]
    native = all(term.is_native for term in terms)
    overlap = min((w.end for w in weights), default=inf) - max((w.first for w in weights), default=1) + 1
    single = all(len(term.weights) == 1 for term in terms)
    if not (native and len(terms) <= k) and not (single and overlap >= (1 if native else k)):
        return None
    return [w.q if term.is_native else w.q * k for w, term in zip(weights, terms, strict=True)]


def _cut_segments(terms: Sequence[LossTerm]) -> list[_ChargeSegment]:
    changes: defaultdict[float, int] = defaultdict(int)
    for i, term in enumerate(terms):
        for weight in term.weights:
            changes[weight.first] += 1 << i
            changes[weight.end + 1] -= 1 << i
    rates = [term for term in terms if not term.is_native]
    charges, found = 0, []
    for start, end in pairwise(sorted({*changes, inf})):
        charges += changes[start]
        if charges:
            found.append(_ChargeSegment(end - start, charges, tuple(rate.weight_at(int(start)) for rate in rates)))
    return found


def _drop_dominated(segments: Sequence[_ChargeSegment], k: int) -> list[_ChargeSegment]:
    """Drop segments that another one dominates."""
    left: list[_ChargeSegment] = []
    for segment in segments:
        if not any(other.dominates(segment, k) for other in left):
            left = [other for other in left if not segment.dominates(other, k)]
            left.append(segment)
    return left


def _place_ticks(lengths: Sequence[float], ticks: int) -> Iterator[tuple[int, ...]]:
    """Yield all placements of so many ticks, at most `lengths` in each segment."""
    if not lengths:
        yield ()
        return
    rest = sum(lengths[1:])
    for here in range(int(min(lengths[0], ticks)), int(max(0, ticks - rest)) - 1, -1):
        for others in _place_ticks(lengths[1:], ticks - here):
            yield here, *others


def _set_weights(terms: Sequence[LossTerm], segments: Sequence[_ChargeSegment], ticks: Sequence[int]) -> list[Fraction]:
    """Return Q of every term for so many ticks in each segment."""
    placed = [(segment, n) for segment, n in zip(segments, ticks, strict=True) if n]
    touched = 0
    for segment, _ in placed:
        touched |= segment.charges
    columns = zip(*(segment.weights for segment, _ in placed), strict=True)
    rates = (sum((q * n for q, (_, n) in zip(column, placed, strict=True)), ZERO) for column in columns)
    return [Fraction(touched >> i & 1) if term.is_native else next(rates) for i, term in enumerate(terms)]
