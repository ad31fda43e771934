"""Binary counting: a running count from one p-sum for each binary 1 of t.

    x1 x2 x3 x4   x5 x6   x7        t = 7 = 111 in base 2
    [---------]   [---]   []

With `refine=True` every node of the tree is released when its last item arrives, not only those that a count
needs. A node's sum is then known twice: by its own noisy value, of variance v, and by its two children's
estimates. Weighted by the inverses of their variances they give the node's estimate, of variance v_i at level i:

    1/v_i = 1/v + 1/(2 v_{i-1}),  so  v_i = v/(2 - 2^-i),  own weight w_i = 1/(2 - 2^-i)

A count adds the estimates of the roots of the forest of the first t items. This is the best linear unbiased
estimate given the releases up to t.

Privacy
    As for every tree (see `streamgauge.continual.trees.tree`) with k = 2 and h levels: h = floor(log2 T) + 1,
    or log2 T if T > 1 is a power of two. The one block of T items would serve the last tick alone, which
    two blocks of T/2 serve as well.
    Refined: an item is in h nodes, one a level, and all nodes are charged anyway. The weights are
    post-processing of noisy integers.

Error
    Unbiased. At tick t the variance is that of one draw times the number of binary 1s in t. The standard error is
    O(log^1.5 T / epsilon).
    Refined: unbiased, and Var(t) is the sum of v_i over the roots: about 26 % less standard error, at the
    same loss.

Reference
    Chan, Shi, Song: Private and Continual Release of Statistics, TISSEC 14(3), 2011. They and authors who
    quote them count log T or ceil(log T) levels, which is 1.5 epsilon at T = 4 and no noise at T = 1.
    Honaker: Efficient use of differentially private binary trees, TPDP 2015, for `refine`. The closed form is
    re-derived.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgauge.continual.mechanism import (
    BoundedSettings,
    DelegatingMechanism,
    LinearMechanism,
    draw_rows,
    shared_settings,
)
from streamgauge.continual.strategy import Strategy
from streamgauge.continual.trees.kary import Kary
from streamgauge.continual.trees.tree import sum_digits
from streamgauge.continual.validation import check_settings
from streamgauge.noise import Distribution, Ints, Noise, NoiseSum, Term
from streamgauge.privacy import Approx, Loss, Pure, Zcdp

Floats = npt.NDArray[np.float64]


@dataclass(slots=True)
class State:
    """All that a run remembers, one column per group; row i is level i."""

    tick: int
    total: Ints = field(repr=False)  # exact: the sum so far
    block_starts: Ints = field(repr=False)  # exact: that sum at the last multiple of 2^i
    node_estimates: Floats = field(repr=False)  # noisy: the estimate of the newest node of each level
    releases: Floats = field(repr=False)  # noisy: the release at the last multiple of 2^i, top one twice


def own_weight(level: int) -> float:
    return float(1 / (2 - 2.0**-level))


class RefinedTree(LinearMechanism[State]):
    """The implementation of `Binary(refine=True)`; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)

    @property
    def has_falling_overlaps(self) -> bool:
        return True

    def __init__(self, tree: Kary) -> None:
        if tree.pan_private:
            raise ValueError("pan_private must be False with refine (nodes rest exact), got True")
        self.tree, self.levels = tree, tree.levels
        self.loss, self.unit, self.bound = tree.loss, tree.unit, tree.bound
        self.horizon, self.pan_private = tree.horizon, False

    def __repr__(self) -> str:
        return f"RefinedTree({self.tree!r})"

    @property
    def distribution(self) -> Distribution:
        return self.tree.distribution

    def initial(self, width: int, noise: Noise) -> State:
        rows = (self.levels, width)
        releases = np.zeros((self.levels + 1, width))
        return State(0, np.zeros(width, np.int64), np.zeros(rows, np.int64), np.zeros(rows), releases)

    def step(self, state: State, values: Ints, noise: Noise) -> Floats:
        state.tick += 1
        level = self.tree.level(state.tick)
        state.total += values
        nodes = draw_rows(self.distribution, noise, level + 1, len(values))
        nodes -= state.block_starts[: level + 1]
        nodes += state.total
        estimate = nodes[0].astype(np.float64)
        for i in range(1, level + 1):
            weight = own_weight(i)
            estimate = weight * nodes[i] + (1 - weight) * (state.node_estimates[i - 1] + estimate)
        release: Floats = state.releases[level + 1] + estimate
        state.block_starts[: level + 1] = state.total
        state.node_estimates[level] = estimate
        state.releases[: level + 1 + (level == self.levels - 1)] = release
        return release

    def feed(self, state: State, block: Ints, noise: Noise) -> Floats:
        if not len(block):
            return np.zeros(block.shape)
        ticks = np.arange(state.tick + 1, state.tick + len(block) + 1)
        sums = np.cumsum(block, axis=0)
        estimates = self._estimate_nodes(state, ticks, sums, noise)
        releases = self._build_releases(state, ticks, estimates)
        for level, (rows, estimate) in enumerate(estimates):
            if len(rows):
                state.block_starts[level] = state.total + sums[rows[-1]]
                state.node_estimates[level] = estimate[-1]
                state.releases[level] = releases[rows[-1]]
                state.releases[level + (level == self.levels - 1)] = releases[rows[-1]]
        state.tick += len(block)
        state.total = state.total + sums[-1]
        return releases

    def _estimate_nodes(self, state: State, ticks: Ints, sums: Ints, noise: Noise) -> list[tuple[Ints, Floats]]:
        """Level by level, the rows of the ticks that complete a node, and the nodes' estimates."""
        levels = sum((ticks % 2**i == 0).astype(np.int64) for i in range(1, self.levels)) + 0 * ticks
        first = np.cumsum(levels + 1) - (levels + 1)
        draws = draw_rows(self.distribution, noise, int((levels + 1).sum()), sums.shape[1])
        found: list[tuple[Ints, Floats]] = []
        for level in range(self.levels):
            rows = np.flatnonzero(levels >= level)
            before = (state.block_starts[level] - state.total)[None]
            nodes = np.diff(sums[rows], axis=0, prepend=before) + draws[first[rows] + level]
            estimate = nodes.astype(np.float64)
            if level:
                below = np.concatenate([state.node_estimates[level - 1][None], found[-1][1]])
                right = np.flatnonzero(ticks[found[-1][0]] % 2**level == 0)
                weight = own_weight(level)
                estimate = weight * estimate + (1 - weight) * (below[right] + below[right + 1])
            found.append((rows, estimate))
        return found

    def _build_releases(self, state: State, ticks: Ints, estimates: list[tuple[Ints, Floats]]) -> Floats:
        """Return the release at a node's beginning, plus the node's estimate; highest level first."""
        rows, estimate = estimates[-1]
        releases = np.empty((len(ticks), estimate.shape[1]))
        releases[rows] = np.cumsum(np.concatenate([state.releases[-1][None], estimate]), axis=0)[1:]
        for level in reversed(range(self.levels - 1)):
            rows, estimate = estimates[level]
            own = ticks[rows] % 2 ** (level + 1) != 0
            begin = rows[own] - 2**level
            bases = np.where((begin < 0)[:, None], state.releases[level + 1], releases[np.maximum(begin, 0)])
            releases[rows[own]] = bases + estimate[own]
        return releases

    def _build_terms(self, level: int, count: int) -> list[Term]:
        """Return the draws in `count` estimates of a level: 2^j weights, j levels down."""
        terms, rest = [], 1.0
        for down in range(level + 1):
            own = own_weight(level - down) if down < level else 1.0
            terms.append(Term(count * 2**down, rest * own, self.distribution))
            rest *= 1 - own
        return terms

    def noise_at(self, tick: int) -> NoiseSum:
        digits = self.tree.digits(tick)
        return NoiseSum(tuple(t for i, digit in enumerate(digits) if digit for t in self._build_terms(i, digit)))

    def mean_variance(self, ticks: int) -> float:
        counts = (sum_digits(ticks, 2, level, self.levels) for level in range(self.levels))
        weighted = sum(count * own_weight(level) for level, count in enumerate(counts))
        return weighted / ticks * self.distribution.variance

    def matrices(self, ticks: int) -> Strategy:
        rows = [(level, t) for t in range(1, ticks + 1) for level in range(self.tree.level(t) + 1)]
        measure = np.zeros((len(rows), ticks))
        estimates: dict[tuple[int, int], Floats] = {}
        for row, (level, end) in enumerate(rows):
            measure[row, end - 2**level : end] = 1
            own = np.eye(1, len(rows), row)[0]
            if level:
                weight = own_weight(level)
                children = estimates[level - 1, end] + estimates[level - 1, end - 2 ** (level - 1)]
                own = weight * own + (1 - weight) * children
            estimates[level, end] = own
        decode = np.zeros((ticks + 1, len(rows)))
        for t in range(1, ticks + 1):
            level = self.tree.level(t)
            decode[t] = decode[t - 2**level] + estimates[level, t]
        draws = tuple(range(len(rows)))
        return Strategy(measure, decode[1:], (self.distribution,) * len(rows), draws)


@dataclass(frozen=True, kw_only=True)
class Binary(BoundedSettings, DelegatingMechanism):
    """Running counts over a stream of at most `horizon` ticks; see the module's claim."""

    LOSSES: ClassVar[tuple[type[Loss], ...]] = (Pure, Zcdp, Approx)
    refine: bool = False

    def __post_init__(self) -> None:
        check_settings(self, bounded=True)
        self.implementation  # noqa: B018 - rejects the settings that the tree rejects

    @property
    def levels(self) -> int:
        return max(1, (self.horizon - 1).bit_length())

    @cached_property
    def implementation(self) -> LinearMechanism[Any]:
        tree = Kary(self.loss, branching=2, levels=self.levels, **shared_settings(self))
        return RefinedTree(tree) if self.refine else tree
