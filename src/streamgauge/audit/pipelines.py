"""A pipeline file under audit, end to end and as it is written: real runs on neighbouring inputs.

    declarations -> neighbouring inputs -> real runs of a copy of the file -> what its sinks have -> attack

Inputs are made of declarations (see `neighbour_inputs`), over the first ticks of the stream. Runs are of the
real planner, engine, store and sinks, with real noise, many in one (see `file_copies`, `private_runs`). What
is attacked is what readers see: every number of every row, which rows there are, their text, what else is
printed, raised or named.

    each release            by those pairs that move it most, against its own loss
    the file                all releases together, against what the ledger charges for them
    stopped and resumed     the same, broken off in the second tick: what was seen in both lives
    run by run              the file as it is, with all that is public besides numbers (see `run_by_run`)
    a column of reports     the law of what one device sends, computed; its releases are functions of it

Privacy
    Nothing is charged, because nothing real is read: the pipeline's source, store, key and budget are not
    touched, and what is published here is about records that nobody lived.

What it cannot show: a loss that comes with later ticks, or with records that are not tried. `exact` is what
the plan loses over its horizon, `within` what it loses in the ticks that were run, the most that can be
measured of it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from streamgauge.audit.broken_runs import PUBLISHED, Broken
from streamgauge.audit.local_columns import of_columns, without_reports
from streamgauge.audit.measuring import CONFIDENCE, FEWEST, measure
from streamgauge.audit.pipeline_claims import charged, claim_of, computed, horizon
from streamgauge.audit.private_runs import private_folder
from streamgauge.audit.readings import evidence_of
from streamgauge.audit.report import share
from streamgauge.audit.run_banks import Bank, PipelineSubject, of_both_lives
from streamgauge.audit.run_by_run import AsWritten, Comparison
from streamgauge.audit.subject import Subject
from streamgauge.audit.trial_runs import Trial, moved
from streamgauge.audit.unit_inputs import Neighbours
from streamgauge.audit.verdict import Measured, Verdict
from streamgauge.noise import Noise
from streamgauge.noise.numbers import Floats
from streamgauge.privacy import Loss
from streamgauge.query.planner import Planned
from streamgauge.query.settings import PipelineFile

FEW_TICKS, MOST_TICKS = 3, 4  # that are run unless told otherwise: one before, in and after a break
RUNS = 12_000
SLOW_RUNS, FEWEST_SLOW = 2_000, 240  # where a copy has few runs in one: of one release, and of many
BROKEN = 5  # one run in so many is broken off
DEAREST = 2  # pairs that are attacked with, whether they move the same or not
FEW_PAIRS = 1  # that a release is attacked with by itself, where all together are attacked with all

Told = Callable[[str, int, int], None]  # which subject, and how many runs of how many are done


def nobody(subject: str, done: int, of: int) -> None:
    """Nobody waits."""


def audit_pipeline(
    file: PipelineFile,
    *,
    ticks: int | None = None,
    runs: int | None = None,
    alone: bool = True,
    confidence: float = CONFIDENCE,
    watch: Told = nobody,
    noise: Noise | None = None,
) -> list[Verdict]:
    """All verdicts on a file: each release, all of them, and, unless `alone` is False, broken off and alone.

    With `confidence` none of the bounds is above the truth. Unless told otherwise, 3 ticks are run, or 4
    where a unit may be in as many.
    """
    columns, file = of_columns(file), without_reports(file)
    if columns and not file.releases:
        return columns
    with private_folder() as folder:
        loss = charged(file, folder)
        trial = Trial.of(file, ticks or default_ticks(file), folder)
        pairs = trial.pairs()
        comparison = Comparison.of(trial, pairs, broken=alone, watch=partial(watch, "run by run"))
        asked = runs or default_runs(trial)
        judge = Judge(trial, loss, asked, share(confidence, len(file.releases) + 4), watch, noise)
        found = list(judge.releases(comparison.telling))
        if alone and found and trial.ticks > 1:
            found.append(judge.broken(comparison.telling[:1]))
        if alone or comparison.suspects:
            found.append(judge.run_by_run(comparison))
        return columns + found


def default_ticks(file: PipelineFile) -> int:
    return min(MOST_TICKS, max(FEW_TICKS, file.stream.unit.ticks))


def default_runs(trial: Trial) -> int:
    """So many that an audit is a matter of minutes: a slow run takes as long as it has releases."""
    return RUNS if trial.fast else max(FEWEST_SLOW, SLOW_RUNS // len(trial.plans))


@dataclass(frozen=True)
class Judge:
    """Of one file: with how many runs, how surely, before whom."""

    trial: Trial
    loss: Loss  # of all releases
    runs: int
    confidence: float
    watch: Told
    noise: Noise | None

    def releases(self, pairs: Sequence[Neighbours]) -> Iterator[Verdict]:
        """Each release, and all of them if there are several."""
        if not pairs:
            return
        bank, plans = self._bank(pairs, self.runs, None), self.trial.plans
        for plan in plans:
            title = f"{self.trial.file.path.name}: {plan.name}"
            yield self._release(title, [plan], claim_of(plan), bank, FEW_PAIRS if len(plans) > 1 else None)
        if len(plans) > 1:
            yield self._release(self.trial.file.path.name, plans, self.loss, bank, None)

    def _release(
        self, title: str, plans: Sequence[Planned], claim: Loss, bank: Bank, most: int | None
    ) -> Verdict:
        subject = subject_of(title, plans, claim, bank, most)
        worst = computed(plans, horizon(plans), claim)
        within = computed(plans, self.trial.ticks, claim)
        verdict = Verdict.on(title, claim, worst, self._measured(subject, self.runs))
        return replace(verdict, within=None if within is None else float(within.amount))

    def broken(self, pairs: Sequence[Neighbours]) -> Verdict:
        """Published, killed and gone on with."""
        name, runs = f"{self.trial.file.path.name}, stopped and resumed", max(FEWEST, self.runs // BROKEN)
        bank = self._bank(pairs, runs, PUBLISHED)
        whole = subject_of(name, self.trial.plans, self.loss, bank, None)
        scores = [of_both_lives(bank.view.size, score) for score in whole.evidence]
        measured = self._measured(replace(whole, evidence=scores, places=None), runs)
        again = f"a tick was published from two draws in {bank.runs.redrawn:,} runs"
        return Verdict(name, self.loss, measured=measured, seen=(again,) if bank.runs.redrawn else ())

    def run_by_run(self, comparison: Comparison) -> Verdict:
        """Twice the doubt of others: for what is measured, and for what differs in every run."""
        written, doubt = AsWritten.of(comparison, self.loss, self.noise), 1 - self.confidence
        measured = self._measured(written, written.needed(doubt)) if written.attacked else None
        how = f"nothing but numbers differs in {len(comparison.found)} comparisons" if not measured else ""
        seen, open_to_doubt = tuple(written.reasons(doubt)), tuple(written.doubts(doubt))
        return Verdict(
            written.name, written.loss, measured=measured, seen=seen, how=how, doubts=open_to_doubt
        )

    def _bank(self, pairs: Sequence[Neighbours], runs: int, broken: Broken | None) -> Bank:
        at_work = self.trial.runs(self.trial.copies(runs), broken)
        at_work.noise = self.noise
        view = self.trial.narrowed(pairs)
        both = self.trial.silent(view, [side for pair in pairs for side in (pair.one, pair.other)])
        silent = both.reshape(len(pairs), 2, -1)
        kept = moving_otherwise(silent)
        made = partial(self.watch, f"{self.trial.file.path.name}: made for all releases")
        return Bank(at_work, view, [pairs[number] for number in kept], silent[kept], made)

    def _measured(self, subject: Subject, runs: int) -> Measured:
        return measure(subject, runs, self.confidence, partial(self.watch, subject.name))


def moving_otherwise(silent: Floats) -> list[int]:
    """The dearest pairs, and those that move something otherwise than all before them."""
    kept: dict[bytes, int] = {}
    for number, (one, other) in enumerate(np.nan_to_num(silent, nan=-1.0)):
        kept.setdefault((one - other).round(6).tobytes(), number)
    return sorted({*range(min(DEAREST, len(silent))), *kept.values()})


def subject_of(
    title: str, plans: Sequence[Planned], claim: Loss, bank: Bank, most: int | None
) -> PipelineSubject:
    """Some releases, by all pairs, or by the few that move them farthest."""
    own, places = bank.view.only({plan.name for plan in plans})
    silent = bank.silent[:, :, places]
    far = np.array([moved(own, *sides) for sides in silent])
    chosen = np.argsort(-far, kind="stable")[:most].tolist()
    return PipelineSubject(title, claim, bank, chosen, [evidence_of(own, *silent[n]) for n in chosen], places)
