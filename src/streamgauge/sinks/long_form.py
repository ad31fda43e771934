"""The long form as arrays: a row per tick, measure and place, in the order of CSV files."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgauge.query.released import Released
from streamgauge.sinks.csv_file import LONG

PARTS = ("value", "stddev", "low", "high", "enough")


def long_columns(releases: Sequence[Released], stamp: str) -> dict[str, Any]:
    """One array for each column."""
    sizes = [item.value.size for item in releases]

    def each(values: Sequence[Any], kind: Any) -> Any:
        return np.repeat(np.array(values, kind), sizes)

    columns = {
        "release": each([item.release for item in releases], object),
        "tick": each([item.tick for item in releases], np.int64),
        "start": each([item.start for item in releases], "datetime64[us]"),
        "end": each([item.end for item in releases], "datetime64[us]"),
        "level": _tiled(releases, lambda shape: [place.level for place in shape.places], np.int32),
        "group": _tiled(releases, lambda shape: shape.groups, object),
        "measure": np.concatenate([_measures(item) for item in releases]),
        "chain": each([stamp] * len(releases), object),
    }
    for part in PARTS:
        columns[part] = np.concatenate([getattr(item, part).ravel() for item in releases])
    return {name: columns[name] for name in LONG}


def _tiled(releases: Sequence[Released], of: Any, kind: Any) -> Any:
    """What the places of each release are, once for each measure."""
    return np.concatenate(
        [np.tile(np.array(of(item.shape), kind), len(item.shape.measures)) for item in releases]
    )


def _measures(item: Released) -> Any:
    return np.repeat(np.array(item.shape.measures, object), len(item.shape.places))
