"""CSV in the long form: a line per tick, place and measure, under the same header for every release.

    release,tick,start,end,level,group,measure,value,stddev,low,high,enough,chain
    fever,7,2026-01-05T00:30:00Z,2026-01-05T00:35:00Z,1,"{""region"":""north""}",count,12.0,3.1,6.0,18.0,true,17:9f86d0...

Promise
    A record is one physical line: `group` is a JSON object, which has no line breaks, and names have none
    either. What is not known is empty; bounds may be `inf`.
"""

import csv

import numpy as np

from streamgauge.query.released import Released, moment
from streamgauge.sinks.lines import Column, Stamp, flags, interleaved, numbers

LONG = (
    "release",
    "tick",
    "start",
    "end",
    "level",
    "group",
    "measure",
    "value",
    "stddev",
    "low",
    "high",
    "enough",
    "chain",
)


class CsvLines:
    """The form of files that end with .csv."""

    header = (",".join(LONG) + "\n").encode()
    opening = header

    def lines(self, released: Released, stamp: str | None) -> bytes:
        shape = released.shape
        times = f"{released.tick},{moment(released.start)},{moment(released.end)},"
        head = f"{quoted(shape.release)},{times}"
        levels = [str(place.level) for place in shape.places]
        groups = [quoted(group) for group in shape.groups]
        end = f",{quoted(stamp or '')}\n"
        blocks = []
        for row, measure in enumerate(shape.measures):
            columns: list[Column] = [head, levels, ",", groups, f",{quoted(measure)}"]
            for block in released.numbers:
                columns += [",", numbers(block[row], ~np.isnan(block[row]), "")]
            columns += [",", flags(released.enough[row]), end]
            blocks.append(interleaved(columns, len(shape.places)))
        return b"".join(blocks)

    def stamp(self, line: bytes) -> Stamp | None:
        try:
            (fields,) = csv.reader([line.decode()], strict=True)
            return Stamp.of(fields[-1]) if len(fields) == len(LONG) else None
        except (ValueError, csv.Error):
            return None


def quoted(field: str) -> str:
    """A field as CSV has it."""
    if '"' in field or "," in field:
        return '"' + field.replace('"', '""') + '"'
    return field
