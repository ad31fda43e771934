"""A table of users over made-up people, seized with pan-privacy and without.

    week 1            week 2                 week 3
    Robin comes       the table is seized    Robin comes again; then the estimate is published

or Robin never comes. The intruder knows everybody else who came, none of them in week 3, and reads both. The
ordinary memory is the set of all who came: Robin is in it or not. The pan-private one has a bit for each
patient, and what the intruder may think is worked out exactly: the odds are

    P(bit | present)     sum over the new bit c of P(c | present) P(noise = published - others' ones - c)
    ----------------  x  --------------------------------------------------------------------------------
    P(bit | absent)      P(noise = published - others' ones - bit)

where the others' ones are in the table that was seized.

Two looks, before week 3 and after it, are no match for it: a bit that has changed was drawn anew, so Robin
came.

Promise
    The first quotient is within e^state_loss, the second within e^output_loss: a factor of at most e^epsilon,
    in every rehearsal, whenever and however often Robin came (see `streamgauge.panprivate.density`).
"""

from dataclasses import dataclass
from math import exp, inf
from typing import Any

import numpy as np

from streamgauge.noise import Chance, EphemeralNoise
from streamgauge.panprivate.density import Density
from streamgauge.panprivate.table import Table
from streamgauge.privacy import Pure

EPSILON = 1
PATIENTS, OTHERS, ROBIN = 300, 120, 299  # whom the clinic knows; those before OTHERS came; who is asked about


@dataclass(frozen=True)
class Seized:
    """All that an intruder has of one rehearsal."""

    bit: int  # noisy: Robin's, as it was seized
    ones: int  # noisy: everybody else's
    published: int  # noisy: ones of the table as it was in week 3
    later: int  # noisy: Robin's bit at a second look

    def odds(self, claim: Density) -> float:
        """For Robin having come, to not having come."""
        fair, decay = claim.response, exp(-1 / float(claim.noise.scale))
        chances = [float(1 - fair.present), float(fair.present)]
        before = chances[self.bit] / float(fair.absent if self.bit else 1 - fair.absent)
        noise = self.published - self.ones
        drawn = sum(chance * decay ** abs(noise - bit) for bit, chance in enumerate(chances))
        return float(before * drawn / decay ** abs(noise - self.bit))

    def odds_of_two_looks(self, claim: Density) -> float:
        """The same of one who saw the bits of both looks, and not what was published."""
        fair = claim.response
        if self.bit != self.later:
            return inf
        stays = fair.present if self.bit else 1 - fair.present
        return float(stays * stays / (fair.absent if self.bit else 1 - fair.absent))


def clinic() -> Density:
    return Density(Pure(EPSILON), universe=PATIENTS)


def seized(claim: Density, came: bool, noise: Chance) -> Seized:
    """One rehearsal."""
    state = claim.initial(noise)
    visit(claim, state, [*range(OTHERS), *([ROBIN] if came else [])], noise)
    bit = int(state.entries[ROBIN])
    ones = int(np.count_nonzero(state.entries)) - bit
    visit(claim, state, [ROBIN] if came else [], noise)
    published = int(claim.release(state, noise)[0])
    return Seized(bit, ones, published, int(state.entries[ROBIN]))


def visit(claim: Density, state: Table, users: list[int], noise: Chance) -> None:
    claim.take(state, np.array(users, np.int64), 0, noise)


def rehearsed_table(came: np.ndarray[Any, Any], noise: Chance | None = None) -> dict[str, Any]:
    """The first rehearsal in full, and the odds after each."""
    claim, chance = clinic(), noise or EphemeralNoise()
    every = [seized(claim, bool(each), chance) for each in came]
    exact = {*range(OTHERS), ROBIN} if came[0] else set(range(OTHERS))
    return {
        "patients": PATIENTS,
        "others": OTHERS,
        "plain": {"seen": len(exact), "without": OTHERS, "chance": float(ROBIN in exact)},
        "first": told(every[0], claim),
        "odds": np.array([each.odds(claim) for each in every]),
        "two_looks": np.array([each.odds_of_two_looks(claim) for each in every]),
    }


def told(seen: Seized, claim: Density) -> dict[str, Any]:
    """A rehearsal in words: bits, and how often each is 1."""
    fair = claim.response
    chances = {"without": round(float(fair.absent), 3), "with": round(float(fair.present), 3)}
    return {
        "bit": seen.bit,
        "ones": seen.ones,
        "published": seen.published,
        "scale": float(claim.noise.scale),
    } | chances
