"""A pipeline file under audit, end to end and as it is written: real runs on neighbouring inputs.

    declarations -> neighbouring inputs -> real runs of a copy of the file -> what its sinks have -> attack

Inputs are made of declarations (see `neighbour_inputs`), over the first ticks of the stream. Runs are of the
real planner, engine, store and sinks, with real noise, many in one (see `file_copies`, `private_runs`). What
is attacked is what readers see: every number of every row, which rows there are, what else is printed, raised
or named. Each release is held against its own loss, all of them together against what the ledger charges for
them; and the file as it is, run by run, against the same.

Privacy
    Nothing is charged, because nothing real is read: the pipeline's source, store, key and budget are not
    touched, and what is published here is about records that nobody lived.

What it cannot show: a loss that comes with later ticks, or with records that are not tried. `exact` is what
the plan loses within the ticks that were run, which is the most that can be measured of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil, exp, log, log1p

import numpy as np

from streamgauge.audit.exact import Worst
from streamgauge.audit.file_copies import Alone, Copies
from streamgauge.audit.input_records import Input
from streamgauge.audit.measuring import CONFIDENCE, FEWEST, measure
from streamgauge.audit.neighbour_inputs import Neighbours
from streamgauge.audit.outputs import code
from streamgauge.audit.pipeline_claims import charged, claim_of, computed
from streamgauge.audit.private_runs import PrivateRuns, private_folder
from streamgauge.audit.readings import evidence_of
from streamgauge.audit.sink_rows import View
from streamgauge.audit.subject import Pair, Score
from streamgauge.audit.trial_runs import MOST_GROUPS, Trial
from streamgauge.audit.verdict import Verdict
from streamgauge.noise import Ints, Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss
from streamgauge.query.planner import Planned
from streamgauge.query.settings import PipelineFile

TICKS = 4
RUNS = 20_000
SLOW_RUNS = 2_000  # where a copy has few runs in one
MOST_ALONE = 400  # runs of the file as it is

Key = tuple[int, bool]  # the number of a pair, and which side
Told = Callable[[str, int, int], None]  # which subject, and how many runs of how many are done


def unwatched(subject: str, done: int, of: int) -> None:
    """Nobody waits."""


@dataclass
class Bank:
    """Views of real runs, kept so that every release is attacked with the same runs, each run once."""

    runs: PrivateRuns
    view: View
    pairs: Sequence[Neighbours]
    kept: dict[Key, Floats] = field(default_factory=dict, repr=False)
    taken: dict[tuple[str, Key], int] = field(default_factory=dict, repr=False)

    def take(self, reader: str, key: Key, count: int) -> Floats:
        """The next views that this reader has not seen."""
        begin = self.taken.get((reader, key), 0)
        end = begin + count
        blocks = [self.kept.get(key, np.empty((0, self.view.size)))]
        while sum(map(len, blocks)) < end:
            blocks.append(self.runs.shown(self.view, [self.pairs[key[0]].sides[key[1]]]))
        self.kept[key] = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        self.taken[reader, key] = end
        return self.kept[key][begin:end]


@dataclass(frozen=True)
class PipelineSubject:
    """Some releases of a file, to those who read its sinks."""

    name: str
    loss: Loss
    computed: Worst | None
    bank: Bank = field(repr=False)
    places: Ints = field(repr=False)
    evidence: Sequence[Score | None] = field(repr=False)  # of each pair

    def pairs(self) -> Sequence[Pair]:
        named = enumerate(zip(self.bank.pairs, self.evidence, strict=True))
        return [Pair(pair.name, (place, True), (place, False), score) for place, (pair, score) in named]

    def views(self, data: Key, runs: int) -> Floats:
        return self.bank.take(self.name, data, runs)[:, self.places]


@dataclass(frozen=True)
class AsWritten:
    """The file as it is, run by run, with all that is public besides its rows."""

    name: str
    loss: Loss
    runs: PrivateRuns = field(repr=False)
    view: View = field(repr=False)
    attacked: Sequence[Neighbours] = field(repr=False)
    suspect: bool  # whether something was seen to differ
    failing: Sequence[Neighbours] = field(repr=False)  # pairs of which one side cannot be run
    computed: Worst | None = None

    def needed(self, doubt: float) -> int:
        """Runs: where something differs, as many as condemn what differs always.

        Half of them are counted, and n of n against none show log(p/(1 - p)), p = (doubt/2)^(1/n).
        """
        if not self.suspect:
            return FEWEST
        counted = log(2 / doubt) / log1p(exp(-float(self.loss.amount)))
        return max(FEWEST, min(MOST_ALONE, ceil(2.5 * counted)))

    def pairs(self) -> Sequence[Pair]:
        return [Pair(pair.name, pair.one, pair.other) for pair in self.attacked]

    def views(self, data: Input, runs: int) -> Floats:
        ended = [self.runs.ended(self.view, [data]) for _ in range(runs)]
        return np.array([[code(each.besides), *each.views[0]] for each in ended])


def audit_pipeline(
    file: PipelineFile,
    *,
    ticks: int = TICKS,
    runs: int | None = None,
    alone: bool = True,
    confidence: float = CONFIDENCE,
    watch: Told = unwatched,
    noise: Noise | None = None,
) -> list[Verdict]:
    """All verdicts on a file: each release, all of them together and, unless `alone` is False, run by run.

    With `confidence` none of the bounds is above the truth.
    """
    with private_folder() as folder:
        trial = Trial.of(file, ticks, folder)
        pairs, loss = trial.pairs(), charged(file, folder)
        written = as_written(trial, pairs, loss, noise)
        count = len(file.releases) + 2
        doubt = (1 - confidence) / count
        judge = partial(judged, confidence=1 - doubt, watch=watch)
        last = [judge(written, written.needed(doubt))] if alone or written.suspect else []
        sound = [pair for pair in pairs if pair not in written.failing]
        asked = runs or (RUNS if trial.fast else SLOW_RUNS)
        subjects = subjects_of(trial, sound, trial.copies(asked), loss, noise) if sound else []
        return [judge(subject, asked) for subject in subjects] + last


def judged(subject: PipelineSubject | AsWritten, runs: int, confidence: float, watch: Told) -> Verdict:
    worst = subject.computed
    return Verdict(
        subject=subject.name,
        loss=subject.loss,
        exact=None if worst is None else float(worst.amount),
        exact_pair="" if worst is None else str(worst),
        measured=measure(subject, runs, confidence, partial(watch, subject.name)),
    )


def as_written(trial: Trial, pairs: Sequence[Neighbours], loss: Loss, noise: Noise | None) -> AsWritten:
    """On the pairs that differ in what is public besides rows; on the dearest, if none does."""
    runs, view = trial.runs(Alone(trial.file)), trial.view(MOST_GROUPS)
    runs.noise = noise
    differ, failing = [], []
    for pair in pairs:
        one, other = (runs.ended(view, [side]) for side in (pair.one, pair.other))
        if one.raised is not None and other.raised is not None:
            raise other.raised
        if one.besides != other.besides:
            differ.append(pair)
        if one.raised is not None or other.raised is not None:
            failing.append(pair)
    name = f"{trial.file.path.name}, run by run"
    return AsWritten(name, loss, runs, view, differ or pairs[:1], bool(differ), failing)


def subjects_of(
    trial: Trial, pairs: Sequence[Neighbours], copies: Copies, loss: Loss, noise: Noise | None
) -> list[PipelineSubject]:
    """Each release, and all of them if there are several."""
    runs, view = trial.runs(copies), trial.narrowed(pairs)
    runs.noise = noise
    bank, name = Bank(runs, view, pairs), trial.file.path.name
    silent = trial.silent(view, [side for pair in pairs for side in (pair.one, pair.other)])
    both = silent.reshape(len(pairs), 2, -1)

    def subject(called: str, claim: Loss, plans: Sequence[Planned]) -> PipelineSubject:
        own, places = view.only({plan.name for plan in plans})
        evidence = [evidence_of(own, *sides[:, places]) for sides in both]
        return PipelineSubject(called, claim, computed(plans, trial.ticks, claim), bank, places, evidence)

    alone = [subject(f"{name}: {plan.name}", claim_of(plan), [plan]) for plan in trial.plans]
    return alone if len(alone) == 1 else [*alone, subject(name, loss, trial.plans)]
