"""Approximate zCDP: releases that lose rho, but for a chance delta of failing altogether.

Keys that are discovered take a delta for their thresholds, whatever their counters lose. Write P, Q for what
a release tells on neighbours x, x'. It is *delta-approximately rho-zCDP* if in either order of the two there
are measures p, q of mass at most 1 with

    P(S) <= p(S) + delta for all S        q(S) <= Q(S) for all S        D_a(p, q) <= a rho for all a > 1

where D_a is the Renyi divergence, ln of the sum of p^a q^(1-a), divided by a - 1.

Composition (adaptive): rhos and deltas add
    Sums of p^a q^(1-a) multiply, as for zCDP, and q1 q2 <= Q1 Q2. For any S, P1 P2(S) is the mean under P1 of
    P2(S | first), which is at most delta_2 + p2(S | first); p2 is in [0, 1], so that its mean under P1 is at
    most delta_1 more than under p1.
Conversion: (epsilon, delta + delta') if rho-zCDP implies (epsilon, delta')
    P(S) <= p(S) + delta <= e^epsilon q(S) + delta' + delta. The second step rests on an inequality between
    densities, p - e^epsilon q <= c p^a q^(1-a), which asks for no mass of 1. So under a budget of
    (epsilon, delta), units that lose deltas that sum to d keep it if their rhos sum to at most
    `rho_of_approx(epsilon, delta - d)`: converted once, at what is left of delta.

Discovered keys (the names are those of `streamgauge.statistics.discovery`)
    What is released is f_x(C(x)), C being the counters and f_x post-processing that knows of x which keys are
    eligible when. On C(x) itself, f_x and f_x' differ with probability at most delta_2. So p = f_x'(C(x)) is
    within delta_2 of P = f_x(C(x)), q = Q = f_x'(C(x')), and D_a(p, q) <= D_a(C(x), C(x')) <= a rho:
    delta_2-approximately rho-zCDP, rho being what the counters lose to the unit over the whole stream, and
    epsilon^2/2 if they are pure.
    Releases side by side, each step in view of all others: give all of them the same noise under f_x and
    under f_x'. All that is told is the same until one of them differs; to each, the others and whoever
    chooses the data are one adversary, with noise that is not its own; so some release differs with
    probability at most the sum of the deltas. What remains are counters, whose zCDP composes concurrently.

Units
    A unit loses the whole delta of every release that sees any of it, and none of others: on ticks that a
    release never ingests, x and x' are the same to it. So deltas add up as native charges do, over ticks W
    that the unit touches, and what was never ingested is free again. Thresholds are calibrated to the unit
    itself. Group privacy has no such theorem here (p of one step is not P of the next): a delta beside the
    loss of one event is refused where units have several.

Reference
    Bun, Steinke 2016, Definition 8.1: their p and q are 1 - delta times P and Q given events at least that
    likely, which is a special case. It would not do here: given that no key fails, counters need no
    longer be within rho of each other.
"""

from collections.abc import Sequence
from fractions import Fraction

from streamgauge.privacy.errors import WrongCurrency
from streamgauge.privacy.exact import shown
from streamgauge.privacy.terms import Span, Term
from streamgauge.privacy.units import Unit


def check_whole_unit(delta: Fraction, unit: Unit, *, native: bool, per_tick: bool) -> None:
    """Refuses a delta beside a loss that has to be scaled to the unit."""
    covered = native or (unit.ticks == 1 and (per_tick or unit.events == 1))
    if delta and not covered:
        raise WrongCurrency(
            f"delta must be 0 unless the loss is of the whole unit (native=True), got {shown(delta)} "
            f"beside a loss of part of {unit}"
        )


def by_delta(slacks: Sequence[Term], unit: Unit, touching: Span) -> list[tuple[Fraction, Span]]:
    """The units that touch an interval, in parts: what each unit of a part loses of delta, and where it is.

    Where units are windows of w ticks, parts are exact. A window that starts from a to b touches, as
    `dearest_window` has it, the interval from a + w - 1 to b; and which deltas it loses changes at starts
    first - w + 1 and last + 1 of a charge. Other units are one part, at the most that any of them loses.
    """
    if not slacks:
        return [(Fraction(0), touching)]
    if not unit.consecutive:
        return [(unit.dearest(slacks, 1, touching), touching)]
    w, (first, last) = unit.ticks, touching
    low = first - w + 1
    ends = [term.weights[-1].last for term in slacks]
    jumps = {term.first - w + 1 for term in slacks} | {end + 1 for end in ends if end is not None}
    starts = sorted({low} | {start for start in jumps if start > low and (last is None or start <= last)})
    until = [start - 1 for start in starts[1:]]
    return [(_lost(slacks, a, w), (a + w - 1, b)) for a, b in zip(starts, [*until, last], strict=True)]


def _lost(slacks: Sequence[Term], start: int, w: int) -> Fraction:
    """What the window of w ticks from `start` loses."""
    return sum((term.peak for term in slacks if term.first < start + w and start <= term.end), Fraction(0))
