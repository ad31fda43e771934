"""An audit by experiment: many runs on neighbours, the best attack of training, and its result.

    scan     some runs on every pair, and every score, to find the pair and the score that promise most
    train    as many on that pair alone, to find the bins and the event that promise most
    count    all other runs, by that event alone

Promise
    With probability at least `confidence` no reported number is above the truth, so a claim that holds is condemned by
    mistake at most so rarely. Proof: the scan and the training choose pair, score, bins and events. The counted runs
    are others (`attack`, `confidence`), and their bounds share the doubt (`MeasurementGoal`).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from time import perf_counter

import numpy as np

from streamgauge.audit.attack import attack as attacks
from streamgauge.audit.attack.attack import CAUTIOUS_DOUBT, Attack, fit_scores
from streamgauge.audit.subject import Pair, Score, Subject
from streamgauge.audit.verdict import CurvePoint, Measurement
from streamgauge.interfaces import ignore
from streamgauge.noise.coerce import Floats
from streamgauge.privacy import Approx, IntegerZcdp, Loss

DEFAULT_RUNS = 10**6
MIN_RUNS = 100
DEFAULT_CONFIDENCE = 0.999
SCAN_SHARE = 0.1  # of the runs, and as many of training; but no fewer than ENOUGH, or a quarter of all
MIN_SCAN_RUNS = 4000
FAVOURED_SCAN_DIVISOR = 4  # the first two pairs, the worst, have a quarter of the scan each at least
OTHER_PAIR_FACTOR = 0.85  # and others must promise more than they do: a scan of many is misled by chance
PROBE_RUNS = 200  # runs that show how many numbers a view has
MAX_CHUNK_NUMBERS = 2**18  # of views that are made at once: few enough for the caches of a processor
MAX_SCAN_NUMBERS = 2**24  # numbers of views that a scan of one pair holds at most
DEFAULT_DELTA = 1e-5  # of the reported epsilon, if the claim has no delta
CURVE_DELTAS = (0.1, 1e-2, 1e-3, 1e-4)  # deltas at which a zCDP claim is tried besides
MIN_SIGHTINGS = 5  # sightings below which a scan says nothing of a delta
RESERVED_DOUBT_SHARE = 0.1  # of the doubt, for epsilon at DEFAULT_DELTA, and as much for the curve

Attacks = Sequence[Attack]
ScoreFitter = Callable[[Floats, Floats], Iterable[tuple[str, Score]]]  # of training views of two neighbours
ProgressCallback = Callable[[int, int], None]  # runs that are done, and all


@dataclass(frozen=True)
class MeasurementGoal:
    """The loss to be bounded, with the runs and the doubt.

    The doubt is shared: under a zCDP claim most of it is for rho, a tenth for epsilon at DELTA and a tenth
    for the points of the curve that rho implies; else all is for epsilon at the claim's delta, and delta at
    the claimed epsilon is read off the same two rates. So all that is reported holds together.
    """

    loss: Loss
    runs: int
    doubt: float

    @property
    def is_zcdp(self) -> bool:
        return self.loss.currency == "zCDP"

    @property
    def delta(self) -> float:
        """At which epsilon is looked for."""
        if isinstance(self.loss, Approx):
            return float(self.loss.delta)
        return DEFAULT_DELTA if self.is_zcdp else 0.0

    @cached_property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Some epsilons and deltas that rho implies, under a zCDP claim."""
        if not self.is_zcdp:
            return ()
        return tuple((float(self.loss.as_approx(delta).epsilon), delta) for delta in CURVE_DELTAS)

    def learn(self, name: str, score: Score, one: Floats, other: Floats) -> Attack:
        """Learn the events and the evidence that are best for the runs to come, from training views."""
        observed = attacks.score_views(score, one), attacks.score_views(score, other)
        edges = attacks.compute_edges(np.sort(np.concatenate(observed)))
        count = partial(attacks.count_bins, edges)
        halves = [(count(observed[0][half::2]), count(observed[1][half::2])) for half in (0, 1)]
        training = attacks.TrainingCounts(halves[0], halves[1], self.runs, self.doubt)
        (event,) = training.find_best_events([partial(attacks.bound_log_ratio, self.delta)], CAUTIOUS_DOUBT)
        excesses = [partial(attacks.bound_excess, epsilon) for epsilon, _ in self.curve]
        curve = training.find_best_events(excesses, attacks.BOLD_DOUBT)
        nothing = np.zeros(len(edges) + 1, np.int64)
        return Attack(name, one.shape[1], score, edges, training, event, curve, nothing, nothing)

    def measure_amount(self, attack: Attack, doubt: float) -> float:
        """Return the loss that an attack shows, in the currency of the claim."""
        if not self.is_zcdp:
            return attack.epsilon(doubt, self.delta)
        return attack.rho(doubt, integer_orders=isinstance(self.loss, IntegerZcdp))

    def measure_points(self, attack: Attack, doubt: float) -> tuple[CurvePoint, ...]:
        """Return the points of the curve that an attack shows, with this doubt in all."""
        shown = attack.deltas(doubt / max(1, len(self.curve)), [epsilon for epsilon, _ in self.curve])
        return tuple(CurvePoint(*at, delta) for at, delta in zip(self.curve, shown, strict=True))

    def predict_excess(self, attack: Attack) -> float:
        """Return the largest ratio of a delta to the claimed one that a scan predicts for all runs.

        Of deltas that its few runs can tell.
        """
        found = self.measure_points(attack.extrapolate(self.runs), max(CAUTIOUS_DOUBT, self.doubt))
        shown = (point for point in found if point.delta * attack.runs >= MIN_SIGHTINGS)
        return max((point.measured_delta / point.delta for point in shown), default=0.0)


def measure(
    subject: Subject,
    runs: int = DEFAULT_RUNS,
    confidence: float = DEFAULT_CONFIDENCE,
    watch: ProgressCallback = ignore,
    fit: ScoreFitter = fit_scores,
) -> Measurement:
    """Attack a subject with so many runs of each neighbour, those of the scan included, by the scores of `fit`.

    Where the scan suspects the curve of a claim on another pair than its amount, as many on that one too.
    """
    validate_request(runs, confidence)
    begun, sought = perf_counter(), MeasurementGoal(subject.loss, runs, 1 - confidence)
    scanned = max(int(runs * SCAN_SHARE), min(MIN_SCAN_RUNS, runs // 4))
    chosen = scan(subject, scanned, sought, fit)
    rest = partial(count_runs, subject, runs=runs, done=2 * scanned, watch=watch)
    done = [rest(pair, train(subject, scanned, sought, pair, scored)) for pair, scored in chosen]
    main, suspect = (done[0][0], done[0][1][0]), (done[-1][0], done[-1][1][-1])
    return build_measurement(sought, main, suspect, confidence, perf_counter() - begun)


def count_runs(
    subject: Subject, pair: Pair, learned: Attacks, *, runs: int, done: int, watch: ProgressCallback
) -> tuple[Pair, Attacks]:
    """Count all other runs by the learned attacks."""
    block = max(1000, MAX_CHUNK_NUMBERS // learned[0].width)
    while done < runs:
        size = min(block, runs - done)
        one, other = subject.views(pair.one, size), subject.views(pair.other, size)
        learned = [attack.add_runs(one, other) for attack in learned]
        done += size
        watch(done, runs)
    return pair, learned


def validate_request(runs: int, confidence: float) -> None:
    if runs < MIN_RUNS:
        raise ValueError(f"runs must be at least {MIN_RUNS}, got {runs}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")


def scan(subject: Subject, scanned: int, sought: MeasurementGoal, fit: ScoreFitter) -> list[tuple[Pair, Attacks]]:
    """Find the pair and the attack that promise most: learned on one half, judged by the other.

    And the attack that promises to refute the curve of the claim, if one does: on the same pair, or its own.
    """
    judged = list(run_trials(subject, scanned, sought, fit))
    if not judged:
        raise ValueError("subject must have a pair of neighbours, got none")
    best = max(judged, key=lambda trial: trial.predicted_amount)
    suspect = max(judged, key=lambda trial: trial.excess)
    if suspect.excess <= max(1.0, best.excess):
        return [(best.pair, [best.attack])]
    if suspect.pair is best.pair:
        return [(best.pair, [best.attack, suspect.attack])]
    return [(best.pair, [best.attack]), (suspect.pair, [suspect.attack])]


@dataclass(frozen=True, eq=False)
class ScannedAttack:
    """An attack that was tried on a few runs."""

    pair: Pair
    attack: Attack
    predicted_amount: float
    excess: float


def run_trials(subject: Subject, scanned: int, sought: MeasurementGoal, fit: ScoreFitter) -> Iterator[ScannedAttack]:
    """Try every score of every pair."""
    pairs = subject.pairs()
    for place, pair in enumerate(pairs):
        size = max(scanned // len(pairs), scanned // FAVOURED_SCAN_DIVISOR if place < FAVOURED_SCAN_DIVISOR // 2 else 0)
        weight = 1.0 if place < FAVOURED_SCAN_DIVISOR // 2 else OTHER_PAIR_FACTOR
        one, other = (sample_views(subject, data, size) for data in (pair.one, pair.other))
        half = len(one) // 2
        known = [] if pair.evidence is None else [(getattr(pair.evidence, "name", "likelihood ratio"), pair.evidence)]
        for name, score in (*known, *fit(one[:half], other[:half])):
            attack = sought.learn(name, score, one[:half], other[:half])
            judged = attack.add_runs(one[half:], other[half:])
            promised = weight * sought.measure_amount(judged, max(CAUTIOUS_DOUBT, sought.doubt))
            yield ScannedAttack(pair, attack, promised, sought.predict_excess(judged))


def train(subject: Subject, runs: int, sought: MeasurementGoal, pair: Pair, scanned: Attacks) -> Attacks:
    """Learn the same scores again, with bins and events from runs of their own."""
    one, other = (sample_views(subject, data, runs) for data in (pair.one, pair.other))
    return [sought.learn(attack.name, attack.score, one, other) for attack in scanned]


def sample_views(subject: Subject, data: object, runs: int) -> Floats:
    """Return views of so many runs, or of as many as memory allows."""
    few = subject.views(data, max(2, min(PROBE_RUNS, runs)))
    more = min(runs, MAX_SCAN_NUMBERS // few.shape[1]) - len(few)
    return np.concatenate([few, subject.views(data, more)]) if more > 0 else few


def build_measurement(
    sought: MeasurementGoal, main: tuple[Pair, Attack], suspect: tuple[Pair, Attack], confidence: float, seconds: float
) -> Measurement:
    """Build the measurement: all its numbers hold together with the confidence."""
    loss, (pair, attack) = sought.loss, main
    claimed = loss.as_approx(DEFAULT_DELTA).epsilon if sought.is_zcdp else loss.amount
    doubt = sought.doubt * (RESERVED_DOUBT_SHARE if sought.is_zcdp else 1)
    return Measurement(
        pair=pair.name,
        score=attack.name,
        runs=attack.runs,
        confidence=confidence,
        amount=sought.measure_amount(attack, sought.doubt * (1 - 2 * RESERVED_DOUBT_SHARE if sought.is_zcdp else 1)),
        epsilon=attack.epsilon(doubt, sought.delta),
        delta=sought.delta,
        delta_at_claim=attack.delta(doubt, float(claimed)),
        seconds=seconds,
        points=sought.measure_points(suspect[1], sought.doubt * RESERVED_DOUBT_SHARE),
        points_pair=suspect[0].name if sought.curve else "",
    )
