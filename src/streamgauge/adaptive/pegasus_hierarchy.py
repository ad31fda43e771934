"""PegasusHierarchy: several resolutions of one stream (sensor, room, floor, building) from one budget.

    leaves --> sums of all nodes --> level 0: Perturber, Grouper, Smoother of all roots
                                     level 1: the same, of the children of all nodes that have enough
                                     ...                                       --> estimates that add up

It takes the counts of the leaves of a public `Hierarchy`, in their order, and releases all nodes, by their
numbers. A node whose estimates of a tick and of its window are at most the threshold has no children read at
that tick: they are guessed to be even parts of it (pruning.py). In the end estimates are made to add up, by
least squares with the variances that readings and groups have, near what was read (node_estimates.py).

Privacy
    Neighbours: as for every adaptive mechanism, who move one leaf's count by 1 in each of at most `steps`
    steps. Public: the hierarchy and the number of ticks. Promise: pure epsilon-DP over the whole stream, even
    if values are chosen in view of past releases.
    Proof: such a step moves one node of each level at most, by 1. A level keeps its part of `shares` of the
    step's `share` (tiers.py), and the parts add up to 1. Which nodes are read is a function of what levels
    above have released; nodes that are not read show less and pay all the same. Adding up sees releases only.
    With `lowest` 0, a leaf's count is first clamped at 0 from below, and at 2^62/leaves from above: a fixed
    function of that count, which moves by 1 at most if the count does, also where 64 bits wrap around.

Error
    Depends on data. `value` is from groups and from all levels, with their bias. `centre` is the sum of a
    node's own readings in the window, and its bar holds whatever the data are (node_bars.py): the exact law
    of the draws where every tick was read, as roots are always; else the ancestors' readings and bars too, if
    `lowest` is 0, and nothing certain if it is None. An interval is made as wide as its value needs: it holds
    both.
    The threshold of a node with k children is `prune` times sqrt(k) standard errors of one child's reading:
    with less than that, even parts are no worse in squared error than k readings, be it all in one child. For
    a window of N ticks it is sqrt(N) times that. With `prune` 0 all is read.
    Medians of skewed counts are off to one side, and over many groups that adds up, where noise does not: so
    the `smoother` "auto" is the median for each tick, and the average, without such a bias, for windows.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, has hierarchies and pruning in section 5, which we
    have not read: levels, pruning and its threshold are as proved here.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.folding import folded
from streamgauge.adaptive.grouped_claim import GroupedClaim
from streamgauge.adaptive.levels import Level, levels_of, shares_of
from streamgauge.adaptive.node_bars import NodeBars
from streamgauge.adaptive.node_estimates import NodeEstimates
from streamgauge.adaptive.pegasus import Pegasus
from streamgauge.adaptive.pruning import Guessing, Seen, prune_of
from streamgauge.adaptive.ragged import room_for
from streamgauge.adaptive.released import Released
from streamgauge.adaptive.tiers import Tier, TierState, downwards
from streamgauge.continual.run import Run
from streamgauge.continual.saved import numbers
from streamgauge.continual.settings import check_settings
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.numbers import Bools, Floats
from streamgauge.postprocess import Hierarchy
from streamgauge.postprocess.hierarchy import Places
from streamgauge.privacy import Pure
from streamgauge.privacy.exact import Number

AUTO = "auto"


@dataclass(slots=True)
class State:
    """All that a run remembers; secret are the open groups alone."""

    tick: int
    roots: TierState


@dataclass(frozen=True, eq=False, kw_only=True)
class Nodes(Released):
    """The release of all nodes, and the series behind it."""

    read: Bools  # whether the node was read at the tick
    noisy: Ints  # its count under noise; 0 where it was not read
    started: Bools  # whether a group began with the tick, or none was there to go on

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Bounds that hold the truth with at least `confidence`, and the value: they are widened to."""
        low, high = super().interval(confidence)
        return np.minimum(low, self.value), np.maximum(high, self.value)


@dataclass(frozen=True, kw_only=True)
class PegasusHierarchy(GroupedClaim[State]):
    """All nodes of a hierarchy, at each tick, in a sliding window or in all ticks; see the module's claim."""

    DEPENDS: ClassVar[str] = (
        "how long nodes stay near one level, and how many are so nearly empty that they need not be read"
    )
    JOINT: ClassVar[bool] = True
    hierarchy: Hierarchy
    smoother: str = AUTO
    shares: tuple[Number, ...] | None = None  # of each level, the roots first
    prune: Number | None = 1  # in standard errors of all readings that are saved; 0 or None for never
    lowest: int | None = 0  # 0 where a count cannot be negative
    consistent: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.hierarchy, Hierarchy):
            raise ValueError(f"hierarchy must be a Hierarchy, got {self.hierarchy!r}")
        check_settings(self, bounded=False)
        if self.lowest not in (0, None) or isinstance(self.lowest, bool):
            raise ValueError(f"lowest must be 0 or None, got {self.lowest!r}")
        object.__setattr__(self, "shares", shares_of(self.shares, len(self.levels)))
        object.__setattr__(self, "prune", prune_of(self.prune))
        if self.smoother == AUTO:
            object.__setattr__(self, "smoother", "median" if self.window == "each" else "average")
        object.__setattr__(self, "split", self.tiers[0].pegasus.split)
        object.__setattr__(self, "theta", self.tiers[0].pegasus.theta)

    @cached_property
    def levels(self) -> tuple[Level, ...]:
        return levels_of(self.hierarchy)

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """All levels at work, each with its part of the share."""
        return tuple(self.tier(*each) for each in zip(self.levels, self.parts, strict=True))

    @property
    def parts(self) -> tuple[Fraction, ...]:
        """Of the share, for each level."""
        return shares_of(self.shares, len(self.levels))

    def tier(self, level: Level, part: Fraction) -> Tier:
        pegasus = Pegasus(
            Pure(part * self.share.epsilon),
            window=self.window,
            split=self.split,
            theta=self.theta,
            smoother=self.smoother,
            longest=self.longest,
        )
        saved = np.sqrt(np.bincount(level.parents, minlength=level.above) * pegasus.perturber.variance)
        errors = float(prune_of(self.prune))
        threshold = errors * saved if errors else np.full(level.above, -np.inf)
        size = 0 if self.window == "running" else pegasus.smoothing.window.ticks(2**62)
        return Tier(level, pegasus, Guessing(threshold, size, signed=self.lowest is None))

    @property
    def distribution(self) -> DiscreteLaplace:
        return max((tier.pegasus.distribution for tier in self.tiers), key=lambda law: law.scale)

    @property
    def leaves(self) -> int:
        return len(self.hierarchy.leaves)

    def start(self, width: int | None = None, noise: Noise | None = None) -> Run[State, Released]:
        """A new run, as wide as there are leaves."""
        return super().start(self.leaves if width is None else width, noise)

    def initial(self, width: int, noise: Noise) -> State:
        if width != self.leaves:
            raise ValueError(f"width must be the number of leaves, {self.leaves}, got {width}")
        roots = self.tiers[-1].initial(None)
        for tier in self.tiers[-2::-1]:
            roots = tier.initial(roots)
        return State(0, roots)

    def step(self, state: State, values: Ints, noise: Noise) -> Nodes:
        state.tick += 1
        counts = self.hierarchy.totals(self.counted(values))[self.hierarchy.order]
        seen: list[Seen] = []
        for tier, own in zip(self.tiers, downwards(state.roots), strict=True):
            above = seen[-1] if seen else None
            seen.append(tier.step(own, counts[tier.level.places], above, state.tick, noise))
        shown = Seen(*(self.hierarchy.numbered(np.concatenate(parts)) for parts in zip(*seen, strict=True)))
        return Nodes(
            self.estimates.of(shown, self._ticks(state.tick), consistent=self.consistent),
            shown.centre.astype(np.float64),
            (self._bars(state.tick, shown),),
            self._least,
            read=shown.read,
            noisy=shown.noisy,
            started=shown.started,
        )

    def counted(self, values: Ints) -> Ints:
        """The counts of leaves as they are declared to be."""
        if self.lowest is None:
            return values
        return np.maximum(folded(values, 2**62 // self.leaves), 0)

    @cached_property
    def estimates(self) -> NodeEstimates:
        return NodeEstimates(self.hierarchy, self.laws, self.depths, self._least)

    @cached_property
    def laws(self) -> tuple[DiscreteLaplace, ...]:
        """The noise of the readings of each level."""
        return tuple(tier.pegasus.perturber for tier in self.tiers)

    @cached_property
    def depths(self) -> Places:
        """The level of each node."""
        return self.hierarchy.numbered(
            np.repeat(np.arange(len(self.levels)), [each.width for each in self.levels])
        )

    @cached_property
    def parents(self) -> Places:
        """Of each node; -1 of a root."""
        return np.array(self.hierarchy.parents, np.intp)

    def bar(self, tick: int) -> NodeBars:
        """Where nodes may be pruned, nothing is certain before there are data, but of the roots."""
        ticks = self._ticks(self.checked(tick))
        unread = np.where((self.depths > 0) & bool(self.prune), ticks, 0)
        none = np.zeros_like(unread)
        return NodeBars(self.laws, self.depths, self.parents, ticks, none, unread, none, counting=False)

    def _bars(self, tick: int, shown: Seen) -> NodeBars:
        counting, known = bool(self.prune) and self.lowest is not None, (self.laws, self.depths, self.parents)
        return NodeBars(*known, self._ticks(tick), shown.centre, shown.unread, shown.ceilings, counting)

    @property
    def _least(self) -> float:
        return -np.inf if self.lowest is None else 0.0

    def _ticks(self, tick: int) -> int:
        return self.tiers[0].pegasus.smoothing.window.ticks(tick)

    def nothing(self, width: int) -> Nodes:
        none = np.zeros((0, len(self.hierarchy)))
        whole, flags = none.astype(np.int64), none.astype(np.bool_)
        return Nodes(none, none, (), self._least, read=flags, noisy=whole, started=flags)

    def narrowed(self, release: Released) -> Released:
        """One leaf may have several nodes: their columns stay."""
        return release if len(self.hierarchy) > 1 else super().narrowed(release)

    def memory(self) -> int:
        """With room for the longest group of every node; in numbers for each leaf."""
        kinds = 1 + self.tiers[0].pegasus.smoothing.smoother.RANKED
        room = kinds * room_for(self.longest) * len(self.hierarchy)
        return -(-(numbers(self._blank(self.leaves)) + room) // self.leaves)
