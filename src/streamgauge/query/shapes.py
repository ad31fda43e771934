"""What is told of a release at every tick, before any number: its measures, and its places.

    place    a group: one label for each of the group columns that its level keeps
    wide     a row per tick and place, with a column for each group column and five for each measure

Promise
    Names are told apart everywhere: a measure is never called like a field of a row, nor a column of the wide
    form like another; names have no line breaks. So every form of a release can be read back.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from streamgauge.query.settings import Label

FIELDS = ("release", "tick", "start", "end", "level", "group", "chain")
RENAME = "rename one with AS"
ENDINGS = ("", "_stddev", "_low", "_high", "_enough")  # of a measure's columns in the wide form


def text(value: Any) -> str:
    """Compact JSON, on one line; letters stay letters."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return plain.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Place:
    """A group, as (column, label) pairs in the order of the query; without pairs it is everything."""

    level: int
    labels: tuple[tuple[str, Label], ...]

    def __str__(self) -> str:
        return ", ".join(f"{column}={label}" for column, label in self.labels) or "all"


@dataclass(frozen=True)
class Shape:
    """What a release tells at every tick.

    >>> north = Place(1, (("region", "north"),))
    >>> Shape("fever", ("count",), (north,)).wide
    ('tick', 'start', 'end', 'region', 'count', 'count_stddev', 'count_low', 'count_high', 'count_enough')
    """

    release: str
    measures: tuple[str, ...]
    places: tuple[Place, ...]
    discovered: str | None = None  # the column whose groups come with time: then a tick has places of its own
    contributions: str = ""  # which events of a user count, if others are dropped

    def having(self, labels: Sequence[Label]) -> "Shape":
        """The same with these groups, where they are discovered."""
        column = str(self.discovered)
        return replace(self, places=tuple(Place(1, ((column, label),)) for label in labels))

    def __post_init__(self) -> None:
        for name in (self.release, *self.measures):
            if not name or not name.isprintable():
                raise ValueError(f"name of a release or measure must be printable, got {name!r}")
        for twice in _repeated((*FIELDS, *self.measures), ("release", *self.wide, "chain")):
            raise ValueError(
                f"columns of release {self.release!r} must have different names, "
                f"got {twice!r} twice: {RENAME}"
            )

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The group columns."""
        if self.discovered is not None:
            return (self.discovered,)
        return tuple(dict.fromkeys(column for place in self.places for column, _ in place.labels))

    @cached_property
    def rolled_up(self) -> bool:
        """Whether there are several levels."""
        return len({place.level for place in self.places}) > 1

    @cached_property
    def wide(self) -> tuple[str, ...]:
        """The columns of the wide form."""
        times = ("tick", "start", "end") + (("level",) if self.rolled_up else ())
        return times + self.columns + tuple(m + ending for m in self.measures for ending in ENDINGS)

    @cached_property
    def groups(self) -> tuple[str, ...]:
        """The labels of each place as a JSON object."""
        return tuple(text(dict(place.labels)) for place in self.places)

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that another shape has not, whichever groups were discovered."""
        if self.discovered is not None:
            named = text([self.release, self.measures, self.discovered])
            return hashlib.sha256(named.encode()).digest()[:8]
        levels = [place.level for place in self.places]
        whole = text([self.release, self.measures, levels, self.groups])
        return hashlib.sha256(whole.encode()).digest()[:8]

    def labels(self, column: str) -> list[Label | None]:
        """The label of each place in a column, of one type; none where its level has no such column."""
        found = [dict(place.labels).get(column) for place in self.places]
        kinds = {type(label) for label in found if label is not None}
        if len(kinds) <= 1:
            return found
        return [label if label is None else str(label) for label in found]


def _repeated(*names: tuple[str, ...]) -> Iterator[str]:
    """What is in one of the tuples twice."""
    for some in names:
        seen: set[str] = set()
        for name in some:
            if name in seen:
                yield name
            seen.add(name)
