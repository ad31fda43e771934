"""What a hostile unit may send: records that no honest one has.

    out of bounds, absurd     numbers that must count as the bound
    the other end             of all bounds
    undeclared                a label that nobody declared, or one that is far too long
    null, missing             fields without a value, or not there; a record with no field at all
    of another type           a list where a number or a label should be; a number that is none (NaN)
    unreadable                torn, empty, or not UTF-8
    at another time           before the stream, in the next century, after all others
    of nobody                 a record without its user
    beyond bounds             a user with twice as many events

Each must count as its declarations say, or for nothing, and change nothing else that readers see.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from math import nan

from streamgauge.audit.candidate_records import kind_of
from streamgauge.audit.input_records import Input, Line
from streamgauge.audit.unit_inputs import Neighbours, beyond, other_end, rewritten, told, unit_of, with_bounds
from streamgauge.privacy import User
from streamgauge.query.settings import Column, Stream

FAR, ABSURD = 10.0, 1e290  # ranges beyond the bounds
CENTURY = 36525 * 86_400_000_000  # microseconds
UNKNOWN = "nobody declared this"
LONG = 300  # times that: longer than any text that is kept
ODD = ("another", "type")  # in JSON a list
RAW = {
    "that is torn": b'{"torn": "',
    "that is empty": b"",
    "that is no text": b'{"torn\xff\xfe": "',
    "without any field": b"{}",
}


def hostile(stream: Stream, ticks: int, line: Line, others: Input) -> Iterator[Neighbours]:
    """All pairs with one hostile unit; `line` is the dearest record."""
    yield from _out_of_bounds(stream, ticks, line)
    for name, odd in odd_records(stream, line):
        yield Neighbours(f"a record {name}, before others", (odd, *others), others)
    yield Neighbours("a record after all others", (*others, replace(line, tick=1)), others)
    if isinstance(stream.unit, User):
        twice = unit_of(stream, line, ticks, beyond=True)
        yield Neighbours("a user with twice as many events as allowed", twice, ())


def _out_of_bounds(stream: Stream, ticks: int, line: Line) -> Iterator[Neighbours]:
    turned = with_bounds(stream, line, other_end)
    if turned == line:
        return
    yield Neighbours(f"{told(stream, turned)}, alone", unit_of(stream, turned, ticks), ())
    for what, size in (("out of bounds", FAR), ("absurd", ABSURD)):
        wild = with_bounds(stream, line, partial(beyond, size))
        yield Neighbours(f"a unit whose numbers are {what}", unit_of(stream, wild, ticks), ())


def odd_records(stream: Stream, line: Line) -> Iterator[tuple[str, Line]]:
    """Records that are not as declared, each with a name; of Parquet, whose columns have types, fewer."""
    texts = [name for name, _ in line.columns if holds_text(stream.columns[name])]
    numbers = [name for name, _ in line.columns if stream.columns[name].kind == "number"]
    if texts:
        yield "of an undeclared label", rewritten(line, dict.fromkeys(texts, UNKNOWN))
        yield "of a label that is too long", rewritten(line, dict.fromkeys(texts, UNKNOWN * LONG))
    if line.columns:
        yield "whose fields are null", rewritten(line, dict.fromkeys(dict(line.columns)))
        yield "whose fields are missing", replace(line, columns=())
    if stream.user is not None:
        yield "of nobody", replace(line, user=None)
    yield "from before the stream", replace(line, tick=0)
    yield "from the next century", replace(line, at=CENTURY / stream.tick)
    if stream.format == "parquet":
        return
    if line.columns:
        yield "of other types", rewritten(line, dict.fromkeys(dict(line.columns), ODD))
    if numbers:
        yield "whose numbers are none", rewritten(line, dict.fromkeys(numbers, nan))
    yield from ((name, Line(line.tick, raw=raw)) for name, raw in RAW.items())


def holds_text(column: Column) -> bool:
    return column.kind == "text" and kind_of(column) != "hashed"
