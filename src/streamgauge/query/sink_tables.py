"""[[sink]]: where releases go, which is never where something else of the pipeline is.

A sink may be a folder of parts: so no sink may lie within another, nor within the source, nor around it.
Places are compared, not names: `~`, links and dots evade nothing (`paths`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from streamgauge.query.formats import STANDARD, Format, compression_of, format_of
from streamgauge.query.paths import path_of, real_path
from streamgauge.query.settings import SinkSettings
from streamgauge.query.stream_table import FORMAT
from streamgauge.query.toml_keys import Rule, Table, must
from streamgauge.query.toml_rules import PATH, one_of

SINK_KEYS = ("to", "format", "releases", "shape")
SHAPE: Rule[Literal["wide", "long"]] = one_of("wide", "long")


def sinks_of(
    top: Table, names: Sequence[str], folder: Path, taken: Mapping[str, Path]
) -> tuple[SinkSettings, ...]:
    """All sinks of the file; `names` are those of its releases, `taken` says what is where already."""
    others = {what: real_path(path) for what, path in taken.items()}
    sinks = []
    for number, value in enumerate(top.array("sink", "tables"), 1):
        table = Table.of(f"sink {number}", value, SINK_KEYS)
        format, shape = _format(table), table.optional("shape", SHAPE, "wide")
        if format != "csv" and "shape" in table:
            raise table.bad("shape", "left out unless the format is csv")
        sink = SinkSettings(table.required("to", PATH), format, _releases(table, names), shape)
        place = Path(STANDARD) if sink.to == STANDARD else real_path(path_of(sink.to, folder))
        for what, other in others.items():
            if place.is_relative_to(other) or other.is_relative_to(place):
                raise table.bad("to", f"apart from {what}")
        others[table.where] = place
        sinks.append(sink)
    return tuple(sinks)


def _format(table: Table) -> Format:
    to = table.required("to", PATH)
    if to == STANDARD:
        format = table.optional("format", FORMAT, "jsonl")
        if format == "parquet":
            raise table.bad("format", '"jsonl" or "csv" for standard output')
        return format
    known = format_of(to)
    if compression_of(to):
        raise table.bad("to", "a path without the suffix of a compression")
    return table.required("format", FORMAT) if known is None else table.optional("format", FORMAT, known)


def _releases(table: Table, names: Sequence[str]) -> tuple[str, ...]:
    chosen = table.array("releases", "names of releases")
    if "releases" in table and not chosen:
        raise table.bad("releases", "names of releases, or left out for all of them")
    for name in chosen:
        if name not in names:
            raise must(table.at("releases"), "names of releases", name, names)
    if len(set(chosen)) < len(chosen):
        raise table.bad("releases", "names of different releases")
    return tuple(chosen)
