"""A file as it is, run by run, with all that is public besides its numbers.

    compared     each pair once, under the same noise on both sides: what is public besides numbers must be
                 the same; unbroken, asked to stop and gone on with, and killed at every step of a commit
    suspects     pairs that differ in it: run many times, under louder noise (`louder_noise`), and attacked;
                 if there are none, nothing is left to be measured
    redrawn      a tick that readers had in one life must have the same numbers in the next

Promise
    What differs always is condemned, whatever the claim, where noise can be louder. Where it cannot (groups
    that are discovered over a threshold) a claim may allow it, and it is held against what n runs of n show
    beside none of n (Clopper and Pearson); where that is too little, it is told as undecided. Proof: the
    first run of each side names the event, all others are counted. What may differ by chance is attacked like
    all else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, exp, log, log1p

import numpy as np

from streamgauge.audit.broken_runs import EVERY, Broken
from streamgauge.audit.confidence import LARGEST, epsilon_seen
from streamgauge.audit.file_copies import Alone
from streamgauge.audit.input_records import Input
from streamgauge.audit.louder_noise import Louder, LouderNoise
from streamgauge.audit.measuring import FEWEST, Watch, unseen
from streamgauge.audit.outputs import code
from streamgauge.audit.private_runs import Ended, PrivateRuns
from streamgauge.audit.subject import Pair
from streamgauge.audit.trial_runs import FEW_GROUPS, Trial
from streamgauge.audit.unit_inputs import Neighbours
from streamgauge.audit.verdict import shown
from streamgauge.noise import Noise, SecureNoise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Approx, Loss
from streamgauge.testing import InsecureNoise

SEED = 1  # of the noise that both sides of a comparison have: whichever
MOST_ALONE = 4_000  # runs of the file as it is: minutes, and only where thresholds forbid louder noise
COUNTED = 0.4  # of all runs
FEW_SUSPECTS = 2  # where nothing may differ: each of them is enough


@dataclass(frozen=True)
class Compared:
    """A pair that was run once on each side, under the same noise, broken off or not."""

    pair: Neighbours
    one: Ended = field(repr=False)
    other: Ended = field(repr=False)
    broken: Broken | None = None

    @property
    def name(self) -> str:
        return self.pair.name if self.broken is None else f"{self.pair.name}, {self.broken}"

    @property
    def differs(self) -> bool:
        """In what is public besides numbers."""
        return self.one.besides != self.other.besides

    @property
    def failing(self) -> bool:
        return self.one.raised is not None or self.other.raised is not None

    @property
    def shows(self) -> tuple[tuple[str, ...], ...]:
        return self.one.all, self.other.all


@dataclass(frozen=True)
class Comparison:
    """All pairs of a trial."""

    trial: Trial
    found: Sequence[Compared]
    redrawn: Sequence[str]  # how runs were broken off that published a tick from two draws

    @classmethod
    def of(
        cls, trial: Trial, pairs: Sequence[Neighbours], *, broken: bool, watch: Watch = unseen
    ) -> "Comparison":
        runs, ended = trial.runs(Alone(trial.file)), dict[Input, Ended]()
        sides = dict.fromkeys(side for pair in pairs for side in pair.sides)
        for side in sides:
            ended[side] = seeded(runs, trial, side)
            watch(len(ended), len(sides))
        found = [Compared(pair, ended[pair.one], ended[pair.other]) for pair in pairs]
        for each in found:
            if each.one.raised is not None and each.other.raised is not None:
                raise each.other.raised
        redrawn = []
        for way in EVERY if broken and trial.ticks > 1 and not found[0].failing else ():
            lives = trial.runs(Alone(trial.file), way)
            one, other = (seeded(lives, trial, side) for side in (pairs[0].one, pairs[0].other))
            found.append(Compared(pairs[0], one, other, way))
            redrawn += [str(way)] if lives.redrawn else []
        return cls(trial, found, redrawn)

    @property
    def suspects(self) -> list[Compared]:
        return [each for each in self.found if each.differs]

    @property
    def telling(self) -> list[Neighbours]:
        """Pairs to be attacked: that can be run, and show neither the same nor what an earlier one shows."""
        kept: dict[object, Neighbours] = {}
        for each in self.found:
            if not each.failing and each.one.all != each.other.all:
                kept.setdefault(each.shows, each.pair)
        sound = [each.pair for each in self.found if not each.failing]
        return list(dict.fromkeys(kept.values())) or sound[:1]


def seeded(runs: PrivateRuns, trial: Trial, side: Input) -> Ended:
    """One run on one side, under the noise that all sides have."""
    return runs.ended(trial.view(FEW_GROUPS), [side], InsecureNoise(SEED))


Data = tuple[int, bool]  # the number of what was compared, and which side


@dataclass(frozen=True)
class AsWritten:
    """Runs one by one, of the pairs that differ."""

    name: str
    loss: Loss
    comparison: Comparison = field(repr=False)
    noise: Noise = field(repr=False)
    said: dict[Data, list[float]] = field(default_factory=dict, repr=False)  # codes of what was public

    @classmethod
    def of(cls, comparison: Comparison, loss: Loss, noise: Noise | None) -> "AsWritten":
        trial = comparison.trial
        louder = Louder.of(trial.plans, loss)
        name = f"{trial.file.path.name}, run by run"
        return cls(name, louder.loss, comparison, LouderNoise(noise or SecureNoise(), louder.times))

    @property
    def attacked(self) -> Sequence[Compared]:
        """Those that differ: all of them where honest ones may, by chance, else the first few."""
        return self.comparison.suspects[: None if self.comparison.trial.discovered else FEW_SUSPECTS]

    @property
    def slack(self) -> float:
        return float(self.loss.delta) if isinstance(self.loss, Approx) else 0.0

    def needed(self, doubt: float) -> int:
        """Runs: as many as condemn what differs always, or the fewest where no affordable number does.

        n of n against none show that the one rate is at least p = (doubt/2)^(1/n), the other at most 1 - p,
        which refutes (epsilon, delta) if p > (e^epsilon + delta)/(e^epsilon + 1).
        """
        claimed = exp(min(float(self.loss.amount), LARGEST))
        counted = log(2 / doubt) / log1p((1 - self.slack) / (claimed + self.slack))
        runs = max(FEWEST, ceil(counted / COUNTED))
        return runs if runs <= MOST_ALONE else FEWEST

    def pairs(self) -> Sequence[Pair]:
        named = enumerate(self.attacked)
        return [Pair(each.name, (number, True), (number, False)) for number, each in named]

    def views(self, data: Data, runs: int) -> Floats:
        """What is public besides numbers comes first: a code of it, and its length."""
        found, trial = self.attacked[data[0]], self.comparison.trial
        alone = trial.runs(Alone(trial.file), found.broken)
        side: Input = found.pair.sides[data[1]]
        view = trial.view(FEW_GROUPS)
        ended = [alone.ended(view, [side], self.noise) for _ in range(runs)]
        codes = [code(each.besides) for each in ended]
        self.said.setdefault(data, []).extend(codes)
        told = [
            [number, len(each.besides), *each.views[0]] for number, each in zip(codes, ended, strict=True)
        ]
        return np.array(told, np.float64)

    def reasons(self, doubt: float) -> Iterator[str]:
        """Of all runs that were made: what differs in each of them, if that is more than is claimed."""
        for name, epsilon in self._always(doubt):
            if epsilon > self.loss.amount:
                claim = f"epsilon {shown(epsilon)} > {shown(float(self.loss.amount))}"
                yield f"what is public besides numbers differs in every run for {name}: {claim}"
        yield from (f"a tick was published from two draws: {way}" for way in self.comparison.redrawn)

    def doubts(self, doubt: float) -> Iterator[str]:
        """The same where it is not more than is claimed: a line for all of it."""
        names = [name for name, epsilon in self._always(doubt) if epsilon <= self.loss.amount]
        if names:
            yield f"undecided: something differs in every run that was tried for {names[0]}"

    def _always(self, doubt: float) -> Iterator[tuple[str, float]]:
        """What differs in every run, and the epsilon that so many runs show of it; doubt is shared."""
        for number, each in enumerate(self.attacked):
            one, other = (self.said.get((number, side), []) for side in (True, False))
            counted = min(len(one), len(other)) - 1  # the first ones name the event
            if counted > 0 and len(set(one)) == len(set(other)) == 1 and one[0] != other[0]:
                own = doubt / len(self.attacked)
                yield each.name, epsilon_seen(counted, 0, counted, own, self.slack)
