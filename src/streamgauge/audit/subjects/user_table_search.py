"""Pan-private estimators as finite kernels, and the worst that a seized memory can show.

The state is the output of `save`. A step loads it, does one act and saves again, once for every branch of coins and
dice. So the enumerated code is the code in service, with its serialisation. The acts:

    a tuple of users    `add`, or `step` of an estimator that releases at every tick
    INTRUDE_ACT         `intrude`: the state that is handed over is visible
    ESTIMATE_ACT        `estimate`: the release is visible, under its noise

A release is a sum under discrete Laplace noise, which has infinitely many values. Beyond the least and the largest
possible sum all of them say the same, so noisy sums are clipped there without loss. Each release is checked to be sums
plus noise, draw by draw in order.

Dynamic programming covers all streams and orders at once. A schedule says how often each act is visible: estimates or
ticks, announced intrusions, and the unannounced look. They come in every order, with free acts before each of them. At
free acts and at ticks, the acts of the two worlds are one of some pairs. The position is the count of each act so far:

    a belief    the probability of each state in either world, given the view
    a ratio     the likelihood ratio of the view

The future depends on the belief alone, and multiplies the ratio: of all histories that lead to one belief, the one with
the largest ratio is enough.

Promise
    The largest likelihood ratio in either direction, exactly, of all orders and all streams that the free acts allow. A
    smaller view never shows more, so schedules with fewer acts have no larger ratio. Probabilities are exact but for
    e^(-1/scale), which is a float.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from itertools import chain, product
from math import exp, inf, prod
from typing import Any

import numpy as np

from streamgauge.audit.exact import kernels
from streamgauge.continual.state_io import pack

INTRUDE_ACT, ESTIMATE_ACT = "intrude", "estimate"
ExactLaw = Mapping[tuple[kernels.State, kernels.Output], Fraction]


class ReleaseTap:
    """A claim whose estimates are what was released: numbers under noise, of which the estimate is made."""

    def __init__(self, claim: Any) -> None:
        self._claim = claim

    def __getattr__(self, name: str) -> Any:
        return getattr(self._claim, name)

    def build_estimate(self, released: Any, intrusions: int) -> Any:
        return released


@dataclass
class UserTableKernel:
    """See the module. Transitions are computed once."""

    claim: Any
    transitions: dict[tuple[kernels.State, kernels.Value], ExactLaw] = field(default_factory=dict, repr=False)

    def initial(self) -> dict[kernels.State, Fraction]:
        branches = kernels.list_branches(lambda chance: self.claim.start(chance).save())
        return kernels.add_weights((branch.result, branch.weight) for branch in branches)

    def step(self, state: kernels.State, value: kernels.Value) -> ExactLaw:
        if (state, value) not in self.transitions:
            self.transitions[state, value] = kernels.add_weights(
                ((branch.result[0], output), branch.weight * chance)
                for branch in kernels.list_branches(lambda chance: apply_act(self.claim, state, value, chance))
                for output, chance in self._list_outputs(branch, state, value)
            )
        return self.transitions[state, value]

    def _list_outputs(
        self, branch: kernels.ChanceBranch[Any], state: kernels.State, value: kernels.Value
    ) -> Iterator[tuple[kernels.Output, Fraction]]:
        """List all outputs of an act in this branch."""
        _, seen = branch.result
        if not branch.scales:
            yield seen, Fraction(1)
            return
        self._check_noise_order(branch, state, value)
        laws = [clip_laplace(sum_, scale, self.sum_bounds) for sum_, scale in zip(seen, branch.scales, strict=True)]
        for outputs in product(*(law.items() for law in laws)):
            yield tuple(output for output, _ in outputs), prod((weight for _, weight in outputs), start=Fraction(1))

    def _check_noise_order(self, branch: kernels.ChanceBranch[Any], state: kernels.State, value: kernels.Value) -> None:
        """Check that draws of 1, 2, 3, .. move the numbers of the release by as much, in order."""
        draws = range(1, len(branch.scales) + 1)
        _, moved = apply_act(self.claim, state, value, kernels.ForkedChance(branch.choices, draws))
        if not np.array_equal(np.array(moved) - draws, branch.result[1]):
            raise TypeError("release must be sums under noise, one draw each and in order, got something else")

    @cached_property
    def sum_bounds(self) -> tuple[int, int]:
        """Between which all sums over entries are: those of the start, where all entries may be anything."""
        first = [apply_act(self.claim, state, ESTIMATE_ACT, kernels.ForkedChance())[1] for state in self.initial()]
        sums = [sum_ for sums in first for sum_ in sums]
        return min(0, *sums), max(self.claim.entries, *sums)


def apply_act(
    claim: Any, state: kernels.State, value: kernels.Value, chance: kernels.ForkedChance
) -> tuple[bytes, Any]:
    """Return the state after one act, and its output."""
    run = claim.load(state, chance)
    run.claim = ReleaseTap(run.claim)
    seen = run_act(run, value)
    return run.save(), seen


def run_act(run: Any, value: kernels.Value) -> Any:
    if value == INTRUDE_ACT:
        return pack("", 1, {}, run.intrude())
    if value == ESTIMATE_ACT:
        return to_numbers(run.estimate())
    users = np.array(value, np.int64)
    return to_numbers(run.step(users)) if hasattr(run, "step") else run.add(users)


def to_numbers(released: Any) -> tuple[int, ...]:
    return tuple(np.ravel(released).tolist())


def clip_laplace(centre: int, scale: Fraction, bounds: tuple[int, int]) -> dict[int, Fraction]:
    """Return the law of discrete Laplace noise around a sum, clipped at both bounds.

    >>> [round(float(each), 3) for each in clip_laplace(0, Fraction(1), (-1, 1)).values()]
    [0.269, 0.462, 0.269]
    """
    least, most = bounds
    if not least <= centre <= most:
        raise ValueError(f"sum must be between {least} and {most}, as sums over entries are, got {centre}")
    r = Fraction(exp(-float(1 / scale)))
    law = {place: (1 - r) / (1 + r) * r ** abs(place - centre) for place in range(least, most)}
    return {**law, least: tail_probability(centre - least, r), most: tail_probability(most - centre, r)}


def tail_probability(distance: int, r: Fraction) -> Fraction:
    """Return P(noise >= distance)."""
    return r**distance / (1 + r)


LOOK_ACT = "look"  # an unannounced view of the memory
FREE_ACT = "free"  # an act that may be another in either world, where that is seen itself: a tick
ActPairs = Sequence[tuple[kernels.Value, kernels.Value]]
ActCounts = tuple[int, ...]  # how often each act of a story was done
TransitionLaw = Mapping[tuple[kernels.State, kernels.Output], kernels.Probability]


@dataclass(frozen=True)
class ActSchedule:
    """The number of each visible act, and of the free acts before each, which show nothing."""

    visible_acts: Mapping[kernels.Value, int]
    free_acts: int = 1

    def list_positions(self) -> Iterator[ActCounts]:
        """List the counts of acts at all moments of all orders, predecessors first."""
        return product(*(range(times + 1) for times in self.visible_acts.values()))

    def list_predecessors(self, place: ActCounts) -> Iterator[tuple[kernels.Value, ActCounts]]:
        """List the acts that may have been the last, and the counts before them."""
        for at, act in enumerate(self.visible_acts):
            if place[at]:
                yield act, (*place[:at], place[at] - 1, *place[at + 1 :])


@dataclass(frozen=True)
class ActStreams:
    """The history of a belief: the acts of both worlds, and the number of acts before the look."""

    one: tuple[kernels.Value, ...] = ()
    other: tuple[kernels.Value, ...] = ()
    peek: int | None = None

    def append(self, one: kernels.Value, other: kernels.Value) -> "ActStreams":
        if one == LOOK_ACT:
            return replace(self, peek=len(self.one))
        return replace(self, one=(*self.one, one), other=(*self.other, other))


Ratio = Fraction | float
RatioAndStreams = tuple[Ratio, ActStreams]
WorstByBelief = dict[kernels.Belief, RatioAndStreams]


def find_worst_seizure(kernel: kernels.Kernel, story: ActSchedule, pairs: ActPairs) -> RatioAndStreams:
    """Find the largest ratio, and its streams."""
    mirrored = [(other, one) for one, other in pairs]
    ways = [pairs] if set(mirrored) == set(pairs) else [pairs, mirrored]
    return max((find_worst_one_sided(kernel, story, each) for each in ways), key=find_ratio)


def find_worst_one_sided(kernel: kernels.Kernel, story: ActSchedule, pairs: ActPairs) -> RatioAndStreams:
    """Find the largest ratio in favour of the first world."""
    *_, end = story.list_positions()
    known: dict[ActCounts, WorstByBelief] = {}
    for place in story.list_positions():
        done = [
            advance_beliefs(kernel, known[before], pairs if act == FREE_ACT else [(act, act)])
            for act, before in story.list_predecessors(place)
        ]
        first = frozenset((state, each, each) for state, each in kernel.initial().items())
        found = merge_beliefs(done or [{first: (1, ActStreams())}])
        for _ in range(0 if place == end else story.free_acts):
            found = advance_beliefs(kernel, found, pairs)
        known[place] = found
    return max(known[end].values(), key=find_ratio)


def advance_beliefs(kernel: kernels.Kernel, found: WorstByBelief, choices: ActPairs) -> WorstByBelief:
    """Advance beliefs by one more act, of every possible kind."""
    later: WorstByBelief = {}
    choices = drop_equivalent_pairs(kernel, {state for belief in found for state, *_ in belief}, choices)
    for belief, (ratio, streams) in found.items():
        for values in choices:
            after = streams.append(*values)
            for weights in kernels.list_outcomes(belief, lambda state, world: find_law(kernel, state, values[world])):  # noqa: B023
                one, other = (sum(world) for world in zip(*weights.values(), strict=True))
                if one:
                    odds = ratio * one / other if other else inf
                    proportions = ((state, a / one, b / other if other else 0) for state, (a, b) in weights.items())
                    keep_worst(later, frozenset(proportions), (odds, after))
    return later


def drop_equivalent_pairs(kernel: kernels.Kernel, states: Iterable[kernels.State], choices: ActPairs) -> ActPairs:
    """Return one of all pairs that do the same to every state."""
    every = list(states)
    laws = {
        value: frozenset((state, *known) for state in every for known in find_law(kernel, state, value).items())
        for value in dict.fromkeys(chain.from_iterable(choices))
    }
    kept: dict[Any, tuple[kernels.Value, kernels.Value]] = {}
    for one, other in choices:
        kept.setdefault((laws[one], laws[other]), (one, other))
    return list(kept.values())


def find_law(kernel: kernels.Kernel, state: kernels.State, value: kernels.Value) -> TransitionLaw:
    return {(state, state): 1} if value == LOOK_ACT else kernel.step(state, value)


def keep_worst(found: WorstByBelief, belief: kernels.Belief, worst: RatioAndStreams) -> None:
    """Store a belief, unless it is stored with as large a ratio."""
    if belief not in found or found[belief][0] < worst[0]:
        found[belief] = worst


def merge_beliefs(several: Iterable[WorstByBelief]) -> WorstByBelief:
    """Return the worst of each belief."""
    found: WorstByBelief = {}
    for belief, worst in chain.from_iterable(each.items() for each in several):
        keep_worst(found, belief, worst)
    return found


def find_ratio(worst: RatioAndStreams) -> Ratio:
    return worst[0]


def build_pairs(one: Iterable[kernels.Value]) -> ActPairs:
    """Return all pairs of these values."""
    values = list(one)
    return [(first, second) for first in values for second in values]
