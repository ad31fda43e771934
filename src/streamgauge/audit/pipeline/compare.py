"""Trials of a pipeline file, and its runs as subjects: their numbers, and everything public besides.

`RunBank` stores the runs that the numbers of releases are attacked with. `RunByRunSubject` runs the file as it is,
with all that is public besides its numbers:

    comparisons    each pair once, under the same noise on both sides: public text must be equal, for complete runs, for
                   runs that stop and resume, and for runs killed at every step of a commit
    suspects       pairs that differ: run many times, under louder noise (see `copies`), and attacked
    redrawn        a tick that readers had in one attempt must have the same numbers in the next

`PipelineTrial` runs a file without noise first, to find the records that move releases, and the groups that move.

Promise
    A constant difference is condemned, whatever the claim, if noise can be louder. If it cannot (groups discovered by a
    threshold), a claim may allow the difference. Then it is compared with what n runs of n against none of n show
    (Clopper and Pearson), and if that is too little, it is reported as undecided. Proof: the first run of each side
    names the event, and all others are counted. Differences by chance are attacked like all else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from math import ceil, exp, log, log1p
from pathlib import Path
from typing import Any

import numpy as np

from streamgauge.audit.attack.confidence import MAX_EPSILON, bound_epsilon
from streamgauge.audit.attack.measure import MIN_RUNS, ProgressCallback
from streamgauge.audit.attack.outputs import hash_code
from streamgauge.audit.pipeline import neighbours
from streamgauge.audit.pipeline.copies import Copies, LouderNoise, NoiseScaling, RepeatedReleases, SingleCopy, widen
from streamgauge.audit.pipeline.inputs import CandidateRecords, InputRecords
from streamgauge.audit.pipeline.outputs import MEASURE_FIELDS, ReleaseView, SinkView, list_groups
from streamgauge.audit.pipeline.runs import ALL_INTERRUPTIONS, PrivateRuns, RunInterruption, RunOutcome, list_sinks
from streamgauge.audit.subject import Pair
from streamgauge.audit.verdict import format_amount
from streamgauge.config.settings import PipelineFile
from streamgauge.interfaces import ignore
from streamgauge.noise import Noise, SecureNoise
from streamgauge.noise.coerce import Floats
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.privacy import Approx, Loss
from streamgauge.testing.noise import InsecureNoise, SilentNoise

MAX_CANDIDATES, MAX_SLOW_CANDIDATES = 256, 24
MAX_VIEW_GROUPS = 12  # of a release that are looked at, besides those that move
MAX_RUN_ROWS = 25_000  # of all sinks of a run
MAX_RUN_NUMBERS = 2**22  # of all vectors of a run
MAX_COPIES = 2_000
MAX_RENAMED_COPIES = 50  # of releases under other names


@dataclass(frozen=True)
class PipelineTrial:
    """A file, planned, over its first ticks, in a folder that is the audit's."""

    file: PipelineFile
    plans: Sequence[ReleasePlan]
    ticks: int
    folder: Path
    can_widen: bool  # whether the file can be widened

    @classmethod
    def from_file(cls, file: PipelineFile, ticks: int, folder: Path) -> "PipelineTrial":
        plans = [plan_release(file, release) for release in file.releases]
        return cls(file, plans, min(ticks, file.stream.ticks or ticks), folder, widen(file, 2) is not None)

    def build_copies(self, runs: int) -> Copies:
        """Build the copy with most runs in one, but no more than a share of the requested runs."""
        rows = self.ticks * sum(plan.groups for plan in self.plans)
        numbers = self.ticks * sum(part.value_count for plan in self.plans for part in plan.parts)
        most = max(1, min(MAX_COPIES, runs // 4, MAX_RUN_ROWS // rows, MAX_RUN_NUMBERS // numbers))
        found = widen(self.file, most) if self.can_widen else None
        return found or RepeatedReleases(self.file, min(most, MAX_RENAMED_COPIES))

    def create_runs(self, copies: Copies, interruption: RunInterruption | None = None) -> PrivateRuns:
        """Create runs in a folder of their own."""
        own = next(path for n in count() if not (path := self.folder / f"runs{n}").exists())
        own.mkdir(mode=0o700)
        return PrivateRuns(copies, self.ticks, own, interruption=interruption)

    def run_without_noise(self, view: SinkView, inputs: Sequence[InputRecords]) -> Floats:
        """Return the view of each input without noise: worlds of one run, or a run each."""
        wide = widen(self.file, len(inputs)) if self.can_widen else None
        if wide is not None:
            return self.create_runs(wide).run_views(view, inputs, SilentNoise())
        runs = self.create_runs(SingleCopy(self.file))
        return np.concatenate([runs.run_views(view, [each], SilentNoise()) for each in inputs])

    def list_pairs(self) -> list[Pair]:
        """List neighbouring inputs, the worst first."""
        candidates = CandidateRecords(self.file, self.plans, self.ticks)
        lines = candidates.list_records(MAX_CANDIDATES if self.can_widen else MAX_SLOW_CANDIDATES)
        units = [neighbours.build_unit(self.file.stream, line, self.ticks) for line in lines]
        view = self.build_view()
        observed = self.run_without_noise(view, [(), *units])
        worths = [compute_release_worth(part, observed[1:], observed[0]) for part in view.first_parts]
        ranked = [lines[place] for place in neighbours.rank_candidates(worths)]
        in_crowd = self.has_discovered_groups
        return list(neighbours.list_input_pairs(self.file.stream, self.ticks, lines, ranked, in_crowd=in_crowd))

    @property
    def has_discovered_groups(self) -> bool:
        """True if groups are discovered: over thresholds, which noise may tip."""
        return any(plan.query.key is not None for plan in self.plans)

    @property
    def has_tick_groups(self) -> bool:
        """True if noise decides which groups a tick lists, or in which order."""
        return any(plan.query.key is not None or plan.query.top is not None for plan in self.plans)

    def build_view(self, max_groups: int | None = None) -> SinkView:
        """Build the view of all groups of all releases in all sinks, or of the first few."""
        return SinkView.from_parts(
            [
                ReleaseView(number, plan, tuple(plan.list_row_ticks(self.ticks)), list_groups(plan)[:max_groups])
                for number, sink in enumerate(list_sinks(self.file))
                for plan in self.plans
                if not sink.releases or plan.name in sink.releases
            ]
        )

    def build_narrow_view(self, pairs: Sequence[Pair]) -> SinkView:
        """Build the view of groups that some pair moves, and a few others."""
        whole = self.build_view()
        if all(len(part.groups) <= MAX_VIEW_GROUPS for part in whole.parts):
            return whole
        views = self.run_without_noise(whole, [side for pair in pairs for side in (pair.one, pair.other)])
        return SinkView.from_parts([replace(part, groups=find_moved_groups(part, views)) for part in whole.parts])


def compute_release_worth(view: ReleaseView, views: Floats, nothing: Floats) -> Floats:
    """Return the distance of each view from one of nothing, in standard errors of a release."""
    place = MEASURE_FIELDS.index("value")
    values = (np.nan_to_num(view.numbers(shown)[..., place], nan=-1.0) for shown in (views, nothing[None]))
    stddev = view.numbers(views)[..., MEASURE_FIELDS.index("stddev")]
    spread = np.where(np.isfinite(stddev) & (stddev > 0), stddev, 1.0)
    return np.asarray((np.abs(np.subtract(*values)) / spread).reshape(len(views), -1).sum(axis=1), np.float64)


def find_moved_groups(view: ReleaseView, views: Floats) -> tuple[Any, ...]:
    """Return the groups that differ between two sides, which alternate in `views`."""
    found = np.nan_to_num(view.numbers(views), nan=-1.0)
    moved = (found[0::2] != found[1::2]).any(axis=(0, 1, 3, 4))
    others = np.flatnonzero(~moved)[: max(0, MAX_VIEW_GROUPS - int(moved.sum()))]
    chosen = sorted({*np.flatnonzero(moved)[:MAX_VIEW_GROUPS].tolist(), *others.tolist()})
    return tuple(view.groups[place] for place in chosen)


COMPARISON_SEED = 1  # of the noise that both sides of a comparison have: whichever
MAX_SINGLE_RUNS = 4_000  # runs of the file as it is: minutes, and only where thresholds forbid louder noise
COUNTED_RUN_SHARE = 0.4  # of all runs
MAX_SUSPECTS = 2  # where nothing may differ: each of them is enough


@dataclass(frozen=True)
class PairComparison:
    """A pair that was run once on each side, under the same noise, broken off or not."""

    pair: Pair
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
        cls, trial: PipelineTrial, pairs: Sequence[Pair], *, with_interruptions: bool, watch: ProgressCallback = ignore
    ) -> "TrialComparison":
        runs, ended = trial.create_runs(SingleCopy(trial.file)), dict[InputRecords, RunOutcome]()
        sides = dict.fromkeys(side for pair in pairs for side in (pair.other, pair.one))
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
    def attack_pairs(self) -> list[Pair]:
        """Pairs to be attacked: that can be run, and show neither the same nor what an earlier one shows."""
        chosen: dict[object, Pair] = {}
        for each in self.comparisons:
            both = each.one.public_output, each.other.public_output
            if not each.has_error and both[0] != both[1]:
                chosen.setdefault(both, each.pair)
        sound = [each.pair for each in self.comparisons if not each.has_error]
        return list(dict.fromkeys(chosen.values())) or sound[:1]


def run_with_seed(runs: PrivateRuns, trial: PipelineTrial, side: InputRecords) -> RunOutcome:
    """Run one side once, under the noise that all sides have."""
    return runs.run_once(trial.build_view(MAX_VIEW_GROUPS), [side], InsecureNoise(COMPARISON_SEED))


SideKey = tuple[int, bool]  # the number of a pair or comparison, and which side


@dataclass(frozen=True)
class RunByRunSubject:
    """Runs one by one, of the pairs that differ."""

    name: str
    loss: Loss
    comparison: TrialComparison = field(repr=False)
    noise: Noise = field(repr=False)
    public_codes: dict[SideKey, list[float]] = field(default_factory=dict, repr=False)  # of public texts

    @classmethod
    def from_comparison(cls, comparison: TrialComparison, loss: Loss, noise: Noise | None) -> "RunByRunSubject":
        trial = comparison.trial
        louder = NoiseScaling.from_plans(trial.plans, loss)
        name = f"{trial.file.path.name}, run by run"
        return cls(name, louder.loss, comparison, LouderNoise(noise or SecureNoise(), louder.times))

    @property
    def attacked_pairs(self) -> Sequence[PairComparison]:
        """Those that differ: all of them where honest ones may, by chance, else the first few."""
        return self.comparison.suspects[: None if self.comparison.trial.has_tick_groups else MAX_SUSPECTS]

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

    def views(self, data: SideKey, runs: int) -> Floats:
        """Return views that begin with a code and the length of the public text."""
        found, trial = self.attacked_pairs[data[0]], self.comparison.trial
        alone = trial.create_runs(SingleCopy(trial.file), found.interruption)
        side: InputRecords = found.pair.one if data[1] else found.pair.other
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


@dataclass
class RunBank:
    """Stored runs of some pairs: every subject is attacked with the same runs, each used once.

    A view of an interrupted run has both its attempts.
    """

    runs: PrivateRuns
    view: SinkView
    pairs: Sequence[Pair]
    noiseless_views: Floats = field(repr=False)  # (pairs, two sides, view): what is seen without noise
    watch: ProgressCallback = field(default=ignore, repr=False)  # gets the runs that are done, and all
    views_by_side: dict[SideKey, list[Floats]] = field(default_factory=dict, repr=False)
    read_positions: dict[tuple[str, SideKey], int] = field(default_factory=dict, repr=False)

    @property
    def attempts(self) -> int:
        return 1 if self.runs.interruption is None else 2

    def next_views(self, reader: str, key: SideKey, count: int) -> Floats:
        """Return the next views that this reader has not used."""
        begin, blocks = self.read_positions.get((reader, key), 0), self.views_by_side.setdefault(key, [])
        self.read_positions[reader, key] = end = begin + count
        pair, size = self.pairs[key[0]], self.runs.copies.count
        while len(blocks) * size < end:
            blocks.append(self.runs.run_views(self.view, [pair.one if key[1] else pair.other]))
            self.watch(min(end, len(blocks) * size), end)
        return np.concatenate(blocks[begin // size : -(-end // size)])[begin % size :][:count]
