"""Releases as tables of other packages, in the wide form, and as HTML.

    tick  start  end  [level]  [rank]  region ...  count  count_stddev  count_low  count_high  count_reliable ...

A row is a tick and place. Times are UTC timestamps in microseconds. Unknown numbers are null (NaN in pandas). `level`
is present only if there are several, `rank` only if groups are ranked. Columns that a level does not have are null in
its rows.

A notebook shows a small HTML table with error bars, without scripts. Every text is escaped.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.optional import require_package
from streamgauge.releases.schema import COLUMN_SUFFIXES, RANK_COLUMN

if TYPE_CHECKING:
    from streamgauge.releases.release import Releases, TickRelease
    from streamgauge.releases.schema import ReleaseSchema

Columns = dict[str, Any]
MEASURE_PARTS = dict(zip(COLUMN_SUFFIXES, ("value", "stddev", "low", "high", "reliable"), strict=True))
FLOAT_DTYPE, TIME_DTYPE = np.dtype(np.float64), np.dtype("datetime64[us]")


def build_columns(releases: "Releases") -> tuple[Columns, Columns]:
    """Return the plain columns and the group labels of the wide form, as lists."""
    shape = releases.shape
    where = [np.arange(len(shape.groups))[releases.find_group_positions(item)] for item in releases]
    places = np.concatenate([np.zeros(0, np.int64), *where])
    repeats = [len(some) for some in where]
    plain: Columns = {
        "tick": np.repeat(releases.ticks, repeats),
        "start": np.repeat(releases.starts, repeats),
        "end": np.repeat(releases.ends, repeats),
    }
    if shape.is_rollup:
        plain["level"] = np.array([place.level for place in shape.groups], np.int64)[places]
    if shape.is_ranked:
        plain[RANK_COLUMN] = np.concatenate([np.zeros(0, np.int64), *(item.shape.ranks for item in releases)])
    labels: Columns = {}
    for name in shape.columns:
        known = np.array([*shape.labels(name), None], object)
        labels[name] = known[places].tolist()
    for row, measure in enumerate(shape.measures):
        for ending, part in MEASURE_PARTS.items():
            kind = bool if part == "reliable" else np.float64
            rows = [getattr(item, part)[row] for item in releases]
            plain[measure + ending] = np.concatenate([np.zeros(0, kind), *rows])
    return plain, labels


def to_arrow_table(releases: "Releases") -> Any:
    with require_package("pyarrow", "streamgauge[arrow]"):
        import pyarrow as pa
    plain, labels = build_columns(releases)

    def build_column(name: str) -> Any:
        if name in labels:
            return pa.array(labels[name], type=find_arrow_type(releases.shape.find_label_type(name)))
        kind = pa.timestamp("us", tz="UTC") if plain[name].dtype == TIME_DTYPE else None
        return pa.array(plain[name], type=kind, from_pandas=True)

    return pa.table({name: build_column(name) for name in releases.shape.wide_columns})


def find_arrow_type(label_type: type | None) -> Any:
    """Return the Arrow type of labels, or None if the labels decide."""
    import pyarrow as pa

    return {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}.get(label_type or object)


def to_pandas_frame(releases: "Releases") -> Any:
    with require_package("pandas", "pandas"):
        import pandas as pd
    plain, labels = build_columns(releases)

    def build_column(name: str) -> Any:
        if name in labels:
            return labels[name]
        return pd.DatetimeIndex(plain[name], tz="UTC") if plain[name].dtype == TIME_DTYPE else plain[name]

    return pd.DataFrame({name: build_column(name) for name in releases.shape.wide_columns})


def to_polars_frame(releases: "Releases") -> Any:
    with require_package("polars", "polars"):
        import polars as pl
    plain, labels = build_columns(releases)

    def build_column(name: str) -> Any:
        if name in labels:
            kinds = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}
            return pl.Series(name, labels[name], dtype=kinds.get(releases.shape.find_label_type(name) or object))
        series = pl.Series(name, plain[name], nan_to_null=True)
        return series.dt.replace_time_zone("UTC") if plain[name].dtype == TIME_DTYPE else series

    return pl.DataFrame([build_column(name) for name in releases.shape.wide_columns])


MAX_ROWS = 20
CENTRE_TOLERANCE = 0.05


def format_estimate(value: float, low: float, high: float) -> str:
    """Return a number with half the width of its interval, to two digits.

    If the number is not the centre of the interval, both ends are shown.

    >>> format_estimate(1234.5678, 1230.1, 1239.0356), format_estimate(12.0, 6.0, 18.0)
    ('1,234.6 ± 4.5', '12.0 ± 6.0')
    >>> format_estimate(0.0, 30.0, 42.0)
    '0.0 (30.0 to 42.0)'
    """
    half = (high - low) / 2
    if not isfinite(value):
        return "unknown"
    if not isfinite(half):
        return format_rounded(value, half)
    shown, error, first, last = (format_rounded(number, half) for number in (value, half, low, high))
    return f"{shown} ± {error}" if is_centred(value, low, high) else f"{shown} ({first} to {last})"


def is_centred(value: float, low: float, high: float) -> bool:
    """Return whether a value is the centre of its interval, to 1/20 of its half width."""
    return abs(low + high - 2 * value) <= CENTRE_TOLERANCE * (high - low) / 2


def format_rounded(value: float, scale: float) -> str:
    """Return a number, to two digits of `scale`.

    >>> format_rounded(1234.567, 4.5), format_rounded(1234.567, 0.012), format_rounded(float("nan"), 1.0)
    ('1,234.6', '1,234.567', '?')
    """
    if not isfinite(value):
        return "?"
    if not isfinite(scale) or scale <= 0:
        return f"{value:,.6g}"
    places = 0
    while scale < 9.95 and places < 6:
        scale, places = scale * 10, places + 1
    return f"{value:,.{places}f}"


def render_table(shape: "ReleaseSchema", items: Sequence["TickRelease"]) -> str:
    """Return the table of the newest ticks: as many as fit, but at least one."""
    several = max(1, MAX_ROWS // max(1, len(shape.groups)))
    newest = items[-several:]
    rows = [_render_row(item, i, shape.columns) for item in newest for i in range(len(item.shape.groups))][:MAX_ROWS]
    left = sum(len(item.shape.groups) for item in items) - len(rows)
    rank = (RANK_COLUMN,) if shape.is_ranked else ()
    names = ("tick", "from (UTC)", *rank, *shape.columns, *shape.measures)
    head = "".join(f'<th style="text-align:left">{escape(name)}</th>' for name in names)
    notes = [f"{left:,} more rows"] if left else []
    notes += shape.notes
    note = "".join(f"<p><small>{escape(each)}</small></p>" for each in notes)
    title = f"<caption>{escape(shape.release)}, with 95 % bounds</caption>"
    return f"<div><table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{note}</div>"


def _render_row(item: "TickRelease", place: int, columns: Sequence[str]) -> str:
    group = dict(item.shape.groups[place].labels)
    begin = datetime.fromtimestamp(item.start // 10**6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    rendered = [
        format_estimate(*(float(part[row, place]) for part in (item.value, item.low, item.high)))
        + ("" if item.reliable[row, place] else " (unreliable)")
        for row in range(len(item.shape.measures))
    ]
    labels = [str(group.get(name, "")) for name in columns]
    rank = [str(item.shape.ranks[place])] if item.shape.is_ranked else []
    cells = "".join(f"<td>{escape(cell)}</td>" for cell in (str(item.tick), begin, *rank, *labels, *rendered))
    return f"<tr>{cells}</tr>"
