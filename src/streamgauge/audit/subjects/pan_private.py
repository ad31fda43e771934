"""Pan-private mechanisms under audit: an attacker sees all releases, and the memory.

Views come from real runs: the releases, the bytes of `save` after a tick, read by one who knows the code, and the state
that `intrude` handed over, with everything that groups share. The log-likelihood ratio is that of the probed view.

Many runs are the groups of one start, unless shared state varies: then each run is a start of its own, so that one unit
has moved it and not one in every run.

    peek              the tick after which the memory is exposed, unannounced (0: before the first)
    announced_tick    the tick after which an intrusion was announced: `intrude` answers with noise, and hands over
    lost_tick         the tick in which the run is lost, after its events: its save goes on, rerandomized
    has_open_ticks    both come before the end of their tick, after its events

The joint view is linear in data and draws. Both maps are probed, and the least cost of hiding one unit is computed (see
`exact.costs`), for every tick of the unit and every tick of the intruder, of the first `MAX_COMPUTED_TICKS`.

`StateLayout` reads all that a state contains, as numbers of each group. Dataclasses, mappings and sequences are opened;
bytes are numbers, and text is its encoding. All values are encoded exactly (see `attack.outputs`).

    `MixedNumbers`, `RunningCountState`    one number each: whole and rest say no more, if the rest is in range
    an axis as long as there are groups    each group sees its own part, whichever axis it is
    anything else                          all groups share it, and each of them sees it

Blank states of 2 and of 3 groups determine that axis. Arrays that only come later are judged by their size.

Promise
    An acquitted mechanism loses no more than its claim to one who sees the memory once and all releases; by
    `worst_announced`, also with one announced intrusion. No value of a state is left out, except for its nesting and
    the sign of a zero.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property, lru_cache, partial
from itertools import product
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgauge.audit.attack.outputs import box_output, encode_outputs
from streamgauge.audit.exact.costs import compute_probed_worst
from streamgauge.audit.exact.probe import draw_evenly, probe_view
from streamgauge.audit.exact.worst_case import WorstCase, combine_worst_cases, describe_coverage
from streamgauge.audit.neighbours import add_background_counts, build_pairs, list_landmarks
from streamgauge.audit.subject import ClaimSubject, Pair
from streamgauge.continual import LinearMechanism, Mechanism, Run
from streamgauge.continual.factorizations.correlated import RunningCountState
from streamgauge.continual.state_io import BlankNoise, unpack
from streamgauge.continual.trees.past_noise import MixedNumbers
from streamgauge.noise import Entropy, Ints, Keystream, Noise
from streamgauge.noise.coerce import Floats

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class StateLayout:
    """The axis of the groups in each array of a mechanism's state."""

    axes: tuple[int | None, ...]

    @classmethod
    def from_mechanism(cls, mechanism: Mechanism[Any, Any]) -> "StateLayout":
        few, more = (list_leaves(mechanism.initial(width, BlankNoise())) for width in (2, 3))
        sizes = (enumerate(zip(one.shape, other.shape, strict=True)) for one, other in zip(few, more, strict=True))
        return cls(tuple(next((axis for axis, (a, b) in each if a != b), None) for each in sizes))

    def read_groups(self, state: Any, width: int) -> Floats:
        """Return all numbers visible to each group, (numbers, width)."""
        parts = [
            np.repeat(encode_rows(leaf.reshape(1, -1)).T, width, axis=1)
            if axis is None
            else encode_rows(np.moveaxis(leaf, axis, 0).reshape(width, -1)).T
            for leaf, axis in self._list_axes(state, width)
        ]
        return np.concatenate([np.zeros((0, width)), *parts])

    def read_shared(self, state: Any, width: int) -> Floats:
        """Return the numbers that no group has to itself."""
        parts = [encode_rows(leaf.reshape(1, -1))[0] for leaf, axis in self._list_axes(state, width) if axis is None]
        return np.concatenate([np.zeros(0), *parts])

    def _list_axes(self, state: Any, width: int) -> Iterator[tuple[Array, int | None]]:
        for place, leaf in enumerate(list_leaves(state)):
            axis = self.axes[place] if place < len(self.axes) else find_axis_by_size(leaf, width)
            fits = axis is not None and axis < leaf.ndim and leaf.shape[axis] == width
            yield leaf, axis if fits else find_axis_by_size(leaf, width) if axis is not None else None


def find_axis_by_size(leaf: Array, width: int) -> int | None:
    """Return the last axis that is as long as there are groups."""
    return max((axis for axis, size in enumerate(leaf.shape) if size == width), default=None)


def list_leaves(state: Any) -> Iterator[Array]:
    """List the arrays of a state in order; other values are arrays of one item."""
    if isinstance(state, np.ndarray):
        yield state
    elif isinstance(state, MixedNumbers) and state.is_normal:
        yield state.to_numerators()
        yield box_output(state.span)
    elif is_dataclass(state) and not isinstance(state, type):
        names = dict.fromkeys([*(each.name for each in fields(state)), *getattr(state, "__dict__", ())])
        if isinstance(state, RunningCountState) and state.is_normal:
            yield state.to_points()
            names = dict.fromkeys(name for name in names if name not in ("whole", "part"))
        for name in names:
            yield from list_leaves(getattr(state, name))
    elif isinstance(state, Mapping):
        yield from list_leaves(list(state.items()))
    elif isinstance(state, str | bytes | bytearray | memoryview):
        raw = state.encode("utf-8", "surrogatepass") if isinstance(state, str) else bytes(state)
        yield np.frombuffer(raw, np.uint8)
    elif isinstance(state, list | tuple | set | frozenset):
        yield np.array(len(state))
        for each in state:
            yield from list_leaves(each)
    else:
        yield box_output(state)


def encode_rows(rows: Array) -> Floats:
    """Encode rows without the sign of zeros: a sum of zero has either sign, by chance."""
    plain = rows + 0.0 if rows.dtype.kind == "f" else rows
    return encode_outputs(plain, plain.shape[1:])


@dataclass(frozen=True)
class Intruder:
    """The ticks at which the memory is exposed."""

    peek: int | None = None
    announced_tick: int | None = None
    lost_tick: int | None = None
    has_open_ticks: bool = False  # whether both come before the end of their tick, after its events

    def __str__(self) -> str:
        where = "in" if self.has_open_ticks else "after"
        found = [("memory seen", where, self.peek), ("announced", where, self.announced_tick)]
        found += [("lost", "in", self.lost_tick)]
        return ", ".join(f"{event} {where} tick {tick}" for event, where, tick in found if tick is not None)


find_state_layout = lru_cache(StateLayout.from_mechanism)  # used for every draw that is probed


def observe_run(mechanism: LinearMechanism[Any], intruder: Intruder, values: Ints, noise: Noise | None) -> Floats:
    """Return all that one start shows of values (ticks, width): releases and memory in order, (numbers, width).

    An intruder gets the results of `save` and `intrude`. A run that is lost continues from its save before the tick.
    """
    run, width, memory = mechanism.start(values.shape[1], noise), values.shape[1], find_state_layout(mechanism)
    observed = []
    for tick in range(len(values) + 1):
        saved, rest = run.save() if tick == intruder.lost_tick else b"", values[tick - 1]
        if tick and not intruder.has_open_ticks:
            observed.append(np.array(run.step(rest), np.float64)[None])
        elif tick:
            run.add_partial(rest)
            rest = np.zeros_like(rest)
        if tick == intruder.peek:
            observed.append(memory.read_groups(load_state(run), width))
        if tick == intruder.announced_tick:
            observed.append(memory.read_groups(run.intrude(), width))
        if saved:
            run = mechanism.load(saved, noise)
            run.rerandomize()
        if tick and intruder.has_open_ticks:
            observed.append(np.array(run.step(rest), np.float64)[None])
    return np.concatenate(observed)


def observe_group(mechanism: LinearMechanism[Any], intruder: Intruder, values: Ints, noise: Noise) -> Floats:
    """Return the view of one group in a run with an empty one, with all that both share."""
    return observe_run(mechanism, intruder, np.stack([values, np.zeros_like(values)], axis=1), noise)[:, 0]


def compute_worst_to(mechanism: LinearMechanism[Any], ticks: int, intruder: Intruder) -> WorstCase:
    """Compute the unit that loses most to an intruder, by probing."""
    return compute_probed_worst(mechanism, partial(observe_group, mechanism, intruder), ticks, str(intruder))


def worst_intrusion(mechanism: LinearMechanism[Any], ticks: int) -> WorstCase:
    """Find the worst of all ticks of an unannounced look."""
    found = (compute_worst_to(mechanism, ticks, Intruder(peek)) for peek in range(ticks + 1))
    return combine_worst_cases(found)


def worst_announced(mechanism: LinearMechanism[Any], ticks: int) -> WorstCase:
    """Find the worst of all pairs of ticks: of an unannounced look, and of an announced intrusion."""
    places = product(range(ticks + 1), repeat=2)
    found = (compute_worst_to(mechanism, ticks, Intruder(peek, requested)) for peek, requested in places)
    return combine_worst_cases(found)


PROBE_STARTS = 4  # starts of each neighbour that show whether groups share anything but constants
MAX_COMPUTED_TICKS = 24  # ticks up to which every place of the intruder is computed


@dataclass(frozen=True)
class ExposedStreams:
    """Streams (groups, ticks), and the tick of the look: `peek`, or a random one."""

    streams: Ints = field(repr=False)
    peek: int | None


@dataclass(frozen=True)
class PanPrivateSubject(ClaimSubject):
    """Releases and memory of the first ticks. Looks at several ticks are tried unless the intruder has one.

    With `has_random_peek` each run's memory is exposed after a tick of its own, drawn evenly, which the view contains.
    """

    claim: LinearMechanism[Any]
    ticks: int
    intruder: Intruder = Intruder()
    has_random_peek: bool = False
    entropy: Entropy | None = field(default=None, repr=False)  # of random peeks
    requested_ticks: int | None = None  # if fewer are run
    max_computed_ticks: int = MAX_COMPUTED_TICKS

    DESCRIPTION: ClassVar[str] = " with its memory"

    @cached_property
    def peeks(self) -> Sequence[int]:
        """The ticks of the look: those at which something is half done."""
        given = self.intruder.peek
        return [given] if given is not None else sorted({self.ticks // 2, max(0, self.ticks - 1)})

    def worst(self) -> WorstCase:
        """Return the loss over the first ticks, as many as can be computed."""
        ticks = min(self.ticks, self.max_computed_ticks)
        peeks = range(ticks + 1) if self.intruder.peek is None else [min(self.intruder.peek, ticks)]
        intruders = (replace(self.intruder, peek=peek) for peek in peeks)
        worst = combine_worst_cases(compute_worst_to(self.claim, ticks, each) for each in intruders)
        return replace(worst, computed_part=describe_coverage(ticks, self.requested_ticks or self.ticks))

    def pairs(self) -> Sequence[Pair]:
        if self.has_random_peek:
            return [self._build_pair(None, self._find_worst_pattern(self.ticks // 2), still=True)]
        placed = [(peek, self._find_worst_pattern(peek)) for peek in self.peeks]
        return [self._build_pair(peek, pattern, still) for peek, pattern in placed for still in (True, False)]

    def _find_worst_pattern(self, peek: int) -> tuple[int, ...]:
        if self.ticks > self.max_computed_ticks:
            return next(list_landmarks(self.claim.unit, self.ticks))
        return compute_worst_to(self.claim, self.ticks, replace(self.intruder, peek=peek)).pattern

    def _build_pair(self, peek: int | None, pattern: tuple[int, ...], still: bool) -> Pair:
        nothing = np.zeros(self.ticks, np.int64)
        stream = nothing if still else add_background_counts(nothing)
        observed = "memory seen after any tick" if peek is None else str(replace(self.intruder, peek=peek))
        where = f", {observed}{'' if still else ', in a busy stream'}"
        found: list[Pair] = []
        for when in range(self.ticks + 1) if peek is None else [peek]:
            observe = partial(observe_group, self.claim, replace(self.intruder, peek=when))
            found += build_pairs(self.claim, probe_view(observe, self.ticks), [(pattern, stream, where)])
        pair = found[0]
        score = partial(score_by_tick, [each.evidence for each in found]) if peek is None else pair.evidence
        return Pair(pair.name, ExposedStreams(pair.one, peek), ExposedStreams(pair.other, peek), score)

    def views(self, data: ExposedStreams, runs: int) -> Floats:
        """Return the numbers of a run's first group, then of the next; after a random peek, also its tick."""
        if data.peek is not None:
            return self._run_views(data.streams, data.peek, runs)
        drawn = draw_evenly(self.entropy or Keystream(), runs, self.ticks + 1)
        parts = [
            (rows, self._run_views(data.streams, peek, len(rows)))
            for peek in range(self.ticks + 1)
            if len(rows := np.flatnonzero(drawn == peek))
        ]
        observed = np.zeros((runs, 1 + max(part.shape[1] for _, part in parts)))
        observed[:, 0] = drawn
        for rows, part in parts:
            observed[rows, 1 : 1 + part.shape[1]] = part
        return observed

    def _run_views(self, streams: Ints, peek: int, runs: int) -> Floats:
        """Return views of real runs."""
        observe = partial(observe_run, self.claim, replace(self.intruder, peek=peek))
        if self.has_varying_shared_state:
            return np.stack([observe(streams.T, self.noise).T.ravel() for _ in range(runs)])
        shown = observe(np.tile(streams, (runs, 1)).T, self.noise)
        return np.ascontiguousarray(shown.T).reshape(runs, -1)

    @cached_property
    def has_varying_shared_state(self) -> bool:
        """True if shared state differs between starts, or between a unit in it and none."""
        found = set()
        for events in [0] * PROBE_STARTS + [1000] * PROBE_STARTS:  # so many that they would show
            run = self.claim.start(2, self.noise)
            for _tick in range(self.ticks):
                run.step(np.full(2, events))
            found.add(find_state_layout(self.claim).read_shared(load_state(run), 2).tobytes())
        return len(found) > 1


def score_by_tick(scores: Sequence[Any], views: Floats) -> Floats:
    """Score views with random peeks: each row by the score of the tick that it begins with."""
    found = np.zeros(len(views))
    for peek, score in enumerate(scores):
        rows = np.flatnonzero(views[:, 0] == peek)
        found[rows] = score(views[rows, 1:]) if len(rows) else 0.0
    return found


def load_state(run: Run[Any, Any]) -> Any:
    """Return the state of a saved run, read by one who knows the code."""
    mechanism = run.mechanism
    return unpack(run.save(), mechanism.identity(), lambda width: mechanism.initial(width, BlankNoise()))[2]
