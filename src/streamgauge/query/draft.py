"""The pipeline file that `streamgauge init` drafts: a beginning that can be read, planned and confirmed.

Privacy
    The text holds what was guessed from the data: values, bounds, first and last times. It is private until a
    person has checked it, and says so at its top; every guess is named in `confirm`, and `run` refuses the
    file until that list is empty.
"""

import os
import re
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

from streamgauge.query.durations import spelled
from streamgauge.query.formats import STANDARD, format_of
from streamgauge.query.guesses import Guess, guess
from streamgauge.query.instants import written
from streamgauge.query.sample import Sample, refusal, sample_of
from streamgauge.query.toml_keys import joined, one_line, quoted

TOP = """\
# A first pipeline for {source}, drafted by `streamgauge init`.
#
# PRIVATE until you have confirmed it: the keys below were guessed from the data itself, and what is read off
# the data tells of the people in it. Check that each could be public (better: replace it by what you knew
# before you saw the data), then delete its line. `streamgauge run` refuses this file until the list is empty.
confirm = [
{confirm}
]
"""

STREAM = """
[stream]
name = "{name}"
source = {source}
{format}arrival = "finished"
time = {time}
time_format = {time_format}
timezone = "UTC"{zone}
tick = {tick}
start = {start}
end = {end}    # of a sample: the source may go on
unit = "event"    # whom the promise is about
{user}budget = {{ epsilon = 1.0 }}    # what one unit may lose in all
# key = "file:~/keys/{name}.key"    # the store's key: never beside the data

# Only what is declared here is ever read.
[stream.columns]
"""

PERSON = """\
# unit = {{ user = {user}, max_events_per_tick = 1, max_ticks = 30 }}    # all that one of them does
"""

RELEASE = """
[[release]]
name = "{name}"
sql = {sql}
window = "{window}"
epsilon = 0.5
"""

SINK = """
[[sink]]
to = {to}
"""


def draft(source: Path, sample_lines: int = 10_000, folder: Path | None = None) -> str:
    """A pipeline file for a source, to stand in `folder` (beside the source, if it is not said)."""
    sample = sample_of(source, sample_lines)
    found = guess(sample)
    if found is None:
        raise refusal(source, "records with a column of times (ISO 8601, or since 1970 in a column named so)")
    path = os.path.relpath(source, source.parent if folder is None else folder)
    confirm = "\n".join(f"  {quoted(key)}," for key in _guessed(found))
    return "".join(
        (
            TOP.format(source=one_line(source.name), confirm=confirm),
            _stream(found, sample, path),
            *_columns(found),
            *_releases(found, _name(path)),
            SINK.format(to=quoted(_sink(path))),
        )
    )


def _guessed(found: Guess) -> Iterator[str]:
    """The keys that a person must check: all that came from the data, and the promise itself."""
    yield from (f"stream.{key}" for key in ("time", "time_format", "timezone", "tick", "start", "end"))
    yield from ("stream.unit", "stream.budget")
    for column in found.columns:
        yield joined(joined("stream.columns", column.name), column.key)


def _stream(found: Guess, sample: Sample, path: str) -> str:
    time = found.time
    return STREAM.format(
        name=_name(path),
        source=quoted(path),
        format="" if format_of(path) == sample.format else f"format = {quoted(sample.format)}\n",
        time=quoted(time.name),
        time_format=quoted(time.format),
        zone="    # of the times that name none" if time.naive else "",
        tick=quoted(spelled(time.tick)),
        start=quoted(written(time.start)),
        end=quoted(written(time.end)),
        user=PERSON.format(user=quoted(found.user)) if found.user else "",
    )


def _columns(found: Guess) -> Iterator[str]:
    for column in found.columns:
        items = ", ".join(_written(item) for item in column.items)
        yield f"{joined('', column.name)} = {{ {column.key} = [{items}] }}\n"
    for name in found.left_out:
        yield f"# {joined('', name)} = {{ values = [...] }}    # or bounds, hashed, max_groups, type\n"


def _written(item: str | bool | Fraction) -> str:
    if isinstance(item, str):
        return quoted(item)
    if isinstance(item, bool):
        return str(item).lower()
    with localcontext(prec=300):
        return format(Decimal(item.numerator) / Decimal(item.denominator), "f")


def _releases(found: Guess, stream: str) -> Iterator[str]:
    """Counts by group, and averages of a number; where there is none, the events of every tick."""
    group = next((_identifier(column.name) for column in found.columns if column.key == "values"), "")
    number = next((_identifier(column.name) for column in found.columns if column.key == "bounds"), "")
    first, by = (f"{group}, ", f" GROUP BY {group}") if group else ("", "")
    counts = quoted(f"SELECT {first}COUNT(*) FROM {stream}{by}")
    yield RELEASE.format(name="counts", sql=counts, window="running")
    if number:
        averages = quoted(f"SELECT {first}AVG({number}) FROM {stream}{by}")
        yield RELEASE.format(name="averages", sql=averages, window="running")
    else:
        yield RELEASE.format(name="each_tick", sql=quoted(f"SELECT COUNT(*) FROM {stream}"), window="each")


def _identifier(name: str) -> str:
    """A column's name in SQL, quoted where it is no plain word, or one of the language's."""
    from sqlglot.dialects.duckdb import DuckDB

    plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) and name.upper() not in DuckDB.Tokenizer.KEYWORDS
    return name if plain else f'"{name}"'


def _name(path: str) -> str:
    """The stream's name, after its file."""
    stem = re.sub(r"[^A-Za-z0-9_]+", "_", Path(path).name.split(".")[0])[:90].strip("_")
    name = stem if re.match(r"[A-Za-z_]", stem) else f"stream_{stem}".rstrip("_")
    return name if _identifier(name) == name else f"{name}_stream"


def _sink(path: str) -> str:
    """A file that is not the source, nor within it where the draft is."""
    if all(part == ".." for part in Path(path).parts):
        return STANDARD
    return "releases.jsonl" if path != "releases.jsonl" else "released.jsonl"
