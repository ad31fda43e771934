"""Noise that is used twice, data that are noised twice, and noise that is missing in one layout.

Two numbers under the same draw differ by the exact data: the loss has no bound. Two draws for the same number are
averaged: each costs epsilon, and one was charged. All but the last of these are counters of the package with one line
changed.

A counter without noise in one layout (see `audit.subjects.layouts`) has noise in a run of many groups that is fed all
ticks at once, and so would pass an audit of that layout alone. Fast paths for small cases, and states that are built
in a second place, cause this.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from streamgauge.audit.broken.pairs import TWIN_RUNS, UNIT_LOSS, TwinPair, build_twins, pair_samples
from streamgauge.audit.exact.probe import RequestNoise
from streamgauge.audit.subject import ExperimentNoise, Pair
from streamgauge.audit.subjects import mechanisms
from streamgauge.audit.subjects.layouts import RunLayout
from streamgauge.audit.subjects.mechanisms import ExecutionModeSubject, MechanismSubject
from streamgauge.continual import LinearMechanism, Run, SimpleI, SimpleII
from streamgauge.continual.mechanism import draw_rows
from streamgauge.continual.state_io import SavedBytes
from streamgauge.continual.trees.simple import State
from streamgauge.noise import Ints, Noise
from streamgauge.noise.coerce import Floats
from streamgauge.testing.noise import InsecureNoise, SilentNoise

REUSE_TICKS = 3
READING_COUNT = 4
SINGLE_START_RUNS = 1000  # runs that have starts of their own


class SharedTickNoise(SimpleI):
    """Draws for the first tick of a block: the counts of all ticks have one noise, and differ by the exact items."""

    def feed(self, state: Any, block: Ints, noise: Noise) -> Ints:
        exact: Ints = super().feed(state, block, SilentNoise())
        return exact + self.distribution.draw(noise, block.shape[1])


@dataclass(frozen=True)
class RepeatedNoise(RequestNoise):
    """Draws for one group in so many, and gives its neighbours the same."""

    inner: Noise
    groups: int

    def _draw(self, kind: str, value: Fraction, size: int) -> Ints:
        return np.repeat(getattr(self.inner, kind)(value, -(-size // self.groups)), self.groups)[:size]


class SharedGroupNoise(SimpleII):
    """Draws once a tick: its counts have one noise, and differ by the exact counts."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        return super().step(state, values, RepeatedNoise(noise, len(values)))


class PairedGroupNoise(SimpleII):
    """Draws for every second group: two counts in a row have the same noise."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Any:
        return super().step(state, values, RepeatedNoise(noise, 2))


class SeededCounter(SimpleII):
    """Draws from a seed, so that a run can be made again: two runs or ticks under one noise differ by exact data."""

    def start(self, width: int = 1, noise: Noise | None = None) -> Run[Any, Any]:
        return super().start(width, InsecureNoise(0))

    def load(self, saved: SavedBytes, noise: Noise | None = None) -> Run[Any, Any]:
        return super().load(saved, InsecureNoise(0))


def run_saved_too_early(mechanism: LinearMechanism[Any], values: Ints, noise: Noise | None) -> Floats:
    """Save before each release: it is drawn again after a crash, and both are visible."""
    run, found = mechanism.start(values.shape[1], noise), []
    for tick in values:
        saved = run.save()
        found.append(np.array(run.step(tick), np.float64))
        run = mechanism.load(saved, noise)
        found.append(np.array(run.step(tick), np.float64))
    return np.stack(found)


BROKEN_REUSES: tuple[tuple[str, RunLayout, type[SimpleI] | type[SimpleII]], ...] = (
    ("Simple I, noise reused between ticks", mechanisms.SINGLE_FEED, SharedTickNoise),
    ("Histogram, one draw for all groups", mechanisms.OTHER_GROUPS, SharedGroupNoise),
    ("Histogram, one draw for two groups", mechanisms.OTHER_GROUPS, PairedGroupNoise),
    ("Two releases, one seed", mechanisms.OTHER_GROUPS, SeededCounter),
    ("Simple II, the same noise after loading", mechanisms.SAVED_AND_LOADED, SeededCounter),
)


def build_reuse_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    for name, mode, kind in BROKEN_REUSES:
        ready = InsecureNoise(int(chance.words(1)[0])) if mode.other_groups else chance  # starts draw little
        build = partial(ExecutionModeSubject, ticks=REUSE_TICKS, mode=mode, noise=ready)
        runs = SINGLE_START_RUNS if mode.other_groups else TWIN_RUNS
        yield build_twins(name, build, kind(UNIT_LOSS, horizon=REUSE_TICKS), runs=runs)
    again, saved = RunLayout("saved before every tick", run_saved_too_early), mechanisms.SAVED_AND_LOADED
    counter = partial(ExecutionModeSubject, SimpleII(UNIT_LOSS, horizon=REUSE_TICKS), REUSE_TICKS, noise=chance)
    name, reason = "Simple II, a tick drawn again after a crash", run_saved_too_early.__doc__
    yield build_twins(name, counter, again, saved, truth=2.0, reason=reason)
    event = Pair("an event", 1, 0, partial(score_nearness, READING_COUNT))
    name, truth = "Simple II, noise drawn at every reading", float(READING_COUNT)
    yield pair_samples(chance, name, sample_every_reading, event, truth=truth)


def sample_every_reading(chance: ExperimentNoise, broken: bool, item: int, runs: int) -> Ints:
    """Add noise when a count is read: each reader has another draw, and may ask again."""
    draws = [SimpleII(UNIT_LOSS, horizon=1).start(runs, chance) for _ in range(READING_COUNT if broken else 1)]
    readings = [run.step(np.full(runs, item)) for run in draws]
    return np.array(readings if broken else readings * READING_COUNT).T


def score_nearness(places: int, views: Floats) -> Floats:
    """Return how much nearer the first places are to 1 than to 0: the likelihood ratio of Laplace noise."""
    return np.asarray((np.abs(views) - np.abs(views - 1))[:, :places].sum(axis=1), np.float64)


LAYOUT_TICKS = 5
LAYOUT_RUNS = 4000  # runs: some have starts of their own


class BareAtTwoGroups(SimpleI):
    """Draws nothing for a run of exactly two groups: a fast path for them forgets it."""

    def step(self, state: Any, values: Ints, noise: Noise) -> Ints:
        return super().step(state, values, SilentNoise() if len(values) == 2 else noise)

    def feed(self, state: Any, block: Ints, noise: Noise) -> Ints:
        return super().feed(state, block, SilentNoise() if block.shape[1] == 2 else noise)


class BareInTwoTicks(SimpleI):
    """Draws nothing in a `feed` of exactly two ticks; all other lengths have noise, and steps too."""

    def feed(self, state: Any, block: Ints, noise: Noise) -> Ints:
        return super().feed(state, block, SilentNoise() if len(block) == 2 else noise)


@dataclass(slots=True)
class PredrawnState(State):
    """The state of a counter that draws all its noise before the first tick."""

    draws: Ints = field(default_factory=lambda: np.zeros((0, 1), np.int64))  # one row per tick


class PredrawnCounter(SimpleI):
    """Draws the noise of all ticks when a run starts; as private as Simple I, and the honest twin."""

    def initial(self, width: int, noise: Noise) -> Any:
        drawn = draw_rows(self.distribution, noise, self.horizon, width)
        return PredrawnState(0, np.zeros(width, np.int64), drawn)

    def step(self, state: Any, values: Ints, noise: Noise) -> Ints:
        exact = super().step(state, values, SilentNoise())
        return np.asarray(exact + state.draws[state.tick - 1], np.int64)

    def feed(self, state: Any, block: Ints, noise: Noise) -> Ints:
        exact = super().feed(state, block, SilentNoise())
        return np.asarray(exact + state.draws[state.tick - len(block) : state.tick], np.int64)


class BareWhenAdded(PredrawnCounter):
    """Makes the state of groups that are added without noise, by another function than that of the first groups."""

    def zero_state(self, width: int, tick: int, noise: Noise) -> Any:
        return super().zero_state(width, tick, SilentNoise())


BROKEN_LAYOUTS: tuple[tuple[str, type[SimpleI], type[SimpleI]], ...] = (
    ("Simple I, no noise in a run of two groups", BareAtTwoGroups, SimpleI),
    ("Simple I, no noise in a feed of two ticks", BareInTwoTicks, SimpleI),
    ("Simple I, no noise for groups that are added", BareWhenAdded, PredrawnCounter),
)


def build_layout_twins(chance: ExperimentNoise) -> Iterator[TwinPair]:
    for name, *kinds in BROKEN_LAYOUTS:
        claims = (kind(UNIT_LOSS, horizon=LAYOUT_TICKS) for kind in kinds)
        build = partial(MechanismSubject, ticks=LAYOUT_TICKS, noise=chance)
        yield build_twins(name, build, *claims, runs=LAYOUT_RUNS)
