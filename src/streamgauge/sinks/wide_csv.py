"""CSV in the wide shape: a line per tick and place, a column per group key.

    release,tick,start,end,region,count,count_stddev,count_low,count_high,count_reliable
    fever,7,2026-01-05T00:30:00Z,2026-01-05T00:35:00Z,north,12.0,3.1,6.0,18.0,true

The columns are those of `Releases.to_pandas`, after the name of the release. `level` is present if one of the
releases has several levels, and `rank` if one ranks its groups. An unknown value is empty. A value that rests on
too little data stays, with `false` in its `_reliable` column. Bounds may be `inf`.

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

from streamgauge.config.settings import Label
from streamgauge.releases.release import TickRelease, format_utc_time
from streamgauge.releases.schema import COLUMN_SUFFIXES, RANK_COLUMN, ReleaseSchema, to_json
from streamgauge.sinks.formats import Stamp, TextColumn, format_flags, format_numbers, interleave_columns, quote_field

TIME_COLUMNS = ("release", "tick", "start", "end")
STAMP_COLUMN = "trace"
JSON_TEXT_PATTERN = re.compile('^"|[\x00-\x1f\ud800-\udfff]')


class WideCsv:
    """Wide lines of some releases. `stamped` adds the column that sinks need.

    >>> from streamgauge.releases.schema import Group
    >>> north = Group(1, (("region", "north"),))
    >>> WideCsv([ReleaseSchema("fever", ("count",), (north,))]).header
    b'release,tick,start,end,region,count,count_stddev,count_low,count_high,count_reliable\\n'
    """

    file_prefix = ",".join(TIME_COLUMNS).encode() + b","

    def __init__(self, shapes: Sequence[ReleaseSchema], *, has_stamp: bool = False) -> None:
        self._meanings = _unite(shapes)
        self.columns = (*self._meanings, *([STAMP_COLUMN] if has_stamp else []))
        self._cells: dict[str, tuple[ReleaseSchema, dict[str, TextColumn]]] = {}  # of the newest shape of each release

    @property
    def header(self) -> bytes:
        return (",".join(map(_to_cell, self.columns)) + "\n").encode()

    def format_lines(self, released: TickRelease, stamp: str | None = None) -> bytes:
        """Return a line for each place of a tick.

        Raises:
            ValueError: the release has a column that the header does not have.
        """
        fields = self._group_cells(released.shape) | _measure_cells(released)
        times = (str(released.tick), format_utc_time(released.start), format_utc_time(released.end))
        fields |= dict(zip(TIME_COLUMNS, (quote_field(released.release), *times), strict=True))
        fields[STAMP_COLUMN] = quote_field(stamp or "")
        pieces = chain.from_iterable((",", fields.get(name, "")) for name in self.columns)
        return interleave_columns([*pieces, "\n"][1:], len(released.shape.groups))

    def _group_cells(self, shape: ReleaseSchema) -> dict[str, TextColumn]:
        """Return the cells of level and labels, which all ticks of a shape share."""
        known, cells = self._cells.get(shape.release, (None, {}))
        if known is not shape:
            self._check(shape)
            labels = [dict(place.labels) for place in shape.groups]
            cells = {"level": [str(place.level) for place in shape.groups]}
            cells |= {RANK_COLUMN: list(map(str, shape.ranks))} if shape.is_ranked else {}
            cells |= {name: [_to_cell(each.get(name)) for each in labels] for name in shape.columns}
            self._cells[shape.release] = shape, cells
        return cells

    def _check(self, shape: ReleaseSchema) -> None:
        for name, meaning in _list_meanings([shape]):
            if self._meanings.get(name) != meaning:
                raise ValueError(f"columns of {shape.release} must be in the header, got {name!r} beside it")

    def parse_stamp(self, line: bytes) -> Stamp | None:
        try:
            (fields,) = csv.reader([line.decode()], strict=True)
            return Stamp.parse(fields[-1]) if len(fields) == len(self.columns) else None
        except (ValueError, csv.Error):
            return None


def _unite(shapes: Sequence[ReleaseSchema]) -> dict[str, str]:
    """Return the columns of all shapes with their meanings; reject a name with two."""
    meanings: dict[str, str] = {}
    for name, meaning in _list_meanings(shapes):
        other = meanings.setdefault(name, meaning)
        if other != meaning:
            raise ValueError(
                f"columns of wide CSV must have one meaning each, got {name!r} as {other} and as {meaning}: "
                "rename one with AS, or choose the long shape"
            )
    return meanings


def _list_meanings(shapes: Sequence[ReleaseSchema]) -> Iterator[tuple[str, str]]:
    """Yield the columns in their order. A column of several shapes repeats."""
    marks = [("level", any(shape.is_rollup for shape in shapes)), (RANK_COLUMN, any(s.is_ranked for s in shapes))]
    lines = (*TIME_COLUMNS, *(name for name, is_present in marks if is_present))
    yield from ((name, f"the {name} of a line") for name in lines)
    yield from ((name, f"group column {name}") for shape in shapes for name in shape.columns)
    yield from ((m + end, f"measure {m}") for shape in shapes for m in shape.measures for end in COLUMN_SUFFIXES)


def _measure_cells(released: TickRelease) -> dict[str, TextColumn]:
    cells: dict[str, TextColumn] = {}
    for row, measure in enumerate(released.shape.measures):
        for ending, block in zip(COLUMN_SUFFIXES, released.numbers, strict=False):
            cells[measure + ending] = format_numbers(block[row], ~np.isnan(block[row]), "")
        cells[measure + COLUMN_SUFFIXES[-1]] = format_flags(released.reliable[row])
    return cells


def _to_cell(label: Label | None) -> str:
    if label is None:
        return ""
    if isinstance(label, str) and not JSON_TEXT_PATTERN.search(label):
        return quote_field(label) or '""'
    return quote_field(to_json(label))
