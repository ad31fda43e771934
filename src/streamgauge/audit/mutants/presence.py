"""What is shown at all, decided by exact data."""

from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import Twins, mistake
from streamgauge.audit.subject import Pair
from streamgauge.noise.numbers import Floats


def every_twin(chance: Chance) -> Iterator[Twins]:
    yield groups.twins(chance, Pair("the only one of a group", [5, 1], [5, 0]))


@mistake(
    "Groups shown only where there is somebody",
    "a group that is shown, whatever its noisy count, has somebody in it",
)
def groups(chance: Chance, broken: bool, counts: list[int], runs: int) -> Floats:
    """NaN is what is not there."""
    noisy = [count + chance.laplace(Fraction(1), runs) for count in counts]
    hidden = [broken and count == 0 for count in counts]
    return np.where(hidden, np.nan, np.array(noisy).T)
