"""What is shown at all, decided by exact data."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import Twins, twins_of
from streamgauge.noise.numbers import Floats


def every_twin(chance: Chance) -> Iterator[Twins]:
    yield twins_of(
        groups,
        chance,
        "Groups shown only where there is somebody",
        "a group that is shown, whatever its noisy count, has somebody in it",
        one=[5, 1],
        other=[5, 0],
        pair="the only one of a group",
    )


def groups(chance: Chance, broken: bool, counts: list[int], runs: int) -> Floats:
    """NaN is what is not there."""
    noisy = [count + chance.laplace(Fraction(1), runs) for count in counts]
    hidden = [broken and count == 0 for count in counts]
    return np.where(hidden, np.nan, np.array(noisy).T)
