"""One attack: a score of views, learned on some runs, separates two neighbours on others.

    views -> score -> bins -> evidence (log-ratio of training counts) -> counts of other runs -> bounds

A score is cut into bins at its quantiles. Training runs give each bin a weight as evidence, and choose the bins that
make the event which shows the most of epsilon, and of delta at some epsilons. So a score need be neither monotone nor
calibrated: the lowest bit of a float serves as well as a likelihood ratio.

Weights are log-ratios of training counts. Counts of rare bins are noisy, and unbounded evidence makes a mean that no
bound holds tightly. So windows and cuts are tried, made of one half of the training runs and judged by the other half.

These scores are tried one by one, beside the likelihood ratio if it is known:

    trained           a weighted sum of all numbers of a view, fitted by logistic regression to training runs
    bent              the same with their squares: noise whose width depends on the data
    place             one number of a view
    lowest bit        the lowest bit that is set in a number: naive floats
    modulo            whole numbers modulo their steps, and modulo 2 and 3: noise in large steps
    repeats           equal steps of a view: noise that was used twice
    unmixed           the draws of a view, separated by their independence

A trained score is fitted by Newton's method to standardised numbers, with a small ridge: numbers that say the same
share their weight. Releases are sums of draws. Under Laplace noise the draws separate two neighbours, not the sums:
evidence of a draw grows from its mean without the unit to its mean with it, and no further. So one score unmixes the
draws:

    views -> whitened -> rotated until the parts are least Gaussian -> each clipped between the two means

Symmetric FastICA (Hyvarinen 1999) finds the rotation. It separates draws of any law but the Gaussian one. Under
Gaussian noise every rotation is as good, and the plain sum is the best score. Logistic regression weights the clipped
parts and the clipped places.

Promise
    The bounds hold with the stated confidence whatever was tried in training. They are made of runs by which nothing
    was chosen.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import exp

import numpy as np

from streamgauge.audit.attack import confidence
from streamgauge.audit.subject import Score
from streamgauge.noise import Ints
from streamgauge.noise.coerce import Bools, Floats

WINDOW_BINS = (1, 5, 15)  # widths of the windows that smooth counts
MAX_BIN_WEIGHTS = np.array([1.0, 2.0, 4.0, np.inf])
MIN_RATE = 1e-300
CAUTIOUS_DOUBT = 0.05  # about the half that judges
BOLD_DOUBT = 0.5  # the same where a rate is multiplied by e^epsilon: more caution would show nothing at all
BIN_COUNT = 200
MIN_REPEATS = 20
TAIL_QUANTILES = np.geomspace(1e-4, 1 / BIN_COUNT, 12)[:-1]  # finer ones at both ends, where pure losses show
QUANTILES = np.sort(np.concatenate([TAIL_QUANTILES, np.linspace(0, 1, BIN_COUNT + 1)[1:-1], 1 - TAIL_QUANTILES]))

BoundFunction = Callable[[Floats, Floats], Floats]  # of a rate from below and one from above, event by event
BinCounts = tuple[Ints, Ints]  # sightings of each bin under one neighbour, and under the other


@dataclass(frozen=True, eq=False)
class BinEvent:
    """Bins of a score that together speak for one of the neighbours: the event that is counted."""

    bins: Bools
    is_swapped: bool  # it speaks for the second

    def count_hits(self, one: Ints, other: Ints) -> tuple[int, int]:
        """Return the sightings under the neighbour that it speaks for, and under the other."""
        hits = int(one[self.bins].sum()), int(other[self.bins].sum())
        return (hits[1], hits[0]) if self.is_swapped else hits


@dataclass(frozen=True, eq=False)
class TrainingCounts:
    """Counts of two halves of the training runs, and the best evidence for `runs` to come."""

    fit_counts: BinCounts
    holdout_counts: BinCounts
    runs: int
    doubt: float

    @cached_property
    def best_weights(self) -> tuple[Floats, bool]:
        """Weights that promise the largest rho, and whether they speak for the second neighbour."""
        forth = find_best_weights(self.fit_counts, self.holdout_counts, self.runs, self.doubt)
        back = find_best_weights(self.fit_counts[::-1], self.holdout_counts[::-1], self.runs, self.doubt)
        is_swapped = back[0] > forth[0]
        return (back if is_swapped else forth)[1], is_swapped

    @cached_property
    def _thresholds(self) -> tuple[Ints, Floats, Floats]:
        """All events "evidence of at least so much", for either neighbour and by every window, a row each.

        The order of the bins, and the judging half's sightings of the first bins under that neighbour and the other.
        """
        forth = compute_window_weights(self.fit_counts)
        order = np.argsort(np.concatenate([-forth, forth]), axis=1, kind="stable")
        shown = [np.cumsum(side[order], axis=1) for side in self.holdout_counts]
        one, other = (np.concatenate([a[: len(forth)], b[len(forth) :]]) for a, b in (shown, shown[::-1]))
        return order, one, other

    def find_best_events(self, bounds: Sequence[BoundFunction], caution: float) -> tuple[BinEvent, ...]:
        """Return for each bound the event that promises most in the runs to come."""
        if not bounds:
            return ()
        order, one, other = self._thresholds
        expected = self.runs * confidence.approximate_lowest_rates(one, one[:, -1:], caution)
        low = confidence.approximate_lowest_rates(expected, self.runs, self.doubt / 2)
        expected = self.runs * confidence.approximate_highest_rates(other, other[:, -1:], caution)
        high = confidence.approximate_highest_rates(expected, self.runs, self.doubt / 2)
        found = []
        for bound in bounds:
            row, last = divmod(int(np.nanargmax(bound(low, high))), order.shape[1])
            bins = np.zeros(order.shape[1], np.bool_)
            bins[order[row, : last + 1]] = True
            found.append(BinEvent(bins, row >= len(order) // 2))
        return tuple(found)


def find_best_weights(fit: BinCounts, holdout: BinCounts, runs: int, doubt: float) -> tuple[float, Floats]:
    """Return the rho that the best weights promise in so many runs, and these weights, made of all counts."""
    weights = compute_window_weights(fit)[:, None]
    cut = np.clip(weights, -MAX_BIN_WEIGHTS[:, None], MAX_BIN_WEIGHTS[:, None])
    expected = [side * (runs / side.sum()) for side in holdout]
    promised = confidence.bound_rho(cut.reshape(-1, cut.shape[-1]), expected[0], expected[1], doubt)
    best = int(np.argmax(promised))
    window, most = WINDOW_BINS[best // len(MAX_BIN_WEIGHTS)], MAX_BIN_WEIGHTS[best % len(MAX_BIN_WEIGHTS)]
    both = fit[0] + holdout[0], fit[1] + holdout[1]
    return float(promised[best]), np.clip(compute_weights(both, window), -most, most)


def compute_window_weights(counts: BinCounts) -> Floats:
    return np.stack([compute_weights(counts, window) for window in WINDOW_BINS])


def compute_weights(counts: BinCounts, window: int) -> Floats:
    """Return the weight of each bin as evidence for the first neighbour."""
    smooth = np.ones(min(window, len(counts[0])))
    one, other = (np.convolve(side + 0.5, smooth, "same") for side in counts)
    return np.asarray(np.log(one) - np.log(other), np.float64)


@dataclass(frozen=True, eq=False)
class Attack:
    """A score, its bins, the events that are counted, and the sightings of each bin."""

    name: str
    width: int  # numbers of a view
    score: Score
    edges: Floats
    training: TrainingCounts
    event: BinEvent  # of epsilon
    curve_events: tuple[BinEvent, ...]  # of delta, at each epsilon of the claim's curve
    one: Ints
    other: Ints

    @property
    def runs(self) -> int:
        return int(self.one.sum())

    def add_runs(self, one: Floats, other: Floats) -> "Attack":
        """Return the attack with more runs of each neighbour, as many of both."""
        more = [count_bins(self.edges, score_views(self.score, views)) for views in (one, other)]
        return replace(self, one=self.one + more[0], other=self.other + more[1])

    def extrapolate(self, runs: int) -> "Attack":
        """Return the attack as if so many runs had continued alike: to choose by, not to bound by."""
        one, other = (np.rint(side * (runs / self.runs)).astype(np.int64) for side in (self.one, self.other))
        return replace(self, one=one, other=other)

    def epsilon(self, doubt: float, delta: float = 0.0) -> float:
        """Return a lower bound of epsilon at this delta."""
        return confidence.bound_epsilon(*self.event.count_hits(self.one, self.other), self.runs, doubt, delta)

    def delta(self, doubt: float, epsilon: float) -> float:
        """Return a lower bound of delta at this epsilon, by the event of epsilon."""
        return confidence.bound_delta(*self.event.count_hits(self.one, self.other), self.runs, doubt, epsilon)

    def deltas(self, doubt: float, epsilons: Sequence[float]) -> list[float]:
        """Return lower bounds of delta at each epsilon of the learned curve, each with this doubt."""
        hits = [event.count_hits(self.one, self.other) for event in self.curve_events]
        return [confidence.bound_delta(*shown, self.runs, doubt, at) for shown, at in zip(hits, epsilons, strict=True)]

    def rho(self, doubt: float, *, integer_orders: bool = False) -> float:
        """Return a lower bound of the rho of zCDP, or of that at integer orders alone."""
        weights, is_swapped = self.training.best_weights
        sides = (self.other, self.one) if is_swapped else (self.one, self.other)
        bound = confidence.bound_integer_rho if integer_orders else confidence.bound_rho
        return float(bound(weights, *sides, doubt))


def bound_log_ratio(delta: float, low: Floats, high: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(low - delta, MIN_RATE) / high), np.float64)


def bound_excess(epsilon: float, low: Floats, high: Floats) -> Floats:
    return low - exp(min(epsilon, confidence.MAX_EPSILON)) * high


def compute_edges(scores: Floats) -> Floats:
    """Return quantiles of sorted scores; a number that comes again and again has a bin of its own."""
    steps = np.unique(scores[(QUANTILES * (len(scores) - 1)).astype(np.int64)])
    often = np.searchsorted(scores, steps, "right") - np.searchsorted(scores, steps) > MIN_REPEATS
    return np.unique(np.concatenate([steps, np.nextafter(steps[often], np.inf)]))


def score_views(score: Score, views: Floats) -> Floats:
    """Return scores that are all numbers: NaN is the lowest, which is as good a bin as any."""
    return np.nan_to_num(np.asarray(score(views), np.float64), nan=-np.inf)


def count_bins(edges: Floats, scores: Floats) -> Ints:
    """Count the scores below the first edge, from each edge to the next, and from the last on."""
    return np.bincount(np.searchsorted(edges, scores, "right"), minlength=len(edges) + 1)


MAX_SINGLE_PLACES = 16  # numbers that are tried by themselves: those that differ most between the neighbours
MAX_JOINT_PLACES = 64  # numbers that are weighted together
RESIDUE_MODULI = (2, 3)  # tried of the place that differs most: larger ones show as much as the number itself
MAX_EXACT_FLOAT = 2.0**53  # whole numbers below are exact
RUNS_PER_PLACE = 20  # that a number must have to be unmixed from others


def fit_scores(one: Floats, other: Floats) -> Iterator[tuple[str, Score]]:
    """Fit named scores to training views of two neighbours."""
    places = rank_places(one, other)
    yield "trained", train_score(one, other, places[:MAX_JOINT_PLACES], with_squares=False)
    yield "bent", train_score(one, other, places[: MAX_JOINT_PLACES // 2], with_squares=True)
    for place in places[:MAX_SINGLE_PLACES]:
        yield f"place {place}", partial(read_place, place)
        if not (is_whole(one[:, place]) and is_whole(other[:, place])):
            yield f"lowest bit of place {place}", partial(find_lowest_bit, place)
            continue
        steps = find_steps(one[:, place], other[:, place]).union(RESIDUE_MODULI if place == places[0] else ())
        for step in sorted(steps):
            yield f"place {place} modulo {step}", partial(compute_residue, place, step)
    if one.shape[1] > 1:
        yield "repeats", count_repeats
        yield "unmixed", fit_ica_score(one, other, places[: min(MAX_JOINT_PLACES, 1 + len(one) // RUNS_PER_PLACE)])


def rank_places(one: Floats, other: Floats) -> list[int]:
    """Return the places, those first that differ most in means and spreads, by their own deviation."""
    first, second = fill_missing(one), fill_missing(other)
    spread = np.sqrt(first.var(axis=0) + second.var(axis=0)) + MIN_DEVIATION
    apart = np.abs(first.mean(axis=0) - second.mean(axis=0)) / spread
    wider = np.abs(np.log((first.std(axis=0) + MIN_DEVIATION) / (second.std(axis=0) + MIN_DEVIATION)))
    missing = np.abs(np.isnan(one).mean(axis=0) - np.isnan(other).mean(axis=0))
    return [int(place) for place in np.argsort(-(apart + wider + missing), kind="stable")]


def read_place(place: int, views: Floats) -> Floats:
    return np.asarray(views[:, place], np.float64)


def is_whole(column: Floats) -> bool:
    finite = column[np.isfinite(column)]
    return bool((finite == np.rint(finite)).all())


def find_steps(*columns: Floats) -> set[int]:
    """Return the common steps of columns of whole numbers, if there are any but 1."""
    exact = (column[np.isfinite(column) & (np.abs(fill_missing(column)) < MAX_EXACT_FLOAT)] for column in columns)
    steps = {int(np.gcd.reduce((shown - shown[0]).astype(np.int64))) for shown in exact if len(shown)}
    return steps - {0, 1}


def compute_residue(place: int, step: int, views: Floats) -> Floats:
    return np.asarray(np.mod(fill_missing(views[:, place]), step), np.float64)


def find_lowest_bit(place: int, views: Floats) -> Floats:
    """Return the exponent of the lowest bit that is set.

    >>> find_lowest_bit(0, np.array([[0.75], [3.0], [1 + 2.0**-52]]))
    array([ -2.,   0., -52.])
    """
    mantissa, exponent = np.frexp(fill_missing(views[:, place]))
    bits: Ints = np.abs(mantissa * 2.0**53).astype(np.int64)
    lowest = np.where(bits == 0, 1, bits & -bits)
    return np.asarray(np.where(bits == 0, 0.0, exponent - 53.0 + np.log2(lowest)), np.float64)


def count_repeats(views: Floats) -> Floats:
    """Count the steps of a view that are equal to the one before."""
    steps = np.diff(views, axis=1, prepend=0.0)
    return np.asarray((np.diff(steps, axis=1) == 0).sum(axis=1), np.float64)


MAX_NEWTON_STEPS = 30  # of Newton's method, which ends sooner
RIDGE_WEIGHT = 1e-6
MIN_DEVIATION = 1e-12


def fill_missing(views: Floats) -> Floats:
    """Replace numbers that are not finite by 0."""
    return np.nan_to_num(views, nan=0.0, posinf=0.0, neginf=0.0)


def train_score(one: Floats, other: Floats, places: list[int], *, with_squares: bool) -> Score:
    """Fit a weighted sum of places, and of their squares on request."""
    both = np.concatenate([one[:, places], other[:, places]])
    centre, spread = standardise(fill_missing(both))

    def read_features(views: Floats) -> Floats:
        plain = (fill_missing(views[:, places]) - centre) / spread
        return np.column_stack([plain, np.minimum(plain**2, 100.0)]) if with_squares else plain

    return fit_weights(read_features, one, other)


def fit_weights(read_features: Callable[[Floats], Floats], one: Floats, other: Floats) -> Score:
    """Fit a weighted sum of features and a constant that best separates views of two neighbours."""

    def read_rows(views: Floats) -> Floats:
        return np.column_stack([read_features(views), np.ones(len(views))])

    rows = read_rows(np.concatenate([one, other]))
    label, weights = np.arange(len(rows)) < len(one), np.zeros(rows.shape[1])
    for _ in range(MAX_NEWTON_STEPS):
        chance = 1 / (1 + np.exp(-np.clip(rows @ weights, -30, 30)))
        bend = (rows * (chance * (1 - chance) + RIDGE_WEIGHT)[:, None]).T @ rows
        step = np.linalg.solve(bend + RIDGE_WEIGHT * len(rows) * np.eye(len(weights)), rows.T @ (label - chance))
        weights += step
        if np.abs(step).max() < RIDGE_WEIGHT:
            break
    return lambda views: np.asarray(read_rows(views) @ weights, np.float64)


def standardise(rows: Floats) -> tuple[Floats, Floats]:
    return rows.mean(axis=0), rows.std(axis=0) + MIN_DEVIATION


MAX_ROWS = 10_000  # rows that a turn is found by
MAX_ROTATIONS = 20  # a few are enough, unless there is nothing to be found
ROTATION_TOLERANCE = 1e-5
MIN_VARIANCE_SHARE = 1e-9  # of the largest variance: directions that are below it hold no draw


def fit_ica_score(one: Floats, other: Floats, places: list[int]) -> Score:
    """Fit a weighted sum of places and of the parts they are made of.

    Each is clipped between its means under the two neighbours.
    """
    first, second = fill_missing(one[:, places]), fill_missing(other[:, places])
    centre, spread = standardise(np.concatenate([first, second]))
    apart = (np.concatenate([rows - rows.mean(axis=0) for rows in (first, second)])) / spread
    mixing = np.column_stack([np.diag(1 / spread), find_rotation(apart) / spread[:, None]])
    means = [(rows.mean(axis=0) - centre) @ mixing for rows in (first, second)]
    low, high = np.minimum(*means), np.maximum(*means)

    def read_features(views: Floats) -> Floats:
        parts = (fill_missing(views[:, places]) - centre) @ mixing
        return np.asarray((np.clip(parts, low, high) - (low + high) / 2) / (high - low + MIN_DEVIATION))

    return fit_weights(read_features, one, other)


def find_rotation(rows: Floats) -> Floats:
    """Return weights of columns in parts that are as independent as possible, for rows of mean 0."""
    few = rows[:: 1 + len(rows) // MAX_ROWS]
    variances, directions = np.linalg.eigh(few.T @ few / len(few))
    there = variances > MIN_VARIANCE_SHARE * max(variances[-1], MIN_DEVIATION)
    whitening = directions[:, there] / np.sqrt(variances[there])
    white = few @ whitening
    basis = np.eye(white.shape[1])
    for _ in range(MAX_ROTATIONS):  # steps of a fixed point: away from the Gaussian, and back to right angles
        before, bent = basis, np.tanh(white @ basis.T)
        step = bent.T @ white / len(white) - (1 - bent**2).mean(axis=0)[:, None] * basis
        left, _, right = np.linalg.svd(step)
        basis = left @ right
        if np.abs(np.abs((basis * before).sum(axis=1)) - 1).max(initial=0.0) < ROTATION_TOLERANCE:
            break
    return np.asarray(whitening @ basis.T, np.float64)
