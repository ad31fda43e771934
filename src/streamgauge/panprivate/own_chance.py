"""What the chance of the bits themselves takes off the loss of their sums, so that sums need less noise.

A release moves only if an entry does, and an entry that is drawn anew moves with a chance below 1. Let P be
the largest chance that a bit has of a value, given what an intruder was shown, e the loss of an entry, J the
announced intrusions, and 1/s the scale of the noise of each of R releases. Then one entry loses at most

    (J + 1) e + log g(R s),    g(x) = 1 - P + P e^x

and not (J + 1) e + R s: `sums_epsilon` is the largest x = R s for which log g(x) is what is left. Of fewer
releases it is less than their part, since log g is convex.

Proof. Fix all that is seen and all other entries, whose law is the same in both streams. The bit of the entry
is drawn anew at appearances of its users, and sent on at each hand-over: between these are blocks of releases
that one bit is in. Cut time at the hand-overs, and at the unannounced look, which shows the bit b: given what
was seen at both ends of a stretch, bits of different blocks are independent. What is seen at the ends costs e
a look, as in `table_claim`. Let l = P(release | the bit is 1)/P(release | it is 0), or its inverse in the two
stretches next to a look that showed 1; it is between e^-s and e^s. The look's own block, where the bit is
known, adds 1 to the likelihood of a stretch, and any other (1 - c) + c prod l, where c <= P is the chance of
the value that is not b. With x' the sum of s over releases of the block that have l > 1, and x'' over others,

    (1 - c) + c prod l <= g(x'),    1/[(1 - c) + c prod l] <= 1/(1 - P + P e^-x'') <= g(x''):

the last since a mean of 1/Y is at least one over the mean of Y. And g(x) g(y) <= g(x + y), as both factors
rise with the bit (Chebyshev). In the quotient of two streams each release is in one block of either, and has
l > 1 or not: so the quotient is at most g(R s). Where several entries are moved, one is after the other.

    P    without announced intrusions the largest chance of the two laws. A hand-over shows the last bit of
         its stretch through the channel, whose rows are within a factor: the odds of P, times that factor.

The bound is met where the user comes after the releases and a look shows 1: by enumeration (tests/audit).
"""

from fractions import Fraction
from math import floor, log1p

from streamgauge.noise.enclosure import exp_minus
from streamgauge.noise.responses import BITS
from streamgauge.panprivate.randomised_response import Response, above_one

STEPS = 2**40  # in which a loss of sums is a whole number


def surest(response: Response, intrusions: int) -> Fraction:
    """P: the largest chance that a bit has of a value, given all else that is seen."""
    absent, present = response.absent, response.present
    most = max(absent, 1 - absent, present, 1 - present)
    if not intrusions or most == 1:
        return most
    odds = most / (1 - most) * max(present / absent, (1 - absent) / (1 - present))
    return odds / (1 + odds)


def sums_epsilon(left: Fraction, chance: Fraction) -> Fraction:
    """At most log(1 + (e^left - 1)/chance), and close to it; never less than `left`.

    >>> [round(float(sums_epsilon(Fraction(1, 2), chance)), 6) for chance in (Fraction(1), Fraction(2, 3))]
    [0.5, 0.679597]
    """
    most = 1 + above_one(left) / chance
    steps = floor(log1p(float(most - 1)) * STEPS)
    for less in (0, 1, 2**10, 2**20):
        found = Fraction(max(steps - less, 0), STEPS)
        low = exp_minus(found, BITS).low
        if low and found > left and Fraction(2**BITS, low) <= most:
            return found
    return left
