"""Layouts of a run: the number of groups, the ticks of a `feed`, and groups that are added.

The audit computes the loss of one layout, `SINGLE_FEED_LAYOUT`: many groups in one run, all ticks in one `feed`. Code
may branch on the layout, so every other layout must release the same numbers under the same noise:

    by step               one tick at a time, as a live run does
    width w               runs of exactly w groups, in one `feed` and by step
    feeds of n ticks      blocks of n ticks, from 1 to 9 at every width, and of larger numbers
    added after tick m    groups that `widen` adds to a running run, and those that were there before, in blocks and by
                          step. The order of draws differs there: releases are compared in law, one event and one draw
                          at a time

A layout that differs is computed and attacked by itself. The computation shows a reader all groups of the run, so that
noise which groups share hides nothing.

Promise
    If `find_unlike` returns nothing, all layouts above released the same, for streams of all kinds of `exact.probe`, as
    far as the number of ticks allows them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from itertools import cycle
from typing import Any

import numpy as np

from streamgauge.audit.exact import probe
from streamgauge.audit.exact.linear import VIEW_TOLERANCE, LinearView
from streamgauge.continual import LinearMechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.coerce import Floats
from streamgauge.testing.noise import InsecureKeystream, SilentNoise

WIDTHS = (1, 2, 3, 5, 15, 16, 17, 33, 65)
SHORT_FEEDS = range(1, 10)
LONG_FEEDS = (10, 11, 13, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255)
ALL_TICKS = 67  # that are enough for every width and for feeds of up to 65 ticks
STREAMS_OF_A_KIND = 10
REFERENCE_WIDTH = probe.STREAM_KINDS * STREAMS_OF_A_KIND  # at least the largest of WIDTHS
SHORT_TICKS = sum(SHORT_FEEDS)  # from which one run has feeds of all these lengths
GROUP_ADDITIONS = ((1, 1), (1, 2), (2, 3))  # groups from the start, and groups that are added
MAX_ADDED_TICKS = 12  # each draw is tried by itself
MAX_VIEW_RELEASES = 2300  # releases that are computed together; of wider runs, those of some groups

Drive = Callable[[LinearMechanism[Any], Ints, Noise | None], Floats]  # of values (ticks, groups): releases


@dataclass(frozen=True)
class RunLayout:
    """A layout of streams (ticks, groups): runs of `width` groups, or one run if that is None.

    Releases before `first_tick` do not exist, and read 0.
    """

    name: str
    run: Drive = field(repr=False)
    width: int | None = None
    first_tick: int = 1
    other_groups: int = 0  # besides those of the unit, in runs that are starts of their own

    def run_streams(self, mechanism: LinearMechanism[Any], values: Ints, noise: Noise | None) -> Floats:
        """Run all streams; the last run has empty groups too."""
        if self.width is None:
            return self.run(mechanism, values, noise)
        count, width = values.shape[1], self.width
        padded = np.pad(values, ((0, 0), (0, -count % width)))
        parts = [self.run(mechanism, padded[:, at : at + width], noise) for at in range(0, count, width)]
        return np.concatenate(parts, axis=1)[:, :count]

    def run_one_stream(self, mechanism: LinearMechanism[Any], values: Ints, noise: Noise) -> Floats:
        """Run one stream as the first of otherwise empty groups; return the releases of all groups."""
        if isinstance(self.run, Addition):
            return self.run.run_one_stream(mechanism, values, noise)
        alone = np.zeros((len(values), self.width or 1), np.int64)
        alone[:, 0] = values
        return self.run(mechanism, alone, noise)


@dataclass(frozen=True)
class LayoutStreams:
    """Streams (groups, ticks) that are run in a layout."""

    streams: Ints
    layout: RunLayout


def feed_all(mechanism: LinearMechanism[Any], values: Ints, noise: Noise | None) -> Floats:
    """Run all groups in one run, all ticks in one `feed`."""
    return np.asarray(mechanism.start(values.shape[1], noise).feed(values), np.float64)


def step_all(mechanism: LinearMechanism[Any], values: Ints, noise: Noise | None) -> Floats:
    """Run all groups in one run, tick by tick."""
    run = mechanism.start(values.shape[1], noise)
    return np.array([run.step(tick) for tick in values], np.float64)


def feed_blocks(lengths: tuple[int, ...], mechanism: LinearMechanism[Any], values: Ints, noise: Any) -> Floats:
    """Run all groups in one run, in blocks of these lengths in turn; the last block may be shorter."""
    run, releases, sizes = mechanism.start(values.shape[1], noise), [], cycle(lengths)
    while len(values):
        block, values = np.split(values, [next(sizes)])
        releases.append(np.asarray(run.feed(block), np.float64))
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
    is_by_step: bool = False

    @property
    def streams(self) -> slice:
        """The groups that streams are."""
        return slice(self.first) if self.is_old else slice(self.first, self.first + self.more)

    def __call__(self, mechanism: LinearMechanism[Any], values: Ints, noise: Noise | None) -> Floats:
        releases = np.zeros(values.shape, np.float64)
        at_once = self.first if self.is_old else self.more
        for at in range(0, values.shape[1], at_once):
            some = values[:, at : at + at_once]
            releases[:, at : at + at_once] = self._run(mechanism, some, noise)[:, self.streams][:, : some.shape[1]]
        return releases

    def run_one_stream(self, mechanism: LinearMechanism[Any], values: Ints, noise: Noise) -> Floats:
        """Run one stream; return the releases of all groups, those of the stream first."""
        releases = self._run(mechanism, values[:, None], noise)
        return np.roll(releases, -self.streams.start if self.streams.start else 0, axis=1)

    def _run(self, mechanism: LinearMechanism[Any], streams: Ints, noise: Noise | None) -> Floats:
        """Run the groups of one run; return the releases of all of them, 0 before they are there."""
        ticks, count = streams.shape
        values = np.zeros((ticks, self.first + self.more), np.int64)
        values[:, self.streams][:, :count] = streams
        releases = np.zeros(values.shape, np.float64)
        run = mechanism.start(self.first, noise)
        releases[: self.tick, : self.first] = run.feed(values[: self.tick, : self.first])
        run.widen(self.more)
        rest = values[self.tick :]
        releases[self.tick :] = [run.step(tick) for tick in rest] if self.is_by_step else run.feed(rest)
        return releases


SINGLE_FEED_LAYOUT = RunLayout("in one feed", feed_all)
STEP_LAYOUT = RunLayout("by step", step_all)


def list_layouts(ticks: int) -> Iterator[tuple[RunLayout, int, RunLayout]]:
    """List the layouts of a run of so many ticks, each with a number of groups and with its reference.

    A layout must release what its reference does, which has as many groups as streams are tried.
    """
    yield STEP_LAYOUT, REFERENCE_WIDTH, SINGLE_FEED_LAYOUT
    for width in WIDTHS:
        yield RunLayout(f"width {width}", feed_all, width), width, SINGLE_FEED_LAYOUT
        yield RunLayout(f"width {width}, by step", step_all, width), width, STEP_LAYOUT
    for length in [length for length in SHORT_FEEDS if length <= ticks]:
        for width in WIDTHS if ticks < SHORT_TICKS else WIDTHS[:3]:
            yield _build_feed_layout(width, f"feeds of {length}", (length,)), width, SINGLE_FEED_LAYOUT
    for length, width in zip(LONG_FEEDS, cycle(WIDTHS)):
        if length <= ticks:
            for each in {width, 3}:
                yield _build_feed_layout(each, f"feeds of {length}", (length,)), each, SINGLE_FEED_LAYOUT
    for width in WIDTHS:
        yield (_build_feed_layout(width, "feeds of 1 to 9 in turn", tuple(SHORT_FEEDS)), width, SINGLE_FEED_LAYOUT)


def _build_feed_layout(width: int, name: str, lengths: tuple[int, ...]) -> RunLayout:
    return RunLayout(f"width {width}, {name}", partial(feed_blocks, lengths), width)


def list_additions(mechanism: LinearMechanism[Any], ticks: int) -> Iterator[RunLayout]:
    """List the layouts in which groups are added, unless the mechanism refuses that."""
    if mechanism.widening_refusal():
        return
    for number, (first, more) in enumerate(GROUP_ADDITIONS):
        moment, by_step = 1 if number == 0 else ticks // 2, number == 1
        if not 0 < moment < ticks:
            continue
        words = f"{more} group{'s' if more > 1 else ''} added after tick {moment}"
        added = Addition(moment, first, more, is_by_step=by_step)
        yield RunLayout(f"{words}, by step" if by_step else words, added, first_tick=moment + 1)
        if number:
            old = Addition(moment, first, more, is_old=True, is_by_step=not by_step)
            yield RunLayout(f"beside {words}{'' if by_step else ', by step'}", old)


def find_unlike(mechanism: LinearMechanism[Any], ticks: int) -> tuple[RunLayout, ...]:
    """Find the layouts that do not release what `SINGLE_FEED_LAYOUT` does."""
    values = np.stack([each.stream for each in probe.list_streams(ticks, STREAMS_OF_A_KIND)], axis=1)
    whole = slice(REFERENCE_WIDTH)
    expected = {each: _run_all(each, mechanism, values, whole) for each in (SINGLE_FEED_LAYOUT, STEP_LAYOUT)}
    found = []
    for number, (layout, width, reference) in enumerate(list_layouts(ticks)):
        at = number % (REFERENCE_WIDTH - width + 1)  # not always the same streams
        some = slice(at, at + width)
        if not probe.are_equal(_run_all(layout, mechanism, values, some), expected[reference][:, :, some]):
            found.append(layout)
    return (*found, *_find_unlike_additions(mechanism, min(ticks, MAX_ADDED_TICKS)))


def _run_all(layout: RunLayout, mechanism: LinearMechanism[Any], values: Ints, some: slice) -> Floats:
    """Run some of the groups without noise, and under noise of their own."""
    noises = SilentNoise(), GroupNoise(some.stop - (some.start or 0), some.start or 0)
    return np.stack([layout.run_streams(mechanism, values[:, some], noise) for noise in noises])


def _find_unlike_additions(mechanism: LinearMechanism[Any], ticks: int) -> Iterator[RunLayout]:
    """Find the layouts in which groups that are added do not have the law of a group of `SINGLE_FEED_LAYOUT`."""
    additions = list(list_additions(mechanism, ticks))
    if not additions:
        return
    fed = probe.probe_view(partial(run_one_stream, mechanism, SINGLE_FEED_LAYOUT), ticks)
    for layout in additions:
        view = probe.probe_view(partial(run_one_stream, mechanism, layout), ticks)
        own = None if fed.nonlinear_streams or view.nonlinear_streams else find_own_view(view, ticks)
        if own is None or not own.is_equivalent(_cut_view(fed, layout.first_tick)):
            yield layout


def run_one_stream(mechanism: LinearMechanism[Any], layout: RunLayout, values: Ints, noise: Noise) -> Floats:
    """Run one stream as the first group of a layout; return the releases of all groups, one after another.

    Of runs that release very many numbers, the view has the first three groups, a middle one and the last one.
    """
    releases = layout.run_one_stream(mechanism, values, noise)
    width = releases.shape[1]
    if releases.size > MAX_VIEW_RELEASES:
        releases = releases[:, sorted({0, 1, 2, width // 2, width - 1})]
    return releases.T.ravel()


def find_own_view(view: LinearView, ticks: int) -> LinearView | None:
    """Return the view of the first group by itself; None if other groups show its noise or data."""
    moved = np.abs(view.by_noise) > VIEW_TOLERANCE * np.abs(view.by_noise).max(axis=0, initial=0.0)
    own = moved[:ticks].any(axis=0)
    if view.by_data[ticks:].any() or moved[ticks:, own].any():
        return None
    places = np.flatnonzero(own)
    sources = tuple(view.sources[place] for place in places)
    return LinearView(view.by_data[:ticks], view.by_noise[:ticks][:, places], sources, view.nonlinear_streams)


def _cut_view(view: LinearView, first_tick: int) -> LinearView:
    """Drop releases and events before a tick, and draws without effect afterwards."""
    before = first_tick - 1
    by_data, by_noise = view.by_data.copy(), view.by_noise.copy()
    by_data[:before], by_data[:, :before], by_noise[:before] = 0, 0, 0
    visible = [place for place, column in enumerate(by_noise.T) if column.any()]
    return LinearView(by_data, by_noise[:, visible], tuple(view.sources[place] for place in visible))


def run_layout(mechanism: LinearMechanism[Any], data: Ints | LayoutStreams, runs: int, noise: Noise | None) -> Floats:
    """Run streams (groups, ticks) so many times: a row has all releases of a run, group after group."""
    values, layout = (data.streams, data.layout) if isinstance(data, LayoutStreams) else (data, SINGLE_FEED_LAYOUT)
    releases = layout.run_streams(mechanism, np.tile(values.T, (1, runs)), noise)
    return np.ascontiguousarray(releases.T, np.float64).reshape(runs, -1)


class GroupNoise(probe.RequestNoise):
    """Repeatable numbers that are the same for a group in runs of every width.

    The run has the groups `at`, ..., `at + width - 1` of a run of `REFERENCE_WIDTH` groups, and requests one
    draw of each group at a time. A request that is not of whole rows gets other numbers than the reference.
    """

    def __init__(self, width: int, position: int = 0) -> None:
        self._width, self._position = width, position
        self._bytes = InsecureKeystream("groups of a run")

    def _draw(self, kind: str, value: Fraction, size: int) -> Ints:
        rows = -(-size // self._width)
        most = 1 + 2 * probe.compute_push(probe.build_law(kind, value))
        drawn = probe.draw_evenly(self._bytes, rows * REFERENCE_WIDTH, 2 * most + 1) - most
        own = drawn.reshape(rows, REFERENCE_WIDTH)[:, self._position : self._position + self._width]
        return own.ravel()[:size].copy()
