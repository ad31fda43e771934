"""An audit by experiment: many runs on neighbours, the best attack that training finds, and what it shows.

    scan        some runs on every pair, and every score, to find the pair and the score that promise most
    train       as many on that pair alone, to find the bins and the event that promise most
    count       all other runs, by that event alone

Promise
    With probability at least `confidence` the loss that is reported is no more than the true loss: a claim
    that holds is condemned by mistake at most so rarely. Proof: pair, score, bins and event are chosen by the
    scan and in training, and the runs that are counted are others (`attack`, `confidence`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from streamgauge.audit.attack import Attack, learned
from streamgauge.audit.scores import scores
from streamgauge.audit.subject import Pair, Score, Subject
from streamgauge.audit.verdict import Measured
from streamgauge.audit.weighing import CAUTION
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Approx, Loss

RUNS = 10**6
FEWEST = 100
CONFIDENCE = 0.999
SCANNED = 0.1  # of the runs, and as many of training; but no fewer than ENOUGH, or a quarter of all
ENOUGH = 4000
PROBED = 200  # runs that show how many numbers a view has
NUMBERS = 2**22  # of views that are held at once
LOOKED_AT = 2**24  # numbers of views that a scan of one pair holds at most
DELTA = 1e-5  # at which epsilon is told where the claim has no delta

Watch = Callable[[int, int], None]  # told how many runs of how many are done


def unseen(done: int, of: int) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Asked:
    """What is to be bounded, and how surely."""

    loss: Loss
    runs: int
    doubt: float

    @property
    def delta(self) -> float:
        """At which epsilon is looked for."""
        if isinstance(self.loss, Approx):
            return float(self.loss.delta)
        return 0.0 if self.loss.currency == "pure" else DELTA

    def learn(self, name: str, score: Score, one: Floats, other: Floats) -> Attack:
        return learned(name, score, one, other, runs=self.runs, doubt=self.doubt, delta=self.delta)

    def amount(self, attack: Attack) -> float:
        """What an attack shows, in the currency of the claim."""
        return self._shown(attack, self.doubt)

    def promised(self, attack: Attack) -> float:
        """The same by the few runs of a scan, which are doubted less: they choose, and bound nothing."""
        return self._shown(attack, max(CAUTION, self.doubt))

    def _shown(self, attack: Attack, doubt: float) -> float:
        if self.loss.currency == "zCDP":
            return attack.rho(doubt)
        return attack.epsilon(doubt, self.delta)


def measure(
    subject: Subject, runs: int = RUNS, confidence: float = CONFIDENCE, watch: Watch = unseen
) -> Measured:
    """Attacks a subject with so many runs of each neighbour, those of the scan included."""
    check_asked(runs, confidence)
    begun, asked = perf_counter(), Asked(subject.loss, runs, 1 - confidence)
    scanned = max(int(runs * SCANNED), min(ENOUGH, runs // 4))
    pair, attack = train(subject, scanned, asked, *scan(subject, scanned, asked))
    done = 2 * scanned
    for size in pieces(runs - done, attack.width):
        attack = attack.counted(subject.views(pair.one, size), subject.views(pair.other, size))
        done += size
        watch(done, runs)
    return found(asked, pair, attack, confidence, perf_counter() - begun)


def check_asked(runs: int, confidence: float) -> None:
    if runs < FEWEST:
        raise ValueError(f"runs must be at least {FEWEST}, got {runs}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, got {confidence}")


def scan(subject: Subject, scanned: int, asked: Asked) -> tuple[Pair, Attack]:
    """The pair and the attack that promise most: learned on one half, judged by the other."""
    best: tuple[float, Pair, Attack] | None = None
    pairs = subject.pairs()
    for pair in pairs:
        one, other = (looked_at(subject, data, scanned // len(pairs)) for data in (pair.one, pair.other))
        half = len(one) // 2
        for name, score in tried(pair, one[:half], other[:half]):
            attack = asked.learn(name, score, one[:half], other[:half])
            shown = asked.promised(attack.counted(one[half:], other[half:]))
            if best is None or shown > best[0]:
                best = shown, pair, attack
    if best is None:
        raise ValueError("subject must have a pair of neighbours, got none")
    return best[1], best[2]


def train(subject: Subject, runs: int, asked: Asked, pair: Pair, scanned: Attack) -> tuple[Pair, Attack]:
    """The same score, with bins and an event from so many runs of its own."""
    one, other = (looked_at(subject, data, runs) for data in (pair.one, pair.other))
    return pair, asked.learn(scanned.name, scanned.score, one, other)


def looked_at(subject: Subject, data: object, runs: int) -> Floats:
    """Views of so many runs, or of as many as can be held."""
    few = subject.views(data, max(2, min(PROBED, runs)))
    more = min(runs, LOOKED_AT // few.shape[1]) - len(few)
    return np.concatenate([few, subject.views(data, more)]) if more > 0 else few


def tried(pair: Pair, one: Floats, other: Floats) -> Iterator[tuple[str, Score]]:
    if pair.evidence is not None:
        yield "likelihood ratio", pair.evidence
    yield from scores(one, other)


def found(asked: Asked, pair: Pair, attack: Attack, confidence: float, seconds: float) -> Measured:
    """Each number by itself holds with the confidence."""
    loss = asked.loss
    claimed = loss.as_approx(DELTA).epsilon if loss.currency == "zCDP" else loss.amount
    return Measured(
        pair=pair.name,
        score=attack.name,
        runs=attack.runs,
        confidence=confidence,
        amount=asked.amount(attack),
        epsilon=attack.epsilon(asked.doubt, asked.delta),
        delta=asked.delta,
        delta_at_claim=attack.delta(asked.doubt, float(claimed)),
        seconds=seconds,
    )


def pieces(runs: int, width: int) -> Iterator[int]:
    """Sizes that add up to the runs, none of which holds too many numbers at once."""
    size = max(1000, NUMBERS // width)
    for done in range(0, runs, size):
        yield min(size, runs - done)
