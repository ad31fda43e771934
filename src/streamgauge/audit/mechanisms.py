"""A continual mechanism under audit: readers see all its releases, from the first tick to the last.

Many runs are the groups of one run, since groups share nothing but the code; where one unit moves several
numbers of a tick's vector, a run is as many groups. Releases are made by one `feed`. Every layout that does
not release the same under the same noise (see `layouts`) is tried and attacked as well.

What is computed is what is written down and, over the first ticks (LONG), also what is done: each event and
each draw is fed to the code by itself, and sums of them together (see `trying`). Later ticks are believed.
Code that is not linear has no loss that could be computed so, and none is told.

Evidence is the exact log-likelihood ratio where releases tell all draws, else the best linear score (see
`likelihood`); neighbours are in `neighbours`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from typing import Any

from streamgauge.audit.exact import Worst, worst_neighbour, worst_of
from streamgauge.audit.layouts import (
    ALL_TICKS,
    BY_STEP,
    MAX_ADDED_TICKS,
    Addition,
    LaidOut,
    Layout,
    feed_all,
    find_own_rows,
    find_unlike,
    run_alone,
    run_layout,
)
from streamgauge.audit.linear import LinearView, written
from streamgauge.audit.neighbours import neighbours, odd_neighbours
from streamgauge.audit.probing import tried_at_once
from streamgauge.audit.subject import Pair
from streamgauge.audit.trying import tried
from streamgauge.audit.worst_views import is_quick, not_linear, unknown, worst_in, worst_of_view
from streamgauge.continual import Mechanism
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss

SHORT = 16  # ticks up to which the code is tried draw by draw
LONG = 256  # and up to which all at once
MAX_UNLIKE = 4  # layouts that are computed by themselves if there are more than SHORT ticks
MAX_ATTACKED = 2  # layouts that are attacked by themselves
PAIRS_OF_A_LAYOUT = 3


@dataclass(frozen=True)
class MechanismSubject:
    """All releases of the first ticks; `noise` is the system's unless told otherwise.

    With `run` only so many of the ticks are run in experiments.
    """

    mechanism: Mechanism[Any]
    ticks: int
    noise: Noise | None = field(default=None, repr=False)
    run: int | None = None
    title: str = ""

    @property
    def name(self) -> str:
        return self.title or f"{self.mechanism!r}"

    @property
    def loss(self) -> Loss:
        """What the noise is calibrated to, from which the claim follows."""
        return self.mechanism.loss.kept_as

    @cached_property
    def run_ticks(self) -> int:
        """That are run in experiments."""
        return min(self.ticks, self.run or self.ticks)

    @cached_property
    def view(self) -> LinearView:
        """What is written down of the ticks that are run."""
        return written(self.mechanism.strategy(self.run_ticks))

    @cached_property
    def tried(self) -> LinearView | None:
        """What `feed` does over the first ticks."""
        return self._tried(feed_all)

    @cached_property
    def unlike(self) -> tuple[Layout, ...]:
        """Layouts that do not release what one `feed` of many groups does."""
        return find_unlike(self.mechanism, min(self.ticks, LONG))

    @cached_property
    def agrees(self) -> bool:
        """Whether the code does what is written down, as far as it was tried."""
        if self.tried is None or self.tried.odd or self.unlike:
            return False
        return self.tried.agrees(written(self.mechanism.strategy(min(self.ticks, LONG))))

    def _tried(self, drive: Any) -> LinearView | None:
        ticks = min(self.ticks, LONG)
        at_once = tried_at_once(lambda values, noise: drive(self.mechanism, values, noise), ticks)
        if ticks > SHORT:
            return at_once
        one = tried(lambda values, noise: drive(self.mechanism, values[:, None], noise)[:, 0], ticks)
        return replace(one, odd=one.odd or (at_once.odd if at_once else ()))

    def worst(self) -> Worst:
        """As written down and, over the first ticks, as tried: code that is not its matrices loses more."""
        return self._worst

    @cached_property
    def _worst(self) -> Worst:
        fed = self._worst_of(self.tried)
        if not self.unlike:
            return fed
        computed = self.unlike if self.ticks <= SHORT else self.unlike[:MAX_UNLIKE]
        others = [self._worst_in(layout) for layout in computed]
        how = f"{fed.how}; {computed[0].name}, which releases other numbers, {others[0].how}"
        if len(computed) < len(self.unlike):
            others.append(unknown(fed.pattern, "not computed: many layouts release other numbers"))
            how = f"{how}; {others[-1].how}"
        return replace(worst_of([fed, *others]), how=how)

    def _worst_in(self, layout: Layout) -> Worst:
        """Compute the worst loss of a layout that releases other numbers."""
        if layout == BY_STEP:
            return replace(self._worst_of(self._tried(layout.drive)), seen=layout.name)
        ticks = min(self.ticks, MAX_ADDED_TICKS if isinstance(layout.run, Addition) else ALL_TICKS)
        linear = tried(partial(run_alone, self.mechanism, layout), ticks)
        own = None if linear.odd else find_own_rows(linear, ticks)
        return worst_of_view(self.mechanism, own or linear, layout.name)

    def _worst_of(self, linear: LinearView | None) -> Worst:
        """Of code that was tried, if it was."""
        read, ticks = worst_neighbour(self.mechanism, self.ticks), min(self.ticks, LONG)
        if linear is None:
            return unknown(read.pattern, f"{read.how}; not computed: the code does not draw tick by tick")
        if linear.odd:
            return not_linear(linear, read.pattern)
        agrees = ticks > SHORT and linear.agrees(written(self.mechanism.strategy(ticks)))
        if agrees and read.priced and not (linear.laplace and is_quick(linear)):  # programs take too long
            return replace(read, how=f"{read.how}; the code of {ticks} agrees")
        found = worst_in(linear, self.mechanism)
        later = [read] if agrees and ticks < self.ticks else []
        most = max(read.amount if read.priced else 0, found.amount)
        both = replace(worst_of([found, *later]), amount=most)
        return replace(both, how=f"{read.how}; the code of {ticks} was tried")

    def pairs(self) -> Sequence[Pair]:
        worst = worst_neighbour(self.mechanism, self.run_ticks).pattern
        dear = [each for each in (worst, self._worst.pattern) if max(each) <= self.run_ticks]
        found = list(neighbours(self.mechanism, self.run_ticks, self.view, dear))
        if self.tried is not None and self.tried.odd:
            found += odd_neighbours(self.mechanism, self.view, dear, self.tried.odd)
        for layout in self.unlike[:MAX_ATTACKED]:
            reached = (pair for pair in found if has_units_from(pair, layout.first_tick))
            found += [lay_out(pair, layout) for pair in islice(reached, PAIRS_OF_A_LAYOUT)]
        return found

    def views(self, data: Ints | LaidOut, runs: int) -> Floats:
        return run_layout(self.mechanism, data, runs, self.noise)


def has_units_from(pair: Pair, tick: int) -> bool:
    """Whether two plain streams differ at no tick before `tick`."""
    plain = not isinstance(pair.one, LaidOut)
    return plain and not (pair.one[:, : tick - 1] != pair.other[:, : tick - 1]).any()


def lay_out(pair: Pair, layout: Layout) -> Pair:
    """Build the pair of the same streams in a layout; the evidence is that of streams without gaps."""
    one, other = (LaidOut(streams, layout) for streams in (pair.one, pair.other))
    evidence = pair.evidence if layout.first_tick == 1 else None
    return Pair(f"{pair.name}, {layout.name}", one, other, evidence)
