"""Continual mechanisms under audit: readers see all releases, from the first tick to the last.

Many runs are the groups of one run, since groups share only code. If one unit moves several numbers of a tick's vector,
a run is as many groups. Releases are made by one `feed`. Every layout that releases other numbers under the same noise
(see `layouts`) is probed and attacked as well.

The computed loss is that of the matrices and, over the first ticks (`MAX_PROBE_TICKS`), also that of the code: each
event and each draw is fed by itself, and sums of them together (see `exact.probe`). Later ticks are believed. Code
that is not linear has no loss that can be computed so.

Evidence is the exact log-likelihood ratio if releases determine all draws, else the best linear score.

`ExecutionModeSubject` runs a mechanism in other modes, which must lose no more:

    SAVED_AND_LOADED    after every tick the run is saved, and continues from the bytes
    OTHER_GROUPS        every run has starts of its own: some groups, a measure of the same noise, one of its own noise

The audit elsewhere assumes that groups of one start share no draw, and that starts share none. `OTHER_GROUPS` does not:
only the first group has the unit, and readers see all groups of all measures, and their differences from the first. An
event is in one group of one measure, so the claim is the mechanism's. A loaded run that is behind is fed the same ticks
again, and its releases are visible again.

Promise
    The worst loss of a mode is computed by probing, each tick and each draw through `step`, `save` and `load`. Draws
    that groups or measures share, forget or repeat are found if they come from the given noise. Experiments show the
    others.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

import numpy as np

from streamgauge.audit import neighbours
from streamgauge.audit.exact import costs, worst_case
from streamgauge.audit.exact.approx_dp import price_as_stated
from streamgauge.audit.exact.linear import LinearView, build_view
from streamgauge.audit.exact.probe import probe_at_once, probe_view
from streamgauge.audit.exact.worst_case import WorstCase, worst_neighbour
from streamgauge.audit.subject import ClaimSubject, Pair
from streamgauge.audit.subjects import layouts
from streamgauge.continual import LinearMechanism
from streamgauge.continual.run import build_noise
from streamgauge.noise import Ints, Noise
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Approx, Loss

MAX_DRAW_TICKS = 16  # ticks up to which the code is tried draw by draw
MAX_PROBE_TICKS = 256  # and up to which all at once
MAX_UNLIKE = 4  # layouts that are computed by themselves if there are more than SHORT ticks
MAX_ATTACKED = 2  # layouts that are attacked by themselves
PAIRS_OF_A_LAYOUT = 3


@dataclass(frozen=True)
class MechanismSubject(ClaimSubject):
    """All releases of the first ticks of a linear mechanism, against `stated` or the loss that its noise is made for.

    An (epsilon, delta) that is stated is priced itself, without its rho (see `exact.approx_dp`). With
    `max_run_ticks`, experiments run only so many of the ticks.
    """

    claim: LinearMechanism[Any]
    ticks: int
    max_run_ticks: int | None = None
    stated: Loss | None = None
    max_pairs: int | None = None
    max_probe_ticks: int = MAX_PROBE_TICKS

    @property
    def name(self) -> str:
        return self.title or f"{self.claim!r}{' as stated' if isinstance(self.stated, Approx) else ''}"

    @property
    def loss(self) -> Loss:
        return self.stated or self.claim.charged_loss

    @cached_property
    def run_ticks(self) -> int:
        """Ticks that experiments run."""
        return min(self.ticks, self.max_run_ticks or self.ticks)

    @cached_property
    def view(self) -> LinearView:
        """The written view of the ticks that are run."""
        return build_view(self.claim.strategy(self.run_ticks))

    @cached_property
    def probed_view(self) -> LinearView | None:
        """The probed view of `feed` over the first ticks."""
        return self._probe(layouts.feed_all)

    @cached_property
    def unlike_layouts(self) -> tuple[layouts.RunLayout, ...]:
        """Layouts that do not release what one `feed` of many groups does."""
        return layouts.find_unlike(self.claim, min(self.ticks, self.max_probe_ticks))

    @cached_property
    def is_consistent(self) -> bool:
        """True if the code does what its matrices say, as far as it was tried."""
        if self.probed_view is None or self.probed_view.nonlinear_streams or self.unlike_layouts:
            return False
        return self.probed_view.is_equivalent(build_view(self.claim.strategy(min(self.ticks, self.max_probe_ticks))))

    def _probe(self, drive: Any) -> LinearView | None:
        ticks = min(self.ticks, self.max_probe_ticks)
        at_once = probe_at_once(lambda values, noise: drive(self.claim, values, noise), ticks)
        if ticks > MAX_DRAW_TICKS:
            return at_once
        one = probe_view(lambda values, noise: drive(self.claim, values[:, None], noise)[:, 0], ticks)
        return replace(one, nonlinear_streams=one.nonlinear_streams or (at_once.nonlinear_streams if at_once else ()))

    def worst(self) -> WorstCase:
        """Return the loss as written down and, over the first ticks, as tried: other code loses more."""
        if not isinstance(self.loss, Approx):
            return self._worst
        strategy = self.claim.strategy(self.ticks) if self.is_consistent else None
        is_probed = not self.unlike_layouts and self.ticks <= self.max_probe_ticks
        probed = self.probed_view if is_probed else None
        return price_as_stated(self.claim, self._worst, float(self.loss.delta), strategy, probed)

    @cached_property
    def _worst(self) -> WorstCase:
        fed = self._compute_view_worst(self.probed_view)
        if not self.unlike_layouts:
            return fed
        computed = self.unlike_layouts if self.ticks <= MAX_DRAW_TICKS else self.unlike_layouts[:MAX_UNLIKE]
        others = [self._compute_layout_worst(layout) for layout in computed]
        how = f"{fed.computed_from}; {computed[0].name}, which releases other numbers, {others[0].computed_from}"
        if len(computed) < len(self.unlike_layouts):
            others.append(costs.build_unknown_worst(fed.pattern, "not computed: many layouts release other numbers"))
            how = f"{how}; {others[-1].computed_from}"
        return replace(worst_case.combine_worst_cases([fed, *others]), computed_from=how)

    def _compute_layout_worst(self, layout: layouts.RunLayout) -> WorstCase:
        """Compute the worst loss of a layout that releases other numbers."""
        if layout == layouts.STEP_LAYOUT:
            return replace(self._compute_view_worst(self._probe(layout.run_streams)), observation=layout.name)
        most = layouts.MAX_ADDED_TICKS if isinstance(layout.run, layouts.Addition) else layouts.ALL_TICKS
        ticks = min(self.ticks, most)
        linear = probe_view(partial(layouts.run_one_stream, self.claim, layout), ticks)
        own = None if linear.nonlinear_streams else layouts.find_own_view(linear, ticks)
        return costs.compute_view_worst(self.claim, own or linear, layout.name)

    def _compute_view_worst(self, linear: LinearView | None) -> WorstCase:
        """Compute the loss of probed code, if it could be probed."""
        read, ticks = worst_neighbour(self.claim, self.ticks), min(self.ticks, self.max_probe_ticks)
        if linear is None:
            why = "not computed: the code does not draw tick by tick"
            return costs.build_unknown_worst(read.pattern, f"{read.computed_from}; {why}")
        if linear.nonlinear_streams:
            return costs.build_nonlinear_worst(linear, read.pattern)
        agrees = ticks > MAX_DRAW_TICKS and linear.is_equivalent(build_view(self.claim.strategy(ticks)))
        if agrees and read.is_priced and not (linear.is_laplace and costs.is_quick(linear)):  # programs take too long
            return replace(read, computed_from=f"{read.computed_from}; the code of {ticks} agrees")
        found = costs.compute_worst_pattern(linear, self.claim)
        later = [read] if agrees and ticks < self.ticks else []
        most = max(read.amount if read.is_priced else 0, found.amount)
        both = replace(worst_case.combine_worst_cases([found, *later]), amount=most)
        return replace(both, computed_from=f"{read.computed_from}; the code of {ticks} was tried")

    def pairs(self) -> Sequence[Pair]:
        worst = worst_neighbour(self.claim, self.run_ticks).pattern
        costly = [each for each in (worst, self._worst.pattern) if max(each) <= self.run_ticks]
        nonlinear = () if self.probed_view is None else self.probed_view.nonlinear_streams
        units = neighbours.list_units(self.claim.unit, self.run_ticks, costly, nonlinear)
        plain = tuple(neighbours.build_pairs(self.claim, self.view, units))
        found = list(plain)
        for layout in self.unlike_layouts[:MAX_ATTACKED]:
            gap = layout.first_tick - 1  # ticks without a release, where evidence is not known
            reached = (pair for pair in plain if not (pair.one[:, :gap] != pair.other[:, :gap]).any())
            for pair in islice(reached, PAIRS_OF_A_LAYOUT):
                one, other = (layouts.LayoutStreams(streams, layout) for streams in (pair.one, pair.other))
                found.append(Pair(f"{pair.name}, {layout.name}", one, other, None if gap else pair.evidence))
        return found[: self.max_pairs]

    def views(self, data: Ints | layouts.LayoutStreams, runs: int) -> Floats:
        return layouts.run_layout(self.claim, data, runs, self.noise)


def run_saved_and_loaded(mechanism: LinearMechanism[Any], values: Ints, noise: Noise | None) -> Floats:
    """Run with a save and a load after every tick."""
    run, found = mechanism.start(values.shape[1], noise), []
    for tick in range(1, len(values) + 1):
        while run.tick < tick:
            found.append(np.array(run.step(values[run.tick]), np.float64))
        run = mechanism.load(run.save(), noise)
    return np.stack(found)


def run_with_other_groups(mechanism: LinearMechanism[Any], values: Ints, noise: Noise | None) -> Floats:
    """Run groups and two measures: one under the noise of the groups, one under its own."""
    source = noise if noise is not None else build_noise(mechanism)
    parts = values[:, :-2], values[:, -2:-1], values[:, -1:]
    runs = [mechanism.start(part.shape[1], of) for part, of in zip(parts, (source, source, noise), strict=True)]
    found = [
        np.concatenate([run.step(part[tick]) for run, part in zip(runs, parts, strict=True)])
        for tick in range(len(values))
    ]
    return np.array(found, np.float64)


SINGLE_FEED = layouts.SINGLE_FEED_LAYOUT
SAVED_AND_LOADED = layouts.RunLayout("saved and loaded after every tick", run_saved_and_loaded)
OTHER_GROUPS = layouts.RunLayout("beside other groups and measures", run_with_other_groups, other_groups=4)


@dataclass(frozen=True)
class ExecutionModeSubject(ClaimSubject):
    """All releases of the first ticks, of all groups, in an execution mode."""

    claim: LinearMechanism[Any]
    ticks: int
    mode: layouts.RunLayout
    requested_ticks: int | None = None  # if fewer are run

    @property
    def name(self) -> str:
        return self.title or f"{self.claim!r} {self.mode.name}"

    def worst(self) -> WorstCase:
        shown = lambda values, noise: self._run_group(values, noise).ravel()  # noqa: E731 - of all groups
        worst = costs.compute_probed_worst(self.claim, shown, self.ticks, self.mode.name)
        return replace(worst, computed_part=worst_case.describe_coverage(self.ticks, self.requested_ticks))

    def _run_group(self, values: Ints, noise: Noise) -> Floats:
        """Run with these values in the first group, and nothing in the others."""
        streams = np.zeros((self.ticks, 1 + self.mode.other_groups), np.int64)
        streams[:, 0] = values
        return self.mode.run(self.claim, streams, noise).T

    @cached_property
    def view(self) -> LinearView:
        """The view of the first group, which is complete if others share nothing with it."""
        return probe_view(lambda values, noise: self._run_group(values, noise)[0], self.ticks)

    def pairs(self) -> Sequence[Pair]:
        """Return the worst unit, in an empty stream and in a busy one, and the last unit."""
        worst = worst_neighbour(self.claim, self.ticks).pattern
        last = tuple(range(1 + self.ticks - len(worst), self.ticks + 1))
        nothing = np.zeros(self.ticks, np.int64)
        busy = neighbours.add_background_counts(nothing)
        found = [(worst, nothing, ""), (worst, busy, " of a busy stream"), (last, nothing, "")]
        return list(neighbours.build_pairs(self.claim, self.view, found, self.mode.other_groups))

    def views(self, data: Ints, runs: int) -> Floats:
        """Return the numbers of a run's first group, then of the next, then the differences."""
        if not self.mode.other_groups:
            return layouts.run_layout(self.claim, layouts.LayoutStreams(data, self.mode), runs, self.noise)
        alone = (self.mode.run(self.claim, data.T, self.noise).T for _ in range(runs))
        return np.stack([append_differences(releases) for releases in alone])


def append_differences(releases: Floats) -> Floats:
    """Append the differences of all groups, (groups, numbers), from the first."""
    return np.concatenate([releases.ravel(), (releases[1:] - releases[0]).ravel()])
