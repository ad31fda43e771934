"""Runs without noise, before an audit: which records move what, and which groups are worth a look."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from streamgauge.audit.broken_runs import Broken
from streamgauge.audit.candidate_records import Candidates
from streamgauge.audit.file_copies import Alone, Copies, Repeated, widened
from streamgauge.audit.input_records import Input
from streamgauge.audit.neighbour_inputs import dearest, neighbours, worth
from streamgauge.audit.private_runs import PrivateRuns, all_sinks
from streamgauge.audit.sink_forms import PARTS
from streamgauge.audit.sink_rows import Seen, View, groups_of
from streamgauge.audit.unit_inputs import Neighbours, unit_of
from streamgauge.noise.numbers import Floats
from streamgauge.query.planner import Planned, planned
from streamgauge.query.settings import PipelineFile
from streamgauge.testing import SilentNoise

CANDIDATES, FEW_CANDIDATES = 256, 24
FEW_GROUPS = 12  # of a release that are looked at, besides those that move
MOST_ROWS = 25_000  # of all sinks of a run
MOST_NUMBERS = 2**22  # of all vectors of a run
MOST_COPIES = 2_000
FEW_COPIES = 50  # of releases under other names


@dataclass(frozen=True)
class Trial:
    """A file, planned, over its first ticks, in a folder that is the audit's."""

    file: PipelineFile
    plans: Sequence[Planned]
    ticks: int
    folder: Path
    fast: bool  # whether the file can be widened

    @classmethod
    def of(cls, file: PipelineFile, ticks: int, folder: Path) -> "Trial":
        plans = [planned(file, release) for release in file.releases]
        return cls(file, plans, min(ticks, file.stream.ticks or ticks), folder, widened(file, 2) is not None)

    def copies(self, runs: int) -> Copies:
        """The copy that has most runs in one, but no more than a part of those that are asked for."""
        rows = self.ticks * sum(plan.groups for plan in self.plans)
        numbers = self.ticks * sum(part.places for plan in self.plans for part in plan.parts)
        most = max(1, min(MOST_COPIES, runs // 4, MOST_ROWS // rows, MOST_NUMBERS // numbers))
        found = widened(self.file, most) if self.fast else None
        return found or Repeated(self.file, min(most, FEW_COPIES))

    def runs(self, copies: Copies, broken: Broken | None = None) -> PrivateRuns:
        """In a folder of their own."""
        own = next(path for n in count() if not (path := self.folder / f"runs{n}").exists())
        own.mkdir(mode=0o700)
        return PrivateRuns(copies, self.ticks, own, broken=broken)

    def silent(self, view: View, inputs: Sequence[Input]) -> Floats:
        """What is seen of each input without noise: worlds of one run, or a run each."""
        wide = widened(self.file, len(inputs)) if self.fast else None
        if wide is not None:
            return self.runs(wide).shown(view, inputs, SilentNoise())
        runs = self.runs(Alone(self.file))
        return np.concatenate([runs.shown(view, [each], SilentNoise()) for each in inputs])

    def pairs(self) -> list[Neighbours]:
        """Neighbouring inputs, the dearest first."""
        candidates = Candidates(self.file, self.plans, self.ticks)
        lines = candidates.lines(CANDIDATES if self.fast else FEW_CANDIDATES)
        units = [unit_of(self.file.stream, line, self.ticks) for line in lines]
        view = self.view()
        seen = self.silent(view, [(), *units])
        worths = [worth_of(part, seen[1:], seen[0]) for part in view.firsts]
        best = dearest(worths)
        return list(neighbours(self.file.stream, self.ticks, lines, best, discovered=self.discovered))

    @property
    def discovered(self) -> bool:
        """Whether groups are: over thresholds, which noise may tip."""
        return any(plan.query.key is not None for plan in self.plans)

    def view(self, most: int | None = None) -> View:
        """All groups of all releases in all sinks, or the first few."""
        return View.of(
            [
                Seen(number, plan, min(self.ticks, plan.last_tick(1) or self.ticks), groups_of(plan)[:most])
                for number, sink in enumerate(all_sinks(self.file))
                for plan in self.plans
                if not sink.releases or plan.name in sink.releases
            ]
        )

    def narrowed(self, pairs: Sequence[Neighbours]) -> View:
        """Groups that some pair moves, and a few others."""
        whole = self.view()
        if all(len(seen.groups) <= FEW_GROUPS for seen in whole.parts):
            return whole
        views = self.silent(whole, [side for pair in pairs for side in (pair.one, pair.other)])
        return View.of([replace(seen, groups=moved_groups(seen, views)) for seen in whole.parts])


def worth_of(seen: Seen, views: Floats, nothing: Floats) -> Floats:
    """How far each view is from one of nothing, in a release."""
    value, stddev = (seen.numbers(views)[..., PARTS.index(part)] for part in ("value", "stddev"))
    return worth(value, stddev, seen.numbers(nothing[None])[0, ..., PARTS.index("value")])


def moved(view: View, one: Floats, other: Floats) -> float:
    """How far a unit moves all releases of a view."""
    return sum(float(worth_of(seen, one[None], other)[0]) for seen in view.firsts)


def moved_groups(seen: Seen, views: Floats) -> tuple[Any, ...]:
    """Views are of two sides in turn."""
    told = np.nan_to_num(seen.numbers(views), nan=-1.0)
    moved = (told[0::2] != told[1::2]).any(axis=(0, 1, 3, 4))
    others = np.flatnonzero(~moved)[: max(0, FEW_GROUPS - int(moved.sum()))]
    kept = sorted({*np.flatnonzero(moved)[:FEW_GROUPS].tolist(), *others.tolist()})
    return tuple(seen.groups[place] for place in kept)
