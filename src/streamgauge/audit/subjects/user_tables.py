"""Pan-private estimators under audit: an attacker sees all releases, and once the memory.

Exactly: the real code runs along all branches of chance (`exact.kernels`). All estimates, all announced
intrusions and one unannounced look come in every order, and between any two of them one user comes or not, as often
as it likes. By experiment: real runs on the two streams that lose most, a row each. The acts are public, and so are
the same in both streams but for the users who come. A row has the output of each act, and the memory after the act of
the look. Its best score is the likelihood ratio from the real code's own law.

Every estimator of `panprivate` is tried, over a universe of one or two users. A class that needs an unknown setting
is an error, not an omission.

The state of the kernel is the output of `save`. A step loads it, does one act and saves again, once for every branch of
coins and dice. So the enumerated code is the code in service, with its serialisation. The acts:

    a tuple of users    `add`, or `step` of an estimator that releases at every tick
    INTRUDE_ACT         `intrude`: the state that is handed over is visible
    ESTIMATE_ACT        `estimate`: the release is visible, under its noise

A release is a sum under discrete Laplace noise, which has infinitely many values. Beyond the least and the largest
possible sum all of them say the same, so noisy sums are clipped there without loss. Each release is checked to be sums
plus noise, draw by draw in order. Probabilities are exact but for e^(-1/scale), which is a float.

`ClippedSimpleII` is a counter of signs that can be enumerated: `SimpleII` with its items clipped to the values of one
slot. A slot's sign is 0 or 1, and under Laplace noise of scale 1/epsilon all values of 0 or less say the same of it,
and so do all values of 1 or more. Clipping there loses nothing, and an item is a sign that was flipped with
probability 1/(1 + e^epsilon): no counter that keeps epsilon for an event reveals more. So an estimator loses through
this counter at least as much as through any.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import exp, inf, log, prod
from typing import Any

import numpy as np

from streamgauge import panprivate
from streamgauge.audit.exact import kernels
from streamgauge.audit.exact.kernels import (
    ESTIMATE_ACT,
    INTRUDE_ACT,
    LOOK_ACT,
    State,
    Value,
    add_weights,
    score_outcome,
)
from streamgauge.audit.exact.worst_case import WorstCase
from streamgauge.audit.subject import ClaimSubject, ExperimentNoise, Pair, Settings, find_claims, list_settings
from streamgauge.continual import SimpleII
from streamgauge.continual.state_io import BlankNoise, pack, unpack
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Floats
from streamgauge.panprivate import TableMechanism
from streamgauge.panprivate.randomised_response import build_response_law
from streamgauge.privacy import Pure


class ClippedSimpleII(SimpleII):
    """For ticks of one slot each; see the module."""

    def __str__(self) -> str:
        return "items cut"

    def initial(self, width: int, noise: object) -> Any:
        return super().initial(width, BlankNoise())

    def step(self, state: Any, values: Ints, noise: object) -> Ints:
        """Add up signs, flipped by chance; without chance, as its user probes a counter, add up values."""
        law = build_response_law("symmetric", self.loss.amount)
        flips = noise.coins(law.absent, len(values)) if hasattr(noise, "coins") else 0
        return super().step(state, values ^ flips, BlankNoise())


def build_one_slot_counter() -> ClippedSimpleII:
    return ClippedSimpleII(Pure(1), pan_private=True)


ExactLaw = Mapping[tuple[State, kernels.Output], Fraction]


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
    transitions: dict[tuple[State, Value], ExactLaw] = field(default_factory=dict, repr=False)

    def initial(self) -> dict[State, Fraction]:
        branches = kernels.list_branches(lambda chance: self.claim.start(chance).save())
        return add_weights((branch.result, branch.weight) for branch in branches)

    def step(self, state: State, value: Value) -> ExactLaw:
        if (state, value) not in self.transitions:
            self.transitions[state, value] = add_weights(
                ((branch.result[1], output), branch.weight * chance)
                for branch in kernels.list_branches(lambda chance: apply_act(self.claim, state, value, chance))
                for output, chance in self._list_outputs(branch, state, value)
            )
        return self.transitions[state, value]

    def _list_outputs(
        self, branch: kernels.ChanceBranch[Any], state: State, value: Value
    ) -> Iterator[tuple[kernels.Output, Fraction]]:
        """List all outputs of an act in this branch."""
        shown = branch.result[0]
        if not branch.scales:
            yield shown, Fraction(1)
            return
        self._check_noise_order(branch, state, value)
        laws = [clip_laplace(sum_, scale, self.sum_bounds) for sum_, scale in zip(shown, branch.scales, strict=True)]
        for outputs in product(*(law.items() for law in laws)):
            yield tuple(output for output, _ in outputs), prod((weight for _, weight in outputs), start=Fraction(1))

    def _check_noise_order(self, branch: kernels.ChanceBranch[Any], state: State, value: Value) -> None:
        """Check that draws of 1, 2, 3, .. move the numbers of the release by as much, in order."""
        draws = range(1, len(branch.scales) + 1)
        moved, _ = apply_act(self.claim, state, value, kernels.ForkedChance(branch.choices, draws))
        if not np.array_equal(np.array(moved) - draws, branch.result[0]):
            raise TypeError("release must be sums under noise, one draw each and in order, got something else")

    @cached_property
    def sum_bounds(self) -> tuple[int, int]:
        """Between which all sums over entries are: those of the start, where all entries may be anything."""
        firsts = (apply_act(self.claim, state, ESTIMATE_ACT, kernels.ForkedChance())[0] for state in self.initial())
        sums = [each for first in firsts for each in first]
        return min(0, *sums), max(self.claim.entries, *sums)


def apply_act(claim: Any, state: State, value: Value, chance: kernels.ForkedChance) -> tuple[Any, bytes]:
    """Return the output of one act, and the state after it."""
    run = claim.load(state, chance)
    run.claim = ReleaseTap(run.claim)
    return run_act(run, value), run.save()


def run_act(run: Any, value: Value) -> Any:
    """Do one act, and return its output: bytes, numbers or nothing."""
    if value == LOOK_ACT:
        return run.save()
    if value == INTRUDE_ACT:
        return pack("", 1, {}, run.intrude())
    come = run.step if hasattr(run, "step") else run.add
    released = run.estimate() if value == ESTIMATE_ACT else come(np.array(value, np.int64))
    return None if released is None else tuple(np.ravel(released).tolist())


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
    return {**law, least: r ** (centre - least) / (1 + r), most: r ** (most - centre) / (1 + r)}  # of both tails


NumberRow = tuple[float, ...]
RowWeights = dict[NumberRow, Fraction]


@dataclass(frozen=True)
class SeizureEvidence:
    """The log-likelihood ratio of rows; releases are cut off where all beyond say the same."""

    kernel: UserTableKernel
    one: kernels.Acts
    other: kernels.Acts

    def __call__(self, views: Floats) -> Floats:
        least, most = self.kernel.sum_bounds if self._noisy else (0, 0)
        cut = views.copy()
        cut[:, self._noisy] = np.clip(cut[:, self._noisy], least, most)
        rows, place = np.unique(cut, axis=0, return_inverse=True)
        return np.array([score_outcome(*self._laws, tuple(row)) for row in rows.tolist()])[place.ravel()]

    @cached_property
    def _laws(self) -> tuple[RowWeights, RowWeights]:
        return compute_row_law(self.kernel, self.one), compute_row_law(self.kernel, self.other)

    @cached_property
    def _noisy(self) -> list[int]:
        """The columns that are released under noise."""
        state, found, at = next(iter(self.kernel.initial())), list[int](), 0
        for act in self.one:
            (state, output), *_ = kernels.find_law(self.kernel, state, act)
            width = len(tuple(read_output(self.kernel.claim, act, output)))
            found += range(at, at + width) if act == ESTIMATE_ACT else ()
            at += width
        return found


def compute_row_law(kernel: UserTableKernel, acts: Iterable[Value]) -> RowWeights:
    """Compute the probability of each row."""
    found: dict[tuple[State, NumberRow], Any] = {(state, ()): weight for state, weight in kernel.initial().items()}
    for act in acts:
        found = add_weights(
            ((after, (*row, *read_output(kernel.claim, act, output))), weight * chance)
            for (state, row), weight in found.items()
            for (after, output), chance in kernels.find_law(kernel, state, act).items()
        )
    return add_weights((row, weight) for (_, row), weight in found.items())


def read_output(claim: Any, act: Value, output: Any) -> Iterator[float]:
    """Return the numbers of an act: none, a release, the memory, or a state that was handed over."""
    if isinstance(output, bytes):
        owner = claim.identity() if act == LOOK_ACT else ""
        yield from flatten(unpack(output, owner, claim.blank_table)[2])
    elif output is not None:
        yield from output


def flatten(state: Any) -> Iterator[float]:
    if is_dataclass(state):
        for each in fields(state):
            yield from flatten(getattr(state, each.name))
    else:
        yield from np.ravel(state).tolist()


NO_USER, FIRST_USER, SECOND_USER = -1, 0, 1
MAX_VISITS = 3  # times that one user comes in one act, at most: once round a cycle of 2, and on to any step of it


@dataclass(frozen=True)
class UserTableSubject(ClaimSubject):
    """A claim of `streamgauge.panprivate` over a universe of one or two; see the module.

    With `streams` these two are what experiments attack, whatever was computed.
    """

    streams: kernels.ActStreams | None = None
    max_visits: int = MAX_VISITS

    def worst(self) -> WorstCase:
        ratio, streams = self._worst
        pattern = tuple(tick for tick, (a, b) in enumerate(zip(streams.one, streams.other, strict=True), 1) if a != b)
        entries, acts = self.claim.entries, len(streams.one)
        how = f"all ways of chance, all orders of {acts} acts, {entries} entr{'ies' if entries > 1 else 'y'}"
        return WorstCase(pattern, inf if ratio == inf else log(ratio), describe_peek(streams.peek), computed_from=how)

    @cached_property
    def _kernel(self) -> UserTableKernel:
        return UserTableKernel(self.claim)

    @cached_property
    def _worst(self) -> tuple[Fraction | float, kernels.ActStreams]:
        choices = list_choices(self.claim, self.max_visits)
        return kernels.find_worst_seizure(self._kernel, build_schedule(self.claim), choices)

    def pairs(self) -> Sequence[Pair]:
        streams = self.streams or self._worst[1]
        name = f"a user who comes or not, {describe_peek(streams.peek)}"
        both = streams.insert_look(streams.one), streams.insert_look(streams.other)
        return [Pair(name, *both, SeizureEvidence(self._kernel, *both))]

    def views(self, data: kernels.Acts, runs: int) -> Floats:
        source, rows = self.noise or ExperimentNoise(), []
        for _ in range(runs):
            run = self.claim.start(source)
            run.claim = ReleaseTap(run.claim)
            rows.append([number for act in data for number in read_output(self.claim, act, run_act(run, act))])
        return np.array(rows, np.float64)


def build_schedule(claim: Any) -> kernels.ActSchedule:
    """Build the schedule of all paid acts and one look, in every order.

    A user may come before each visible act. Ticks are visible themselves, and are among the acts in every order: two
    for each other act and two more, so that the user may come in one of them in one world, and in the other in the
    other. If users are replaced, each time has one act more, for either of the two to come.
    """
    more = 1 if claim.replace else 0
    acts: dict[Value, int] = {LOOK_ACT: 1, INTRUDE_ACT: claim.intrusions}
    if isinstance(claim, TableMechanism):
        return kernels.ActSchedule({**acts, ESTIMATE_ACT: claim.releases}, free_acts=1 + more)
    ticks = (2 + more) * (2 + claim.intrusions)
    return kernels.ActSchedule({**acts, kernels.FREE_ACT: ticks}, free_acts=0)


def list_choices(claim: Any, max_visits: int) -> kernels.ActPairs:
    """List the pairs of acts at a free act: one user comes, or another instead."""
    table = isinstance(claim, TableMechanism)
    if claim.replace:
        none = () if table else (NO_USER,)
        return [(same, same) for same in (none, (FIRST_USER,), (SECOND_USER,))] + [((FIRST_USER,), (SECOND_USER,))]
    values = [(FIRST_USER,) * times for times in range(max_visits + 1)] if table else [(NO_USER,), (FIRST_USER,)]
    return [(one, other) for one in values for other in values]


def describe_peek(peek: int | None) -> str:
    return "memory never seen" if peek is None else f"memory seen after {peek} acts"


ONE_USER_SETTINGS: Settings = {"universe": 1}

CLASS_SETTINGS: dict[str, Sequence[Settings]] = {
    "Density": (
        {},
        {"law": "paper"},
        {"releases": 2},
        {"intrusions": 1},
        {"intrusions": 1, "releases": 2, "split": "1/3"},
        {"replace": True, "universe": 2},
        {"hashed": True},
        {"hashed": "before"},
    ),
    "MultiplicativeDensity": ({"universe": 4, "shrink": 2, "smallest": 2},),
    "CroppedMean": ({"limit": 2}, {"limit": 2, "intrusions": 1}, {"limit": 2, "releases": 2}),
    "HeavyFraction": (
        {"at_least": 2},
        {"at_least": 2, "law": "paper"},
        {"at_least": 2, "hashed": True},
        {"at_least": 2, "intrusions": 1},
    ),
    "Incidence": ({"exactly": 1}, {"exactly": 0, "releases": 2}, {"exactly": 1, "intrusions": 1}),
    "ModularIncidence": ({"modulus": 3}, {"modulus": 2, "intrusions": 2}, {"modulus": 2, "releases": 2}),
    "ContinualDensity": (
        {},
        {"law": "paper"},
        {"intrusions": 1},
        {"replace": True, "universe": 2},
        {"hashed": True, "universe": 2},  # the cells of user 0 and of -1, were it a user, are two
        {"counter": build_one_slot_counter()},
        {"counter": build_one_slot_counter(), "intrusions": 1},
    ),
}
# Its tables have too many ways for a user who comes twice at a time, and for announced intrusions.
SINGLE_VISIT_CLASSES = ("MultiplicativeDensity",)


def find_estimators() -> dict[str, type[Any]]:
    """Return all estimators of users: classes that have a loss and a universe, and can be started."""
    return find_claims(panprivate, "start", "universe")


def build_user_table_subjects(cls: type[Any], loss: Pure) -> Iterator[tuple[UserTableSubject, Settings]]:
    """Build the subjects of a class with all settings that are tried."""
    for settings in list_settings(cls, CLASS_SETTINGS, {"loss", "universe"}):
        often = 1 if cls.__name__ in SINGLE_VISIT_CLASSES else MAX_VISITS
        yield UserTableSubject(cls(loss, **{**ONE_USER_SETTINGS, **settings}), max_visits=often), settings
