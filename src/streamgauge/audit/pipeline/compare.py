"""Runs of a pipeline file as subjects: their numbers, and everything public besides.

`PipelineSubject` attacks the numbers of some releases. `RunByRunSubject` runs the file as it is, with all that is
public besides its numbers:

    comparisons    each pair once, under the same noise on both sides: public text must be equal, for complete runs, for
                   runs that stop and resume, and for runs killed at every step of a commit
    suspects       pairs that differ: run many times, under louder noise (see `copies`), and attacked
    redrawn        a tick that readers had in one attempt must have the same numbers in the next

Evidence reads the releases of a counter back from published numbers, if possible:

    COUNT, SUM              as they are
    COUNT(DISTINCT) each    as it is; of a hashed column, the count of cells that it was estimated from
    COUNT and AVG, SUM      the two channels of a mean (see `statistics.moments.moments`)
    anything else           not read: trained scores use it

The noiseless releases of a counter come from a real run without noise, so nothing is assumed of the code between. The
law of the noise is that of the plan.

Promise
    A constant difference is condemned, whatever the claim, if noise can be louder. If it cannot (groups discovered by a
    threshold), a claim may allow the difference. Then it is compared with what n runs of n against none of n show
    (Clopper and Pearson), and if that is too little, it is reported as undecided. Proof: the first run of each side
    names the event, and all others are counted. Differences by chance are attacked like all else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import ceil, exp, log, log1p

import numpy as np

from streamgauge.audit.attack.confidence import MAX_EPSILON, bound_epsilon
from streamgauge.audit.attack.likelihood import LikelihoodRatio, fix_streams
from streamgauge.audit.attack.measure import MIN_RUNS, ProgressCallback, ignore_progress
from streamgauge.audit.attack.outputs import hash_code
from streamgauge.audit.exact.linear import LinearView, build_view
from streamgauge.audit.pipeline.copies import LouderNoise, NoiseScaling, SingleCopy
from streamgauge.audit.pipeline.inputs import InputRecords
from streamgauge.audit.pipeline.neighbours import NeighbouringInputs
from streamgauge.audit.pipeline.outputs import MEASURE_FIELDS, ReleaseView, SinkView
from streamgauge.audit.pipeline.runs import ALL_INTERRUPTIONS, PrivateRuns, RunInterruption, RunOutcome
from streamgauge.audit.pipeline.trial import MAX_VIEW_GROUPS, PipelineTrial
from streamgauge.audit.subject import Pair, Score
from streamgauge.audit.verdict import format_amount
from streamgauge.noise import Ints, Noise, SecureNoise
from streamgauge.noise.coerce import Floats
from streamgauge.plan.parts import CounterPart
from streamgauge.privacy import Approx, Loss
from streamgauge.statistics import Count, Sum, Summary
from streamgauge.statistics.keys.hash_cells import HashCells
from streamgauge.statistics.moments.intervals import MomentSums
from streamgauge.testing.noise import InsecureNoise

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
    if part.measure.key is not None or part.statistic.error_depends_on:
        return None
    values = {name: partial(_read_value, view, part, aggregate) for name, aggregate in columns.items()}
    statistic = part.statistic
    if isinstance(statistic, Count | Sum):
        value, scale, cells = values["value"], statistic.scale, statistic.hash_cells
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
    own = build_view(part.statistic.linear_counter.strategy(view.ticks))
    return replace(own, by_data=np.eye(view.ticks))


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


def build_view_evidence(view: SinkView, one: Floats, other: Floats) -> Score | None:
    """Build the evidence between two views without noise, from all releases that can be read back."""
    found = [reading.build_evidence(one, other) for seen in view.first_parts for reading in build_readings(seen) or ()]
    scores = [score for score in found if score is not None]
    if not scores:
        return None
    return lambda views: np.asarray(np.sum([score(views) for score in scores], axis=0), np.float64)


COMPARISON_SEED = 1  # of the noise that both sides of a comparison have: whichever
MAX_SINGLE_RUNS = 4_000  # runs of the file as it is: minutes, and only where thresholds forbid louder noise
COUNTED_RUN_SHARE = 0.4  # of all runs
MAX_SUSPECTS = 2  # where nothing may differ: each of them is enough


@dataclass(frozen=True)
class PairComparison:
    """A pair that was run once on each side, under the same noise, broken off or not."""

    pair: NeighbouringInputs
    one: RunOutcome = field(repr=False)
    other: RunOutcome = field(repr=False)
    interruption: RunInterruption | None = None

    @property
    def name(self) -> str:
        return self.pair.name if self.interruption is None else f"{self.pair.name}, {self.interruption}"

    @property
    def has_error(self) -> bool:
        return self.one.error is not None or self.other.error is not None


@dataclass(frozen=True)
class TrialComparison:
    """All pairs of a trial."""

    trial: PipelineTrial
    comparisons: Sequence[PairComparison]
    redrawn_interruptions: Sequence[str]  # how runs were broken off that published a tick from two draws

    @classmethod
    def from_trial(
        cls,
        trial: PipelineTrial,
        pairs: Sequence[NeighbouringInputs],
        *,
        with_interruptions: bool,
        watch: ProgressCallback = ignore_progress,
    ) -> "TrialComparison":
        runs, ended = trial.create_runs(SingleCopy(trial.file)), dict[InputRecords, RunOutcome]()
        sides = dict.fromkeys(side for pair in pairs for side in pair.sides_by_presence)
        for side in sides:
            ended[side] = run_with_seed(runs, trial, side)
            watch(len(ended), len(sides))
        found = [PairComparison(pair, ended[pair.one], ended[pair.other]) for pair in pairs]
        for each in found:
            if each.one.error is not None and each.other.error is not None:
                raise each.other.error
        redrawn = []
        for way in ALL_INTERRUPTIONS if with_interruptions and trial.ticks > 1 and not found[0].has_error else ():
            lives = trial.create_runs(SingleCopy(trial.file), way)
            one, other = (run_with_seed(lives, trial, side) for side in (pairs[0].one, pairs[0].other))
            found.append(PairComparison(pairs[0], one, other, way))
            redrawn += [str(way)] if lives.redrawn_count else []
        return cls(trial, found, redrawn)

    @property
    def suspects(self) -> list[PairComparison]:
        return [each for each in self.comparisons if each.one.public_text != each.other.public_text]

    @property
    def attack_pairs(self) -> list[NeighbouringInputs]:
        """Pairs to be attacked: that can be run, and show neither the same nor what an earlier one shows."""
        kept: dict[object, NeighbouringInputs] = {}
        for each in self.comparisons:
            both = each.one.public_output, each.other.public_output
            if not each.has_error and both[0] != both[1]:
                kept.setdefault(both, each.pair)
        sound = [each.pair for each in self.comparisons if not each.has_error]
        return list(dict.fromkeys(kept.values())) or sound[:1]


def run_with_seed(runs: PrivateRuns, trial: PipelineTrial, side: InputRecords) -> RunOutcome:
    """Run one side once, under the noise that all sides have."""
    return runs.run_once(trial.build_view(MAX_VIEW_GROUPS), [side], InsecureNoise(COMPARISON_SEED))


ComparisonSide = tuple[int, bool]  # the number of what was compared, and which side


@dataclass(frozen=True)
class RunByRunSubject:
    """Runs one by one, of the pairs that differ."""

    name: str
    loss: Loss
    comparison: TrialComparison = field(repr=False)
    noise: Noise = field(repr=False)
    public_codes: dict[ComparisonSide, list[float]] = field(default_factory=dict, repr=False)  # of public texts

    @classmethod
    def from_comparison(cls, comparison: TrialComparison, loss: Loss, noise: Noise | None) -> "RunByRunSubject":
        trial = comparison.trial
        louder = NoiseScaling.from_plans(trial.plans, loss)
        name = f"{trial.file.path.name}, run by run"
        return cls(name, louder.loss, comparison, LouderNoise(noise or SecureNoise(), louder.times))

    @property
    def attacked_pairs(self) -> Sequence[PairComparison]:
        """Those that differ: all of them where honest ones may, by chance, else the first few."""
        return self.comparison.suspects[: None if self.comparison.trial.has_discovered_groups else MAX_SUSPECTS]

    @property
    def slack(self) -> float:
        return float(self.loss.delta) if isinstance(self.loss, Approx) else 0.0

    def compute_runs(self, doubt: float) -> int:
        """Return as many runs as condemn a constant difference, or the fewest if no affordable number does.

        n of n against none show that the one rate is at least p = (doubt/2)^(1/n), the other at most 1 - p,
        which refutes (epsilon, delta) if p > (e^epsilon + delta)/(e^epsilon + 1).
        """
        claimed = exp(min(float(self.loss.amount), MAX_EPSILON))
        counted = log(2 / doubt) / log1p((1 - self.slack) / (claimed + self.slack))
        runs = max(MIN_RUNS, ceil(counted / COUNTED_RUN_SHARE))
        return runs if runs <= MAX_SINGLE_RUNS else MIN_RUNS

    def pairs(self) -> Sequence[Pair]:
        named = enumerate(self.attacked_pairs)
        return [Pair(each.name, (number, True), (number, False)) for number, each in named]

    def views(self, data: ComparisonSide, runs: int) -> Floats:
        """Return views that begin with a code and the length of the public text."""
        found, trial = self.attacked_pairs[data[0]], self.comparison.trial
        alone = trial.create_runs(SingleCopy(trial.file), found.interruption)
        side: InputRecords = found.pair.sides_by_presence[data[1]]
        view = trial.build_view(MAX_VIEW_GROUPS)
        ended = [alone.run_once(view, [side], self.noise) for _ in range(runs)]
        codes = [hash_code(each.public_text) for each in ended]
        self.public_codes.setdefault(data, []).extend(codes)
        shown = [[number, len(each.public_text), *each.views[0]] for number, each in zip(codes, ended, strict=True)]
        return np.array(shown, np.float64)

    def list_reasons(self, doubt: float) -> Iterator[str]:
        """List differences in every run that exceed the claim."""
        for name, epsilon in self._list_constant_differences(doubt):
            if epsilon > self.loss.amount:
                claim = f"epsilon {format_amount(epsilon)} > {format_amount(float(self.loss.amount))}"
                yield f"what is public besides numbers differs in every run for {name}: {claim}"
        yield from (f"a tick was published from two draws: {way}" for way in self.comparison.redrawn_interruptions)

    def list_doubts(self, doubt: float) -> Iterator[str]:
        """Return one line for differences in every run that the claim allows."""
        names = [name for name, epsilon in self._list_constant_differences(doubt) if epsilon <= self.loss.amount]
        if names:
            yield f"undecided: something differs in every run that was tried for {names[0]}"

    def _list_constant_differences(self, doubt: float) -> Iterator[tuple[str, float]]:
        """List differences in every run, and the epsilon that so many runs show; the doubt is shared."""
        for number, each in enumerate(self.attacked_pairs):
            one, other = (self.public_codes.get((number, side), []) for side in (True, False))
            counted = min(len(one), len(other)) - 1  # the first ones name the event
            if counted > 0 and len(set(one)) == len(set(other)) == 1 and one[0] != other[0]:
                own = doubt / len(self.attacked_pairs)
                yield each.name, bound_epsilon(counted, 0, counted, own, self.slack)


SideKey = tuple[int, bool]  # the number of a pair, and which side


@dataclass
class RunBank:
    """Stored runs of some pairs: every subject is attacked with the same runs, each used once.

    A view of an interrupted run has both its attempts.
    """

    runs: PrivateRuns
    view: SinkView
    pairs: Sequence[NeighbouringInputs]
    noiseless_views: Floats = field(repr=False)  # (pairs, two sides, view): what is seen without noise
    watch: ProgressCallback = field(default=ignore_progress, repr=False)  # gets the runs that are done, and all
    views_by_side: dict[SideKey, list[Floats]] = field(default_factory=dict, repr=False)
    read_positions: dict[tuple[str, SideKey], int] = field(default_factory=dict, repr=False)

    def next_views(self, reader: str, key: SideKey, count: int) -> Floats:
        """Return the next views that this reader has not used."""
        begin, blocks = self.read_positions.get((reader, key), 0), self.views_by_side.setdefault(key, [])
        self.read_positions[reader, key] = end = begin + count
        while len(blocks) * self.runs.copies.count < end:
            blocks.append(self.runs.run_views(self.view, [self.pairs[key[0]].sides_by_presence[key[1]]]))
            self.watch(min(end, len(blocks) * self.runs.copies.count), end)
        size = self.runs.copies.count
        return np.concatenate(blocks[begin // size : -(-end // size)])[begin % size :][:count]


@dataclass(frozen=True)
class PipelineSubject:
    """Some releases of a file, to those who read its sinks."""

    name: str
    loss: Loss
    bank: RunBank = field(repr=False)
    pair_numbers: Sequence[int]  # of the pairs that it is attacked with
    evidence: Sequence[Score | None] = field(repr=False)  # of each of them
    places: Ints | None = field(repr=False)  # of all that is seen, where not all is looked at

    def pairs(self) -> Sequence[Pair]:
        return [
            Pair(self.bank.pairs[number].name, (number, True), (number, False), score)
            for number, score in zip(self.pair_numbers, self.evidence, strict=True)
        ]

    def views(self, data: SideKey, runs: int) -> Floats:
        views = self.bank.next_views(self.name, data, runs)
        return views if self.places is None else views[:, self.places]


def build_two_attempt_score(size: int, score: Score | None) -> Score | None:
    """Build the score of a run with two attempts: the sum of both."""
    if score is None:
        return None
    return lambda views: np.asarray(score(views[:, :size]) + score(views[:, size:]), np.float64)
