"""Facts about kinds of sources, sinks and engines that a pipeline file needs.

    source = "visits.jsonl"          kind "file": a path without a scheme
    source = "-" or "http"           kinds of these names
    source = "feed://host/visits"    kind "feed", of a package that [plugins] allows

A registry contains each kind: its factory and the facts about it are in `streamgauge.interfaces`. This module has
the facts that decide which declarations a file may have. They are public and need no access to the source.

    [plugins]
    allow = ["streamgauge-feed"]     packages, by the name that they are installed under

Such a package sees raw events, so the curator vouches for it by name. `plan` shows the list. It is not pinned: a
package is code, as this one is, and its name would not identify its version. The parts of a package are pinned
with the blocks that name them: the source in the block of the source, a mechanism in the block of its release.
Options are not pinned: the URL determines which records are read, options determine how they are reached. Engines
give equal answers, so [engine] is not pinned either.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from streamgauge.config.errors import PipelineFileError
from streamgauge.config.rules import is_line
from streamgauge.config.toml_table import TomlTable, build_rule_error
from streamgauge.registry import Registry, RegistryError, check_installed, normalise_package

Mode = Literal["batch", "streaming"]
Format = Literal["jsonl", "csv", "parquet"]
OptionsCheck = Callable[[Mapping[str, Any]], None]

FILE_KIND = "file"  # kind of paths
STANDARD_STREAM = "-"  # standard input or output
MAX_PACKAGE_CHARS = 200
PLUGIN_KEYS, ENGINE_KEYS = ("allow",), ("kind", "options")
URL_PATTERN = re.compile(r"([a-z][a-z0-9+.-]*)://")


@dataclass(frozen=True, kw_only=True)
class KindFacts:
    """Facts about every kind: its own settings."""

    option_keys: tuple[str, ...] = ()  # names of the settings in the kind's `options` table
    check_options: OptionsCheck | None = None  # raises ValueError for bad options, with the key first


@dataclass(frozen=True, kw_only=True)
class SourceFacts(KindFacts):
    """Facts about a kind of source.

    If `is_path` is True, `source` is a path. Its suffix then gives format and compression, and no sink may lie inside
    it.
    """

    modes: tuple[Mode, ...] = ("streaming",)
    default_mode: Mode | None = "streaming"  # mode if the file names none; None if the file must name it
    formats: tuple[Format, ...] = ("jsonl",)
    is_path: bool = False
    is_replayable: bool = True  # True if records can be read a second time
    is_console: bool = False  # True if records come from standard input
    needs_server: bool = False  # True if records are sent to the server
    has_reports: bool = False  # True if records are reports that devices have made private
    supports_pan_private: bool = False  # True if the source stores nothing of records that it has returned


@dataclass(frozen=True, kw_only=True)
class SinkFacts(KindFacts):
    """Facts about a kind of sink."""

    is_path: bool = False
    is_console: bool = False  # True if releases are printed


@dataclass(frozen=True, kw_only=True)
class EngineFacts(KindFacts):
    """Facts about a kind of engine."""

    supports_pan_private: bool = False  # True if the engine stores nothing of the records of a block after it ends


SOURCES: Registry[SourceFacts] = Registry(
    "source",
    "streamgauge.sources",
    {
        FILE_KIND: "streamgauge.sources.kinds:FILE",
        STANDARD_STREAM: "streamgauge.sources.kinds:STANDARD_INPUT",
        "http": "streamgauge.sources.kinds:HTTP",
        "reports": "streamgauge.sources.kinds:REPORTS",
    },
)
SINKS: Registry[SinkFacts] = Registry(
    "sink",
    "streamgauge.sinks",
    {
        "jsonl": "streamgauge.sinks.kinds:JSONL",
        "csv": "streamgauge.sinks.kinds:CSV",
        "parquet": "streamgauge.sinks.kinds:PARQUET",
        STANDARD_STREAM: "streamgauge.sinks.kinds:STANDARD_OUTPUT",
    },
)
ENGINES: Registry[EngineFacts] = Registry(
    "engine",
    "streamgauge.engines",
    {
        "embedded": "streamgauge.engines.duckdb.engine:EMBEDDED",
        "processes": "streamgauge.engines.processes.engine:PROCESSES",
    },
)
DEFAULT_ENGINE = "embedded"


def find_source_kind(source: str) -> str:
    """Return the name of a source's kind.

    >>> find_source_kind("visits.csv"), find_source_kind("-"), find_source_kind("feed://host")
    ('file', '-', 'feed')
    """
    if (url := URL_PATTERN.match(source)) is not None:
        return url[1]
    return source if source in SOURCES.built_in and source != FILE_KIND else FILE_KIND


def find_sink_kind(to: str, format: str) -> str:
    """Return the name of a sink's kind: a scheme, "-", or the format of a path.

    >>> find_sink_kind("out.csv", "csv"), find_sink_kind("sqlite://out.db", "")
    ('csv', 'sqlite')
    """
    if (url := URL_PATTERN.match(to)) is not None:
        return url[1]
    return STANDARD_STREAM if to == STANDARD_STREAM else format


def is_sink_path(to: str) -> bool:
    """Return whether a sink that is not a URL is a path."""
    return to != STANDARD_STREAM


def is_url(text: str) -> bool:
    return URL_PATTERN.match(text) is not None


def check_url(table: TomlTable, key: str, kinds: Registry[Any]) -> None:
    """Reject a URL with a built-in name as scheme: those are words and paths."""
    text = table.entries.get(key)
    url = URL_PATTERN.match(text) if isinstance(text, str) else None
    if url is not None and url[1] in kinds.built_in:
        raise table.build_error(key, f'a path, a built-in name or a URL of an allowed package, not of "{url[1]}://"')


def load_facts(kinds: "Registry[Any]", name: str, allow: tuple[str, ...], key: str) -> Any:
    """Return the facts about a kind; reject its name with the key first."""
    try:
        return kinds.load(name, allow)
    except RegistryError as refusal:
        raise PipelineFileError(f"{key}: {refusal}") from None


def parse_options(table: TomlTable, facts: KindFacts) -> dict[str, Any]:
    """Return the kind's own settings, which the kind checks.

    Numbers with a point are `Decimal`, as everywhere in a file.
    """
    options = dict(table.get_table("options", facts.option_keys).entries) if "options" in table else {}
    if facts.check_options is not None:
        try:
            facts.check_options(options)
        except ValueError as refusal:
            raise PipelineFileError(f"{table.key_path('options')}.{refusal}") from None
    return options


def parse_plugins(top: TomlTable) -> tuple[str, ...]:
    """Return the packages that the file allows, in normalised spelling."""
    if "plugins" not in top:
        return ()
    table = top.get_table("plugins", PLUGIN_KEYS)
    listed = table.get_array("allow", "names of packages")
    for name in listed:
        if not is_line(name, MAX_PACKAGE_CHARS):
            raise build_rule_error(table.key_path("allow"), "an array of names of packages", name)
    try:
        check_installed(listed)
    except RegistryError as refusal:
        raise PipelineFileError(f"{table.key_path('allow')} {refusal}") from None
    names = tuple(map(normalise_package, listed))
    if len(set(names)) < len(names):
        raise table.build_error("allow", "an array of different packages")
    return names


def parse_engine(top: TomlTable, allow: tuple[str, ...], *, pan_private: bool) -> tuple[str, dict[str, Any]]:
    """Return the kind of the engine and its own settings."""
    if "engine" not in top:
        return DEFAULT_ENGINE, {}
    table = top.get_table("engine", ENGINE_KEYS)
    kind = table.entries.get("kind", DEFAULT_ENGINE)
    if not is_line(kind, MAX_PACKAGE_CHARS):
        raise table.build_error("kind", "the name of an engine", ENGINES.names(allow))
    facts = load_facts(ENGINES, kind, allow, table.key_path("kind"))
    if pan_private and not facts.supports_pan_private:
        raise table.build_error("kind", "an engine that keeps no record with pan_private = true")
    return kind, parse_options(table, facts)
