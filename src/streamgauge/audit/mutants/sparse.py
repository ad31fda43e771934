"""Counters for few events: memory that begins from 0, and a test whose sums are exact."""

from collections.abc import Iterator

import numpy as np

from streamgauge.adaptive.cascading_buffers import CascadingBuffers
from streamgauge.adaptive.sparse_counter import SparseCounter, State
from streamgauge.audit.adapting import AdaptingSubject
from streamgauge.audit.mutants.chance import Chance
from streamgauge.audit.mutants.twins import ONE, Twins
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Bools
from streamgauge.testing import SilentNoise

TICKS, PEEK = 3, 2
ENOUGH = 2000


class FromZero(CascadingBuffers):
    """An accumulator that has passed on begins again from 0, not from a draw."""

    def _fresh(self, rows: int, width: int, noise: Noise) -> Ints:
        return np.zeros((rows, width), np.int64)


class BareSums(SparseCounter):
    """Exact sums are compared with the noisy threshold."""

    def _fired(self, state: State, noise: Noise) -> Bools:
        return super()._fired(state, SilentNoise())


def every_twin(chance: Chance) -> Iterator[Twins]:
    yield buffers(chance, "Cascading buffers, accumulators from 0")
    yield segments(chance, "Sparse counter, sums without noise")


def buffers(chance: Chance, name: str) -> Twins:
    kinds: tuple[type[CascadingBuffers], ...] = (FromZero, CascadingBuffers)
    claims = [kind(ONE, horizon=TICKS, levels=1, kappa=1) for kind in kinds]
    broken, honest = (
        AdaptingSubject(claim, TICKS, PEEK, noise=chance, title=title, most=1)
        for title, claim in zip((name, f"{name}: honest"), claims, strict=True)
    )
    return Twins(broken, honest, "what has come since it passed on is exact in memory", runs=ENOUGH)


def segments(chance: Chance, name: str) -> Twins:
    broken, honest = (
        AdaptingSubject(kind(ONE, threshold=1, signed=False), TICKS, noise=chance, title=title)
        for title, kind in ((name, BareSums), (f"{name}: honest", SparseCounter))
    )
    why = "a segment that ends after others have not has somebody in its last tick"
    return Twins(broken, honest, why, runs=2 * ENOUGH)
