"""A part of a release over a column of reports: reports in, estimates out. Nothing here is secret.

The sums of all reports in the window are one table. It may be large, and a tick's reports few; so commits
have the reports of their ticks, and the table now and then:

    table      the sums at some tick: of running windows, once the reports since would take as much
    rows/7/0   the reports of tick 7 since, or those of a sliding window: they leave it as they came

Promise
    The estimates after a restart are those that there would have been: sums are whole numbers, and reports
    that are added again, in any order, make the same table.
"""

from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Any

from streamgauge.localdp.collector import Collector
from streamgauge.localdp.estimates import Frequencies
from streamgauge.noise import Noise
from streamgauge.pipeline.report_rows import LARGE, Counted, pieces, read, size, together, written
from streamgauge.query.measure import Tally
from streamgauge.query.parts import Part
from streamgauge.statistics.told import Columns

CONFIDENCE = 0.95
MOST_PARTS = 256  # of a running window, before its table is written
TICK = Struct("<Q")
TABLE, ROWS = "/table", "/rows/"


class LocalPartRun:
    """The run of one part, as `PartRun` is."""

    run: Any  # a collector, which nobody intrudes upon

    def __init__(self, part: Part, collector: Collector, tick: int = 0) -> None:
        self.part, self.run, self.tick = part, collector, tick
        table: Any = part.statistic
        self.reach: int | None = table.ticks
        self._rows: dict[int, Counted] = {}  # noisy: in the window, and not in a table that was written
        self._written: dict[int, list[str]] = {}  # ticks whose rows are in the store, and under which names
        self._known: Frequencies | None = None  # the last estimates, while nothing has changed

    @classmethod
    def start(cls, part: Part, noise: Noise | None) -> "LocalPartRun":
        return cls(part, claim_of(part).collector())

    @classmethod
    def restored(cls, part: Part, name: str, state: Mapping[str, bytes]) -> "LocalPartRun":
        """The run whose parts were committed under a name."""
        claim, table = claim_of(part), state.get(name + TABLE)
        collector = claim.collector() if table is None else claim.load(table)
        run = cls(part, collector, *TICK.unpack(state[name]))
        found = {key: read(data) for key, data in state.items() if key.startswith(name + ROWS)}
        run._rows = together(found.values())
        run._written = {tick: [key for key, part in found.items() if tick in part] for tick in run._rows}
        for counted in run._rows.values():
            run._add(counted)
        return run

    def parts(self, name: str) -> dict[str, bytes | None]:
        """What is new since the last commit, and what is no more, under a name."""
        parts: dict[str, bytes | None] = {name: TICK.pack(self.tick)}
        if self.reach is None and self._is_grown:
            parts[name + TABLE] = self.run.save()
            self._rows = {}
        for tick in [tick for tick in self._written if tick not in self._rows]:
            parts |= dict.fromkeys(self._written.pop(tick))
        for tick in [tick for tick in self._rows if tick not in self._written]:
            new = [written(piece) for piece in pieces({tick: self._rows[tick]}, LARGE)]
            self._written[tick] = [f"{name}{ROWS}{tick}/{number}" for number in range(len(new))]
            parts |= dict(zip(self._written[tick], new, strict=True))
        return parts

    def stored(self, name: str) -> list[str]:
        """What the store has under a name."""
        return [name, name + TABLE, *(each for tick in sorted(self._written) for each in self._written[tick])]

    @property
    def _is_grown(self) -> bool:
        table: Any = self.part.statistic
        return size(self._rows) >= table.table_bytes or len(self._rows) >= MOST_PARTS

    def take(self, tally: Tally, first: int, count: int) -> dict[str, Columns]:
        """The estimates of `count` ticks from `first`."""
        table: Any = self.part.statistic
        told: dict[str, Columns] = table.told(list(self._estimates(tally, first, count)), CONFIDENCE)
        return told

    def _estimates(self, tally: Tally, first: int, count: int) -> Iterator[Frequencies]:
        table: Any = self.part.statistic
        for tick in range(first, first + count):
            mine = tally.of(tick)
            self._come(None if mine.reports is None else Counted.of(mine.reports, mine.sums[0]))
            if self._known is None:
                self._known = self.run.estimate(table.items, table.copies)
            yield self._known
            self._leave()

    def _come(self, counted: Counted | None) -> None:
        self.tick += 1
        if counted:
            self._rows[self.tick] = counted
            self._add(counted)

    def _leave(self) -> None:
        """What is in no later window is taken out."""
        if self.reach is not None and (gone := self._rows.pop(self.tick - self.reach + 1, None)):
            for reports in gone.reports():
                self.run.remove(reports)
            self._known = None

    def _add(self, counted: Counted) -> None:
        for reports in counted.reports():
            self.run.add(reports)
        self._known = None

    def absorb(self, tally: Tally) -> None:
        """Open ticks wait elsewhere: there is nothing to hide."""
        raise NotImplementedError

    def begin_anew(self) -> None:
        """Nothing was drawn here."""


def claim_of(part: Part) -> Any:
    """What devices keep to."""
    return part.statistic.counter
