"""SQL that counts events by tick and text, where groups are discovered, or reports are vectors of bits: a
scan of its own for each measure.

Promise
    Total, like every aggregation. A record adds one to one key, which is a text of that record alone; one
    that is dropped has a NULL key, which is counted and then left out.
"""

from dataclasses import dataclass
from typing import ClassVar

from streamgauge.engines.aggregation import counter_names, counts_of, own
from streamgauge.engines.row_source import TICK, matched
from streamgauge.query.measure import Measure


@dataclass(frozen=True)
class KeyedAggregation:
    """One measure whose events are counted by their texts."""

    measure: Measure
    counters: tuple[str, ...] = ()  # SQL of what records are counted by
    keys: ClassVar[tuple[str, ...]] = ("frame", "tick", "key")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the answer's columns."""
        return (*self.keys, "n", *counter_names(self.counters))

    @property
    def types(self) -> tuple[str, ...]:
        return ("BIGINT", "BIGINT", "VARCHAR", "BIGINT", *("BIGINT" for _ in self.counters))

    def sql(self, rows: str, chosen: str) -> str:
        """The answer; `rows` are those of a row source, `chosen` says which of them are looked at."""
        wanted = [f"{TICK} >= 1", *(matched(each) for each in sorted(self.measure.lookups))]
        if self.measure.where is not None:
            wanted.append(f"({self.measure.where})")
        key = f"CASE WHEN {' AND '.join(wanted)} THEN {self.measure.text} END"
        counted = [f"{counter} AS {own('h', at)}" for at, counter in enumerate(self.counters)]
        one = f"SELECT {', '.join([f'{TICK} AS tick', f'{key} AS key', *counted])} FROM {rows} WHERE {chosen}"
        counts = counts_of([own("h", at) for at in range(len(self.counters))])
        named = map(" AS ".join, zip(counts, counter_names(self.counters), strict=True))
        found = ", ".join(["0 AS frame, tick, key, count(*) AS n", *named])
        return f"SELECT {found} FROM ({one}) GROUP BY tick, key"
