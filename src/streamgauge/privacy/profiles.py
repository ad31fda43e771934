"""Loss profiles: the losses of one unit to every release, listed for all units that matter.

A profile has one amount for each pure release, the sum over zCDP releases, and the sum of deltas. A unit that
touches the ticks W, with Q as in terms.py, has

    pure: peak_r * Q        zCDP: sum over r of peak_r * Q^2        delta: sum over r that it touches

`find_profiles` lists profiles such that every unit is within one of them in all amounts. A bound that rises
with the amounts is then largest at a listed profile. The list is exact: each profile belongs to a unit.

Windows of w ticks, by their start s
    With w = 1, and for native charges, amounts change at jumps only. A stretch between two jumps is listed if
    something ends after it. Other charges are linear in s between bends (windows.py). If between two bends no
    amount falls, or none rises, one end of the stretch has the largest amounts. Any other stretch is listed
    start by start.
Any k ticks
    The timeline is cut into segments of constant weights. A segment is dropped if another one has at least
    its weights and as many as k ticks. For the others, each way to place the ticks is listed. In a segment of
    native charges alone one tick is enough.

A list of more than `LIMIT` profiles is not made; the caller needs another bound then.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, pairwise
from math import inf

from streamgauge.privacy.terms import Span, Term
from streamgauge.privacy.units import Unit

LIMIT = 200  # profiles of a list that is made start by start, or tick by tick
MAX_TERMS = 100  # charges, or segments, of a list that is made tick by tick
ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class Terms:
    """The charges of a ledger, each in its own currency, and the deltas beside them."""

    pure: tuple[Term, ...] = ()
    zcdp: tuple[Term, ...] = ()
    slacks: tuple[Term, ...] = ()

    @property
    def every(self) -> tuple[Term, ...]:
        return (*self.pure, *self.zcdp, *self.slacks)

    def profile(self, amounts: Sequence[Fraction]) -> "Profile":
        """Build the profile of a unit from its Q of every term."""
        cut, end = len(self.pure), len(self.pure) + len(self.zcdp)
        pure = Counter(term.peak * q for term, q in zip(self.pure, amounts[:cut], strict=True) if q)
        rho = sum((term.peak * q * q for term, q in zip(self.zcdp, amounts[cut:end], strict=True)), ZERO)
        delta = sum((term.peak * q for term, q in zip(self.slacks, amounts[end:], strict=True)), ZERO)
        return Profile(pure, rho, delta)


@dataclass(frozen=True, slots=True)
class Profile:
    """The losses of one unit: how many pure releases of each amount, a sum of rhos, a sum of deltas."""

    pure: Counter[Fraction]
    rho: Fraction
    delta: Fraction


def find_profiles(terms: Terms, unit: Unit, touching: Span) -> list[Profile] | None:
    """Return profiles that bound all units which touch the interval, or None if there are too many."""
    if not unit.consecutive:
        return _list_sets(terms, unit.ticks)
    if unit.ticks == 1 or all(term.native for term in terms.every):
        return list(_sweep_jumps(terms, unit.ticks, touching))
    return _list_windows(terms, unit.ticks, touching)


def _sweep_jumps(terms: Terms, w: int, touching: Span) -> Iterator[Profile]:
    """Yield the profile of each stretch of starts after which something ends, and the last one."""
    low: float = touching[0] - w + 1
    high: float = inf if touching[1] is None else touching[1]
    ups: defaultdict[float, list[tuple[int, Fraction]]] = defaultdict(list)
    downs: defaultdict[float, list[tuple[int, Fraction]]] = defaultdict(list)
    for kind, group in enumerate((terms.pure, terms.zcdp, terms.slacks)):
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
            yield Profile(+pure, sums[1], sums[2])
        rose = start in ups
        for sign, changes in ((-1, downs.get(start, ())), (1, ups.get(start, ()))):
            for kind, amount in changes:
                if kind == 0:
                    pure[amount] += sign
                else:
                    sums[kind] += sign * amount
    if rose:
        yield Profile(+pure, sums[1], sums[2])


def _list_windows(terms: Terms, w: int, touching: Span) -> list[Profile] | None:
    """List windows at bends and jumps, and all of a stretch in which amounts rise and fall."""
    low, high = touching[0] - w + 1, inf if touching[1] is None else touching[1]
    points = {low} if touching[1] is None else {low, touching[1]}
    for term in terms.every:
        for weight in term.weights:
            ends = [] if weight.last is None else [weight.last + 1 - w, weight.last, weight.last + 1]
            points |= {weight.first - w, weight.first - w + 1, weight.first, *ends}
    starts = sorted(point for point in points if low <= point <= high)
    found = [[_window_weight(term, start, w) for term in terms.every] for start in starts]
    listed = [True] * len(starts)
    between: list[list[Fraction]] = []
    for i, (before, after) in enumerate(pairwise(found)):
        rises = any(a < b for a, b in zip(before, after, strict=True))
        falls = any(a > b for a, b in zip(before, after, strict=True))
        if rises and falls:
            if starts[i + 1] - starts[i] + len(between) > LIMIT:
                return None
            inside = range(starts[i] + 1, starts[i + 1])
            between += [[_window_weight(term, start, w) for term in terms.every] for start in inside]
        else:
            listed[i + 1 if falls else i] = False
    kept = [amounts for amounts, is_listed in zip(found, listed, strict=True) if is_listed]
    return [terms.profile(amounts) for amounts in kept + between] or [terms.profile(found[0])]


def _window_weight(term: Term, start: int, w: int) -> Fraction:
    """Return Q of the window of w ticks from `start`."""
    overlaps = [
        (weight.q, int(min(weight.end, start + w - 1)) - max(weight.first, start) + 1)
        for weight in term.weights
        if weight.first < start + w and start <= weight.end
    ]
    if term.native:
        return Fraction(bool(overlaps))
    return sum((q * ticks for q, ticks in overlaps), ZERO)


@dataclass(frozen=True, slots=True)
class _Segment:
    """A stretch of ticks with the same charges: a bit for each, and weights unless they are native."""

    length: float
    charges: int
    weights: tuple[Fraction, ...]

    @property
    def native(self) -> bool:
        """Whether one tick is enough, since all its charges are native."""
        return not any(self.weights)

    def dominates(self, other: "_Segment", k: int) -> bool:
        """Return whether ticks of the other segment lose at least as much here."""
        if other.charges & ~self.charges or not (self.native or self.length >= k):
            return False
        return all(own >= others for own, others in zip(self.weights, other.weights, strict=True))


def _list_sets(terms: Terms, k: int) -> list[Profile] | None:
    """List every way to place k ticks in segments that are not dominated."""
    every = terms.every
    if common := _find_common(every, k):
        return [terms.profile(common)]
    if len(every) > MAX_TERMS:
        return None
    segments = _drop_dominated(_cut_segments(every), k)
    lengths = [1 if segment.native else min(segment.length, k) for segment in segments]
    if sum(lengths) <= k:
        return [terms.profile(_set_weights(every, segments, [int(length) for length in lengths]))]
    if len(segments) > MAX_TERMS:
        return None
    ways = list(islice(_place(lengths, k), LIMIT + 1))
    return None if len(ways) > LIMIT else [terms.profile(_set_weights(every, segments, way)) for way in ways]


def _find_common(terms: Sequence[Term], k: int) -> list[Fraction] | None:
    """Return Q of k ticks that touch every charge at its peak, if there are such ticks."""
    weights = [term.weights[0] for term in terms]
    native = all(term.native for term in terms)
    overlap = min((w.end for w in weights), default=inf) - max((w.first for w in weights), default=1) + 1
    single = all(len(term.weights) == 1 for term in terms)
    if not (native and len(terms) <= k) and not (single and overlap >= (1 if native else k)):
        return None
    return [w.q if term.native else w.q * k for w, term in zip(weights, terms, strict=True)]


def _cut_segments(terms: Sequence[Term]) -> list[_Segment]:
    changes: defaultdict[float, int] = defaultdict(int)
    for i, term in enumerate(terms):
        for weight in term.weights:
            changes[weight.first] += 1 << i
            changes[weight.end + 1] -= 1 << i
    rates = [term for term in terms if not term.native]
    charges, found = 0, []
    for start, end in pairwise(sorted({*changes, inf})):
        charges += changes[start]
        if charges:
            found.append(_Segment(end - start, charges, tuple(rate.weight(int(start)) for rate in rates)))
    return found


def _drop_dominated(segments: Sequence[_Segment], k: int) -> list[_Segment]:
    """Drop segments that another one dominates."""
    left: list[_Segment] = []
    for segment in segments:
        if not any(other.dominates(segment, k) for other in left):
            left = [other for other in left if not segment.dominates(other, k)]
            left.append(segment)
    return left


def _place(lengths: Sequence[float], ticks: int) -> Iterator[tuple[int, ...]]:
    """Yield all ways to place so many ticks, at most `lengths` of them in each segment."""
    if not lengths:
        yield ()
        return
    rest = sum(lengths[1:])
    for here in range(int(min(lengths[0], ticks)), int(max(0, ticks - rest)) - 1, -1):
        for others in _place(lengths[1:], ticks - here):
            yield here, *others


def _set_weights(terms: Sequence[Term], segments: Sequence[_Segment], ticks: Sequence[int]) -> list[Fraction]:
    """Return Q of every term for so many ticks in each segment."""
    placed = [(segment, n) for segment, n in zip(segments, ticks, strict=True) if n]
    touched = 0
    for segment, _ in placed:
        touched |= segment.charges
    columns = zip(*(segment.weights for segment, _ in placed), strict=True)
    rates = (sum((q * n for q, (_, n) in zip(column, placed, strict=True)), ZERO) for column in columns)
    return [Fraction(touched >> i & 1) if term.native else next(rates) for i, term in enumerate(terms)]
