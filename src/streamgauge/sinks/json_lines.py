"""JSON lines: an object per tick and place, its measures side by side.

    {"release":"fever","tick":7,"start":"...","end":"...","group":{"region":"north"},
     "count":{"value":12.0,"stddev":3.1,"low":6.0,"high":18.0,"enough":true},"chain":"17:9f86d081884c7d65:3b1c77aa"}

Promise
    A line is `Released.rows()` as compact JSON, and one physical line whatever the labels are.
"""

import json
from collections.abc import Iterator

import numpy as np

from streamgauge.query.released import Released, moment
from streamgauge.query.shapes import text
from streamgauge.sinks.lines import Column, Stamp, flags, interleaved, numbers


class JsonLines:
    """The form of files that end with .jsonl, and of standard output."""

    header = b""
    opening = b'{"release":"'

    def lines(self, released: Released, stamp: str | None) -> bytes:
        shape = released.shape
        times = {"tick": released.tick, "start": moment(released.start), "end": moment(released.end)}
        columns: list[Column] = [text({"release": shape.release, **times})[:-1]]
        if shape.rolled_up:
            columns += [',"level":', [str(place.level) for place in shape.places]]
        columns += [',"group":', shape.groups]
        for row, measure in enumerate(shape.measures):
            columns += [f",{text(measure)}:", *_measure(released, row)]
        columns.append(f',"chain":{text(stamp)}}}\n')
        return interleaved(columns, len(shape.places))

    def stamp(self, line: bytes) -> Stamp | None:
        try:
            return Stamp.of(json.loads(line)["chain"])
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None


def _measure(released: Released, row: int) -> Iterator[Column]:
    """The columns of a measure's object."""
    names = ('{"value":', ',"stddev":', ',"low":', ',"high":')
    for name, block in zip(names, released.numbers, strict=True):
        yield name
        yield numbers(block[row], np.isfinite(block[row]), "null")
    yield ',"enough":'
    yield flags(released.enough[row])
    yield "}"
