"""One attack: a score of views is learned on some runs, and how well it tells two neighbours apart is counted
on others.

    views -> score -> bins -> evidence (log-ratio of training counts) -> counts of other runs -> bounds

A score is cut into bins at its quantiles; the training runs say how much each bin speaks for one neighbour,
and which bins together make the event that shows the most of epsilon, and of delta at some epsilons. So a
score need be neither monotone nor calibrated: the lowest bit of a float serves as well as a likelihood ratio.

Promise
    The bounds hold with the stated confidence whatever was tried in training: they are made of runs that
    nothing was chosen by.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from streamgauge.audit.confidence import delta_seen, epsilon_seen, rho_seen
from streamgauge.audit.subject import Score
from streamgauge.audit.weighing import (
    BOLD,
    CAUTION,
    Bound,
    Events,
    Evidence,
    Halves,
    delta_at,
    epsilon_at,
)
from streamgauge.noise import Ints
from streamgauge.noise.numbers import Bools, Floats

BINS = 200
OFTEN = 20
TAILS = np.geomspace(1e-4, 1 / BINS, 12)[:-1]  # and finer ones at both ends, where pure losses show
QUANTILES = np.sort(np.concatenate([TAILS, np.linspace(0, 1, BINS + 1)[1:-1], 1 - TAILS]))


@dataclass(frozen=True, eq=False)
class Tell:
    """Bins of a score that together speak for one of the neighbours: the event that is counted."""

    bins: Bools
    turned: bool  # for the second

    def hits(self, one: Ints, other: Ints) -> tuple[int, int]:
        """How often it was seen where it should be, and where it should not."""
        seen = int(one[self.bins].sum()), int(other[self.bins].sum())
        return (seen[1], seen[0]) if self.turned else seen


@dataclass(frozen=True, eq=False)
class Attack:
    """A score, its bins, the events that are counted, and how often each bin was seen."""

    name: str
    width: int  # numbers of a view
    score: Score
    edges: Floats
    evidence: Evidence  # how much each bin speaks for one neighbour
    tell: Tell  # of epsilon
    curve: tuple[Tell, ...]  # of delta, at each epsilon of the claim's curve
    one: Ints
    other: Ints

    @property
    def runs(self) -> int:
        return int(self.one.sum())

    def counted(self, one: Floats, other: Floats) -> "Attack":
        """With some more runs of each neighbour, as many of both."""
        more = [binned(self.edges, scored(self.score, views)) for views in (one, other)]
        return replace(self, one=self.one + more[0], other=self.other + more[1])

    def extrapolated(self, runs: int) -> "Attack":
        """As if so many runs had gone on in the same way: to choose by, not to bound by."""
        one, other = (np.rint(side * (runs / self.runs)).astype(np.int64) for side in (self.one, self.other))
        return replace(self, one=one, other=other)

    def epsilon(self, doubt: float, delta: float = 0.0) -> float:
        """Epsilon at this delta is at least so much."""
        return epsilon_seen(*self.tell.hits(self.one, self.other), self.runs, doubt, delta)

    def delta(self, doubt: float, epsilon: float) -> float:
        """Delta at this epsilon is at least so much, by the event that tells epsilon."""
        return delta_seen(*self.tell.hits(self.one, self.other), self.runs, doubt, epsilon)

    def deltas(self, doubt: float, epsilons: Sequence[float]) -> list[float]:
        """Delta at each epsilon of the curve that was learned, each with this doubt."""
        hits = [tell.hits(self.one, self.other) for tell in self.curve]
        return [delta_seen(*seen, self.runs, doubt, at) for seen, at in zip(hits, epsilons, strict=True)]

    def rho(self, doubt: float) -> float:
        """The rho of zCDP is at least so much."""
        weights, turned = self.evidence.best
        sides = (self.other, self.one) if turned else (self.one, self.other)
        return float(rho_seen(weights, *sides, doubt))


def learned(
    name: str,
    score: Score,
    one: Floats,
    other: Floats,
    *,
    runs: int,
    doubt: float,
    delta: float = 0.0,
    epsilons: Sequence[float] = (),
) -> Attack:
    """An attack from training views, whose events and evidence are the best for so many runs to come."""
    seen = scored(score, one), scored(score, other)
    edges = edges_of(np.sort(np.concatenate(seen)))
    halves = Halves(*((binned(edges, seen[0][half::2]), binned(edges, seen[1][half::2])) for half in (0, 1)))
    events = Events.of(halves)
    (tell,) = best_tells(events, [epsilon_at(delta)], events.rates(runs, doubt, CAUTION))
    bounds = [delta_at(epsilon) for epsilon in epsilons]
    curve = tuple(best_tells(events, bounds, events.rates(runs, doubt, BOLD))) if bounds else ()
    nothing = np.zeros(len(edges) + 1, np.int64)
    evidence = Evidence(halves, runs, doubt)
    return Attack(name, one.shape[1], score, edges, evidence, tell, curve, nothing, nothing)


def best_tells(events: Events, bounds: Sequence[Bound], rates: tuple[Floats, Floats]) -> Iterator[Tell]:
    """For each bound the event that promises most, for whichever neighbour it speaks."""
    return (Tell(*events.best(bound(*rates))) for bound in bounds)


def edges_of(scores: Floats) -> Floats:
    """Quantiles of sorted scores; a number that comes again and again has a bin of its own."""
    steps = np.unique(scores[(QUANTILES * (len(scores) - 1)).astype(np.int64)])
    often = np.searchsorted(scores, steps, "right") - np.searchsorted(scores, steps) > OFTEN
    return np.unique(np.concatenate([steps, np.nextafter(steps[often], np.inf)]))


def scored(score: Score, views: Floats) -> Floats:
    """Numbers all of them: what is not a number is the lowest of all, which is as good a bin as any."""
    return np.nan_to_num(np.asarray(score(views), np.float64), nan=-np.inf)


def binned(edges: Floats, scores: Floats) -> Ints:
    """How many scores lie in each bin: below the first edge, from each edge to the next, from the last on."""
    return np.bincount(np.searchsorted(edges, scores, "right"), minlength=len(edges) + 1)
