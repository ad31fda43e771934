"""The run of one release: its parts, its alerts and its published columns.

`Batches` has the runs of several releases, whose ticks are committed together.

Shared scan
    Parts with equal filters and groups differ only in the values that they sum. They share one aggregation, and each
    selects its own rows of the answer (`Scan`). Releases share none. So a release can be added or ended without a
    change in the stored open ticks of the others.

Discovered groups
    The places of a tick are the groups that it publishes (`KeyColumns`):

    tick 3    tea 312, coffee 204          tick 4    coffee 371, tea 330, milk 190

    Groups are sorted by noisy count, largest first. Ties are sorted by text, never by arrival, which is secret. A
    published group stays published while it is among the largest `max_groups`. Bounds hold for all groups at once,
    published or not.

Ranked groups
    With ORDER BY, the places of a tick are its largest groups, by released numbers of all groups (`GroupRanking`):
    those of the others are computed and not published. Ties are in the declared order.

Tumbling windows
    A row is of a period, at its last tick. The statistics count periods as their ticks, and are stepped once a period.
    `OpenPeriod` has the sums of its ticks until then. With `partial = true` each tick has a row, of the period so far.
    The runs of a period that has ended are overwritten and replaced by new ones, with fresh noise.

Alerts
    Alerts are computed from released numbers only, after noise. Their state is the last released numbers of each
    group, and the last tick at which a number was not `reliable`. It is committed with the ticks of these numbers. So
    a run that was killed continues with the alerts that it would have had.

Adjusted numbers
    With `consistent = true` the numbers are adjusted after noise and before alerts (`runtime.consistency`).

Privacy
    A finished release draws no more, so its state would serve an intruder only. If it was ended, it is not saved
    again. With pan_private = true, no finished release is saved again, and all are dropped from memory
    (`drop_finished_runs`). Dropped state is overwritten (`forget`).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.config.stream import describe_contributions
from streamgauge.interfaces import Engine, open_engine
from streamgauge.noise import Ints, Noise
from streamgauge.noise.coerce import Floats
from streamgauge.plan.alerts import AlertColumn
from streamgauge.plan.measure import Measure, Pass, Tally, find_value_rows
from streamgauge.plan.parts import CounterPart
from streamgauge.plan.planner import ReleasePlan, build_schema, list_places
from streamgauge.releases.release import TickRelease
from streamgauge.runtime.consistency import ReleaseAdjuster
from streamgauge.runtime.open_period import OpenPeriod, TickSpan
from streamgauge.runtime.options import Progress
from streamgauge.runtime.part_runs import KeyColumns, PartColumns, PartRun, load_part, start_part

if TYPE_CHECKING:
    from streamgauge.runtime.session import RunSession


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
        saved = [watch.tail.astype("<f8").tobytes() + last.astype("<i8").tobytes() for watch, last in pairs]
        return dict(zip(self._part_names, saved, strict=True))

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
class Scan:
    """The measures that the engine computes, and the rows of each part."""

    measures: tuple[Measure, ...]
    part_rows: tuple[tuple[int, list[int]], ...]  # of each part: index of its answer, and its rows there

    @classmethod
    def from_measures(cls, measures: Sequence[Measure]) -> "Scan":
        merged: dict[Measure, Measure] = {}
        for measure in measures:
            frame = replace(measure, values=(), columns=frozenset())
            known = merged.get(frame, frame)
            values = tuple(dict.fromkeys([*known.values, *measure.values]))
            merged[frame] = replace(known, values=values, columns=known.columns | measure.columns)
        frames = list(merged)
        part_rows = []
        for measure in measures:
            frame = replace(measure, values=(), columns=frozenset())
            rows = [1 + row for row in find_value_rows(measure.values, merged[frame].values)]
            part_rows.append((frames.index(frame), [0, *rows]))
        return cls(tuple(merged.values()), tuple(part_rows))

    def tallies(self, answers: Sequence[Tally]) -> list[Tally]:
        """Return the answer for each part."""
        return [replace(answers[at], sums=answers[at].sums[rows]) for at, rows in self.part_rows]


@dataclass(frozen=True)
class GroupRanking:
    """Ranking of the declared groups of a release, by noisy numbers alone."""

    labels: Sequence[tuple[Any, ...]]  # of all groups
    measure: int
    places: int

    @classmethod
    def from_plan(cls, plan: ReleasePlan) -> "GroupRanking | None":
        """Return the ranking of a release; None if it ranks nothing, or if its statistic does."""
        if plan.query.top is None or plan.query.key is not None:
            return None
        labels = [tuple(label for _, label in place.labels) for place in list_places(plan.layout)]
        return cls(labels, plan.query.top.measure, plan.layout["ranked"]["places"])

    def rank_groups(self, numbers: Floats) -> Ints:
        """Return the groups of largest number, by tick: (ticks, groups) to (ticks, places)."""
        return np.argsort(-numbers, axis=1, kind="stable")[:, : self.places]

    def list_labels(self, groups: Ints) -> list[Any]:
        """Return the labels of some groups, one group after another."""
        return [label for group in groups.tolist() for label in self.labels[group]]


ESTIMATE_FIELDS = ("value", "stddev", "low", "high")


class ReleaseRun:
    """The runs of the parts of a release, from its first tick on."""

    def __init__(self, plan: ReleasePlan, name: str, first: int, runs: Sequence[PartRun]) -> None:
        self.plan, self.name, self.first, self.runs = plan, name, first, runs
        self.end_tick: int | None = None  # last tick of an ended release that still runs
        self.released_ticks = 0  # number of ticks when its runs were dropped
        self.offsets = plan.offsets  # first place of each level
        self.schema = build_schema(name, plan.layout, describe_contributions(plan.stream))
        self.ranking = GroupRanking.from_plan(plan)
        size = len(self.schema.measures), len(self.schema.groups)
        self.alert_monitors = AlertMonitors(name, plan.alerts, *size) if plan.alerts else None
        self.adjuster = ReleaseAdjuster(name, plan.adjustments, plan.groups) if plan.adjustments else None
        self.scan = Scan.from_measures([part.measure for part in plan.parts])
        self.noise: Noise | None = None  # of the runs of later periods
        self.open_period: OpenPeriod | None = None  # of a tumbling window
        if plan.periods is not None:
            measures, forgets = self.scan.measures, plan.stream.pan_private or plan.release.partial
            self.open_period = OpenPeriod(plan.periods, first, measures, is_forgetful=forgets)

    @classmethod
    def start(cls, plan: ReleasePlan, name: str, first: int, noise: Noise | None) -> "ReleaseRun":
        run = cls(plan, name, first, [start_part(part, noise) for part in plan.parts])
        run.noise = noise
        return run

    @classmethod
    def load(
        cls, plan: ReleasePlan, name: str, first: int, state: Mapping[str, bytes], noise: Noise | None
    ) -> "ReleaseRun":
        runs = [load_part(part, state_name(name, at), state, noise) for at, part in enumerate(plan.parts)]
        run = cls(plan, name, first, runs)
        run.noise = noise
        if run.open_period is not None:
            run.open_period.restore(state[run.period_name])
        if run.alert_monitors is not None:
            ticks = run.next_tick - first if plan.release.partial else runs[0].tick
            run.alert_monitors.load(state, ticks)
        if run.adjuster is not None:
            run.adjuster.load(state)
        return run

    @property
    def next_tick(self) -> int:
        """Next tick of the stream that it reads."""
        if self.open_period is not None:
            return self.open_period.next_tick
        return self.first + (self.runs[0].tick if self.runs else self.released_ticks)

    @property
    def period_name(self) -> str:
        """Name of the state of the open period."""
        return f"run/{self.name}/period"

    @property
    def last_tick(self) -> int | None:
        lasts = [tick for tick in (self.plan.last_tick(self.first), self.end_tick) if tick is not None]
        return min(lasts, default=None)

    @property
    def is_finished(self) -> bool:
        """True if its last tick is released."""
        return self.last_tick is not None and self.next_tick > self.last_tick

    @property
    def is_removed(self) -> bool:
        """True if it is finished and its state is not saved again."""
        return self.is_finished and (self.end_tick is not None or self.plan.stream.pan_private)

    def save_state(self) -> dict[str, bytes | None]:
        """Return the whole state, secrets included.

        Returns removals of all parts if the release is finished and not to be saved again.
        """
        alerts = {} if self.alert_monitors is None else self.alert_monitors.save_state()
        alerts |= {} if self.adjuster is None else self.adjuster.save_state()
        period = {} if self.open_period is None else {self.period_name: self.open_period.save()}
        names = [state_name(self.name, place) for place in range(len(self.plan.parts))]
        if self.is_removed:
            pairs = zip(self.runs, names, strict=False)  # its runs may be dropped already
            stored = [each for run, name in pairs for each in run.list_parts(name)]
            return dict.fromkeys([*names, *stored, *alerts, *period])
        saved: dict[str, bytes | None] = {}
        for run, name in zip(self.runs, names, strict=True):
            saved |= run.save_state(name)
        return saved | alerts | period

    def drop_finished_runs(self) -> None:
        """Drop the part runs if the release is finished."""
        if self.is_finished:
            self.released_ticks = self.next_tick - self.first
            self.forget()
            self.runs = ()

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
        if self.open_period is not None and not self.plan.release.partial:
            self.open_period.restart()

    def redraw_future_noise(self) -> None:
        """Replace saved draws that a lost run of the same state may have published with."""
        for run in self.runs:
            run.redraw_future_noise()

    def release_ticks(self, answers: Sequence[Tally], count: int) -> list[TickRelease]:
        """Release the next `count` ticks, or the periods that end in them.

        `answers` has the exact sums, one for each measure of the scan.
        """
        if self.open_period is None:
            first = self.next_tick
            return self._release_rows(answers, first, [(tick, tick) for tick in range(first, first + count)])
        if self.plan.release.partial:
            return self._release_partial(answers, self.open_period, count)
        last, number = self.next_tick + count - 1, self.runs[0].tick + 1
        closed = self.open_period.close(answers, number, last, self.last_tick)
        released = self._release_rows(closed.sums, number, closed.spans) if closed.spans else []
        if closed.rest and not self.is_finished:  # a finished one has no open period, and its runs no further tick
            for run, tally in zip(self.runs, self.scan.tallies(closed.rest), strict=True):
                run.add_partial(tally)
        return released

    def _release_partial(self, answers: Sequence[Tally], period: OpenPeriod, count: int) -> list[TickRelease]:
        """Release the next ticks of each period so far, with new runs from each period's first tick."""
        released: list[TickRelease] = []
        for spans in period.split(self.next_tick + count - 1, self.last_tick):
            first, number = period.first_tick, self.runs[0].tick + 1
            released += self._release_rows([replace(a, ticks=a.ticks - first + 1) for a in answers], number, spans)
            if spans[-1][1] == period.find_end(self.last_tick) != self.last_tick:
                for part in self.runs:
                    part.run.wipe()
                self.runs = [start_part(part, self.noise) for part in self.plan.parts]
        return released

    def _release_rows(self, answers: Sequence[Tally], first: int, spans: Sequence[TickSpan]) -> list[TickRelease]:
        """Release a row for each span of ticks; the first is tick `first` of the statistics."""
        count, tallies = len(spans), self.scan.tallies(answers)
        found = [run.estimate_ticks(tally, first, count) for run, tally in zip(self.runs, tallies, strict=True)]
        keys = [column.keys for column in found[0].values() if isinstance(column, KeyColumns)]
        schemas = [self.schema.with_groups(each) for each in keys[0]] if keys else [self.schema] * count
        width = max(len(schema.groups) for schema in schemas) if self.ranking is None else len(self.ranking.labels)
        blank = (count, len(self.schema.measures), width)
        fields: dict[str, Any] = {name: np.full(blank, np.nan) for name in ESTIMATE_FIELDS}
        fields["reliable"] = np.zeros(blank, np.bool_)
        for run, columns in zip(self.runs, found, strict=True):
            self._fill_fields(fields, run.part, columns)
        if self.adjuster is not None:
            self.adjuster.adjust(fields)
        if self.alert_monitors is not None:
            self.alert_monitors.fill_alerts(fields)
        if self.ranking is not None:
            order = self.ranking.rank_groups(fields["value"][:, self.ranking.measure])
            fields = {name: np.take_along_axis(part, order[:, None], axis=2) for name, part in fields.items()}
            schemas = [self.schema.with_groups(self.ranking.list_labels(groups)) for groups in order]
        begins = self.plan.stream.tick_start
        releases = []
        for row, (schema, (begin, end)) in enumerate(zip(schemas, spans, strict=True)):
            own = {name: array[row][:, : len(schema.groups)] for name, array in fields.items()}
            releases.append(TickRelease(schema, end, begins(begin), begins(end + 1), **own))
        return releases

    def _fill_fields(self, fields: dict[str, Any], part: CounterPart, columns: PartColumns) -> None:
        begin = self.offsets[part.level]
        for output in part.outputs:
            column = columns[output.column]
            end = begin + column.value.shape[1]  # of this level, or of all following levels
            for name, array in fields.items():
                array[:, output.aggregate, begin:end] = getattr(column, name)


def state_name(release: str, part: int) -> str:
    return f"run/{release}/{part}"


def build_removals(state: Iterable[str], releases: Collection[str]) -> dict[str, None]:
    """Return removals of the state parts that belong to runs of other releases."""
    runs = [name for name in state if name.startswith("run/")]
    return {name: None for name in runs if name.split("/")[1] not in releases}


@dataclass
class Batches:
    """The runs of some releases, and the scan that all of them need."""

    session: "RunSession"
    runs: Sequence[ReleaseRun]
    events: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def measures(self) -> dict[str, Measure]:
        """All measures for the engine, by a name that does not depend on other releases."""
        return {f"{run.name}/{place}": measure for run in self.runs for place, measure in enumerate(run.scan.measures)}

    @property
    def max_commit_ticks(self) -> int:
        """Largest number of ticks in one commit."""
        options = self.session.options
        parts = [part for run in self.runs for part in run.plan.parts]
        places = sum(part.value_count * part.windows for part in parts)  # of the vectors of one tick, by window
        return max(1, min(options.max_batch_ticks, options.max_batch_places // max(1, places)))

    def split_ticks(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ticks from `first` to `last` in pieces that are committed at once."""
        size = self.max_commit_ticks
        for begin in range(first, last + 1, size):
            yield begin, min(last, begin + size - 1)

    def report_backlog(self, tick: int, due: int) -> int | None:
        """Report a backlog to the curator.

        Returns:
            The due tick if it needs more than one commit, otherwise None.
        """
        if due - tick <= self.max_commit_ticks:
            return None
        self.report_progress(tick, due)
        return due

    def open_engine(self) -> Engine:
        """Open an engine that answers all measures."""
        options, counts = self.session.options, self.session.shares is not None
        measures, secret = list(self.measures.values()), self.session.secret
        return open_engine(self.session.file, measures, secret, memory=options.memory, count_columns=counts)

    def release_ticks(self, answers: Sequence[Tally], first: int, last: int) -> list[TickRelease]:
        """Draw the ticks from `first` to `last` of every release.

        The result is in memory only: nothing leaves before `Publisher.commit`.
        """
        released: list[TickRelease] = []
        for run, own in self.split_answers(answers):
            count = count_release_ticks(run, first, last)
            if count > 0:
                released += run.release_ticks(own, count)
        return released

    def add_partial(self, answers: Sequence[Tally], tick: int) -> None:
        """Add events of an open tick to the registers of every release."""
        for run, own in self.split_answers(answers):
            run.add_partial(own, tick)

    def split_answers(self, answers: Sequence[Tally]) -> Iterator[tuple[ReleaseRun, Sequence[Tally]]]:
        """Yield each release with its part of the engine's answers."""
        place = 0
        for run in self.runs:
            yield run, answers[place : place + len(run.scan.measures)]
            place += len(run.scan.measures)

    def save_state(self) -> dict[str, bytes | None]:
        return {name: part for run in self.runs for name, part in run.save_state().items()}

    def report_progress(self, tick: int, due: int | None = None) -> None:
        """Report the progress to the curator, with the last tick of a backlog."""
        stream = self.session.file.stream
        progress = Progress(tick, stream.ticks, self.events, dict(self.dropped), not stream.pan_private, due)
        self.session.options.on_progress(progress)

    def add_counts(self, answer: Pass) -> None:
        """Add the counts of the engine, for the curator."""
        if self.session.shares is not None:
            self.session.shares.add(answer)
        for rule, number in answer.counts.items():
            if rule == "records":
                self.events += number
            else:
                self.dropped[rule] = self.dropped.get(rule, 0) + number


def count_release_ticks(run: ReleaseRun, first: int, last: int) -> int:
    """Return how many of these ticks a release has: from its next one to its last."""
    end = last if run.last_tick is None else min(last, run.last_tick)
    if run.next_tick < min(first, end + 1):
        raise ValueError(f"ticks must follow each other, got {first} where {run.next_tick} is next")
    return end - run.next_tick + 1
