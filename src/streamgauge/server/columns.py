"""Releases in the columns form, which charts are drawn from; and the part of a release that was asked for.

    many ticks   {"tick": [7, 8], ..., "places": [{"region": "north"}, ...],
                  "measures": {"count": {"value": [[ticks x places]], "stddev", "low", "high", "enough"}}}
    one tick     the same with one number instead of each list of ticks

What is not known, or not finite, is null.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgauge.query.released import Bools, Released, Releases, moment
from streamgauge.query.settings import Label
from streamgauge.query.shapes import Place, Shape, text

NUMBERS = ("value", "stddev", "low", "high")


def tick_as_json(released: Released) -> dict[str, Any]:
    """One tick."""
    times = {"tick": released.tick, "start": moment(released.start), "end": moment(released.end)}
    measures = {
        measure: {name: plain(getattr(released, name)[row]) for name in (*NUMBERS, "enough")}
        for row, measure in enumerate(released.shape.measures)
    }
    return {"release": released.release, **times, **places_as_json(released.shape), "measures": measures}


def ticks_as_json(releases: Releases) -> dict[str, Any]:
    """Many ticks; places that were discovered later are null in the ticks before."""
    times = {
        "tick": [item.tick for item in releases],
        "start": [moment(item.start) for item in releases],
        "end": [moment(item.end) for item in releases],
    }
    measures = {measure: _stacked(releases, measure) for measure in releases.shape.measures}
    return {**times, **places_as_json(releases.shape), "measures": measures}


def _stacked(releases: Releases, measure: str) -> dict[str, Any]:
    told = (releases.values, releases.stddevs, releases.lows, releases.highs)
    numbers = {name: plain(of(measure)) for name, of in zip(NUMBERS, told, strict=True)}
    return {**numbers, "enough": _enough(releases, measure).tolist()}


def _enough(releases: Releases, measure: str) -> Bools:
    row = releases.shape.measures.index(measure)
    stacked = np.zeros((len(releases), len(releases.shape.places)), bool)
    for to, item in zip(stacked, releases, strict=True):
        to[releases.where(item)] = item.enough[row]
    return stacked


def places_as_json(shape: Shape) -> dict[str, Any]:
    places = [dict(place.labels) for place in shape.places]
    levels = {"levels": [place.level for place in shape.places]} if shape.rolled_up else {}
    return {"places": places, **levels}


def plain(block: npt.NDArray[Any]) -> list[Any]:
    """Ready for JSON.

    >>> plain(np.array([1.5, np.nan])), plain(np.array([[True], [False]]))
    ([1.5, None], [[True], [False]])
    """
    known = np.isfinite(block)
    if not known.all():
        block = block.astype(object)
        block[~known] = None
    return list(block.tolist())


class Selection:
    """Which places and measures of a release are wanted: all, unless groups or measures are named."""

    def __init__(self, groups: Mapping[str, Sequence[str]], measures: Sequence[str]) -> None:
        self.groups, self.measures = groups, measures
        self._shape: Shape | None = None
        self._found: tuple[Shape, list[int], list[int]] = (Shape("none", ("none",), ()), [], [])

    def __call__(self, released: Released) -> Released:
        """The same tick with those alone."""
        if not self.groups and not self.measures:
            return released
        if released.shape is not self._shape:
            self._shape, self._found = released.shape, self._of(released.shape)
        shape, rows, places = self._found
        return cut(released, shape, np.ix_(rows, places))

    def shape(self, shape: Shape) -> Shape:
        """The shape of what is wanted, before anything was read."""
        return self._of(shape)[0]

    def _of(self, shape: Shape) -> tuple[Shape, list[int], list[int]]:
        rows = [i for i, name in enumerate(shape.measures) if not self.measures or name in self.measures]
        places = [i for i, place in enumerate(shape.places) if self._wants(place)]
        names = tuple(shape.measures[i] for i in rows)
        return replace(shape, measures=names, places=tuple(shape.places[i] for i in places)), rows, places

    def _wants(self, place: Place) -> bool:
        labels = dict(place.labels)
        return all(
            column in labels and spelled(labels[column]) in wanted for column, wanted in self.groups.items()
        )


def spelled(label: Label) -> str:
    """A label as it is written in an address."""
    return label if isinstance(label, str) else text(label)


def places_of(released: Released, first: int, count: int) -> Released:
    """Some places in a row of one tick; the same object if these are all."""
    size = len(released.shape.places)
    if first == 0 and count >= size:
        return released
    some = slice(first, first + count)
    shape = replace(released.shape, places=released.shape.places[some])
    return cut(released, shape, (slice(None), some))


def cut(released: Released, shape: Shape, where: Any) -> Released:
    """A part of a tick's arrays."""
    arrays = {name: getattr(released, name)[where] for name in (*NUMBERS, "enough")}
    return Released(shape, released.tick, released.start, released.end, **arrays)
