"""The pipeline file: TOML in, checked settings out, or one line that says what is wrong.

    clinic.toml: stream.tick must be a duration such as "5m", got "5 minits"

Promise
    `read_pipeline` returns a `PipelineFile` or raises `BadFile`, whatever the file holds; nothing of the
    stream is read, so that no refusal can tell of it. Numbers are exact: floats arrive as decimals.

What `streamgauge init` guessed is listed in `confirm` at the top of the file, by key. A person checks each
and deletes its line; until the list is empty the file can be planned, not run.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

from streamgauge.query.canonical import blocks_of
from streamgauge.query.formats import SENT, STANDARD
from streamgauge.query.lookups import lookups_of, with_keys
from streamgauge.query.paths import path_of
from streamgauge.query.release_tables import releases_of
from streamgauge.query.server_table import server_of
from streamgauge.query.settings import Lookup, PipelineFile, Stream
from streamgauge.query.sink_tables import sinks_of
from streamgauge.query.stream_table import stream_of
from streamgauge.query.toml_keys import BadFile, Table, joined, must, one_line

SUFFIX = ".toml"  # no two files with it share a store
TOP_KEYS = ("stream", "lookup", "release", "sink", "server", "confirm")
_PLACE = re.compile(r"(.*) \(at (?:line (\d+), column \d+|(end of document))\)", re.DOTALL)

__all__ = ["BadFile", "pipeline_of", "read_pipeline"]


def read_pipeline(path: Path) -> PipelineFile:
    """The pipeline that a file declares."""
    try:
        tables = _parsed(_text(path))
    except BadFile as bad:
        raise _of_file(path, bad) from None
    return pipeline_of(tables, path)


def pipeline_of(tables: Mapping[str, Any], path: Path) -> PipelineFile:
    """The pipeline that tables declare, as if they stood in a file at `path`."""
    try:
        return _checked(Table.of("", tables, TOP_KEYS), path)
    except BadFile as bad:
        raise _of_file(path, bad) from None


def _of_file(path: Path, bad: BadFile) -> BadFile:
    return BadFile(f"{one_line(path.name or str(path))}: {bad}")


def _text(path: Path) -> str:
    try:
        folder, file = path.is_dir(), path.is_file()
        data = path.read_bytes() if file else b""
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise BadFile("the file must be text in UTF-8, got other bytes") from None
    except (OSError, ValueError):
        raise BadFile("the file must be one that can be read, got another") from None
    if not file:
        raise BadFile(f"the file must be there, got {'a folder' if folder else 'nothing of that name'}")
    return text


def _parsed(text: str) -> dict[str, Any]:
    if not text.strip():
        raise BadFile("the file must have a [stream] table, got an empty file")
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        raise BadFile(_syntax(str(error))) from None
    except (ValueError, ArithmeticError):
        raise BadFile("the file must have numbers of bearable length, got others") from None
    except RecursionError:
        raise BadFile("the file must not be nested so deeply, got too many brackets") from None


def _syntax(message: str) -> str:
    """The parser's refusal, with its place in front.

    >>> _syntax("Expected '=' after a key in a key/value pair (at line 3, column 9)")
    "line 3 must be TOML: expected '=' after a key in a key/value pair"
    """
    match = _PLACE.fullmatch(message)
    if match is None:
        return f"the file must be TOML: {one_line(message)}"
    said, line, _ = match.groups()
    where = f"line {line}" if line else "the last line"
    return f"{where} must be TOML: {one_line(said[:1].lower() + said[1:])}"


def _checked(top: Table, path: Path) -> PipelineFile:
    if path.suffix != SUFFIX:
        rule = f"the file's name must end with {SUFFIX}, for its store has the name of what is before"
        raise BadFile(f"{rule}, got another")
    declared = stream_of(top)
    lookups = lookups_of(top, path.parent, declared)
    stream = with_keys(declared, lookups)
    _apart(stream, lookups)
    releases = releases_of(top, stream)
    sinks = sinks_of(top, [release.name for release in releases], path.parent, _taken(top, stream, path))
    blocks = blocks_of(declared, lookups, releases)
    return PipelineFile(path, stream, lookups, releases, sinks, blocks, _unconfirmed(top), server_of(top))


def _apart(stream: Stream, lookups: Mapping[str, Lookup]) -> None:
    """Refuses a lookup whose columns SQL could not tell from the stream's."""
    columns = {name.casefold() for name in stream.columns}
    for lookup in lookups.values():
        for column in lookup.columns:
            if f"{lookup.name}.{column}".casefold() in columns:
                raise must(f"lookup.{lookup.name}", "a table whose columns are not the stream's", column)


def _taken(top: Table, stream: Stream, path: Path) -> dict[str, Path]:
    """Where no sink may write."""
    named = {f"lookup.{name}": table["file"] for name, table in top.tables("lookup").items()}
    if stream.source not in (STANDARD, *SENT):
        named["the source"] = stream.source
    kind, _, key = (stream.key or "").partition(":")
    if kind == "file":
        named |= {"the key": key.strip(), "the witness beside the key": key.strip() + ".witness"}
    own = {"the pipeline file": path, "the pipeline's folder": path.with_suffix(".streamgauge")}
    return {what: path_of(text, path.parent) for what, text in named.items()} | own


def _unconfirmed(top: Table) -> tuple[str, ...]:
    """What is left to confirm: keys of this file, each once."""
    listed = top.array("confirm", "keys of this file")
    known = dict.fromkeys(_keys("", top.entries), 1)
    for key in listed:
        left = known.get(key) if isinstance(key, str) else None
        if not left:
            rule = "an array of keys of this file" if left is None else "an array of different keys"
            raise must("confirm", rule, key, known if left is None else ())
        known[key] = 0
    return tuple(listed)


def _keys(where: str, table: Mapping[str, Any]) -> Iterator[str]:
    """The paths of all keys; a release's begin with its name."""
    for key, value in table.items():
        path = joined(where, key)
        yield path
        if isinstance(value, Mapping):
            yield from _keys(path, value)
        if path == "release":
            for release in value:
                yield from _keys(joined(path, release["name"]), release)
