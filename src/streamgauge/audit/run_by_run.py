"""A file as it is, run by run, with all that is public besides its numbers.

    compared     each pair once, under the same noise on both sides: what is public besides numbers must be
                 the same; unbroken, asked to stop and gone on with, and killed at every step of a commit
    suspects     pairs that differ in it: run many times, under louder noise (`louder_noise`), and attacked
    redrawn      a tick that readers had in one life must have the same numbers in the next

Promise
    What differs always is condemned, whatever the claim. What may differ by chance is attacked like all else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil, exp, log

import numpy as np

from streamgauge.audit.broken_runs import EVERY, Broken
from streamgauge.audit.file_copies import Alone
from streamgauge.audit.input_records import Input
from streamgauge.audit.louder_noise import Louder, LouderNoise
from streamgauge.audit.measuring import FEWEST
from streamgauge.audit.neighbour_inputs import Neighbours
from streamgauge.audit.outputs import code
from streamgauge.audit.private_runs import Ended, PrivateRuns
from streamgauge.audit.subject import Pair
from streamgauge.audit.trial_runs import FEW_GROUPS, Trial
from streamgauge.noise import Noise, SecureNoise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Approx, Loss
from streamgauge.testing import InsecureNoise

SEED = 1  # of the noise that both sides of a comparison have: whichever
MOST_ALONE = 4_000  # runs of the file as it is: minutes, and only where thresholds forbid louder noise
COUNTED = 0.4  # of all runs


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
    def of(cls, trial: Trial, pairs: Sequence[Neighbours], *, broken: bool) -> "Comparison":
        found = [compared(trial.runs(Alone(trial.file)), trial, pair) for pair in pairs]
        for each in found:
            if each.one.raised is not None and each.other.raised is not None:
                raise each.other.raised
        redrawn = []
        for way in EVERY if broken and trial.ticks > 1 and not found[0].failing else ():
            runs = trial.runs(Alone(trial.file), way)
            found.append(compared(runs, trial, pairs[0]))
            redrawn += [str(way)] if runs.redrawn else []
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


def compared(runs: PrivateRuns, trial: Trial, pair: Neighbours) -> Compared:
    view = trial.view(FEW_GROUPS)
    one, other = (runs.ended(view, [side], InsecureNoise(SEED)) for side in (pair.one, pair.other))
    return Compared(pair, one, other, runs.broken)


Data = tuple[int, bool]  # the number of what was compared, and which side


@dataclass(frozen=True)
class AsWritten:
    """Runs one by one, of the pairs that differ, or of the dearest if none does."""

    name: str
    loss: Loss
    comparison: Comparison = field(repr=False)
    noise: Noise = field(repr=False)
    said: dict[Data, set[float]] = field(default_factory=dict, repr=False)  # codes of what was public

    @classmethod
    def of(cls, comparison: Comparison, loss: Loss, noise: Noise | None) -> "AsWritten":
        trial = comparison.trial
        louder = Louder.of(trial.plans, loss)
        name = f"{trial.file.path.name}, run by run"
        return cls(name, louder.loss, comparison, LouderNoise(noise or SecureNoise(), louder.times))

    @property
    def attacked(self) -> Sequence[Compared]:
        return self.comparison.suspects or self.comparison.found[:1]

    def needed(self, doubt: float) -> int:
        """Runs: where something differs, as many as condemn what differs always.

        n of n against none show that the one rate is at least p = (doubt/2)^(1/n), the other at most 1 - p,
        which refutes (epsilon, delta) if p > (e^epsilon + delta)/(e^epsilon + 1).
        """
        if not self.comparison.suspects:
            return FEWEST
        claimed = exp(float(self.loss.amount))
        slack = float(self.loss.delta) if isinstance(self.loss, Approx) else 0.0
        counted = log(2 / doubt) / log((claimed + 1) / (claimed + slack))
        return max(FEWEST, min(MOST_ALONE, ceil(counted / COUNTED)))

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
        self.said.setdefault(data, set()).update(codes)
        told = [
            [number, len(each.besides), *each.views[0]] for number, each in zip(codes, ended, strict=True)
        ]
        return np.array(told, np.float64)

    def reasons(self) -> Iterator[str]:
        """What needs no number: of all runs that were made."""
        for number, each in enumerate(self.attacked):
            one, other = (self.said.get((number, side), set()) for side in (True, False))
            if len(one) == len(other) == 1 and one != other:
                yield f"what is public besides numbers differs in every run for {each.name}"
        yield from (f"a tick was published from two draws: {way}" for way in self.comparison.redrawn)
