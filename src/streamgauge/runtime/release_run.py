"""The run of one release: its parts, its alerts and its published columns.

Shared scan
    Parts with equal filters and groups differ only in the values that they sum. They share one aggregation, and each
    selects its own rows of the answer (`Scan`). Releases share none. So a release can be added or ended without a
    change in the stored open ticks of the others.

Discovered groups
    The places of a tick are the groups that it publishes (`DiscoveredRun`):

    tick 3    tea 312, coffee 204          tick 4    coffee 371, tea 330, milk 190

    Groups are sorted by noisy count, largest first. Ties are sorted by text, never by arrival, which is secret. A
    published group stays published while it is among the largest `max_groups`. Bounds hold for all groups at once,
    published or not.

Alerts
    Alerts are computed from released numbers only, after noise. Their state is the last released numbers of each
    group, and the last tick at which a number was not `reliable`. It is committed with the ticks of these numbers. So
    a run that was killed continues with the alerts that it would have had.

Privacy
    A finished release draws no more, so its state would serve an intruder only. If it was ended, it is not saved
    again. With pan_private = true, no finished release is saved again, and all are dropped from memory
    (`drop_finished_runs`). Dropped state is overwritten (`forget`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.config.stream import describe_contributions
from streamgauge.noise import Noise
from streamgauge.plan.alerts import AlertColumn
from streamgauge.plan.measure import Measure, Tally
from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import ReleasePlan, build_schema
from streamgauge.releases.release import TickRelease
from streamgauge.runtime.part_runs import LocalPartRun, PartRun, UserPartRun
from streamgauge.statistics.estimate import Columns
from streamgauge.statistics.keys.ranking import Ranking
from streamgauge.statistics.local_frequency import LocalFrequency
from streamgauge.statistics.user_table import UserTableStatistic


class AlertMonitors:
    """Monitors of the measures of one release. Its alerts are its last measures."""

    def __init__(self, release: str, alert_columns: Sequence[AlertColumn], measures: int, places: int) -> None:
        self.release, self.alert_columns = release, alert_columns
        self.first_place = measures - len(alert_columns)  # index of the first alert among the measures
        self.tick_count = 0
        self.monitors = [each.alert.monitor.start(places) for each in alert_columns]
        self.last_unreliable_ticks = [
            np.zeros(places, np.int64) for _ in alert_columns
        ]  # last tick that was not reliable, 0 for none

    def load(self, state: Mapping[str, bytes], tick_count: int) -> None:
        """Restore the state after `tick_count` ticks."""
        self.tick_count = tick_count
        for name, watch, short in zip(self._part_names, self.monitors, self.last_unreliable_ticks, strict=True):
            numbers = min(tick_count, watch.monitor.window - 1) * watch.width
            tail, last = np.frombuffer(state[name], "<f8", numbers), state[name][8 * numbers :]
            watch.tail = tail.reshape(-1, watch.width).astype(np.float64)
            short[:] = np.frombuffer(last, "<i8")

    def save_state(self) -> dict[str, bytes]:
        """Return the state, which is made of released numbers only."""
        pairs = zip(self.monitors, self.last_unreliable_ticks, strict=True)
        kept = [watch.tail.astype("<f8").tobytes() + last.astype("<i8").tobytes() for watch, last in pairs]
        return dict(zip(self._part_names, kept, strict=True))

    def fill_alerts(self, fields: Mapping[str, Any]) -> None:
        """Fill in the alerts of the next ticks, in arrays of (ticks, measures, places)."""
        values, reliable = fields["value"], fields["reliable"]
        ticks = (self.tick_count + 1 + np.arange(len(values)))[:, None]
        alerts = zip(self.alert_columns, self.monitors, self.last_unreliable_ticks, strict=True)
        for place, (each, watch, short) in enumerate(alerts, self.first_place):
            values[:, place] = watch.feed(values[:, each.measure_index])
            missed = np.where(reliable[:, each.measure_index], short, ticks)
            last = np.maximum.accumulate(missed, axis=0)
            reliable[:, place] = ticks - last >= each.alert.window
            short[:] = last[-1:]
        self.tick_count += len(values)

    @property
    def _part_names(self) -> list[str]:
        return [f"run/{self.release}/alert {i}" for i in range(len(self.alert_columns))]


@dataclass(frozen=True)
class PartRows:
    """Index of the answer and of its rows that belong to a part."""

    measure: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Scan:
    """The measures that the engine computes, and the rows of each part."""

    measures: tuple[Measure, ...]
    part_rows: tuple[PartRows, ...]

    @classmethod
    def from_measures(cls, measures: Sequence[Measure]) -> "Scan":
        merged: dict[Measure, Measure] = {}
        for measure in measures:
            frame = replace(measure, values=(), columns=frozenset())
            known = merged.get(frame, frame)
            values = tuple(dict.fromkeys([*known.values, *measure.values]))
            merged[frame] = replace(known, values=values, columns=known.columns | measure.columns)
        frames = list(merged)
        shares = []
        for measure in measures:
            frame = replace(measure, values=(), columns=frozenset())
            shares.append(PartRows(frames.index(frame), find_rows(measure, merged[frame])))
        return cls(tuple(merged.values()), tuple(shares))

    def tallies(self, answers: Sequence[Tally]) -> list[Tally]:
        """Return the answer for each part."""
        return [
            replace(answers[share.measure], sums=answers[share.measure].sums[list(share.rows)])
            for share in self.part_rows
        ]


def find_rows(measure: Measure, merged: Measure) -> tuple[int, ...]:
    """Return the rows of a measure in a merged measure that has more values."""
    begins, begin = {}, 1
    for value in merged.values:
        begins[value] = begin
        begin += 1 + value.power
    rows = [0]
    for value in measure.values:
        rows += range(begins[value], begins[value] + 1 + value.power)
    return tuple(rows)


AnyPartRun = PartRun | UserPartRun | LocalPartRun
PART_RUN_TYPES: Mapping[type, type[PartRun] | type[UserPartRun] | type[LocalPartRun]] = {
    UserTableStatistic: UserPartRun,
    LocalFrequency: LocalPartRun,
}
ESTIMATE_FIELDS = ("value", "stddev", "low", "high")


class ReleaseRun:
    """The runs of the parts of a release, from its first tick on."""

    def __init__(self, plan: ReleasePlan, name: str, first: int, runs: Sequence[AnyPartRun]) -> None:
        self.plan, self.name, self.first, self.runs = plan, name, first, runs
        self.end_tick: int | None = None  # last tick of an ended release that still runs
        self.released_ticks = 0  # number of ticks when its runs were dropped
        self.offsets = plan.offsets  # first place of each level
        self.schema = build_schema(name, plan.layout, describe_contributions(plan.stream))
        size = len(self.schema.measures), len(self.schema.groups)
        self.alert_monitors = AlertMonitors(name, plan.alerts, *size) if plan.alerts else None
        self.scan = Scan.from_measures([part.measure for part in plan.parts])

    @classmethod
    def start(cls, plan: ReleasePlan, name: str, first: int, noise: Noise | None) -> "ReleaseRun":
        return cls(plan, name, first, [find_run_type(part).start(part, noise) for part in plan.parts])

    @classmethod
    def load(
        cls, plan: ReleasePlan, name: str, first: int, state: Mapping[str, bytes], noise: Noise | None
    ) -> "ReleaseRun":
        parts = enumerate(plan.parts)
        runs = [_load_part(part, state_name(name, place), state, noise) for place, part in parts]
        run = cls(plan, name, first, runs)
        if run.alert_monitors is not None:
            run.alert_monitors.load(state, runs[0].tick)
        return run

    @property
    def next_tick(self) -> int:
        """Next tick of the stream that it releases."""
        return self.first + (self.runs[0].tick if self.runs else self.released_ticks)

    @property
    def last_tick(self) -> int | None:
        lasts = [tick for tick in (self.plan.last_tick(self.first), self.end_tick) if tick is not None]
        return min(lasts, default=None)

    @property
    def is_finished(self) -> bool:
        """True if its last tick is released."""
        return self.last_tick is not None and self.next_tick > self.last_tick

    def save_state(self) -> dict[str, bytes | None]:
        """Return the whole state, secrets included.

        Returns removals of all parts if the release is finished and not to be saved again.
        """
        alerts = {} if self.alert_monitors is None else self.alert_monitors.save_state()
        names = [state_name(self.name, place) for place in range(len(self.plan.parts))]
        if self.is_finished and (self.end_tick is not None or self.plan.stream.pan_private):
            stored = [
                each for run, name in zip(self.runs, names, strict=False) for each in _list_stored_parts(run, name)
            ]
            return dict.fromkeys([*names, *stored, *alerts])
        saved: dict[str, bytes | None] = {}
        for run, name in zip(self.runs, names, strict=True):
            saved |= _save_part(run, name)
        return saved | alerts

    def drop_finished_runs(self) -> None:
        """Drop the part runs if the release is finished."""
        if self.is_finished:
            taken = self.next_tick - self.first
            self.forget()
            self.released_ticks, self.runs = taken, ()

    def forget(self) -> None:
        """Overwrite the state of its runs if memory can be seized. None of them continues."""
        for part in self.runs if self.plan.stream.pan_private else ():
            part.run.wipe()

    def add_partial(self, answers: Sequence[Tally], tick: int) -> None:
        """Add events of an open tick, if it is the next tick of this release."""
        if tick != self.next_tick or (self.last_tick is not None and tick > self.last_tick):
            return
        for run, tally in zip(self.runs, self.scan.tallies(answers), strict=True):
            run.add_partial(tally.select_tick(tick))

    def rerandomize(self) -> None:
        """Replace the open registers of all parts by released values and fresh draws."""
        for run in self.runs:
            run.rerandomize()

    def release_ticks(self, answers: Sequence[Tally], count: int) -> list[TickRelease]:
        """Release the next `count` ticks.

        `answers` has the exact sums, one for each measure of the scan.
        """
        first, tallies = self.next_tick, self.scan.tallies(answers)
        told = [run.estimate_ticks(tally, first, count) for run, tally in zip(self.runs, tallies, strict=True)]
        shape = self.schema
        blank = (count, len(shape.measures), len(shape.groups))
        fields: dict[str, Any] = {name: np.full(blank, np.nan) for name in ESTIMATE_FIELDS}
        fields["reliable"] = np.zeros(blank, np.bool_)
        for run, columns in zip(self.runs, told, strict=True):
            self._fill_fields(fields, run, columns)
        if self.alert_monitors is not None:
            self.alert_monitors.fill_alerts(fields)
        begins = self.plan.stream.tick_start
        return [
            TickRelease(
                shape, tick, begins(tick), begins(tick + 1), **{name: array[row] for name, array in fields.items()}
            )
            for row, tick in enumerate(range(first, first + count))
        ]

    def _fill_fields(self, fields: dict[str, Any], run: AnyPartRun, columns: Mapping[str, Columns]) -> None:
        begin = self.offsets[run.part.level]
        for output in run.part.outputs:
            column = columns[output.column]
            end = begin + column.value.shape[1]  # of this level, or of all following levels
            for name, array in fields.items():
                array[:, output.aggregate, begin:end] = getattr(column, name)


def find_run_type(part: CounterPart) -> type[PartRun] | type[UserPartRun] | type[LocalPartRun]:
    return PART_RUN_TYPES.get(type(part.statistic), PartRun)


def _load_part(part: CounterPart, name: str, state: Mapping[str, bytes], noise: Noise | None) -> AnyPartRun:
    kind = find_run_type(part)
    if issubclass(kind, LocalPartRun):
        return kind.restore(part, name, state)
    return kind.load(part, state[name], noise)


def _save_part(run: AnyPartRun, name: str) -> dict[str, bytes | None]:
    """Return the changes of a run of reports, and the whole state of any other."""
    return run.save_changes(name) if isinstance(run, LocalPartRun) else {name: run.save()}


def _list_stored_parts(run: AnyPartRun, name: str) -> list[str]:
    """Return the names of its parts in the store."""
    return run.list_stored_parts(name) if isinstance(run, LocalPartRun) else [name]


def state_name(release: str, part: int) -> str:
    return f"run/{release}/{part}"


def build_removals(state: Iterable[str], releases: Collection[str]) -> dict[str, None]:
    """Return removals of the state parts that belong to runs of other releases."""
    runs = [name for name in state if name.startswith("run/")]
    return {name: None for name in runs if name.split("/")[1] not in releases}


Texts = npt.NDArray[np.object_]


class DiscoveredRun(ReleaseRun):
    """The run of one part whose keys the engine discovers and counts."""

    def release_ticks(self, answers: Sequence[Tally], count: int) -> list[TickRelease]:
        (tally,) = self.scan.tallies(answers)
        ticks = range(self.next_tick, self.next_tick + count)
        mine = tally.select((tally.ticks >= ticks.start) & (tally.ticks < ticks.stop))
        keys = np.array([*mine.keys, None], object)
        return [self._release_tick(tick, mine.select_tick(tick), keys) for tick in ticks]

    def _release_tick(self, tick: int, tally: Tally, keys: Texts) -> TickRelease:
        """Release one tick. A key may occur in several rows of it."""
        run: Any = self.runs[0].run
        return self._build_release(tick, run.step_keys(keys[tally.groups], tally.sums[0]))

    def _build_release(self, tick: int, ranking: Ranking) -> TickRelease:
        begins, size = self.plan.stream.tick_start, (1, len(ranking.keys[0]))
        ((low, high),) = ranking.interval()
        return TickRelease(
            self.schema.with_groups([str(key) for key in ranking.keys[0]]),
            tick,
            begins(tick),
            begins(tick + 1),
            value=ranking.counts[0].reshape(size),
            stddev=np.full(size, ranking.stddev),
            low=low.reshape(size),
            high=high.reshape(size),
            reliable=np.ones(size, np.bool_),
        )
