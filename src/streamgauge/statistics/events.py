"""The events of some ticks as columns of one length: what they carry, their groups, their users."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.noise import Ints
from streamgauge.statistics.columns import OUTSIDE, Bools, Column, Domain, column, whole_numbers

if TYPE_CHECKING:
    from streamgauge.statistics.statistic import Statistic


@dataclass(frozen=True, eq=False)
class Events:
    """Columns of one length; `groups` are codes below the width, -1 for events outside."""

    rows: list[Column]
    groups: Ints
    users: Column

    @classmethod
    def read(
        cls, statistic: "Statistic[Any]", columns: dict[str, Any], domain: Domain | None, width: int
    ) -> "Events":
        """The columns given: values, groups, users, and ticks, for their length. A tick without any is empty.

        Lengths that differ are refused, without a word of what they are.
        """
        given = {name: value for name, value in columns.items() if value is not None}
        if given and "values" not in given and statistic.NEEDS_VALUES:
            raise ValueError("values must be given, got None")
        others = {name: column(name, value) for name, value in given.items() if name != "values"}
        rows = statistic.read(given["values"]) if "values" in given else []
        lengths = {len(array) for array in [*rows, *others.values()]}
        if len(lengths) > 1:
            raise ValueError("columns must have one item for every event, got different lengths")
        size = lengths.pop() if lengths else 0
        flags = np.ones(size, np.bool_)
        rows = rows or [flags] * statistic.columns
        return cls(rows, group_codes(others.get("groups"), size, domain, width), others.get("users", flags))

    def only(self, places: Ints | Bools) -> "Events":
        """Some of the events."""
        return Events([row[places] for row in self.rows], self.groups[places], self.users[places])


def group_codes(groups: Column | None, size: int, domain: Domain | None, width: int) -> Ints:
    """The group of each event; without labels, groups are numbered from 0."""
    if groups is None:
        return np.zeros(size, np.int64)
    if domain is not None:
        return domain.codes(groups)
    numbers, there = whole_numbers(groups)
    return np.where(there & (numbers >= 0) & (numbers < width), numbers, OUTSIDE)


def in_order(events: Events, ticks: Column, before: int, until: int) -> tuple[Ints, Events]:
    """The events of the ticks after `before` and up to `until`, in the order of ticks, and their rows."""
    numbers, there = whole_numbers(ticks)
    rows = np.where(there, numbers, before) - before - 1
    kept = np.flatnonzero((rows >= 0) & (rows < until - before))
    kept = kept[np.argsort(rows[kept], kind="stable")]
    return rows[kept], events.only(kept)
