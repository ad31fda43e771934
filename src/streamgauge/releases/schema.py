"""Schema of a release at every tick: its measures and its places.

    place    a group: one label for each of the group columns of its level
    wide     a row per tick and place, with a column for each group column and five for each measure

Promise
    Names are distinct everywhere: a measure never has the name of a field of a row, nor a column of the wide
    form that of another. Names have no line breaks. So every form of a release can be read back.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from streamgauge.config.settings import Label

ROW_FIELDS = ("release", "tick", "start", "end", "level", "group", "trace")
RENAME_HINT = "rename one with AS"
COLUMN_SUFFIXES = ("", "_stddev", "_low", "_high", "_reliable")  # of a measure's columns in the wide form


def to_json(value: Any) -> str:
    """Return compact JSON, on one line, with letters unescaped."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return plain.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Group:
    """Group as (column, label) pairs in query order; no pairs mean everything."""

    level: int
    labels: tuple[tuple[str, Label], ...]

    def __str__(self) -> str:
        return ", ".join(f"{column}={label}" for column, label in self.labels) or "all"


@dataclass(frozen=True)
class ReleaseSchema:
    """Measures and places of a release at every tick.

    >>> north = Group(1, (("region", "north"),))
    >>> ReleaseSchema("fever", ("count",), (north,)).wide_columns
    ('tick', 'start', 'end', 'region', 'count', 'count_stddev', 'count_low', 'count_high', 'count_reliable')
    """

    release: str
    measures: tuple[str, ...]
    groups: tuple[Group, ...]
    discovered_column: str | None = None  # the column whose groups are discovered: then each tick has its own places
    contributions: str = ""  # which events of a user count, if others are dropped
    consistency: str = ""  # rules that its numbers obey after noise, if they are adjusted

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a reader of its numbers needs."""
        counts = f"counts {self.contributions}" if self.contributions else ""
        adjusted = f"adjusted after noise: {self.consistency}" if self.consistency else ""
        return tuple(filter(None, (counts, adjusted)))

    def with_groups(self, labels: Sequence[Label]) -> "ReleaseSchema":
        """Return the schema with these groups, if groups are discovered."""
        column = str(self.discovered_column)
        return replace(self, groups=tuple(Group(1, ((column, label),)) for label in labels))

    def __post_init__(self) -> None:
        for name in (self.release, *self.measures):
            if not name or not name.isprintable():
                raise ValueError(f"name of a release or measure must be printable, got {name!r}")
        for twice in _find_repeated((*ROW_FIELDS, *self.measures), ("release", *self.wide_columns, "trace")):
            raise ValueError(
                f"columns of release {self.release!r} must have different names, got {twice!r} twice: {RENAME_HINT}"
            )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Group columns."""
        if self.discovered_column is not None:
            return (self.discovered_column,)
        return tuple(dict.fromkeys(column for place in self.groups for column, _ in place.labels))

    @cached_property
    def is_rollup(self) -> bool:
        """True if there are several levels."""
        return len({place.level for place in self.groups}) > 1

    @cached_property
    def wide_columns(self) -> tuple[str, ...]:
        """Columns of the wide form."""
        times = ("tick", "start", "end") + (("level",) if self.is_rollup else ())
        return times + self.columns + tuple(m + ending for m in self.measures for ending in COLUMN_SUFFIXES)

    @cached_property
    def group_texts(self) -> tuple[str, ...]:
        """Labels of each place as a JSON object."""
        return tuple(to_json(dict(place.labels)) for place in self.groups)

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that identify the schema, for any discovered groups."""
        if self.discovered_column is not None:
            named = to_json([self.release, self.measures, self.discovered_column])
            return hashlib.sha256(named.encode()).digest()[:8]
        levels = [place.level for place in self.groups]
        whole = to_json([self.release, self.measures, levels, self.group_texts])
        return hashlib.sha256(whole.encode()).digest()[:8]

    def labels(self, column: str) -> list[Label | None]:
        """Return the label of each place in a column, of one type.

        It is None if the level has no such column.
        """
        found = [dict(place.labels).get(column) for place in self.groups]
        kinds = {type(label) for label in found if label is not None}
        if len(kinds) <= 1:
            return found
        return [label if label is None else str(label) for label in found]


def _find_repeated(*names: tuple[str, ...]) -> Iterator[str]:
    """Return an item that is in one of the tuples twice."""
    for some in names:
        known_names: set[str] = set()
        for name in some:
            if name in known_names:
                yield name
            known_names.add(name)


def base_name(published: str) -> str:
    """Return the name in the file of a published release: a release that ran again is published as name@2."""
    return published.partition("@")[0]
