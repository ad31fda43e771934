"""SQL that counts events by tick and text, where groups are discovered, or reports are vectors of bits: a
scan of its own for each measure.

Promise
    Total, like every aggregation. A record adds one to one key, which is a text of that record alone; one
    that is dropped has a NULL key, which is counted and then left out.
"""

from dataclasses import dataclass
from typing import ClassVar

from streamgauge.engines.row_source import TICK, matched
from streamgauge.query.measure import Measure


@dataclass(frozen=True)
class KeyedAggregation:
    """One measure whose events are counted by their texts."""

    measure: Measure
    columns: ClassVar[tuple[str, ...]] = ("frame", "tick", "key", "n")  # of the answer
    keys: ClassVar[tuple[str, ...]] = columns[:3]
    types: ClassVar[tuple[str, ...]] = ("BIGINT", "BIGINT", "VARCHAR", "BIGINT")

    def sql(self, rows: str, chosen: str) -> str:
        """The answer; `rows` are those of a row source, `chosen` says which of them are looked at."""
        wanted = [f"{TICK} >= 1", *(matched(each) for each in sorted(self.measure.lookups))]
        if self.measure.where is not None:
            wanted.append(f"({self.measure.where})")
        key = f"CASE WHEN {' AND '.join(wanted)} THEN {self.measure.text} END"
        one = f"SELECT {TICK} AS tick, {key} AS key FROM {rows} WHERE {chosen}"
        return f"SELECT 0 AS frame, tick, key, count(*) AS n FROM ({one}) GROUP BY tick, key"
