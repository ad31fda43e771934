"""Acts, and what follows from them, worked out once: for acts are never changed, and never removed.

What follows from acts is kept by how many they are, and a book goes on from the one before. So a book that
everybody may read costs as much as it has grown since, however many read it and however long it is. Of labels
that many releases are grouped by, one list is kept.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from threading import Lock
from typing import Any, Generic, TypeVar

from streamgauge.pipeline.book import Book
from streamgauge.pipeline.reader import Act
from streamgauge.privacy import Unit

Acts = tuple[Act, ...]
Made = TypeVar("Made")


class KnownActs:
    """The acts of one store that somebody has read; any thread may ask."""

    def __init__(self) -> None:
        self._acts: Acts = ()
        self._lists: dict[bytes, Any] = {}
        self._lock = Lock()

    def first(self, count: int, after: Callable[[int], Acts]) -> Acts:
        """The first so many; `after` reads those that follow some, up to there."""
        with self._lock:
            if count > len(self._acts):
                self._acts += tuple(map(self._sharing, after(len(self._acts))))
            return self._acts[:count]

    def _sharing(self, act: Act) -> Act:
        """The same, with lists of labels that others have."""
        layout = act.body.get("layout")
        if not layout:
            return act
        groups = [[name, self._shared(labels)] for name, labels in layout["groups"]]
        return replace(act, body={**act.body, "layout": {**layout, "groups": groups}})

    def _shared(self, labels: Any) -> Any:
        return self._lists.setdefault(sha256(json.dumps(labels).encode()).digest(), labels)


class ByActs(Generic[Made]):
    """What follows from the acts of one store; whoever gets it must not change it."""

    def __init__(self, make: Callable[[Acts], Made]) -> None:
        self._make = make
        self._made: tuple[int, Made] | None = None
        self._lock = Lock()

    def __call__(self, acts: Acts) -> Made:
        with self._lock:
            if self._made is None or self._made[0] != len(acts):
                self._made = len(acts), self._make(acts)
            return self._made[1]


def books(unit: Unit) -> ByActs[Book]:
    """The book of acts, which goes on from the one that was made before."""
    newest = Book(unit)

    def made(acts: Acts) -> Book:
        nonlocal newest
        newest = newest.grown(acts) if len(newest.acts) <= len(acts) else Book.read(acts, unit)
        return newest

    return ByActs(made)
