"""Runs without noise, before an audit: they find the records that move releases, and the groups that move."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from streamgauge.audit.pipeline.copies import Copies, RepeatedReleases, SingleCopy, widen
from streamgauge.audit.pipeline.inputs import CandidateRecords, InputRecords
from streamgauge.audit.pipeline.neighbours import (
    NeighbouringInputs,
    build_unit,
    compute_worth,
    list_input_pairs,
    rank_candidates,
)
from streamgauge.audit.pipeline.outputs import MEASURE_FIELDS, ReleaseView, SinkView, list_groups
from streamgauge.audit.pipeline.runs import PrivateRuns, RunInterruption, list_sinks
from streamgauge.config.settings import PipelineFile
from streamgauge.noise.coerce import Floats
from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.testing.noise import SilentNoise

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

    def list_pairs(self) -> list[NeighbouringInputs]:
        """List neighbouring inputs, the worst first."""
        candidates = CandidateRecords(self.file, self.plans, self.ticks)
        lines = candidates.list_records(MAX_CANDIDATES if self.can_widen else MAX_SLOW_CANDIDATES)
        units = [build_unit(self.file.stream, line, self.ticks) for line in lines]
        view = self.build_view()
        seen = self.run_without_noise(view, [(), *units])
        worths = [compute_release_worth(part, seen[1:], seen[0]) for part in view.first_parts]
        best = rank_candidates(worths)
        discovered = self.has_discovered_groups
        pairs = list_input_pairs(self.file.stream, self.ticks, lines, best, has_discovered_groups=discovered)
        return list(pairs)

    @property
    def has_discovered_groups(self) -> bool:
        """True if groups are discovered: over thresholds, which noise may tip."""
        return any(plan.query.key is not None for plan in self.plans)

    def build_view(self, max_groups: int | None = None) -> SinkView:
        """Build the view of all groups of all releases in all sinks, or of the first few."""
        return SinkView.from_parts(
            [
                ReleaseView(
                    number, plan, min(self.ticks, plan.last_tick(1) or self.ticks), list_groups(plan)[:max_groups]
                )
                for number, sink in enumerate(list_sinks(self.file))
                for plan in self.plans
                if not sink.releases or plan.name in sink.releases
            ]
        )

    def build_narrow_view(self, pairs: Sequence[NeighbouringInputs]) -> SinkView:
        """Build the view of groups that some pair moves, and a few others."""
        whole = self.build_view()
        if all(len(seen.groups) <= MAX_VIEW_GROUPS for seen in whole.parts):
            return whole
        views = self.run_without_noise(whole, [side for pair in pairs for side in (pair.one, pair.other)])
        return SinkView.from_parts([replace(seen, groups=find_moved_groups(seen, views)) for seen in whole.parts])


def compute_release_worth(view: ReleaseView, views: Floats, nothing: Floats) -> Floats:
    """Return the distance of each view from one of nothing, in a release."""
    value, stddev = (view.numbers(views)[..., MEASURE_FIELDS.index(part)] for part in ("value", "stddev"))
    return compute_worth(value, stddev, view.numbers(nothing[None])[0, ..., MEASURE_FIELDS.index("value")])


def compute_total_worth(view: SinkView, one: Floats, other: Floats) -> float:
    """Return the distance that a unit moves all releases of a view."""
    return sum(float(compute_release_worth(seen, one[None], other)[0]) for seen in view.first_parts)


def find_moved_groups(view: ReleaseView, views: Floats) -> tuple[Any, ...]:
    """Return the groups that differ between two sides, which alternate in `views`."""
    found = np.nan_to_num(view.numbers(views), nan=-1.0)
    moved = (found[0::2] != found[1::2]).any(axis=(0, 1, 3, 4))
    others = np.flatnonzero(~moved)[: max(0, MAX_VIEW_GROUPS - int(moved.sum()))]
    kept = sorted({*np.flatnonzero(moved)[:MAX_VIEW_GROUPS].tolist(), *others.tolist()})
    return tuple(view.groups[place] for place in kept)
