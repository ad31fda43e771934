"""Broken twins: mechanisms that claim more privacy than they keep, each for a reason that was once believed.

    constants    noise too small by a factor: levels, scales, horizons, units, budgets
    reuse        noise used twice, data noised twice
    values       bounds and scales that come too late
    floats       noise that is large enough, in floats that tell
    layouts      noise that is missing at one width, in one length of feed, or for groups that are added
    memory       registers that an intruder finds exact
    presence     what is shown at all
    thresholds   the sparse vector technique, published wrong
    pegasus      groups that tell too much of counts, and nodes that are read where somebody is
    w_event      budgets of windows that are added up wrong
    sparse       counters for few events
    seized       tables of users that an intruder finds, and what is released of them
    local        reports of devices that trust nobody, and what is made of them

An audit that does not condemn all of them, or condemns one of their honest twins, is itself broken.
"""

from collections.abc import Iterator

from streamgauge.audit.mutants import (
    constants,
    floats,
    layouts,
    local,
    memory,
    pegasus,
    presence,
    reuse,
    seized,
    sparse,
    thresholds,
    values,
    w_event,
)
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import Twins

__all__ = ["Chance", "Twins", "every_twin"]

FAMILIES = (
    constants,
    reuse,
    values,
    floats,
    layouts,
    memory,
    presence,
    thresholds,
    pegasus,
    w_event,
    sparse,
    seized,
    local,
)


def every_twin(chance: Chance | None = None) -> Iterator[Twins]:
    """All of them; a seeded chance makes audits of them repeatable."""
    for family in FAMILIES:
        yield from family.every_twin(chance or Chance())
