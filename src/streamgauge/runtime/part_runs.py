"""The run of one part of a release: exact sums of ticks in, estimates out.

`PartRun`
    Power sums and cell counts become the vectors of the part's statistic, by integer arithmetic. Noise is drawn only
    inside the run of the statistic.

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

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any

import numpy as np

from streamgauge.localdp.collector import Collector, Frequencies
from streamgauge.noise import Ints, Noise
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

CONFIDENCE = 0.95


class PartRun:
    """The run of one part."""

    def __init__(self, part: CounterPart, run: EventRun[Any]) -> None:
        self.part, self.run = part, run

    @classmethod
    def start(cls, part: CounterPart, noise: Noise | None) -> "PartRun":
        return cls(part, part.statistic.start(part.width, noise))

    @classmethod
    def load(cls, part: CounterPart, saved: bytes, noise: Noise | None) -> "PartRun":
        return cls(part, part.statistic.load(saved, noise))

    @property
    def tick(self) -> int:
        """Number of released ticks."""
        return self.run.tick

    def save(self) -> bytes:
        return self.run.save()

    def estimate_ticks(self, tally: Tally, first: int, count: int) -> dict[str, Columns]:
        """Return the estimates of `count` ticks from `first`.

        By column name, with a row per tick.
        """
        rows = tally.ticks - first
        inside = (rows >= 0) & (rows < count)
        mine, rows = tally.select(inside), rows[inside]
        if self.part.statistic.HAS_MEMORY:
            release = self._step_events(mine, rows, count)
        else:
            release = self.run.feed_totals(self._vectors(mine, rows, count))
        told: dict[str, Columns] = release.columns(CONFIDENCE)
        return told

    def add_partial(self, tally: Tally) -> None:
        """Add a part of the open tick to registers that already have noise."""
        self.run.add_partial(self._vectors(tally, np.zeros(len(tally.ticks), np.int64), 1)[0])

    def rerandomize(self) -> None:
        """Replace the open registers by released values and fresh draws."""
        self.run.rerandomize()

    def _vectors(self, tally: Tally, rows: Ints, count: int) -> Ints:
        """Return an array of (ticks, channels, width)."""
        statistic, width = self.part.statistic, self.part.width
        if self.part.is_code_count:
            return self._count_codes(tally, rows, count)
        if self.part.measure.cell is not None:
            return statistic.vectors_from_cells(tally.cells, tally.groups, tally.sums[0], width, rows, count)
        sums = np.zeros((len(tally.sums), count * width), np.int64)
        for row, numbers in zip(sums, tally.sums, strict=True):
            np.add.at(row, rows * width + tally.groups, numbers)
        counted = sums[1:] if self.part.measure.values else sums
        n, *powers = (row.reshape(count, width) for row in counted)
        channels = statistic.vectors_from_power_sums(n, *powers)
        return np.ascontiguousarray(np.moveaxis(channels.reshape(-1, count, width), 0, 1))

    def _count_codes(self, tally: Tally, rows: Ints, count: int) -> Ints:
        """Return the number of distinct codes of each group at each tick."""
        width = self.part.width
        found = np.unique(np.stack([rows * width + tally.groups, tally.cells]), axis=1)
        numbers = np.bincount(found[0], minlength=count * width)
        return numbers.reshape(count, 1, width)

    def _step_events(self, tally: Tally, rows: Ints, count: int) -> Any:
        """Step tick by tick, if a tick depends on the memory of earlier ones."""
        releases = []
        for row in range(count):
            of = rows == row
            releases.append(self.run.step(users=tally.cells[of], groups=tally.groups[of]))
        return self.part.statistic.join_releases(releases)


USER_CONFIDENCE = 0.95


class UserPartRun:
    """The run of one part over a table of users. Same methods as `PartRun`."""

    def __init__(self, part: CounterPart, run: TableRun[Any, Any]) -> None:
        self.part, self.run = part, run

    @classmethod
    def start(cls, part: CounterPart, noise: Noise | None) -> "UserPartRun":
        return cls(part, find_table_mechanism(part).start(noise))

    @classmethod
    def load(cls, part: CounterPart, saved: bytes, noise: Noise | None) -> "UserPartRun":
        return cls(part, find_table_mechanism(part).load(saved, noise))

    @property
    def tick(self) -> int:
        """Number of released ticks; each has one estimate."""
        return self.run.releases

    def save(self) -> bytes:
        return self.run.save()

    def add_partial(self, tally: Tally) -> None:
        """Add the users of a part of the open tick."""
        self.run.add(appearances(tally))

    def rerandomize(self) -> None:
        """Do nothing: a table stays as committed.

        An intruder may have read the lost run, which forks off at the last commit. Entries that are drawn again in the
        lost run are in no estimate. The others are those of the run that continues. So every estimate is in one block
        of one entry, of which the intruder reads at most one. The intrusion and all estimates together therefore lose
        no more than the claim (`panprivate.density`). If entries are not bits, the noise of each estimate covers any
        change of one entry (`panprivate.mechanism`).
        """

    def estimate_ticks(self, tally: Tally, first: int, count: int) -> dict[str, Columns]:
        """Return the estimates of `count` ticks from `first`."""
        table: Any = self.part.statistic
        told: dict[str, Columns] = table.build_columns(list(self._estimates(tally, first, count)), USER_CONFIDENCE)
        return told

    def _estimates(self, tally: Tally, first: int, count: int) -> Iterator[Any]:
        for tick in range(first, first + count):
            self.add_partial(tally.select_tick(tick))
            yield self.run.estimate()


def find_table_mechanism(part: CounterPart) -> Any:
    """Return the mechanism of a table of users, whose claim is that of the part."""
    return part.statistic.counter


def appearances(tally: Tally) -> Ints:
    """Return the code of each user, once per appearance."""
    return np.repeat(tally.cells, tally.sums[0])


LOCAL_CONFIDENCE = 0.95
MAX_PENDING_TICKS = 256  # of a running window, before its table is written again
TICK_STRUCT = Struct("<Q")
TABLE_SUFFIX, ROWS_INFIX = "/table", "/rows/"


class LocalPartRun:
    """The run of one part over reports of devices. Same methods as `PartRun`."""

    run: Any  # a collector; it has no secret state

    def __init__(self, part: CounterPart, collector: Collector, tick: int = 0) -> None:
        self.part, self.run, self.tick = part, collector, tick
        table: Any = part.statistic
        self.window_ticks: int | None = table.ticks
        self._rows: dict[int, CountedReports] = {}  # noisy: in the window, not in the written table
        self._stored_names: dict[int, list[str]] = {}  # names in the store, by tick
        self._last_estimate: Frequencies | None = None  # None after a change

    @classmethod
    def start(cls, part: CounterPart, noise: Noise | None) -> "LocalPartRun":
        return cls(part, find_local_mechanism(part).build_collector())

    @classmethod
    def restore(cls, part: CounterPart, name: str, state: Mapping[str, bytes]) -> "LocalPartRun":
        """Restore the run whose parts were committed under `name`."""
        claim, table = find_local_mechanism(part), state.get(name + TABLE_SUFFIX)
        collector = claim.build_collector() if table is None else claim.load(table)
        run = cls(part, collector, *TICK_STRUCT.unpack(state[name]))
        found = {key: decode_part(data) for key, data in state.items() if key.startswith(name + ROWS_INFIX)}
        run._rows = merge_parts(found.values())
        run._stored_names = {tick: [key for key, part in found.items() if tick in part] for tick in run._rows}
        for counted in run._rows.values():
            run._add(counted)
        return run

    def save_changes(self, name: str) -> dict[str, bytes | None]:
        """Return the parts that changed since the last commit; None for removed ones."""
        parts: dict[str, bytes | None] = {name: TICK_STRUCT.pack(self.tick)}
        if self.window_ticks is None and self._should_write_table:
            parts[name + TABLE_SUFFIX] = self.run.save()
            self._rows = {}
        for tick in [tick for tick in self._stored_names if tick not in self._rows]:
            parts |= dict.fromkeys(self._stored_names.pop(tick))
        for tick in [tick for tick in self._rows if tick not in self._stored_names]:
            new = [encode_part(piece) for piece in split_part({tick: self._rows[tick]}, MAX_PART_BYTES)]
            self._stored_names[tick] = [f"{name}{ROWS_INFIX}{tick}/{number}" for number in range(len(new))]
            parts |= dict(zip(self._stored_names[tick], new, strict=True))
        return parts

    def list_stored_parts(self, name: str) -> list[str]:
        """Return the names of the stored parts under `name`."""
        return [
            name,
            name + TABLE_SUFFIX,
            *(each for tick in sorted(self._stored_names) for each in self._stored_names[tick]),
        ]

    @property
    def _should_write_table(self) -> bool:
        table: Any = self.part.statistic
        return count_bytes(self._rows) >= table.table_bytes or len(self._rows) >= MAX_PENDING_TICKS

    def estimate_ticks(self, tally: Tally, first: int, count: int) -> dict[str, Columns]:
        """Return the estimates of `count` ticks from `first`."""
        table: Any = self.part.statistic
        told: dict[str, Columns] = table.build_columns(list(self._estimates(tally, first, count)), LOCAL_CONFIDENCE)
        return told

    def _estimates(self, tally: Tally, first: int, count: int) -> Iterator[Frequencies]:
        table: Any = self.part.statistic
        for tick in range(first, first + count):
            mine = tally.select_tick(tick)
            self._add_tick(None if mine.reports is None else CountedReports.from_rows(mine.reports, mine.sums[0]))
            if self._last_estimate is None:
                self._last_estimate = self.run.estimate(table.items, table.copies)
            yield self._last_estimate
            self._drop_expired()

    def _add_tick(self, counted: CountedReports | None) -> None:
        self.tick += 1
        if counted:
            self._rows[self.tick] = counted
            self._add(counted)

    def _drop_expired(self) -> None:
        """Remove the reports that are in no later window."""
        if self.window_ticks is not None and (gone := self._rows.pop(self.tick - self.window_ticks + 1, None)):
            for reports in gone.reports():
                self.run.remove(reports)
            self._last_estimate = None

    def _add(self, counted: CountedReports) -> None:
        for reports in counted.reports():
            self.run.add(reports)
        self._last_estimate = None

    def add_partial(self, tally: Tally) -> None:
        """Reject the call: `OpenReports` stores open ticks of reports, which are private."""
        raise NotImplementedError

    def rerandomize(self) -> None:
        """Do nothing: there are no draws here."""


def find_local_mechanism(part: CounterPart) -> Any:
    """Return the mechanism that the devices apply."""
    return part.statistic.counter
