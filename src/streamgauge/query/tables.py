"""Releases as tables of other packages, in the wide form: a row per tick and place.

    tick  start  end  [level]  region ...  count  count_stddev  count_low  count_high  count_enough ...

Times are UTC timestamps in microseconds; numbers that are not known are null (NaN in pandas). `level` is
there only if there are several, and columns that a level does not keep are null in its rows.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from streamgauge.query.packages import needs
from streamgauge.query.shapes import ENDINGS

if TYPE_CHECKING:
    from streamgauge.query.released import Releases

Columns = dict[str, Any]
PARTS = dict(zip(ENDINGS, ("value", "stddev", "low", "high", "enough"), strict=True))
FLOATS, TIMES = np.dtype(np.float64), np.dtype("datetime64[us]")


def columns(releases: "Releases") -> tuple[Columns, Columns]:
    """The plain columns, and the labels of the group columns, as lists: all of the wide form."""
    shape = releases.shape
    where = [np.arange(len(shape.places))[releases.where(item)] for item in releases]
    places = np.concatenate([np.zeros(0, np.int64), *where])
    repeats = [len(some) for some in where]
    plain: Columns = {
        "tick": np.repeat(releases.ticks, repeats),
        "start": np.repeat(releases.starts, repeats),
        "end": np.repeat(releases.ends, repeats),
    }
    if shape.rolled_up:
        plain["level"] = np.array([place.level for place in shape.places], np.int64)[places]
    labels: Columns = {}
    for name in shape.columns:
        known = np.array([*shape.labels(name), None], object)
        labels[name] = known[places].tolist()
    for row, measure in enumerate(shape.measures):
        for ending, part in PARTS.items():
            kind = bool if part == "enough" else np.float64
            rows = [getattr(item, part)[row] for item in releases]
            plain[measure + ending] = np.concatenate([np.zeros(0, kind), *rows])
    return plain, labels


def arrow(releases: "Releases") -> Any:
    with needs("pyarrow", "streamgauge[arrow]"):
        import pyarrow as pa
    plain, labels = columns(releases)

    def made(name: str) -> Any:
        if name in labels:
            return pa.array(labels[name], type=pa.string() if releases.shape.discovered else None)
        kind = pa.timestamp("us", tz="UTC") if plain[name].dtype == TIMES else None
        return pa.array(plain[name], type=kind, from_pandas=True)

    return pa.table({name: made(name) for name in releases.shape.wide})


def pandas(releases: "Releases") -> Any:
    with needs("pandas", "pandas"):
        import pandas as pd
    plain, labels = columns(releases)

    def made(name: str) -> Any:
        if name in labels:
            return labels[name]
        return pd.DatetimeIndex(plain[name], tz="UTC") if plain[name].dtype == TIMES else plain[name]

    return pd.DataFrame({name: made(name) for name in releases.shape.wide})


def polars(releases: "Releases") -> Any:
    with needs("polars", "polars"):
        import polars as pl
    plain, labels = columns(releases)

    def made(name: str) -> Any:
        if name in labels:
            return pl.Series(name, labels[name], dtype=pl.String if releases.shape.discovered else None)
        series = pl.Series(name, plain[name], nan_to_null=True)
        return series.dt.replace_time_zone("UTC") if plain[name].dtype == TIMES else series

    return pl.DataFrame([made(name) for name in releases.shape.wide])
