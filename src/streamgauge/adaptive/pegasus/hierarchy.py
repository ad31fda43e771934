"""PegasusHierarchy: several resolutions of one stream from one budget.

Examples are sensor, floor and building.

    leaves --> sums of all nodes --> level 0: Perturber, Grouper, Smoother of all roots
                                     level 1: the same, of the children of all nodes that have enough
                                     ...                                       --> estimates that add up

It reads the counts of the leaves of a public `Hierarchy`, in their order, and releases all nodes, by their numbers.
If the estimates of a node, of a tick and of its window, are at most the threshold, its children are not read at that
tick. They are guessed to be even parts of it (`NodePruner`). In the end estimates are made to add up, by least
squares with the variances of readings and groups, near the readings (`NodeEstimator`).

A leaf has at most one ancestor on each level, itself included. So one event is in one node of each level at most:
the nodes of a level can run side by side for one loss, and losses add up over levels alone. Nodes of a level stand
in the `order` of their hierarchy, siblings side by side.

Privacy
    Neighbours: as for every adaptive mechanism, streams that differ by 1 in one leaf's count in each of at most
    `max_unit_steps` steps. Public: the hierarchy and the number of ticks. Promise: pure epsilon-DP over the
    whole stream, even if values are chosen in view of past releases.
    Proof: such a step moves one node of each level at most, by 1. A level loses its part of `shares` of the
    `step_loss`, and the parts add up to 1. Nodes of a level have their own noise and groups, and a node is
    read as `Pegasus` reads a column. A node that is not read draws nothing, shows nothing and ends its group,
    which the Grouper's claim allows. The choice of nodes is a function of the releases of levels above. Nodes
    that are not read show less and pay all the same. Adding up reads releases only.
    With `lowest` 0, a leaf's count is first clamped at 0 from below, and at 2^62/leaves from above: a fixed
    function of that count, which moves by 1 at most if the count does, also where 64 bits wrap around.

Error
    Depends on data. `value` is from groups and from all levels, with their bias. `centre` is the sum of a
    node's own readings in the window, and its bound holds for all data (`NodeErrorBound`). If every tick was
    read, as of roots, it is the exact law of the draws. Else it uses the ancestors' readings and bounds too,
    if `lowest` is 0, and nothing is certain if it is None. An interval is widened until it contains its value.
    The threshold of a node with k children is `prune` times sqrt(k) standard errors of one child's reading.
    With less than that, even parts are no worse in squared error than k readings, even if all is in one child.
    For a window of N ticks it is sqrt(N) times that. With `prune` 0 all nodes are read.
    Medians of skewed counts are off to one side, and over many groups that adds up, while noise does not. So
    the `smoother` "auto" is the median for each tick, and the average, without such a bias, for windows.

Reference
    Chen, Machanavajjhala, Hay, Miklau: PeGaSus, CCS 2017, has hierarchies and pruning in section 5, which we
    have not read. Levels, pruning and its threshold are as proved here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from streamgauge.adaptive.estimate import AdaptiveRelease
from streamgauge.adaptive.mechanism import GroupedMechanism
from streamgauge.adaptive.pegasus.grouper import OpenGroups, fold_counts
from streamgauge.adaptive.pegasus.node_estimates import (
    ABOVE_ROOTS,
    GRAINS_PER_UNIT,
    GuessState,
    LevelReadings,
    NodeErrorBound,
    NodeEstimator,
    NodePruner,
    parse_prune,
)
from streamgauge.adaptive.pegasus.pegasus import Pegasus
from streamgauge.adaptive.pegasus.smoothers import row_capacity
from streamgauge.adaptive.pegasus.windows import SmoothingState
from streamgauge.continual.run import Run
from streamgauge.continual.state_io import count_numbers
from streamgauge.continual.validation import check_settings
from streamgauge.noise import DiscreteLaplace, Ints, Noise
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.postprocess import Hierarchy
from streamgauge.postprocess.hierarchy import NodeIndices
from streamgauge.privacy import Pure
from streamgauge.privacy.rationals import Number, parse_rational


@dataclass(frozen=True, eq=False)
class HierarchyLevel:
    """The nodes of one depth. Roots have one virtual parent, and no siblings."""

    depth: int
    places: slice  # of its nodes, in the order of the hierarchy
    parent_count: int  # the number of nodes of the level above
    parents: NodeIndices  # of each node, the place of its parent among them
    siblings: NodeIndices  # of each node, the number of children of its parent

    @property
    def width(self) -> int:
        return len(self.parents)


def build_levels(hierarchy: Hierarchy) -> tuple[HierarchyLevel, ...]:
    """Return the roots, their children, and so on."""
    roots = hierarchy.parents.count(-1)
    levels = [HierarchyLevel(0, slice(0, roots), 1, np.zeros(roots, np.intp), np.ones(roots, np.intp))]
    for depth, young in enumerate(hierarchy.generations, start=1):
        old = levels[-1]
        parents = (young.parents - old.places.start)[young.family]
        siblings = np.bincount(young.family)[young.family]
        levels.append(HierarchyLevel(depth, young.children, old.width, parents, siblings))
    return tuple(levels)


def parse_shares(given: object, levels: int) -> tuple[Fraction, ...]:
    """Return the part of a loss of each level, the roots first: exact, and 1 together.

    Even, if None.
    """
    if given is None:
        return (Fraction(1, levels),) * levels
    if not isinstance(given, tuple | list) or len(given) != levels:
        raise ValueError(f"shares must be one number for each of {levels} levels, got {given!r}")
    shares = tuple(parse_rational(share, "shares") for share in given)
    if min(shares) <= 0 or sum(shares) != 1:
        raise ValueError(f"shares must be above 0 and add up to 1, got {', '.join(map(str, shares))}")
    return shares


@dataclass(slots=True)
class TierState:
    """The memory of one level and, in it, of all levels below."""

    groups: OpenGroups  # exact: the counts of the open groups
    smoothing: SmoothingState  # noisy
    guesses: GuessState  # noisy
    child: "TierState | None"


def iterate_tiers(state: TierState | None) -> Iterator[TierState]:
    """Yield a level's memory, and those of all levels below."""
    while state is not None:
        yield state
        state = state.child


@dataclass(frozen=True)
class Tier:
    """A level, its reader, and the source of guesses for nodes that are not read."""

    level: HierarchyLevel
    pegasus: Pegasus
    pruner: NodePruner

    def initial(self, below: TierState | None) -> TierState:
        groups = self.pegasus.grouper.initial(self.level.width)
        smoothed = self.pegasus.smoothing.initial(self.level.width)
        return TierState(groups, smoothed, self.pruner.initial(), below)

    def step(
        self, state: TierState, counts: Ints, above: LevelReadings | None, tick: int, noise: Noise
    ) -> LevelReadings:
        """Add one tick's count of every node.

        `above` are the readings of the level above at this tick.
        """
        parents, siblings = self.level.parents, self.level.siblings
        shown = (above.was_read, above.newest, above.value, above.ceiling) if above else ABOVE_ROOTS
        had, newest, whole, ceiling = shown
        pruned = self.pruner.find_pruned(had, newest, whole, self.pegasus.smoothing.window.count_ticks(tick))
        read = ~pruned[parents]
        noisy = self.read_nodes(counts, read, noise)
        started = self.pegasus.grouper.step(state.groups, counts, noise, read) | ~read
        value, centre = self.pegasus.smoothing.step(state.smoothing, noisy, started, tick)
        unread, ceilings, guess = self.pruner.step(state.guesses, pruned, newest, ceiling, tick)[:, parents]
        group = state.smoothing.group
        own = self.pegasus.smoothing.smoother.estimate_newest(group, noisy)
        return LevelReadings(
            was_read=read,
            noisy_counts=noisy,
            group_starts=started,
            newest=np.where(read, own, newest[parents] / siblings),
            ceiling=np.where(read, noisy, ceiling[parents]),
            value=value + guess / GRAINS_PER_UNIT / siblings,
            centre=centre,
            unread_ticks=unread,
            ceiling_sums=ceilings,
            group_length=np.where(read, group.length, 0),
        )

    def read_nodes(self, counts: Ints, read: Bools, noise: Noise) -> Ints:
        """Return counts under noise for nodes that are read, and 0 for others.

        A 0 passes as a group of 0.
        """
        noisy = np.zeros_like(counts)
        noisy[read] = counts[read] + self.pegasus.perturber.draw(noise, int(read.sum()))
        return noisy


AUTO_SMOOTHER = "auto"


@dataclass(slots=True)
class State:
    """The memory of a run. The open groups alone are secret."""

    tick: int
    roots: TierState


@dataclass(frozen=True, eq=False, kw_only=True)
class NodeRelease(AdaptiveRelease):
    """The release of all nodes, and the series behind it."""

    was_read: Bools  # True if the node was read at the tick
    noisy_counts: Ints  # its count under noise; 0 if it was not read
    group_starts: Bools  # True if a group began with the tick, or none was open

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """Return bounds that contain the truth with at least `confidence`.

        They are widened to contain the value.
        """
        low, high = super().interval(confidence)
        return np.minimum(low, self.value), np.maximum(high, self.value)


@dataclass(frozen=True, kw_only=True)
class PegasusHierarchy(GroupedMechanism[State]):
    """All nodes of a hierarchy, at each tick, in a sliding window or in all ticks.

    See the module's claim.
    """

    ERROR_DEPENDS_ON: ClassVar[str] = (
        "how long nodes stay near one level, and how many are so nearly empty that they need not be read"
    )
    HAS_JOINT_GROUPS: ClassVar[bool] = True
    hierarchy: Hierarchy
    smoother: str = AUTO_SMOOTHER
    shares: tuple[Number, ...] | None = None  # of each level, the roots first
    prune: Number | None = 1  # in standard errors of all readings that are saved; 0 or None for never
    lowest: int | None = 0  # 0 if a count cannot be negative
    consistent: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.hierarchy, Hierarchy):
            raise ValueError(f"hierarchy must be a Hierarchy, got {self.hierarchy!r}")
        check_settings(self, bounded=False)
        if self.lowest not in (0, None) or isinstance(self.lowest, bool):
            raise ValueError(f"lowest must be 0 or None, got {self.lowest!r}")
        object.__setattr__(self, "shares", parse_shares(self.shares, len(self.levels)))
        object.__setattr__(self, "prune", parse_prune(self.prune))
        if self.smoother == AUTO_SMOOTHER:
            object.__setattr__(self, "smoother", "median" if self.window == "each" else "average")
        object.__setattr__(self, "split", self.tiers[0].pegasus.split)
        object.__setattr__(self, "theta", self.tiers[0].pegasus.theta)

    @cached_property
    def levels(self) -> tuple[HierarchyLevel, ...]:
        return build_levels(self.hierarchy)

    @cached_property
    def tiers(self) -> tuple[Tier, ...]:
        """All levels at work, each with its part of the loss."""
        return tuple(self.build_tier(*each) for each in zip(self.levels, self.level_shares, strict=True))

    @property
    def level_shares(self) -> tuple[Fraction, ...]:
        """The part of the loss of each level."""
        return parse_shares(self.shares, len(self.levels))

    def build_tier(self, level: HierarchyLevel, part: Fraction) -> Tier:
        pegasus = Pegasus(
            Pure(part * self.step_loss.epsilon),
            window=self.window,
            split=self.split,
            theta=self.theta,
            smoother=self.smoother,
            max_group_ticks=self.max_group_ticks,
        )
        saved = np.sqrt(np.bincount(level.parents, minlength=level.parent_count) * pegasus.perturber.variance)
        errors = float(parse_prune(self.prune))
        threshold = errors * saved if errors else np.full(level.parent_count, -np.inf)
        size = 0 if self.window == "running" else pegasus.smoothing.window.count_ticks(2**62)
        return Tier(level, pegasus, NodePruner(threshold, size, signed=self.lowest is None))

    @property
    def distribution(self) -> DiscreteLaplace:
        return max((tier.pegasus.distribution for tier in self.tiers), key=lambda law: law.scale)

    @property
    def leaves(self) -> int:
        return len(self.hierarchy.leaves)

    def start(self, width: int | None = None, noise: Noise | None = None) -> Run[State, AdaptiveRelease]:
        """Start a run that is as wide as there are leaves."""
        return super().start(self.leaves if width is None else width, noise)

    def initial(self, width: int, noise: Noise) -> State:
        if width != self.leaves:
            raise ValueError(f"width must be the number of leaves, {self.leaves}, got {width}")
        roots = self.tiers[-1].initial(None)
        for tier in self.tiers[-2::-1]:
            roots = tier.initial(roots)
        return State(0, roots)

    def step(self, state: State, values: Ints, noise: Noise) -> NodeRelease:
        state.tick += 1
        counts = self.hierarchy.sum_leaves(self.clip_counts(values))[self.hierarchy.order]
        readings: list[LevelReadings] = []
        for tier, own in zip(self.tiers, iterate_tiers(state.roots), strict=True):
            above = readings[-1] if readings else None
            readings.append(tier.step(own, counts[tier.level.places], above, state.tick, noise))
        columns = (self.hierarchy.restore_order(np.concatenate(parts)) for parts in zip(*readings, strict=True))
        nodes, ticks = LevelReadings(*columns), self._window_ticks(state.tick)
        sums = nodes.centre, nodes.unread_ticks, nodes.ceiling_sums
        counting = bool(self.prune) and self.lowest is not None
        return NodeRelease(
            self.estimator.estimate(nodes, ticks, consistent=self.consistent),
            nodes.centre.astype(np.float64),
            (NodeErrorBound(self.laws, self.depths, self.parents, ticks, *sums, counting),),
            self._min_truth,
            was_read=nodes.was_read,
            noisy_counts=nodes.noisy_counts,
            group_starts=nodes.group_starts,
        )

    def clip_counts(self, values: Ints) -> Ints:
        """Return the counts of leaves, clamped to what they are declared to be."""
        if self.lowest is None:
            return values
        return np.maximum(fold_counts(values, 2**62 // self.leaves), 0)

    @cached_property
    def estimator(self) -> NodeEstimator:
        return NodeEstimator(self.hierarchy, self.laws, self.depths, self._min_truth)

    @cached_property
    def laws(self) -> tuple[DiscreteLaplace, ...]:
        """The noise of the readings of each level."""
        return tuple(tier.pegasus.perturber for tier in self.tiers)

    @cached_property
    def depths(self) -> NodeIndices:
        """The level of each node."""
        widths = [each.width for each in self.levels]
        return self.hierarchy.restore_order(np.repeat(np.arange(len(widths)), widths))

    @cached_property
    def parents(self) -> NodeIndices:
        """The parent of each node; -1 of a root."""
        return np.array(self.hierarchy.parents, np.intp)

    def error_bound(self, tick: int) -> NodeErrorBound:
        """Return the bound before there are data.

        If nodes may be pruned, it is certain for the roots only.
        """
        ticks = self._window_ticks(self.check_tick(tick))
        unread = np.where((self.depths > 0) & bool(self.prune), ticks, 0)
        none = np.zeros_like(unread)
        return NodeErrorBound(self.laws, self.depths, self.parents, ticks, none, unread, none, is_counting=False)

    @property
    def _min_truth(self) -> float:
        return -np.inf if self.lowest is None else 0.0

    def _window_ticks(self, tick: int) -> int:
        return self.tiers[0].pegasus.smoothing.window.count_ticks(tick)

    def empty_release(self, width: int) -> NodeRelease:
        none = np.zeros((0, len(self.hierarchy)))
        whole, flags = none.astype(np.int64), none.astype(np.bool_)
        return NodeRelease(none, none, (), self._min_truth, was_read=flags, noisy_counts=whole, group_starts=flags)

    def narrow_release(self, release: AdaptiveRelease) -> AdaptiveRelease:
        """Return the release unchanged if it has several nodes: one leaf may have several."""
        return release if len(self.hierarchy) > 1 else super().narrow_release(release)

    def memory(self) -> int:
        """Return the numbers for each leaf, with the longest group of every node."""
        kinds = 1 + self.tiers[0].pegasus.smoothing.smoother.NEEDS_SORTED_COUNTS
        room = kinds * row_capacity(self.max_group_ticks) * len(self.hierarchy)
        return -(-(count_numbers(self._blank_state(self.leaves)) + room) // self.leaves)
