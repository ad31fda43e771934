"""CSV in the wide shape: a line per tick and place, a column per group key.

    release,tick,start,end,region,count,count_stddev,count_low,count_high,count_enough
    fever,7,2026-01-05T00:30:00Z,2026-01-05T00:35:00Z,north,12.0,3.1,6.0,18.0,true

The columns are those of `Releases.to_pandas`, after the name of the release. `level` is there if one of the
releases has several levels. A value that is not known is empty. A value that had too little to go on stays,
with `false` in its `_enough` column. Bounds may be `inf`.

Several releases share one header: all their group columns, then all their measures, in the order given.
Fields that a release does not have are empty in its lines.

Labels are written as they are, numbers and booleans as in JSON. A text is written as a JSON string if it
begins with a quotation mark, or has control characters or half a surrogate pair. So different texts have
different cells, and a record is one physical line. An empty text is `""`, unlike a key above its level.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from streamgauge.query.released import Released, moment
from streamgauge.query.settings import Label
from streamgauge.query.shapes import ENDINGS, Shape, text
from streamgauge.sinks.csv_file import quoted
from streamgauge.sinks.lines import Column, Stamp, flags, interleaved, numbers

TIMES = ("release", "tick", "start", "end")
STAMP = "chain"
NEEDS_JSON = re.compile('^"|[\x00-\x1f\ud800-\udfff]')


class WideCsv:
    """The wide lines of some releases; `stamped` adds the column that sinks need.

    >>> from streamgauge.query.shapes import Place
    >>> north = Place(1, (("region", "north"),))
    >>> WideCsv([Shape("fever", ("count",), (north,))]).header
    b'release,tick,start,end,region,count,count_stddev,count_low,count_high,count_enough\\n'
    """

    opening = ",".join(TIMES).encode() + b","

    def __init__(self, shapes: Sequence[Shape], *, stamped: bool = False) -> None:
        self._meanings = _unite(shapes)
        self.columns = (*self._meanings, *([STAMP] if stamped else []))
        self._cells: dict[str, tuple[Shape, dict[str, Column]]] = {}  # of the newest shape of each release

    @property
    def header(self) -> bytes:
        return (",".join(map(_to_cell, self.columns)) + "\n").encode()

    def lines(self, released: Released, stamp: str | None = None) -> bytes:
        """Return a line for each place of a tick.

        Raises:
            ValueError: the release has a column that the header does not have.
        """
        fields = self._group_cells(released.shape) | _measure_cells(released)
        times = (str(released.tick), moment(released.start), moment(released.end))
        fields |= dict(zip(TIMES, (quoted(released.release), *times), strict=True))
        fields[STAMP] = quoted(stamp or "")
        pieces = chain.from_iterable((",", fields.get(name, "")) for name in self.columns)
        return interleaved([*pieces, "\n"][1:], len(released.shape.places))

    def _group_cells(self, shape: Shape) -> dict[str, Column]:
        """Return the cells of level and labels; all ticks of a shape share them."""
        known, cells = self._cells.get(shape.release, (None, {}))
        if known is not shape:
            self._check(shape)
            labels = [dict(place.labels) for place in shape.places]
            cells = {"level": [str(place.level) for place in shape.places]}
            cells |= {name: [_to_cell(each.get(name)) for each in labels] for name in shape.columns}
            self._cells[shape.release] = shape, cells
        return cells

    def _check(self, shape: Shape) -> None:
        for name, meaning in _list_meanings([shape]):
            if self._meanings.get(name) != meaning:
                raise ValueError(f"columns of {shape.release} must be in the header, got {name!r} beside it")

    def stamp(self, line: bytes) -> Stamp | None:
        try:
            (fields,) = csv.reader([line.decode()], strict=True)
            return Stamp.of(fields[-1]) if len(fields) == len(self.columns) else None
        except (ValueError, csv.Error):
            return None


def _unite(shapes: Sequence[Shape]) -> dict[str, str]:
    """Return the columns of all shapes with their meanings; refuse a name with two."""
    meanings: dict[str, str] = {}
    for name, meaning in _list_meanings(shapes):
        other = meanings.setdefault(name, meaning)
        if other != meaning:
            raise ValueError(
                f"columns of wide CSV must have one meaning each, got {name!r} as {other} and as {meaning}: "
                "rename one with AS, or choose the long shape"
            )
    return meanings


def _list_meanings(shapes: Sequence[Shape]) -> Iterator[tuple[str, str]]:
    """Yield the columns in their order, one that several shapes have several times."""
    several = any(shape.rolled_up for shape in shapes)
    yield from ((name, f"the {name} of a line") for name in (*TIMES, *(["level"] if several else [])))
    yield from ((name, f"group column {name}") for shape in shapes for name in shape.columns)
    yield from ((m + end, f"measure {m}") for shape in shapes for m in shape.measures for end in ENDINGS)


def _measure_cells(released: Released) -> dict[str, Column]:
    cells: dict[str, Column] = {}
    for row, measure in enumerate(released.shape.measures):
        for ending, block in zip(ENDINGS, released.numbers, strict=False):
            cells[measure + ending] = numbers(block[row], ~np.isnan(block[row]), "")
        cells[measure + ENDINGS[-1]] = flags(released.enough[row])
    return cells


def _to_cell(label: Label | None) -> str:
    if label is None:
        return ""
    if isinstance(label, str) and not NEEDS_JSON.search(label):
        return quoted(label) or '""'
    return quoted(text(label))
