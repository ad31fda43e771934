"""Layouts of a run: how many groups it has, how many ticks a `feed` takes, when groups are added.

The audit computes the loss of one layout, `FED`: many groups in one run, all ticks in one `feed`. Code may
branch on the layout, so every other layout must release the same numbers under the same noise:

    by step              one tick at a time, as a live run does
    width w              runs of exactly w groups, in one `feed` and by step
    feeds of n ticks     blocks of n ticks, from 1 to 9 at every width, and of larger numbers
    added after tick m   groups that `widen` adds to a running run, and those that were there before, in
                         blocks and by step. The order of draws is another there: what the code releases is
                         compared in law, one event and one draw at a time

A layout that differs is computed and attacked by itself. The computation shows a reader all groups of the
run, so that noise which groups share hides nothing.

Promise
    If `find_unlike` returns nothing, all layouts above released the same, for streams of all kinds that are
    tried (see `trying`), as far as the number of ticks allows them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from streamgauge.audit.linear import NEAR, LinearView
from streamgauge.audit.trying import KINDS, law_of, pushed, same, streams, tried
from streamgauge.audit.trying import evenly as draw_evenly
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.testing import InsecureKeystream, SilentNoise

WIDTHS = (1, 2, 3, 5, 15, 16, 17, 33, 65)
SHORT_FEEDS = range(1, 10)
LONG_FEEDS = (10, 11, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255)
ALL_TICKS = 67  # that are enough for every width and for feeds of up to 65 ticks
STREAMS_OF_A_KIND = 10
REFERENCE_WIDTH = KINDS * STREAMS_OF_A_KIND  # at least the largest of WIDTHS
SHORT_TICKS = sum(SHORT_FEEDS)  # from which one run has feeds of all these lengths
ADDED = ((1, 1), (1, 2), (2, 3))  # groups from the start, and groups that are added
MAX_ADDED_TICKS = 12  # each draw is tried by itself
MAX_SEEN = 2300  # releases that are computed together; of wider runs, those of some groups

Drive = Callable[[Mechanism[Any], Ints, Noise | None], Floats]  # of values (ticks, groups): releases


@dataclass(frozen=True)
class Layout:
    """A way to run streams (ticks, groups), in runs of `width` groups, or all in one run if that is None.

    Releases before `first_tick` are not there, and read 0.
    """

    name: str
    run: Drive = field(repr=False)
    width: int | None = None
    first_tick: int = 1

    def drive(self, mechanism: Mechanism[Any], values: Ints, noise: Noise | None) -> Floats:
        """Run all streams; the last run has empty groups too."""
        if self.width is None:
            return self.run(mechanism, values, noise)
        return split_groups(self.width, self.run, mechanism, values, noise)

    def drive_alone(self, mechanism: Mechanism[Any], values: Ints, noise: Noise) -> Floats:
        """Run one stream as the first of otherwise empty groups; return the releases of all groups."""
        if isinstance(self.run, Addition):
            return self.run.drive_alone(mechanism, values, noise)
        alone = np.zeros((len(values), self.width or 1), np.int64)
        alone[:, 0] = values
        return self.run(mechanism, alone, noise)


@dataclass(frozen=True)
class LaidOut:
    """Streams (groups, ticks) that are run in a layout."""

    streams: Ints
    layout: Layout


def feed_all(mechanism: Mechanism[Any], values: Ints, noise: Noise | None) -> Floats:
    """Run all groups in one run, all ticks in one `feed`."""
    return np.asarray(mechanism.start(values.shape[1], noise).feed(values), np.float64)


def step_all(mechanism: Mechanism[Any], values: Ints, noise: Noise | None) -> Floats:
    """Run all groups in one run, tick by tick."""
    run = mechanism.start(values.shape[1], noise)
    return np.array([run.step(tick) for tick in values], np.float64)


def split_groups(width: int, inner: Drive, mechanism: Mechanism[Any], values: Ints, noise: Any) -> Floats:
    """Run groups in runs of exactly `width`, the last of which has empty groups too."""
    count = values.shape[1]
    padded = np.pad(values, ((0, 0), (0, -count % width)))
    parts = [inner(mechanism, padded[:, at : at + width], noise) for at in range(0, count, width)]
    return np.concatenate(parts, axis=1)[:, :count]


def feed_blocks(lengths: tuple[int, ...], mechanism: Mechanism[Any], values: Ints, noise: Any) -> Floats:
    """Run all groups in one run, in blocks of these lengths in turn; the last block may be shorter."""
    run, releases, at = mechanism.start(values.shape[1], noise), [], 0
    for length in cycle(lengths):
        if at >= len(values):
            break
        releases.append(np.asarray(run.feed(values[at : at + length]), np.float64))
        at += length
    return np.concatenate(releases)


@dataclass(frozen=True)
class Addition:
    """Runs of `first` groups to which `more` are added after `tick` ticks.

    Streams are the groups that are added, and their values before that are not read. With `is_old`, streams
    are the groups of the start. All other groups are empty.
    """

    tick: int
    first: int
    more: int
    is_old: bool = False
    by_step: bool = False

    @property
    def streams(self) -> slice:
        """The groups that streams are."""
        return slice(self.first) if self.is_old else slice(self.first, self.first + self.more)

    def __call__(self, mechanism: Mechanism[Any], values: Ints, noise: Noise | None) -> Floats:
        releases = np.zeros(values.shape, np.float64)
        at_once = self.first if self.is_old else self.more
        for at in range(0, values.shape[1], at_once):
            some = values[:, at : at + at_once]
            releases[:, at : at + at_once] = self._run(mechanism, some, noise)[:, self.streams][
                :, : some.shape[1]
            ]
        return releases

    def drive_alone(self, mechanism: Mechanism[Any], values: Ints, noise: Noise) -> Floats:
        """Run one stream; return the releases of all groups, those of the stream first."""
        releases = self._run(mechanism, values[:, None], noise)
        return np.roll(releases, -self.streams.start if self.streams.start else 0, axis=1)

    def _run(self, mechanism: Mechanism[Any], streams: Ints, noise: Noise | None) -> Floats:
        """Run the groups of one run; return the releases of all of them, 0 before they are there."""
        ticks, count = streams.shape
        values = np.zeros((ticks, self.first + self.more), np.int64)
        values[:, self.streams][:, :count] = streams
        releases = np.zeros(values.shape, np.float64)
        run = mechanism.start(self.first, noise)
        releases[: self.tick, : self.first] = run.feed(values[: self.tick, : self.first])
        run.widen(self.more)
        rest = values[self.tick :]
        releases[self.tick :] = [run.step(tick) for tick in rest] if self.by_step else run.feed(rest)
        return releases


FED = Layout("in one feed", feed_all)
BY_STEP = Layout("by step", step_all)


def list_layouts(ticks: int) -> Iterator[tuple[Layout, int, Layout]]:
    """List the layouts of a run of so many ticks, each with a number of groups and with its reference.

    A layout must release what its reference does, which has as many groups as streams are tried.
    """
    yield BY_STEP, REFERENCE_WIDTH, FED
    for width in WIDTHS:
        yield Layout(f"width {width}", feed_all, width), width, FED
        yield Layout(f"width {width}, by step", step_all, width), width, BY_STEP
    for length in [length for length in SHORT_FEEDS if length <= ticks]:
        for width in WIDTHS if ticks < SHORT_TICKS else WIDTHS[:3]:
            yield _feeds(width, f"feeds of {length}", (length,)), width, FED
    for length, width in zip(LONG_FEEDS, cycle(WIDTHS)):
        if length <= ticks:
            for each in {width, 3}:
                yield _feeds(each, f"feeds of {length}", (length,)), each, FED
    for width in WIDTHS:
        yield _feeds(width, "feeds of 1 to 9 in turn", tuple(SHORT_FEEDS)), width, FED


def _feeds(width: int, name: str, lengths: tuple[int, ...]) -> Layout:
    return Layout(f"width {width}, {name}", partial(feed_blocks, lengths), width)


def list_additions(mechanism: Mechanism[Any], ticks: int) -> Iterator[Layout]:
    """List the layouts in which groups are added, unless the mechanism refuses that."""
    if mechanism.widening_refusal():
        return
    for number, (first, more) in enumerate(ADDED):
        moment, by_step = 1 if number == 0 else ticks // 2, number == 1
        if not 0 < moment < ticks:
            continue
        words = f"{more} group{'s' if more > 1 else ''} added after tick {moment}"
        added = Addition(moment, first, more, by_step=by_step)
        yield Layout(f"{words}, by step" if by_step else words, added, first_tick=moment + 1)
        if number:
            old = Addition(moment, first, more, is_old=True, by_step=not by_step)
            yield Layout(f"beside {words}{'' if by_step else ', by step'}", old)


def find_unlike(mechanism: Mechanism[Any], ticks: int) -> tuple[Layout, ...]:
    """Find the layouts that do not release what `FED` does."""
    values = np.stack([each.stream for each in streams(ticks, STREAMS_OF_A_KIND)], axis=1)
    expected = {each: _run_all(each, mechanism, values, slice(REFERENCE_WIDTH)) for each in (FED, BY_STEP)}
    found = []
    for number, (layout, width, reference) in enumerate(list_layouts(ticks)):
        at = number % (REFERENCE_WIDTH - width + 1)  # not always the same streams
        some = slice(at, at + width)
        if not same(_run_all(layout, mechanism, values, some), expected[reference][:, :, some]):
            found.append(layout)
    return (*found, *_find_unlike_additions(mechanism, min(ticks, MAX_ADDED_TICKS)))


def _run_all(layout: Layout, mechanism: Mechanism[Any], values: Ints, some: slice) -> Floats:
    """Run some of the groups without noise, and under noise of their own."""
    noises = SilentNoise(), GroupNoise(some.stop - (some.start or 0), some.start or 0)
    return np.stack([layout.drive(mechanism, values[:, some], noise) for noise in noises])


def _find_unlike_additions(mechanism: Mechanism[Any], ticks: int) -> Iterator[Layout]:
    """Find the layouts in which groups that are added do not have the law of a group of `FED`."""
    additions = list(list_additions(mechanism, ticks))
    if not additions:
        return
    fed = tried(partial(run_alone, mechanism, FED), ticks)
    for layout in additions:
        view = tried(partial(run_alone, mechanism, layout), ticks)
        own = find_own_rows(view, ticks)
        if fed.odd or view.odd or own is None or not own.agrees(_cut_view(fed, layout.first_tick)):
            yield layout


def run_alone(mechanism: Mechanism[Any], layout: Layout, values: Ints, noise: Noise) -> Floats:
    """Run one stream as the first group of a layout; return the releases of all groups, one after another.

    Of runs that release very many numbers, the first three groups, a middle one and the last one are seen.
    """
    releases = layout.drive_alone(mechanism, values, noise)
    width = releases.shape[1]
    if releases.size > MAX_SEEN:
        releases = releases[:, sorted({0, 1, 2, width // 2, width - 1})]
    return releases.T.ravel()


def find_own_rows(view: LinearView, ticks: int) -> LinearView | None:
    """Return the view of the first group by itself; None if its noise or data are seen in other groups."""
    moved = np.abs(view.by_noise) > NEAR * np.abs(view.by_noise).max(axis=0, initial=0.0)
    own = moved[:ticks].any(axis=0)
    if view.by_data[ticks:].any() or moved[ticks:, own].any():
        return None
    places = np.flatnonzero(own)
    sources = tuple(view.sources[place] for place in places)
    return LinearView(view.by_data[:ticks], view.by_noise[:ticks][:, places], sources, view.odd)


def _cut_view(view: LinearView, first_tick: int) -> LinearView:
    """Leave out releases and events before a tick, and draws that are not seen any more."""
    before = first_tick - 1
    by_data, by_noise = view.by_data.copy(), view.by_noise.copy()
    by_data[:before], by_data[:, :before], by_noise[:before] = 0, 0, 0
    visible = [place for place, column in enumerate(by_noise.T) if column.any()]
    return LinearView(by_data, by_noise[:, visible], tuple(view.sources[place] for place in visible))


def run_layout(mechanism: Mechanism[Any], data: Ints | LaidOut, runs: int, noise: Noise | None) -> Floats:
    """Run streams (groups, ticks) so many times: a row has all releases of a run, group after group."""
    values, layout = (data.streams, data.layout) if isinstance(data, LaidOut) else (data, FED)
    releases = layout.drive(mechanism, np.tile(values.T, (1, runs)), noise)
    return np.ascontiguousarray(releases.T, np.float64).reshape(runs, -1)


class GroupNoise:
    """Repeatable numbers that are the same for a group in runs of every width.

    The run has the groups `at`, ..., `at + width - 1` of a run of `REFERENCE_WIDTH` groups, and asks for one
    draw of each group at a time. A request that is not of whole rows gets other numbers than the reference.
    """

    def __init__(self, width: int, at: int = 0) -> None:
        self._width, self._at = width, at
        self._bytes = InsecureKeystream("groups of a run")

    def laplace(self, scale: Fraction, size: int) -> Ints:
        return self._draw("laplace", scale, size)

    def gaussian(self, variance: Fraction, size: int) -> Ints:
        return self._draw("gaussian", variance, size)

    def _draw(self, kind: str, value: Fraction, size: int) -> Ints:
        rows = -(-size // self._width)
        most = 1 + 2 * pushed(law_of(kind, value))
        drawn = draw_evenly(self._bytes, rows * REFERENCE_WIDTH, 2 * most + 1) - most
        own = drawn.reshape(rows, REFERENCE_WIDTH)[:, self._at : self._at + self._width]
        return own.ravel()[:size].copy()
