"""The run of one part of a release: exact sums of ticks in, estimates out.

`PartRun` is the protocol. The statistic of a part decides its run (`start_part`, `load_part`).

`EventPartRun`
    Power sums and cell counts become the vectors of the part's statistic, by integer arithmetic. Discovered keys are
    counted as they are. Noise is drawn only inside the run of the statistic.

`UserPartRun`
    Users are added to a noisy table that may be seized. The users of a block are read, added with noise and
    forgotten in one step. The end of a tick makes an estimate and changes nothing.

`LocalPartRun`
    Reports of devices in, estimates out. Reports are private already, so nothing here is secret. The sums of all
    reports in the window are one table. The table may be large, and the reports of a tick few. So a commit writes
    the reports of its ticks, and the table only from time to time:

    table      the sums at some tick; of a running window, once the reports since then would take as many bytes
    rows/7/0   the reports of tick 7, if they are newer than the table or in a sliding window, which removes them later

    Promise: the estimates after a restart are those without a restart. Sums are integers, and reports that are added
    again, in any order, make the same table.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import Any, Protocol

import numpy as np

from streamgauge.localdp.collector import Collector, Frequencies
from streamgauge.noise import Ints, Noise
from streamgauge.noise.coerce import Bools, Floats
from streamgauge.panprivate import TableRun
from streamgauge.plan.measure import Tally
from streamgauge.plan.parts import CounterPart
from streamgauge.runtime.live.open_reports import (
    MAX_PART_BYTES,
    CountedReports,
    count_bytes,
    decode_part,
    encode_part,
    merge_parts,
    split_part,
)
from streamgauge.statistics import EventRun
from streamgauge.statistics.estimate import Columns
from streamgauge.statistics.keys.ranking import Ranking
from streamgauge.statistics.local_frequency import LocalFrequency
from streamgauge.statistics.user_table import UserTableStatistic

MAX_PENDING_TICKS = 256  # of a running window, before its table is written again
TICK_STRUCT = Struct("<Q")
TABLE_SUFFIX, ROWS_INFIX = "/table", "/rows/"
StateParts = dict[str, bytes | None]  # None for a removed part


@dataclass(frozen=True)
class KeyColumns:
    """Columns of discovered keys, of some ticks. Rows are padded to the longest."""

    keys: Sequence[Sequence[str]]  # of each tick
    value: Floats
    stddev: Floats
    low: Floats
    high: Floats
    reliable: Bools

    @classmethod
    def from_rankings(cls, rankings: Sequence[Ranking]) -> "KeyColumns":
        keys = [[str(key) for key in ranking.keys[0]] for ranking in rankings]
        value, stddev, low, high = np.full((4, len(keys), max(map(len, keys))), np.nan)
        for row, ranking in enumerate(rankings):
            size = len(keys[row])
            value[row, :size], stddev[row] = ranking.counts[0], ranking.stddev
            ((low[row, :size], high[row, :size]),) = ranking.interval()
        return cls(keys, value, stddev, low, high, np.ones(value.shape, np.bool_))


PartColumns = Mapping[str, Columns | KeyColumns]  # by name, with a row per tick


class PartRun(Protocol):
    """The run of one part of a release."""

    part: CounterPart
    run: Any  # the run with the state: `wipe`, `intrude` and `record`

    @classmethod
    def start(cls, part: CounterPart, noise: Noise | None) -> "PartRun": ...

    @classmethod
    def load(cls, part: CounterPart, name: str, state: Mapping[str, bytes], noise: Noise | None) -> "PartRun":
        """Load the run whose state was committed under `name`."""
        ...

    @property
    def tick(self) -> int:
        """Number of released ticks."""
        ...

    def save_state(self, name: str) -> StateParts:
        """Return the parts of the state that changed since the last commit."""
        ...

    def list_parts(self, name: str) -> list[str]:
        """Return the names of all parts of the state."""
        ...

    def add_partial(self, tally: Tally) -> None:
        """Add a part of the open tick, with pan_private = true."""
        ...

    def rerandomize(self) -> None:
        """Replace open registers after a run whose memory may have been read."""
        ...

    def redraw_future_noise(self) -> None:
        """Replace saved draws that a lost run may have published with."""
        ...

    def estimate_ticks(self, tally: Tally, first: int, count: int) -> PartColumns:
        """Return the estimates of `count` ticks from `first`."""
        ...


class EventPartRun:
    """The run of a statistic of events."""

    def __init__(self, part: CounterPart, run: EventRun[Any]) -> None:
        self.part, self.run = part, run

    @classmethod
    def start(cls, part: CounterPart, noise: Noise | None) -> "EventPartRun":
        return cls(part, part.statistic.start(part.width, noise))

    @classmethod
    def load(cls, part: CounterPart, name: str, state: Mapping[str, bytes], noise: Noise | None) -> "EventPartRun":
        return cls(part, part.statistic.load(state[name], noise))

    @property
    def tick(self) -> int:
        return self.run.tick

    def save_state(self, name: str) -> StateParts:
        return {name: self.run.save()}

    def list_parts(self, name: str) -> list[str]:
        return [name]

    def add_partial(self, tally: Tally) -> None:
        """Add a part of the open tick to registers that already have noise."""
        self.run.add_partial(self.build_vectors(tally, np.zeros(len(tally.ticks), np.int64), 1)[0])

    def rerandomize(self) -> None:
        """Replace the open registers by released values and fresh draws."""
        self.run.rerandomize()

    def redraw_future_noise(self) -> None:
        self.run.redraw_future_noise()

    def estimate_ticks(self, tally: Tally, first: int, count: int) -> PartColumns:
        rows = tally.ticks - first
        inside = (rows >= 0) & (rows < count)
        mine, rows = tally.select(inside), rows[inside]
        if self.part.measure.key is not None:
            return {"value": KeyColumns.from_rankings(self._step_keys(mine, rows, count))}
        if self.part.statistic.HAS_MEMORY:
            release = self._step_events(mine, rows, count)
        else:
            release = self.run.feed_totals(self.build_vectors(mine, rows, count), is_bounded=True)
        columns: PartColumns = release.columns(self.part.confidence)
        return columns

    def build_vectors(self, tally: Tally, rows: Ints, count: int) -> Ints:
        """Return an array of (ticks, channels, width)."""
        statistic, width = self.part.statistic, self.part.width
        if self.part.is_code_count:  # the distinct codes of each group
            found = np.unique(np.stack([rows * width + tally.groups, tally.cells]), axis=1)
            return np.bincount(found[0], minlength=count * width).reshape(count, 1, width)
        if self.part.measure.cell is not None:
            counts = tally.sums[-1 if self.part.measure.values else 0]  # of weights, if events have them
            return self.run.build_vectors(tally.cells, tally.groups, counts, rows, count)
        sums = np.zeros((len(tally.sums), count * width), np.int64)
        for row, numbers in zip(sums, tally.sums, strict=True):
            np.add.at(row, rows * width + tally.groups, numbers)
        counted = sums[1:] if self.part.measure.values else sums
        n, *powers = (row.reshape(count, width) for row in counted)
        channels = statistic.vectors_from_power_sums(n, *powers)
        return np.ascontiguousarray(np.moveaxis(channels.reshape(-1, count, width), 0, 1))

    def _step_events(self, tally: Tally, rows: Ints, count: int) -> Any:
        """Step tick by tick, if a tick depends on the memory of earlier ones."""
        releases = []
        for row in range(count):
            mine = rows == row
            weights = tally.sums[-1][mine] if self.part.measure.values else None
            releases.append(self.run.step(users=tally.cells[mine], groups=tally.groups[mine], weights=weights))
        return self.part.statistic.join_releases(releases)

    def _step_keys(self, tally: Tally, rows: Ints, count: int) -> list[Ranking]:
        """Step tick by tick over discovered keys. A key may occur in several rows."""
        keys = np.array([*tally.keys, None], object)
        ticks = [rows == row for row in range(count)]
        return [self.run.step_keys(keys[tally.groups[mine]], tally.sums[0][mine], is_bounded=True) for mine in ticks]


class UserPartRun:
    """The run of a statistic over a table of users."""

    def __init__(self, part: CounterPart, run: TableRun[Any, Any]) -> None:
        self.part, self.run = part, run

    @classmethod
    def start(cls, part: CounterPart, noise: Noise | None) -> "UserPartRun":
        table: Any = part.statistic.counter
        return cls(part, table.start(noise))

    @classmethod
    def load(cls, part: CounterPart, name: str, state: Mapping[str, bytes], noise: Noise | None) -> "UserPartRun":
        table: Any = part.statistic.counter
        return cls(part, table.load(state[name], noise))

    @property
    def tick(self) -> int:
        """Number of released ticks; each has one estimate."""
        return self.run.releases

    def save_state(self, name: str) -> StateParts:
        return {name: self.run.save()}

    def list_parts(self, name: str) -> list[str]:
        return [name]

    def add_partial(self, tally: Tally) -> None:
        """Add the users of a part of the open tick, once per appearance."""
        self.run.add(np.repeat(tally.cells, tally.sums[0]))

    def rerandomize(self) -> None:
        """Do nothing: a table stays as committed.

        An intruder may have read the lost run, which forks off at the last commit. Entries that are drawn again in the
        lost run are in no estimate. The others are those of the run that continues. So every estimate is in one block
        of one entry, of which the intruder reads at most one. The intrusion and all estimates together therefore lose
        no more than the claim (`panprivate.density`). If entries are not bits, the noise of each estimate covers any
        change of one entry (`panprivate.mechanism`).
        """

    def redraw_future_noise(self) -> None:
        """Do nothing: later users are private even from a reader of the table."""

    def estimate_ticks(self, tally: Tally, first: int, count: int) -> PartColumns:
        table: Any = self.part.statistic
        estimates = []
        for tick in range(first, first + count):
            self.add_partial(tally.select_tick(tick))
            estimates.append(self.run.estimate())
        columns: PartColumns = table.build_columns(estimates, self.part.confidence)
        return columns


class LocalPartRun:
    """The run of a statistic over reports of devices. It has no secret state."""

    def __init__(self, part: CounterPart, collector: Collector, tick: int = 0) -> None:
        self.part, self.tick = part, tick
        self.run: Any = collector
        self._frequency: Any = part.statistic
        self._rows: dict[int, CountedReports] = {}  # noisy: in the window, not in the written table
        self._stored_names: dict[int, list[str]] = {}  # names in the store, by tick
        self._last_estimate: Frequencies | None = None  # None after a change

    @classmethod
    def start(cls, part: CounterPart, noise: Noise | None) -> "LocalPartRun":
        mechanism: Any = part.statistic.counter
        return cls(part, mechanism.build_collector())

    @classmethod
    def load(cls, part: CounterPart, name: str, state: Mapping[str, bytes], noise: Noise | None) -> "LocalPartRun":
        mechanism: Any = part.statistic.counter
        table = state.get(name + TABLE_SUFFIX)
        collector = mechanism.build_collector() if table is None else mechanism.load(table)
        run = cls(part, collector, *TICK_STRUCT.unpack(state[name]))
        found = {key: decode_part(data) for key, data in state.items() if key.startswith(name + ROWS_INFIX)}
        run._rows = merge_parts(found.values())
        run._stored_names = {tick: [key for key, rows in found.items() if tick in rows] for tick in run._rows}
        for counted in run._rows.values():
            run._add(counted)
        return run

    def save_state(self, name: str) -> StateParts:
        parts: StateParts = {name: TICK_STRUCT.pack(self.tick)}
        if self._frequency.ticks is None and self.is_table_due:
            parts[name + TABLE_SUFFIX] = self.run.save()
            self._rows = {}
        for tick in [tick for tick in self._stored_names if tick not in self._rows]:
            parts |= dict.fromkeys(self._stored_names.pop(tick))
        for tick in [tick for tick in self._rows if tick not in self._stored_names]:
            new = [encode_part(piece) for piece in split_part({tick: self._rows[tick]}, MAX_PART_BYTES)]
            self._stored_names[tick] = [f"{name}{ROWS_INFIX}{tick}/{number}" for number in range(len(new))]
            parts |= dict(zip(self._stored_names[tick], new, strict=True))
        return parts

    def list_parts(self, name: str) -> list[str]:
        rows = [each for tick in sorted(self._stored_names) for each in self._stored_names[tick]]
        return [name, name + TABLE_SUFFIX, *rows]

    @property
    def is_table_due(self) -> bool:
        return count_bytes(self._rows) >= self._frequency.table_bytes or len(self._rows) >= MAX_PENDING_TICKS

    def add_partial(self, tally: Tally) -> None:
        """Reject the call: `OpenReports` stores open ticks of reports, which are private."""
        raise NotImplementedError

    def rerandomize(self) -> None:
        """Do nothing: there are no draws here."""

    redraw_future_noise = rerandomize

    def estimate_ticks(self, tally: Tally, first: int, count: int) -> PartColumns:
        estimates = [self._estimate_tick(tally.select_tick(tick)) for tick in range(first, first + count)]
        columns: PartColumns = self._frequency.build_columns(estimates, self.part.confidence)
        return columns

    def _estimate_tick(self, tally: Tally) -> Frequencies:
        """Add the reports of the next tick, estimate, and remove those in no later window."""
        self.tick += 1
        if tally.reports is not None and len(tally.reports):
            self._rows[self.tick] = CountedReports.from_rows(tally.reports, tally.sums[0])
            self._add(self._rows[self.tick])
        if self._last_estimate is None:
            self._last_estimate = self.run.estimate(self._frequency.items, self._frequency.copies)
        estimate, ticks = self._last_estimate, self._frequency.ticks
        if ticks is not None and (expired := self._rows.pop(self.tick - ticks + 1, None)):
            for reports in expired.reports():
                self.run.remove(reports)
            self._last_estimate = None
        return estimate

    def _add(self, counted: CountedReports) -> None:
        for reports in counted.reports():
            self.run.add(reports)
        self._last_estimate = None


RUN_TYPES: Mapping[type, type[PartRun]] = {UserTableStatistic: UserPartRun, LocalFrequency: LocalPartRun}


def start_part(part: CounterPart, noise: Noise | None) -> PartRun:
    """Start the run that the statistic of a part needs."""
    return RUN_TYPES.get(type(part.statistic), EventPartRun).start(part, noise)


def load_part(part: CounterPart, name: str, state: Mapping[str, bytes], noise: Noise | None) -> PartRun:
    """Load the run of a part, whose state was committed under `name`."""
    return RUN_TYPES.get(type(part.statistic), EventPartRun).load(part, name, state, noise)
