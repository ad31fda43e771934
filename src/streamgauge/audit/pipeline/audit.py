"""A pipeline file under audit, end to end and as it is written: real runs on neighbouring inputs.

    declarations -> neighbouring inputs -> real runs of a copy of the file -> content of its sinks -> attack

Inputs are made of declarations (see `neighbours`), over the first ticks of the stream. Runs have the real planner,
engine, store and sinks, with real noise, many in one (see `copies`, `runs`). The attack covers all that readers see:
every number of every row, the presence of rows, their text, and all else that is printed, raised or named.

    each release           by those pairs that move it most, against its own loss
    the file               all releases together, against the charge of the ledger
    stopped and resumed    the same, interrupted in the second tick, in view of both attempts
    run by run             the file as it is, with all that is public besides numbers (see `compare`)
    a column of reports    the law of the report of one device, computed; its releases are functions of it

Releases of a column of reports are functions of reports, which are private when they come. So the law of a report is
audited exactly, and its releases lose nothing more. Other releases are attacked as if the column did not exist: no
code may read it. A protocol of many rows is enumerated over few: rows, and columns of Hadamard signs, are drawn before
the item is read, and no coin depends on their number. Of a long list the first values are used. A vector has a coin
for each bit, all alike but those of the item's own: few bits show as much as many.

Evidence reads the releases of a counter back from published numbers, if possible:

    COUNT, SUM              as they are
    COUNT(DISTINCT) each    as it is; of a hashed column, the count of cells that it was estimated from
    COUNT and AVG, SUM      the two channels of a mean (see `statistics.moments.moments`)
    anything else           not read: trained scores use it

The noiseless releases of a counter come from a real run without noise, so nothing is assumed of the code between. The
law of the noise is that of the plan.

Privacy
    Nothing is charged, because nothing real is read: the audit does not touch the pipeline's source, store, key and
    budget, and it publishes synthetic records only.

An audit does not show a loss of later ticks, or of records that are not tried. `exact` is the loss of the plan over its
horizon, `exact_in_run` the loss in the ticks that were run, the most that an experiment can measure.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np

from streamgauge.audit.attack.measure import DEFAULT_CONFIDENCE, MIN_RUNS, measure
from streamgauge.audit.exact.linear import LikelihoodRatio, LinearView, build_view, fix_streams
from streamgauge.audit.exact.worst_case import WorstCase, worst_neighbour
from streamgauge.audit.pipeline.compare import (
    PipelineTrial,
    RunBank,
    RunByRunSubject,
    TrialComparison,
    compute_release_worth,
)
from streamgauge.audit.pipeline.neighbours import PartLoss, list_families, max_joint_loss
from streamgauge.audit.pipeline.outputs import MEASURE_FIELDS, ReleaseView, SinkView
from streamgauge.audit.pipeline.runs import AFTER_FIRST_WRITE, RunInterruption, create_private_folder
from streamgauge.audit.report import split_confidence
from streamgauge.audit.subject import Pair, Score, Subject, ViewSubject
from streamgauge.audit.subjects.local import LocalSubject
from streamgauge.audit.verdict import Measurement, Verdict
from streamgauge.config.errors import PipelineFileError
from streamgauge.config.periods import Periods
from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import ignore
from streamgauge.localdp import CountMeanSketch, HadamardCountMeanSketch, UnaryEncoding
from streamgauge.noise import Noise
from streamgauge.noise.coerce import Floats
from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.privacy import Approx, Loss
from streamgauge.runtime.plan.plan import plan_pipeline
from streamgauge.statistics import Count, Sum, Summary
from streamgauge.statistics.keys.hash_cells import HashCells
from streamgauge.statistics.moments.intervals import MomentSums

MAX_TWO_PERIOD_TICKS = 48  # ticks of two periods that are run
MAX_HORIZON_TICKS = 1024  # ticks over which a loss is computed at most


def build_claim(plan: ReleasePlan) -> Loss:
    """Return the claimed loss of a release, with the delta of discovered groups."""
    loss, delta = plan.charged_loss, plan.release.delta
    if delta is None:
        return loss.additive_loss
    return Approx(loss.as_approx(delta).epsilon, delta)


def compute_charge(file: PipelineFile, empty_folder: Path) -> Loss:
    """Return the loss that the ledger charges a file that never ran. `empty_folder` has no store."""
    plan = plan_pipeline(replace(file, path=empty_folder / file.path.name))
    if plan.refusals or plan.spent[1] is None:
        raise PipelineFileError("; ".join(plan.refusals) or f"{file.path.name}: nothing is charged")
    return plan.spent[1]


def compute_worst_loss(plans: Sequence[ReleasePlan], ticks: int, loss: Loss) -> WorstCase | None:
    """Compute an interval for the joint loss of the parts of some releases in the first ticks.

    Losses of the same events add up. Discovered groups, adaptive counters, and losses in another currency than the
    claim's have no result. Nor have periods of units of several ticks, or beside other releases: their ticks differ.
    """
    if any(plan.periods and (len(plans) > 1 or plan.stream.unit.ticks > 1) for plan in plans):
        return None
    parts = [(plan, part, count_steps(plan, ticks)) for plan in plans for part in plan.parts]
    retained = {part.statistic.counter.charged_loss.currency for _, part, _ in parts}
    unread = any(part.measure.key is not None or part.statistic.error_depends_on for _, part, _ in parts)
    if unread or retained != {loss.currency}:
        return None
    worst = [worst_neighbour(part.statistic.linear_counter, last) for _, part, last in parts]
    found = combine_pieces([(plan, part, each) for (plan, part, _), each in zip(parts, worst, strict=True)])
    if not any(getattr(plan.stream.unit, "moves", False) for plan in plans):
        return found
    return replace(found, amount=found.amount * 2**loss.additive_loss.power)  # one event removed and one added


def count_steps(plan: ReleasePlan, ticks: int) -> int:
    """Return how many steps the statistics of a release take in the first ticks; of partial figures, in a period."""
    rows = len(plan.list_row_ticks(ticks))
    return min(rows, plan.periods.survey.longest) if plan.periods and plan.release.partial else max(1, rows)


def find_trial_ticks(file: PipelineFile) -> int:
    """Return how many ticks are run: as many as a unit may be in, and two periods, or one if they are long."""
    ticks = min(MAX_DEFAULT_TICKS, max(MIN_DEFAULT_TICKS, file.stream.unit.ticks))
    for release in file.releases:
        if (periods := Periods.from_window(release.window, file.stream)) is not None:
            first = periods.find_last_tick(1)
            second = periods.find_last_tick(first + 1)
            ticks = max(ticks, second if second <= MAX_TWO_PERIOD_TICKS else first)
    return ticks


def combine_pieces(pieces: Sequence[PartLoss]) -> WorstCase:
    """Combine losses: at least the sure loss of one unit, at most the sum of all."""
    sure = WorstCase((), inf, lower_bound=-1.0)
    for family in list_families(pieces):
        if family:  # losses that one event has at once: those that one unit, the worst, has all of
            worst = max(family, key=lambda each: each.floor)
            total = sum(each.floor for each in family if each.pattern == worst.pattern)
            sure = replace(worst, amount=inf, lower_bound=total) if total > sure.floor else sure
    return replace(sure, amount=max(sure.floor, max_joint_loss(pieces)), lower_bound=sure.floor)


MAX_HASHES, MAX_SKETCH_WIDTH = 2, 4
MAX_LISTED_VALUES = 48  # values
MAX_VECTOR_BITS = 4  # of a vector that has one for each value
MAX_ITEMS = 3  # items whose reports are compared, with one that is on no list


def audit_columns(file: PipelineFile) -> list[Verdict]:
    """Audit each column of reports."""
    return [audit_column(file.path.name, name, each.mechanism) for name, each in file.stream.reports.items()]


def drop_reports(file: PipelineFile) -> PipelineFile:
    """Return the file with its other columns and releases alone."""
    if not file.stream.reports:
        return file
    others = tuple(each for each in file.releases if plan_release(file, each).query.report is None)
    names = {each.name for each in others}
    sinks = (
        replace(sink, releases=tuple(name for name in sink.releases if name in names))
        for sink in file.sinks
        if not sink.releases or names & {*sink.releases}
    )
    columns = {name: column for name, column in file.stream.columns.items() if column.report is None}
    stream = replace(file.stream, columns=columns)
    return replace(file, stream=stream, releases=others, sinks=tuple(sinks))


def audit_column(file: str, name: str, claim: Any) -> Verdict:
    small = shrink_claim(claim)
    items = getattr(small, "items", ("a", "b", "c"))[:MAX_ITEMS]
    subject = LocalSubject(small, items, title=f"{file}: column {name}, a report")
    sizes = f"{len(small.items)} values" if hasattr(small, "items") else f"{small.hashes} x {small.width}"
    worst = replace(subject.worst(), computed_part="" if small == claim else sizes)
    return Verdict(subject.name, subject.loss, worst)


def shrink_claim(claim: Any) -> Any:
    """Return the same protocol with few reports."""
    if hasattr(claim, "items"):
        most = MAX_VECTOR_BITS if isinstance(claim, UnaryEncoding) else MAX_LISTED_VALUES
        return replace(claim, items=claim.items[:most])
    few = replace(claim, hashes=min(claim.hashes, MAX_HASHES))
    by_columns = isinstance(claim, HadamardCountMeanSketch | CountMeanSketch)
    return replace(few, width=min(claim.width, MAX_SKETCH_WIDTH)) if by_columns else few


MIN_DEFAULT_TICKS, MAX_DEFAULT_TICKS = 3, 4  # one before, in and after an interruption
FAST_RUNS = 12_000
SLOW_RUNS, MIN_SLOW_RUNS = 2_000, 240  # where a copy has few runs in one: of one release, and of many
INTERRUPTED_RUN_DIVISOR = 5  # one run in so many is broken off
ALWAYS_ATTACKED_PAIRS = 2  # pairs that are attacked with, whether they move the same or not
PAIRS_PER_RELEASE = 1  # that a release is attacked with by itself, where all together are attacked with all

PipelineProgressCallback = Callable[[str, int, int], None]  # which subject, and how many runs of how many are done


def audit_pipeline(
    file: PipelineFile,
    *,
    ticks: int | None = None,
    runs: int | None = None,
    check_interruptions: bool = True,
    attack_computed: bool = True,
    confidence: float = DEFAULT_CONFIDENCE,
    watch: PipelineProgressCallback = ignore,
    on_computed: Callable[[Verdict], None] = ignore,
    noise: Noise | None = None,
    create_folder: Callable[[], AbstractContextManager[Path]] = create_private_folder,
) -> list[Verdict]:
    """Audit a file: each release, all of them and, with `check_interruptions`, interrupted and single runs.

    With probability `confidence` no bound is above the truth. By default 3 ticks are run, or 4 if a unit may be in as
    many, and two periods of a tumbling window. If `attack_computed` is False, a release whose loss is computed exactly
    is not attacked: `on_computed` gets its verdict before the first run.
    """
    columns, file = audit_columns(file), drop_reports(file)
    for verdict in columns:
        on_computed(verdict)
    if columns and not file.releases:
        return columns
    with create_folder() as folder:
        loss = compute_charge(file, folder)
        trial = PipelineTrial.from_file(file, ticks or find_trial_ticks(file), folder)
        share = split_confidence(confidence, len(file.releases) + 4)
        judge = PipelineAuditor(trial, loss, runs or default_runs(trial), share, watch, noise, attack_computed)
        for verdict in judge.compute_verdicts():
            on_computed(verdict)
        pairs = trial.list_pairs()
        comparison = TrialComparison.from_trial(
            trial, pairs, with_interruptions=check_interruptions, watch=partial(watch, "run by run")
        )
        found = list(judge.audit_releases(comparison.attack_pairs))
        if check_interruptions and found and trial.ticks > 1:
            found.append(judge.audit_interruptions(comparison.attack_pairs[:1]))
        if check_interruptions or comparison.suspects:
            found.append(judge.audit_run_by_run(comparison))
        return columns + found


def default_runs(trial: PipelineTrial) -> int:
    """Return the number of runs for an audit of minutes: a slow run takes as long as it has releases."""
    return FAST_RUNS if trial.can_widen else max(MIN_SLOW_RUNS, SLOW_RUNS // len(trial.plans))


@dataclass(frozen=True)
class PipelineAuditor:
    """Of one file: with how many runs, how surely, before whom."""

    trial: PipelineTrial
    loss: Loss  # of all releases
    runs: int
    confidence: float
    watch: PipelineProgressCallback
    noise: Noise | None
    attack_computed: bool = True  # attack a release whose loss is computed exactly

    def audit_releases(self, pairs: Sequence[Pair]) -> Iterator[Verdict]:
        """Audit each release, and all of them if there are several."""
        if not pairs:
            return
        bank = cache(lambda: self._build_bank(pairs, self.runs, None))
        for plans, verdict in self._computed:
            if self._is_final(verdict):
                yield verdict
                continue
            max_pairs = PAIRS_PER_RELEASE if len(plans) < len(self.trial.plans) else None
            subject = build_pipeline_subject(verdict.subject, plans, verdict.loss, bank(), max_pairs)
            yield replace(verdict, measurement=self._measure(subject, self.runs))

    def compute_verdicts(self) -> list[Verdict]:
        """Return the verdicts that need no run."""
        return [verdict for _, verdict in self._computed if self._is_final(verdict)]

    def _is_final(self, verdict: Verdict) -> bool:
        return not self.attack_computed and verdict.exact is not None

    @cached_property
    def _computed(self) -> list[tuple[Sequence[ReleasePlan], Verdict]]:
        """Each release and, if there are several, all of them, with the computed loss."""
        name, plans = self.trial.file.path.name, self.trial.plans
        found = [self._compute_loss(f"{name}: {plan.name}", [plan], build_claim(plan)) for plan in plans]
        return [*found, self._compute_loss(name, plans, self.loss)] if len(plans) > 1 else found

    def _compute_loss(
        self, title: str, plans: Sequence[ReleasePlan], claim: Loss
    ) -> tuple[Sequence[ReleasePlan], Verdict]:
        horizon = max(min(MAX_HORIZON_TICKS, plan.last_tick(1) or MAX_HORIZON_TICKS) for plan in plans)
        worst = compute_worst_loss(plans, horizon, claim)
        in_run = compute_worst_loss(plans, self.trial.ticks, claim)
        return plans, Verdict(title, claim, worst, exact_in_run=None if in_run is None else float(in_run.amount))

    def audit_interruptions(self, pairs: Sequence[Pair]) -> Verdict:
        """Audit runs that published, were killed and resumed."""
        name = f"{self.trial.file.path.name}, stopped and resumed"
        runs = max(MIN_RUNS, self.runs // INTERRUPTED_RUN_DIVISOR)
        bank = self._build_bank(pairs, runs, AFTER_FIRST_WRITE)
        measured = self._measure(build_pipeline_subject(name, self.trial.plans, self.loss, bank, None), runs)
        count = bank.runs.redrawn_count
        reasons = (f"a tick was published from two draws in {count:,} runs",) if count else ()
        return Verdict(name, self.loss, measurement=measured, direct_reasons=reasons)

    def audit_run_by_run(self, comparison: TrialComparison) -> Verdict:
        """Audit single runs. The doubt is used twice: for measured bounds, and for differences in every run."""
        written, doubt = (RunByRunSubject.from_comparison(comparison, self.loss, self.noise), 1 - self.confidence)
        measured = self._measure(written, written.compute_runs(doubt)) if written.attacked_pairs else None
        how = f"nothing but numbers differs in {len(comparison.comparisons)} comparisons" if not measured else ""
        reasons, doubts = tuple(written.list_reasons(doubt)), tuple(written.list_doubts(doubt))
        return Verdict(written.name, written.loss, None, measured, None, reasons, doubts, how)

    def _build_bank(self, pairs: Sequence[Pair], runs: int, interruption: RunInterruption | None) -> RunBank:
        at_work = self.trial.create_runs(self.trial.build_copies(runs), interruption)
        at_work.noise = self.noise
        view = self.trial.build_narrow_view(pairs)
        both = self.trial.run_without_noise(view, [side for pair in pairs for side in (pair.one, pair.other)])
        silent = both.reshape(len(pairs), 2, -1)
        retained = find_distinct_pairs(silent)
        made = partial(self.watch, f"{self.trial.file.path.name}: made for all releases")
        return RunBank(at_work, view, [pairs[number] for number in retained], silent[retained], made)

    def _measure(self, subject: Subject, runs: int) -> Measurement:
        return measure(subject, runs, self.confidence, partial(self.watch, subject.name))


COUNT_DIGITS = 6  # of counts of cells, which are mostly whole

Channels = Callable[[Floats], Floats]  # (runs, places of a view) to (runs, channels x groups, ticks)


@dataclass(frozen=True, eq=False)
class PartReading:
    """One part of a release, read back."""

    view: LinearView
    channels: Channels

    def build_evidence(self, one: Floats, other: Floats) -> Score | None:
        """Build the log-likelihood ratio between two views without noise; None if they are equal."""
        streams = [self.channels(side[None])[0] for side in (one, other)]
        moved = np.flatnonzero((streams[0] != streams[1]).any(axis=1))
        if not len(moved):
            return None
        ratio = LikelihoodRatio(self.view, len(moved), fix_streams(streams[0][moved], streams[1][moved]))
        return lambda views: ratio(np.nan_to_num(self.channels(views)[:, moved]).reshape(len(views), -1))


def build_readings(view: ReleaseView) -> list[PartReading] | None:
    """Build the readings of all parts of a release, or None if one cannot be read."""
    found = [_build_reading(view, part) for part in view.plan.parts]
    return [reading for reading in found if reading] if all(found) else None


def _build_reading(view: ReleaseView, part: CounterPart) -> PartReading | None:
    columns = {output.column: output.aggregate for output in part.outputs}
    is_unread = part.measure.key is not None or part.statistic.error_depends_on or view.plan.release.partial
    if is_unread or view.plan.query.top is not None:
        return None
    values = {name: partial(_read_value, view, part, aggregate) for name, aggregate in columns.items()}
    statistic = part.statistic
    if isinstance(statistic, Count | Sum):
        windows, scale, cells = [values[name] for name in statistic.measures], statistic.scale, statistic.hash_cells

        def value(views: Floats) -> Floats:
            return np.concatenate([window(views) for window in windows], axis=-1)

        if cells is None:
            return PartReading(_build_view(view, part), lambda views: value(views) / scale)
        table = HashCells(cells)  # full tables are read as one of them
        own = _build_view(view, part)
        return PartReading(own, lambda views: np.round(table.counts(value(views) / scale), COUNT_DIGITS))
    if isinstance(statistic, Summary) and not statistic.squares and {"count"} < values.keys():
        return PartReading(_build_view(view, part), partial(_read_count_and_sum, statistic, values))
    return None


def _build_view(view: ReleaseView, part: CounterPart) -> LinearView:
    """Build the view of a counter's noise; releases are their own data."""
    strategy = part.statistic.linear_counter.strategy(view.ticks)
    if isinstance(part.statistic, Count | Sum) and part.statistic.windows:
        strategy = replace(strategy, decode=_decode_windows(strategy.decode, part.statistic.windows))
    own = build_view(strategy)
    return replace(own, by_data=np.eye(len(own.by_data)))


def _decode_windows(longest: Floats, windows: Sequence[int]) -> Floats:
    """Return the rows of each window, one after another, from those of the longest, which is last."""
    counts = longest.copy()
    for tick in range(windows[-1], len(counts)):
        counts[tick] += counts[tick - windows[-1]]
    found = [counts.copy() for _ in windows]
    for rows, window in zip(found, windows, strict=True):
        rows[window:] -= counts[: max(0, len(counts) - window)]
    return np.concatenate(found)


def _read_value(view: ReleaseView, part: CounterPart, aggregate: int, views: Floats) -> Floats:
    """Return values, (runs, groups of the part's level, ticks)."""
    level = [place for place, group in enumerate(view.groups) if len(group) == part.level]
    found = view.numbers(views)[:, :, level, aggregate, MEASURE_FIELDS.index("value")]
    return np.moveaxis(found, 1, 2)


def _read_count_and_sum(statistic: Summary, values: Mapping[str, Callable[[Floats], Floats]], views: Floats) -> Floats:
    """Return number and sum, from number and mean: a mean is the sum over the floored number."""
    moments = statistic.moments
    count = values["count"](views)
    if "sum" in values:
        total = (values["sum"](views) - moments.middle_value * count) / moments.half_range
    else:
        unit = (values["mean"](views) - moments.middle_value) / moments.half_range
        total = unit * _floor_count(statistic, count)
    both = np.stack([count, total], axis=1)
    channels = np.einsum("cp,rpgt->rcgt", np.linalg.inv(moments.decoder), both)
    return np.asarray(channels.reshape(len(views), -1, count.shape[-1]), np.float64)


def _floor_count(statistic: Summary, count: Floats) -> Floats:
    decoder = statistic.moments.decoder
    one = np.sqrt(np.diag(decoder @ decoder.T))
    noise = np.array([statistic.linear_counter.stddev(tick + 1) for tick in range(count.shape[-1])])
    return MomentSums(count, count, one[0] * noise, one[1] * noise).floored_count


def build_view_evidence(view: SinkView, attempts: int, one: Floats, other: Floats) -> Score | None:
    """Build the evidence between two views without noise, from all releases that can be read back.

    The evidence of a run with several attempts is the sum of all.
    """
    found = [reading.build_evidence(one, other) for part in view.first_parts for reading in build_readings(part) or ()]
    scores = [score for score in found if score is not None]

    def add_scores(views: Floats) -> Floats:
        parts = np.split(views, attempts, axis=1)
        return np.asarray(np.sum([score(part) for part in parts for score in scores], axis=0), np.float64)

    return add_scores if scores else None


def find_distinct_pairs(silent: Floats) -> list[int]:
    """Return the worst pairs, and those that move something unlike all before them."""
    retained: dict[bytes, int] = {}
    for number, (one, other) in enumerate(np.nan_to_num(silent, nan=-1.0)):
        retained.setdefault((one - other).round(6).tobytes(), number)
    return sorted({*range(min(ALWAYS_ATTACKED_PAIRS, len(silent))), *retained.values()})


def build_pipeline_subject(
    title: str, plans: Sequence[ReleasePlan], claim: Loss, bank: RunBank, max_pairs: int | None
) -> ViewSubject:
    """Build a subject of some releases, with all pairs or the few that move them farthest."""
    own, places = bank.view.select({plan.name for plan in plans})
    silent = bank.noiseless_views[:, :, places]
    far = [
        sum(float(compute_release_worth(shown, one[None], other)[0]) for shown in own.first_parts)
        for one, other in silent
    ]
    pairs = []
    for number in np.argsort(-np.array(far), kind="stable")[:max_pairs].tolist():
        evidence = build_view_evidence(own, bank.attempts, *silent[number])
        pairs.append(Pair(bank.pairs[number].name, (number, True), (number, False), evidence))
    every = np.concatenate([places + attempt * bank.view.size for attempt in range(bank.attempts)])
    return ViewSubject(title, claim, pairs, lambda data, runs: bank.next_views(title, data, runs)[:, every])
