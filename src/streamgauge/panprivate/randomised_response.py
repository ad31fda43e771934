"""Randomised response: the laws of a bit for an absent and for a present user.

    law          P(1 | absent)       P(1 | present)       gap
    symmetric    1/(1 + e^e)         e^e/(1 + e^e)        tanh(e/2)
    paper        1/2                 1/2 + e/4            e/4         e <= 3/2

Privacy
    Probabilities are k/2^32, rounded towards no information. So in exact arithmetic the two laws differ by a
    factor of at most e^e at both values. Symmetric: present/absent = p/(1 - p) at 1, and its inverse at 0,
    with p rounded down from an enclosure of e^-e. Paper: 1 + e/2 <= e^e at 1, and 1/(1 - e/2) <= e^e at 0,
    since 1 - e/2 - e^-e is concave, 0 at e = 0 and positive at 3/2. A p rounded down is a smaller e. A
    symmetric loss beyond 22 changes nothing: no chance is below 2^-32.

    The channel that sends 0 to the absent law and 1 to the present one loses e as well. Its output, once or
    several times, is between the two laws.

Reference
    Dwork, Naor, Pitassi, Rothblum, Yekhanin: Pan-private streaming algorithms, ICS 2010, for the paper's law.
    Its claim has e <= 1/2. At small e the symmetric gap is twice as wide.
"""

from dataclasses import dataclass
from fractions import Fraction

from streamgauge.noise.bernoulli import PRECISION_BITS, round_down_dyadic
from streamgauge.noise.sampler_table import enclose_exp_minus

MAX_PAPER_EPSILON = Fraction(3, 2)


@dataclass(frozen=True)
class ResponseLaw:
    """P(1) of a bit whose user is absent, and of one whose user is present."""

    absent: Fraction
    present: Fraction

    @property
    def gap(self) -> Fraction:
        return self.present - self.absent

    def compose(self, channel: "ResponseLaw", times: int) -> "ResponseLaw":
        """Return the laws after `times` passes through a channel."""
        absent, present = self.absent, self.present
        for _ in range(times):
            absent = channel.absent + channel.gap * absent
            present = channel.absent + channel.gap * present
        return ResponseLaw(absent, present)


def build_response_law(law: str, epsilon: Fraction) -> ResponseLaw:
    """Return the law of that name, "symmetric" or "paper"."""
    if law == "paper":
        if epsilon > MAX_PAPER_EPSILON:
            raise ValueError(f"loss must be at most {MAX_PAPER_EPSILON} an entry for the paper's law, got {epsilon}")
        response = ResponseLaw(Fraction(1, 2), Fraction(1, 2) + round_down_dyadic(epsilon / 4))
    else:
        odds = 2**PRECISION_BITS + enclose_exp_minus(epsilon, PRECISION_BITS).high
        present = round_down_dyadic(Fraction(2**PRECISION_BITS, odds))
        response = ResponseLaw(1 - present, present)
    if response.gap <= 0:
        raise ValueError(f"loss must be at least 2**-29 an entry, got {epsilon}")
    return response


def expm1_lower_bound(epsilon: Fraction) -> Fraction:
    """Return at most e^epsilon - 1, and close to it."""
    return Fraction(2**PRECISION_BITS, enclose_exp_minus(epsilon, PRECISION_BITS).high) - 1
