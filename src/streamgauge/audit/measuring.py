"""An audit by experiment: many runs on neighbours, the best attack that training finds, and what it shows.

    scan        some runs on every pair, and every score, to find the pair and the score that promise most
    train       as many on that pair alone, to find the bins and the event that promise most
    count       all other runs, by that event alone

Promise
    With probability at least `confidence` not one of the numbers that are reported is above the truth: a
    claim that holds is condemned by mistake at most so rarely. Proof: pair, score, bins and events are chosen
    by the scan and in training, the runs that are counted are others (`attack`, `confidence`), and the doubt
    is shared by the bounds that are made of them (`Sought`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from time import perf_counter

import numpy as np

from streamgauge.audit.attack import Attack, learned
from streamgauge.audit.scores import scores
from streamgauge.audit.subject import Pair, Score, Subject
from streamgauge.audit.verdict import Measured, Point
from streamgauge.audit.weighing import CAUTION
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Approx, Loss

RUNS = 10**6
FEWEST = 100
CONFIDENCE = 0.999
SCANNED = 0.1  # of the runs, and as many of training; but no fewer than ENOUGH, or a quarter of all
ENOUGH = 4000
FAVOURED = 4  # the first two pairs, which are the dearest, have a quarter of the scan each at least
HANDICAP = 0.85  # and others must promise more than they do: a scan of many is misled by chance
PROBED = 200  # runs that show how many numbers a view has
NUMBERS = 2**18  # of views that are made at once: few enough for the caches of a processor
LOOKED_AT = 2**24  # numbers of views that a scan of one pair holds at most
DELTA = 1e-5  # at which epsilon is told where the claim has no delta
CURVE = (0.1, 1e-2, 1e-3, 1e-4)  # deltas at which a zCDP claim is tried besides
TOLD = 5  # sightings below which a scan says nothing of a delta
ASIDE = 0.1  # of the doubt, for epsilon at DELTA beside rho, and as much for the curve

Attacks = Sequence[Attack]
Watch = Callable[[int, int], None]  # told how many runs of how many are done


def unseen(done: int, of: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Sought:
    """What is to be bounded, and how surely.

    The doubt is shared: under a zCDP claim most of it is for rho, a tenth for epsilon at DELTA and a tenth
    for the points of the curve that rho implies; else all is for epsilon at the claim's delta, and delta at
    the claimed epsilon is read off the same two rates. So all that is reported holds together.
    """

    loss: Loss
    runs: int
    doubt: float

    @property
    def in_rho(self) -> bool:
        return self.loss.currency == "zCDP"

    @property
    def delta(self) -> float:
        """At which epsilon is looked for."""
        if isinstance(self.loss, Approx):
            return float(self.loss.delta)
        return DELTA if self.in_rho else 0.0

    @cached_property
    def curve(self) -> tuple[tuple[float, float], ...]:
        """Some epsilons and deltas that the claim implies beside its own number: all that rho promises."""
        if not self.in_rho:
            return ()
        return tuple((float(self.loss.as_approx(delta).epsilon), delta) for delta in CURVE)

    def learn(self, name: str, score: Score, one: Floats, other: Floats) -> Attack:
        epsilons = [epsilon for epsilon, _ in self.curve]
        return learned(
            name, score, one, other, runs=self.runs, doubt=self.doubt, delta=self.delta, epsilons=epsilons
        )

    def amount(self, attack: Attack) -> float:
        """What an attack shows, in the currency of the claim."""
        return self._shown(attack, self.doubt * (1 - 2 * ASIDE) if self.in_rho else self.doubt)

    def promised(self, attack: Attack) -> float:
        """The same by the few runs of a scan, which are doubted less: they choose, and bound nothing."""
        return self._shown(attack, max(CAUTION, self.doubt))

    def _shown(self, attack: Attack, doubt: float) -> float:
        return attack.rho(doubt) if self.in_rho else attack.epsilon(doubt, self.delta)

    def points(self, attack: Attack, doubt: float) -> tuple[Point, ...]:
        """What an attack shows of the curve, with this doubt in all."""
        shown = attack.deltas(doubt / max(1, len(self.curve)), [epsilon for epsilon, _ in self.curve])
        return tuple(Point(*at, delta) for at, delta in zip(self.curve, shown, strict=True))

    def excess(self, attack: Attack) -> float:
        """What a scan leaves to be expected of all runs: the largest ratio of a delta to what is claimed.

        Of deltas that its few runs can tell.
        """
        found = self.points(attack.extrapolated(self.runs), max(CAUTION, self.doubt))
        told = (point for point in found if point.delta * attack.runs >= TOLD)
        return max((point.shown / point.delta for point in told), default=0.0)


def measure(
    subject: Subject, runs: int = RUNS, confidence: float = CONFIDENCE, watch: Watch = unseen
) -> Measured:
    """Attacks a subject with so many runs of each neighbour, those of the scan included.

    Where the scan suspects the curve of a claim on another pair than its amount, as many on that one too.
    """
    check_asked(runs, confidence)
    begun, sought = perf_counter(), Sought(subject.loss, runs, 1 - confidence)
    scanned = max(int(runs * SCANNED), min(ENOUGH, runs // 4))
    chosen = scan(subject, scanned, sought)
    rest = partial(count, subject, runs=runs, done=2 * scanned, watch=watch)
    done = [rest(pair, train(subject, scanned, sought, pair, scored)) for pair, scored in chosen]
    main, suspect = (done[0][0], done[0][1][0]), (done[-1][0], done[-1][1][-1])
    return told(sought, main, suspect, confidence, perf_counter() - begun)


def count(
    subject: Subject, pair: Pair, attacks: Attacks, *, runs: int, done: int, watch: Watch
) -> tuple[Pair, Attacks]:
    """All other runs, by what was learned."""
    for size in pieces(runs - done, attacks[0].width):
        one, other = subject.views(pair.one, size), subject.views(pair.other, size)
        attacks = [attack.counted(one, other) for attack in attacks]
        done += size
        watch(done, runs)
    return pair, attacks


def check_asked(runs: int, confidence: float) -> None:
    if runs < FEWEST:
        raise ValueError(f"runs must be at least {FEWEST}, got {runs}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")


def scan(subject: Subject, scanned: int, sought: Sought) -> list[tuple[Pair, Attacks]]:
    """The pair and the attack that promise most: learned on one half, judged by the other.

    And the attack that promises to refute the curve of the claim, if one does: on the same pair, or its own.
    """
    judged = list(trials(subject, scanned, sought))
    if not judged:
        raise ValueError("subject must have a pair of neighbours, got none")
    best = max(judged, key=lambda trial: trial.promised)
    suspect = max(judged, key=lambda trial: trial.excess)
    if suspect.excess <= max(1.0, best.excess):
        return [(best.pair, [best.attack])]
    if suspect.pair is best.pair:
        return [(best.pair, [best.attack, suspect.attack])]
    return [(best.pair, [best.attack]), (suspect.pair, [suspect.attack])]


@dataclass(frozen=True, eq=False)
class Scanned:
    """An attack that was tried on a few runs."""

    pair: Pair
    attack: Attack
    promised: float
    excess: float


def trials(subject: Subject, scanned: int, sought: Sought) -> Iterator[Scanned]:
    """Every score of every pair."""
    pairs = subject.pairs()
    for place, pair in enumerate(pairs):
        size = max(scanned // len(pairs), scanned // FAVOURED if place < FAVOURED // 2 else 0)
        weight = 1.0 if place < FAVOURED // 2 else HANDICAP
        one, other = (looked_at(subject, data, size) for data in (pair.one, pair.other))
        half = len(one) // 2
        for name, score in scores_of(pair, one[:half], other[:half]):
            attack = sought.learn(name, score, one[:half], other[:half])
            judged = attack.counted(one[half:], other[half:])
            yield Scanned(pair, attack, weight * sought.promised(judged), sought.excess(judged))


def train(subject: Subject, runs: int, sought: Sought, pair: Pair, scanned: Attacks) -> Attacks:
    """The same scores, with bins and events from so many runs of their own."""
    one, other = (looked_at(subject, data, runs) for data in (pair.one, pair.other))
    return [sought.learn(attack.name, attack.score, one, other) for attack in scanned]


def looked_at(subject: Subject, data: object, runs: int) -> Floats:
    """Views of so many runs, or of as many as can be held."""
    few = subject.views(data, max(2, min(PROBED, runs)))
    more = min(runs, LOOKED_AT // few.shape[1]) - len(few)
    return np.concatenate([few, subject.views(data, more)]) if more > 0 else few


def scores_of(pair: Pair, one: Floats, other: Floats) -> Iterator[tuple[str, Score]]:
    """The score that came with a pair, under its own name, and all others."""
    if pair.evidence is not None:
        yield getattr(pair.evidence, "name", "likelihood ratio"), pair.evidence
    yield from scores(one, other)


def told(
    sought: Sought,
    main: tuple[Pair, Attack],
    suspect: tuple[Pair, Attack],
    confidence: float,
    seconds: float,
) -> Measured:
    """All numbers together hold with the confidence."""
    loss, (pair, attack) = sought.loss, main
    claimed = loss.as_approx(DELTA).epsilon if sought.in_rho else loss.amount
    doubt = sought.doubt * (ASIDE if sought.in_rho else 1)
    return Measured(
        pair=pair.name,
        score=attack.name,
        runs=attack.runs,
        confidence=confidence,
        amount=sought.amount(attack),
        epsilon=attack.epsilon(doubt, sought.delta),
        delta=sought.delta,
        delta_at_claim=attack.delta(doubt, float(claimed)),
        seconds=seconds,
        points=sought.points(suspect[1], sought.doubt * ASIDE),
        points_pair=suspect[0].name if sought.curve else "",
    )


def pieces(runs: int, width: int) -> Iterator[int]:
    """Sizes that add up to the runs, none of which holds too many numbers at once."""
    size = max(1000, NUMBERS // width)
    for done in range(0, runs, size):
        yield min(size, runs - done)
