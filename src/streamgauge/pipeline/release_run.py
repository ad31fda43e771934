"""A release at work: its parts side by side, and what readers see of them.

Privacy
    A release that is over draws no more, so what its runs remember is of no use but to an intruder. One that
    was ended, and with pan_private = true any whose last tick was published, is neither saved again nor, with
    pan_private = true, held in memory (`let_go`). What is let go of is overwritten (`forget`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from streamgauge.noise import Noise
from streamgauge.pipeline.local_part_run import LocalPartRun
from streamgauge.pipeline.part_run import PartRun
from streamgauge.pipeline.scan import Scan
from streamgauge.pipeline.user_part_run import UserPartRun
from streamgauge.pipeline.watches import Watches
from streamgauge.query.measure import Tally
from streamgauge.query.parts import Part
from streamgauge.query.planner import Planned, shape_of
from streamgauge.query.promises import describe_contributions
from streamgauge.query.released import Released
from streamgauge.statistics.local_frequency import LocalFrequency
from streamgauge.statistics.told import Columns
from streamgauge.statistics.user_table import UserTable

AnyPartRun = PartRun | UserPartRun | LocalPartRun
KINDS: Mapping[type, type[PartRun] | type[UserPartRun] | type[LocalPartRun]] = {
    UserTable: UserPartRun,
    LocalFrequency: LocalPartRun,
}
FIELDS = ("value", "stddev", "low", "high")


class ReleaseRun:
    """The runs of a release's parts, from its first tick on."""

    def __init__(self, planned: Planned, name: str, first: int, runs: Sequence[AnyPartRun]) -> None:
        self.planned, self.name, self.first, self.runs = planned, name, first, runs
        self.ended: int | None = None  # the last tick of a release that was ended and runs on
        self.taken = 0  # ticks, by the time its runs were let go of
        self.shape = shape_of(name, planned.layout, describe_contributions(planned.stream))
        size = len(self.shape.measures), len(self.shape.places)
        self.watches = Watches(name, planned.alerts, *size) if planned.alerts else None
        self.scan = Scan.of([part.measure for part in planned.parts])

    @classmethod
    def start(cls, planned: Planned, name: str, first: int, noise: Noise | None) -> "ReleaseRun":
        return cls(planned, name, first, [kind_of(part).start(part, noise) for part in planned.parts])

    @classmethod
    def load(
        cls, planned: Planned, name: str, first: int, state: Mapping[str, bytes], noise: Noise | None
    ) -> "ReleaseRun":
        parts = enumerate(planned.parts)
        runs = [_loaded(part, state_name(name, place), state, noise) for place, part in parts]
        run = cls(planned, name, first, runs)
        if run.watches is not None:
            run.watches.load(state, runs[0].tick)
        return run

    @property
    def next_tick(self) -> int:
        """The tick of the stream that it takes next."""
        return self.first + (self.runs[0].tick if self.runs else self.taken)

    @property
    def last_tick(self) -> int | None:
        lasts = [tick for tick in (self.planned.last_tick(self.first), self.ended) if tick is not None]
        return min(lasts, default=None)

    @property
    def over(self) -> bool:
        """Whether its last tick was taken."""
        return self.last_tick is not None and self.next_tick > self.last_tick

    def saved(self) -> dict[str, bytes | None]:
        """All that it remembers, secrets included; nothing once it is over and forgotten."""
        alerts = {} if self.watches is None else self.watches.saved()
        names = [state_name(self.name, place) for place in range(len(self.planned.parts))]
        if self.over and (self.ended is not None or self.planned.stream.pan_private):
            stored = [
                each for run, name in zip(self.runs, names, strict=False) for each in _stored(run, name)
            ]
            return dict.fromkeys([*names, *stored, *alerts])
        saved: dict[str, bytes | None] = {}
        for run, name in zip(self.runs, names, strict=True):
            saved |= _saved(run, name)
        return saved | alerts

    def let_go(self) -> None:
        """Forgets its runs, if it is over: it takes no tick more."""
        if self.over:
            taken = self.next_tick - self.first
            self.forget()
            self.taken, self.runs = taken, ()

    def forget(self) -> None:
        """Overwrites what its runs remember, where that can be seized: none of them goes on."""
        for part in self.runs if self.planned.stream.pan_private else ():
            part.run.forget()

    def absorb(self, answers: Sequence[Tally], tick: int) -> None:
        """Takes what has come for a tick that is open, if it is the next of its own."""
        if tick != self.next_tick or (self.last_tick is not None and tick > self.last_tick):
            return
        for run, tally in zip(self.runs, self.scan.tallies(answers), strict=True):
            run.absorb(tally.of(tick))

    def begin_anew(self) -> None:
        """Lets the open registers of all parts go for what was released and fresh draws."""
        for run in self.runs:
            run.begin_anew()

    def take(self, answers: Sequence[Tally], count: int) -> list[Released]:
        """Takes `count` ticks, of which `answers` has the exact sums, one for each measure of its scan."""
        first, tallies = self.next_tick, self.scan.tallies(answers)
        told = [run.take(tally, first, count) for run, tally in zip(self.runs, tallies, strict=True)]
        shape = self.shape
        blank = (count, len(shape.measures), len(shape.places))
        fields: dict[str, Any] = {name: np.full(blank, np.nan) for name in FIELDS}
        fields["enough"] = np.zeros(blank, np.bool_)
        for run, columns in zip(self.runs, told, strict=True):
            self._lay_out(fields, run, columns)
        if self.watches is not None:
            self.watches.look(fields)
        begins = self.planned.stream.begins
        return [
            Released(
                shape,
                tick,
                begins(tick),
                begins(tick + 1),
                **{name: array[row] for name, array in fields.items()},
            )
            for row, tick in enumerate(range(first, first + count))
        ]

    def _lay_out(self, fields: dict[str, Any], run: AnyPartRun, columns: Mapping[str, Columns]) -> None:
        begin = self.planned.offsets[run.part.level]
        for output in run.part.outputs:
            column = columns[output.column]
            end = begin + column.value.shape[1]  # of this level, or of all that follow
            for name, array in fields.items():
                array[:, output.aggregate, begin:end] = getattr(column, name)


def kind_of(part: Part) -> type[PartRun] | type[UserPartRun] | type[LocalPartRun]:
    return KINDS.get(type(part.statistic), PartRun)


def _loaded(part: Part, name: str, state: Mapping[str, bytes], noise: Noise | None) -> AnyPartRun:
    kind = kind_of(part)
    if issubclass(kind, LocalPartRun):
        return kind.restored(part, name, state)
    return kind.load(part, state[name], noise)


def _saved(run: AnyPartRun, name: str) -> dict[str, bytes | None]:
    """Of reports, what has changed; of all else, all of it."""
    return run.parts(name) if isinstance(run, LocalPartRun) else {name: run.save()}


def _stored(run: AnyPartRun, name: str) -> list[str]:
    """What a store has of it."""
    return run.stored(name) if isinstance(run, LocalPartRun) else [name]


def state_name(release: str, part: int) -> str:
    return f"run/{release}/{part}"


def of_others(state: Iterable[str], releases: Collection[str]) -> dict[str, None]:
    """The parts of a state that are of the runs of other releases, to be removed."""
    runs = [name for name in state if name.startswith("run/")]
    return {name: None for name in runs if name.split("/")[1] not in releases}
