"""Schema of a release at every tick: its measures and its places.

    place    a group: one label for each of the group columns of its level
    rank     1, 2, ... of the places of a tick, if the release ranks its groups: then each tick has its own places
    wide     a row per tick and place, with a column for each group column and five for each measure

Promise
    Names are distinct everywhere: a measure never has the name of a field of a row, nor a column of the wide
    form that of another. Names have no line breaks. So every form of a release can be read back.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from streamgauge.config.settings import Label

RANK_COLUMN = "rank"
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
    ranked_columns: tuple[tuple[str, type], ...] = ()  # group columns and types of their labels, if groups are ranked
    ranks: tuple[int, ...] = ()  # of the places of one tick, if groups are ranked

    @property
    def is_ranked(self) -> bool:
        """True if the places of a tick are its largest groups, largest first."""
        return bool(self.ranked_columns)

    @property
    def has_tick_groups(self) -> bool:
        """True if each tick has its own places: groups are discovered or ranked."""
        return self.discovered_column is not None or self.is_ranked

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences that a reader of its numbers needs."""
        counts = f"counts {self.contributions}" if self.contributions else ""
        adjusted = f"adjusted after noise: {self.consistency}" if self.consistency else ""
        return tuple(filter(None, (counts, adjusted)))

    def with_groups(self, labels: Sequence[Label]) -> "ReleaseSchema":
        """Return the schema of a tick with its own places, whose labels follow each other."""
        width = len(self.columns)
        rows = (labels[at : at + width] for at in range(0, len(labels), width))
        groups = tuple(Group(width, tuple(zip(self.columns, row, strict=True))) for row in rows)
        return replace(self, groups=groups, ranks=tuple(range(1, len(groups) + 1)) if self.is_ranked else ())

    def select_places(self, places: Sequence[int]) -> "ReleaseSchema":
        """Return the schema with some of its places. They keep their ranks."""
        ranks = tuple(self.ranks[i] for i in places) if self.ranks else ()
        return replace(self, groups=tuple(self.groups[i] for i in places), ranks=ranks)

    def unite_places(self, groups: Iterable[Group]) -> "ReleaseSchema":
        """Return the schema of several ticks, with the places of all of them."""
        return replace(self, groups=tuple(groups), ranks=())

    def __post_init__(self) -> None:
        for name in (self.release, *self.measures):
            if not name or not name.isprintable():
                raise ValueError(f"name of a release or measure must be printable, got {name!r}")
        fields = (*ROW_FIELDS, *([RANK_COLUMN] if self.is_ranked else []), *self.measures)
        for twice in _find_repeated(fields, ("release", *self.wide_columns, "trace")):
            raise ValueError(
                f"columns of release {self.release!r} must have different names, got {twice!r} twice: {RENAME_HINT}"
            )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Group columns."""
        if self.is_ranked:
            return tuple(column for column, _ in self.ranked_columns)
        if self.discovered_column is not None:
            return (self.discovered_column,)
        return tuple(dict.fromkeys(column for place in self.groups for column, _ in place.labels))

    def find_label_type(self, column: str) -> type | None:
        """Return the type of all labels of a column, if it is known before there are any."""
        return dict(self.ranked_columns).get(column) or (str if self.discovered_column is not None else None)

    @cached_property
    def is_rollup(self) -> bool:
        """True if there are several levels."""
        return len({place.level for place in self.groups}) > 1

    @cached_property
    def wide_columns(self) -> tuple[str, ...]:
        """Columns of the wide form."""
        times = ("tick", "start", "end") + (("level",) if self.is_rollup else ())
        times += (RANK_COLUMN,) if self.is_ranked else ()
        return times + self.columns + tuple(m + ending for m in self.measures for ending in COLUMN_SUFFIXES)

    @cached_property
    def group_texts(self) -> tuple[str, ...]:
        """Labels of each place as a JSON object."""
        return tuple(to_json(dict(place.labels)) for place in self.groups)

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that identify the schema, for any groups of its ticks."""
        if self.has_tick_groups:
            named = to_json([self.release, self.measures, self.columns, self.is_ranked])
            return hashlib.sha256(named.encode()).digest()[:8]
        levels = [place.level for place in self.groups]
        whole = to_json([self.release, self.measures, levels, self.group_texts])
        return hashlib.sha256(whole.encode()).digest()[:8]

    def labels(self, column: str) -> list[Label | None]:
        """Return the label of each place in a column, of one type.

        It is None if the level has no such column.
        """
        found = [dict(place.labels).get(column) for place in self.groups]
        if self.is_ranked:
            return [dict(self.ranked_columns)[column](label) for label in found]
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
