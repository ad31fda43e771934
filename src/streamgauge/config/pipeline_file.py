"""Whole pipeline file: TOML in, checked settings out, or a one-line error.

    clinic.toml: stream.tick must be a duration such as "5m", got "5 minits"

Promise
    `read_pipeline` returns a `PipelineFile` or raises `PipelineFileError`, for any content. It reads
    nothing of the stream, so no error can reveal it. Numbers are exact: floats arrive as decimals.

`streamgauge init` lists its guesses in `confirm` at the top of the file, by key. A person checks each
and deletes its line. Until the list is empty the file can be planned, not run.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from streamgauge.config.canonical import build_blocks
from streamgauge.config.endpoints import parse_engine, parse_plugins
from streamgauge.config.errors import PipelineFileError
from streamgauge.config.lookup import add_key_columns, parse_lookups
from streamgauge.config.mapper import parse_mappers
from streamgauge.config.paths import resolve_path
from streamgauge.config.release import parse_releases
from streamgauge.config.server import parse_server
from streamgauge.config.settings import EngineSettings, Lookup, PipelineFile, Stream
from streamgauge.config.sink import parse_sinks
from streamgauge.config.stream import parse_stream
from streamgauge.config.toml_table import TomlTable, build_rule_error, escape_line, join_key

FILE_SUFFIX = ".toml"  # no two files with this suffix share a store
TOP_KEYS = ("stream", "lookup", "mapper", "release", "sink", "server", "engine", "plugins", "confirm")
_ERROR_POSITION = re.compile(r"(.*) \(at (?:line (\d+), column \d+|(end of document))\)", re.DOTALL)

__all__ = ["PipelineFileError", "parse_pipeline", "read_pipeline"]


def read_pipeline(path: Path) -> PipelineFile:
    """Return the pipeline that a file declares."""
    try:
        tables = _parse_toml(_read_text(path))
    except PipelineFileError as bad:
        raise _add_file_name(path, bad) from None
    return parse_pipeline(tables, path)


def parse_pipeline(tables: Mapping[str, Any], path: Path) -> PipelineFile:
    """Return the pipeline that tables declare, as if they were a file at `path`."""
    try:
        return _build_pipeline(TomlTable.parse("", tables, TOP_KEYS), path)
    except PipelineFileError as bad:
        raise _add_file_name(path, bad) from None


def _add_file_name(path: Path, bad: PipelineFileError) -> PipelineFileError:
    return PipelineFileError(f"{escape_line(path.name or str(path))}: {bad}")


def _read_text(path: Path) -> str:
    try:
        folder, file = path.is_dir(), path.is_file()
        data = path.read_bytes() if file else b""
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise PipelineFileError("the file must be text in UTF-8, got other bytes") from None
    except (OSError, ValueError):
        raise PipelineFileError("the file must be one that can be read, got another") from None
    if not file:
        raise PipelineFileError(f"the file must be there, got {'a folder' if folder else 'nothing of that name'}")
    return text


def _parse_toml(text: str) -> dict[str, Any]:
    if not text.strip():
        raise PipelineFileError("the file must have a [stream] table, got an empty file")
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise PipelineFileError(_format_syntax_error(str(error))) from None
    except (ValueError, ArithmeticError):
        raise PipelineFileError("the file must have numbers of bearable length, got others") from None
    except RecursionError:
        raise PipelineFileError("the file must not be nested so deeply, got too many brackets") from None


def _format_syntax_error(message: str) -> str:
    """Return the parser's message, with its line first.

    >>> _format_syntax_error("Expected '=' after a key in a key/value pair (at line 3, column 9)")
    "line 3 must be TOML: expected '=' after a key in a key/value pair"
    """
    match = _ERROR_POSITION.fullmatch(message)
    if match is None:
        return f"the file must be TOML: {escape_line(message)}"
    said, line, _ = match.groups()
    where = f"line {line}" if line else "the last line"
    return f"{where} must be TOML: {escape_line(said[:1].lower() + said[1:])}"


def _build_pipeline(top: TomlTable, path: Path) -> PipelineFile:
    if path.suffix != FILE_SUFFIX:
        rule = f"the file's name must end with {FILE_SUFFIX}, for its store has the name of what is before"
        raise PipelineFileError(f"{rule}, got another")
    plugins = parse_plugins(top)
    declared = parse_stream(top, plugins)
    lookups = parse_lookups(top, path.parent, declared)
    stream = add_key_columns(declared, lookups)
    _check_lookup_columns(stream, lookups)
    mappers = parse_mappers(top, path.parent, stream, lookups)
    releases = parse_releases(top, stream, mappers)
    names = [release.name for release in releases]
    sinks = parse_sinks(top, names, path.parent, _find_reserved_paths(top, stream, path), plugins)
    engine = EngineSettings(*parse_engine(top, plugins, pan_private=stream.pan_private))
    blocks = build_blocks(declared, lookups, releases)
    settings = _parse_confirm(top), parse_server(top), engine
    return PipelineFile(path, stream, lookups, releases, sinks, blocks, *settings, mappers)


def _check_lookup_columns(stream: Stream, lookups: Mapping[str, Lookup]) -> None:
    """Reject a lookup whose columns SQL cannot distinguish from the stream's."""
    columns = {name.casefold() for name in stream.columns}
    for lookup in lookups.values():
        for column in lookup.columns:
            if f"{lookup.name}.{column}".casefold() in columns:
                raise build_rule_error(f"lookup.{lookup.name}", "a table whose columns are not the stream's", column)


def _find_reserved_paths(top: TomlTable, stream: Stream, path: Path) -> dict[str, Path]:
    """Return the paths that no sink may share."""
    named = {f"lookup.{name}": table["file"] for name, table in top.get_tables("lookup").items()}
    if stream.source_facts.is_path:
        named["the source"] = stream.source
    kind, _, key = (stream.key or "").partition(":")
    if kind == "file":
        named |= {"the key": key.strip(), "the rollback guard beside the key": key.strip() + ".guard"}
    own = {"the pipeline file": path, "the pipeline's folder": path.with_suffix(".streamgauge")}
    return {what: resolve_path(text, path.parent) for what, text in named.items()} | own


def _parse_confirm(top: TomlTable) -> tuple[str, ...]:
    """Return the keys still to be confirmed: keys of this file, each once."""
    listed = top.get_array("confirm", "keys of this file")
    known = dict.fromkeys(_list_keys("", top.entries), 1)
    for key in listed:
        left = known.get(key) if isinstance(key, str) else None
        if not left:
            rule = "an array of keys of this file" if left is None else "an array of different keys"
            raise build_rule_error("confirm", rule, key, known if left is None else ())
        known[key] = 0
    return tuple(listed)


def _list_keys(where: str, table: Mapping[str, Any]) -> Iterator[str]:
    """Return the paths of all keys. Those of a release begin with its name."""
    for key, value in table.items():
        path = join_key(where, key)
        yield path
        if isinstance(value, Mapping):
            yield from _list_keys(path, value)
        if path == "release":
            for release in value:
                yield from _list_keys(join_key(path, release["name"]), release)
