"""Randomised response: the two laws of a bit, for a user who has not come and for one who has.

    law          P(1 | absent)       P(1 | present)       gap
    symmetric    1/(1 + e^e)         e^e/(1 + e^e)        tanh(e/2)
    paper        1/2                 1/2 + e/4            e/4         e <= 3/2

Privacy
    Probabilities are k/2^32, rounded towards no information, so that in exact arithmetic the two laws are
    within e^e of each other at both values. Symmetric: present/absent = p/(1 - p) at 1, and its inverse at
    0, where p is rounded down from an enclosure of e^-e. Paper: 1 + e/2 <= e^e at 1, and 1/(1 - e/2) <= e^e
    at 0, since 1 - e/2 - e^-e is concave, 0 at e = 0 and positive at 3/2; p rounded down is a smaller e. A
    symmetric loss beyond 22 changes nothing: no chance is below 2^-32.

    The channel that sends 0 to the absent law and 1 to the present one keeps e as well, and what comes out
    of it, once or several times, is between the two laws.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin: Pan-private streaming algorithms, ICS 2010, for the paper's law.
    Its claim has e <= 1/2. At small e the symmetric gap is twice as wide.
"""

from dataclasses import dataclass
from fractions import Fraction

from streamgauge.noise.enclosure import exp_minus
from streamgauge.noise.responses import BITS, dyadic

STEEPEST = Fraction(3, 2)


@dataclass(frozen=True)
class Response:
    """P(1) of a bit whose user is absent, and of one whose user is present."""

    absent: Fraction
    present: Fraction

    @property
    def gap(self) -> Fraction:
        return self.present - self.absent

    def through(self, channel: "Response", times: int) -> "Response":
        """The laws after `times` passes through a channel."""
        absent, present = self.absent, self.present
        for _ in range(times):
            absent = channel.absent + channel.gap * absent
            present = channel.absent + channel.gap * present
        return Response(absent, present)


def symmetric(epsilon: Fraction) -> Response:
    present = dyadic(Fraction(2**BITS, 2**BITS + exp_minus(epsilon, BITS).high))
    return _told_apart(Response(1 - present, present), epsilon)


def paper(epsilon: Fraction) -> Response:
    if epsilon > STEEPEST:
        raise ValueError(f"loss must be at most {STEEPEST} an entry for the paper's law, got {epsilon}")
    return _told_apart(Response(Fraction(1, 2), Fraction(1, 2) + dyadic(epsilon / 4)), epsilon)


def _told_apart(response: Response, epsilon: Fraction) -> Response:
    if response.gap <= 0:
        raise ValueError(f"loss must be at least 2**-29 an entry, got {epsilon}")
    return response


def response(law: str, epsilon: Fraction) -> Response:
    """The law of that name."""
    return {"symmetric": symmetric, "paper": paper}[law](epsilon)


def above_one(epsilon: Fraction) -> Fraction:
    """At most e^epsilon - 1, and close to it."""
    return Fraction(2**BITS, exp_minus(epsilon, BITS).high) - 1
