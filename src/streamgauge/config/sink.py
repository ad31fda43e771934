"""[[sink]]: destinations of releases, apart from all other paths of the pipeline.

A sink may be a folder of parts. So no sink may lie inside another, nor inside the source, nor around it.
Locations are compared, not names: `~`, links and dots do not evade the check (`paths`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from streamgauge.config.endpoints import (
    SINKS,
    SinkFacts,
    check_url,
    find_sink_kind,
    is_sink_path,
    is_url,
    load_facts,
    parse_options,
)
from streamgauge.config.paths import find_compression, find_format, resolve_path, resolve_real_path
from streamgauge.config.rules import PATH, build_choice_rule
from streamgauge.config.settings import SinkSettings
from streamgauge.config.stream import FORMAT_RULE
from streamgauge.config.toml_table import Rule, TomlTable, build_rule_error

SINK_KEYS = ("to", "format", "releases", "shape", "options")
SHAPE_RULE: Rule[Literal["wide", "long"]] = build_choice_rule("wide", "long")


def parse_sinks(
    top: TomlTable,
    names: Sequence[str],
    folder: Path,
    reserved_paths: Mapping[str, Path],
    plugins: tuple[str, ...] = (),
) -> tuple[SinkSettings, ...]:
    """Return all sinks of the file.

    Args:
        names: The names of its releases.
        reserved_paths: Paths that no sink may share, by their meaning.
        plugins: The packages that the file allows.
    """
    others = {what: resolve_real_path(path) for what, path in reserved_paths.items()}
    sinks = []
    for number, value in enumerate(top.get_array("sink", "tables"), 1):
        table = TomlTable.parse(f"sink {number}", value, SINK_KEYS)
        check_url(table, "to", SINKS)
        format, shape = _parse_format(table), table.get_optional("shape", SHAPE_RULE, "wide")
        if format != "csv" and "shape" in table:
            raise table.build_error("shape", "left out unless the format is csv")
        to = table.get_required("to", PATH)
        facts: SinkFacts = load_facts(SINKS, find_sink_kind(to, format), plugins, table.key_path("to"))
        sink = SinkSettings(to, format, _parse_releases(table, names), shape, parse_options(table, facts), plugins)
        place = resolve_real_path(resolve_path(to, folder)) if facts.is_path else Path(to)
        for what, other in others.items():
            if place.is_relative_to(other) or other.is_relative_to(place):
                raise table.build_error("to", f"apart from {what}")
        others[table.path] = place
        sinks.append(sink)
    return tuple(sinks)


def _parse_format(table: TomlTable) -> str:
    to = table.get_required("to", PATH)
    if is_url(to):
        if "format" in table:
            raise table.build_error("format", "left out where a URL names the sink")
        return ""
    if not is_sink_path(to):
        format = table.get_optional("format", FORMAT_RULE, "jsonl")
        if format == "parquet":
            raise table.build_error("format", '"jsonl" or "csv" for standard output')
        return format
    known = find_format(to)
    if find_compression(to):
        raise table.build_error("to", "a path without the suffix of a compression")
    return (
        table.get_required("format", FORMAT_RULE) if known is None else table.get_optional("format", FORMAT_RULE, known)
    )


def _parse_releases(table: TomlTable, names: Sequence[str]) -> tuple[str, ...]:
    chosen = table.get_array("releases", "names of releases")
    if "releases" in table and not chosen:
        raise table.build_error("releases", "names of releases, or left out for all of them")
    for name in chosen:
        if name not in names:
            raise build_rule_error(table.key_path("releases"), "names of releases", name, names)
    if len(set(chosen)) < len(chosen):
        raise table.build_error("releases", "names of different releases")
    return tuple(chosen)
