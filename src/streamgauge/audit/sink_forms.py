"""What a sink has, taken apart: the numbers that were measured, and all other bytes.

    {"release":"fever","tick":1,...,"count":{"value":12.0,...},"chain":"2:9f86...:58c3..."}
    {"release":"fever","tick":1,...,"count":{"value":0,...},"chain":"2:16:8"}                   its text

The text of a sink is all of it but the five numbers of each measure and the digits of chains and owners,
which are hashes of what was published and of nothing else; how many digits they have stays. So order, names,
times, white space and quotes are in the text, and must be the same whatever the data are. How a number is
written is looked at by itself (`oddities`): it must be the shortest text that means it.

Wide CSV is read by its header: a measure has five columns in a row. The text of a row names each of its
cells, so that the label of a copy can be removed from it as from JSON.
"""

import csv
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamgauge.audit.file_copies import Group
from streamgauge.noise.numbers import Floats
from streamgauge.query.formats import STANDARD
from streamgauge.query.settings import SinkSettings
from streamgauge.query.shapes import ENDINGS

PARTS = ("value", "stddev", "low", "high", "enough")
JSONL = re.compile(b",".join(b'"%s":([^,{}]*)' % part.encode() for part in PARTS))
CSV = re.compile(rb",([^,\n]*),([^,\n]*),([^,\n]*),([^,\n]*),(true|false)(?=,)")
BLANKS = {"jsonl": b",".join(b'"%s":0' % part.encode() for part in PARTS), "csv": b",0,0,0,0,0"}
TOKENS = {"jsonl": JSONL, "csv": CSV}
STAMP = re.compile(rb"\b(\d+):([0-9a-f]{16,})(?::([0-9a-f]{8,}))?")
FIELD = re.compile(rb'(?:^|,)("(?:[^"]|"")*"[^,]*|[^,]*)')  # a raw field of a CSV line
TIMES = ("release", "tick", "start", "end")
WORDS = {b"": b"nan", b"null": b"nan", b"true": b"1", b"false": b"0"}


class Row(NamedTuple):
    """One line, or one row of a table."""

    release: str
    tick: int
    group: Group
    measures: tuple[str, ...]
    text: bytes


@dataclass(frozen=True, eq=False)
class Found:
    """A sink that was taken apart."""

    form: str
    text: bytes
    numbers: Floats = field(repr=False)  # (measures of all rows in turn, five)
    tokens: Sequence[bytes] = field(default=(), repr=False)  # as they were written

    def rows(self) -> tuple[list[Row], bytes]:
        """All rows in order, and what is none."""
        return READERS[self.form](self.text)

    def oddities(self) -> list[str]:
        """Numbers that are not written as they should be: which, and how."""
        written = enumerate(zip(self.tokens, self.numbers.ravel().tolist(), strict=False))  # Parquet has none
        return [f"{place}: {shape(token)}" for place, (token, number) in written if not usual(token, number)]


def usual(token: bytes, number: float) -> bool:
    return token in WORDS or token == repr(number).encode()


def shape(token: bytes) -> str:
    """How a number is written, whichever it is: its digits after the point, and all that is no digit.

    >>> shape(b" 12.500"), shape(b"-3e+07")
    (' 0.ddd', '0e+0')
    """
    plain = re.sub(rb"\.\d+", lambda found: b"." + b"d" * (len(found[0]) - 1), token.replace(b"-", b""))
    return re.sub(rb"\d+", b"0", plain).decode(errors="replace")


def taken_apart(sink: SinkSettings, where: Path, printed: bytes) -> Found:
    """A file, a folder of parts, or what was printed."""
    if sink.format == "parquet":
        return of_parquet(where)
    data = printed if sink.to == STANDARD else where.read_bytes() if where.exists() else b""
    if sink.format == "csv" and sink.shape == "wide":
        return of_wide(data)
    pieces = TOKENS[sink.format].split(data)
    step = len(PARTS) + 1
    tokens = [token for place, token in enumerate(pieces) if place % step]
    text = BLANKS[sink.format].join(pieces[::step])
    return Found(sink.format, unstamped(text), numbers_of(tokens), tokens)


def of_wide(data: bytes) -> Found:
    """Split wide CSV into its numbers and its text; the header says which cells are numbers."""
    header, *rest = data.split(b"\n")
    firsts = [first for first, _ in measures_in(names_in(header))]
    tokens, lines = [], [header]
    for line in rest:
        cells = FIELD.findall(line)
        for first in firsts:
            if first + len(PARTS) <= len(cells) and cells[first + len(PARTS) - 1] in (b"true", b"false"):
                tokens += cells[first : first + len(PARTS)]
                cells[first : first + len(PARTS)] = [b"0"] * len(PARTS)
        lines.append(b",".join(cells))
    return Found("wide", unstamped(b"\n".join(lines)), numbers_of(tokens), tokens)


def names_in(header: bytes) -> list[str]:
    """Return the column names of a header."""
    return next(csv.reader([header.decode(errors="replace")]), [])


def measures_in(names: Sequence[str]) -> list[tuple[int, str]]:
    """Return where each measure begins in a wide header, and its name."""
    found = []
    for first, name in enumerate(names):
        if tuple(names[first : first + len(PARTS)]) == tuple(name + ending for ending in ENDINGS):
            found.append((first, name))
    return found


def _wide(text: bytes) -> tuple[list[Row], bytes]:
    header, _, rest = text.partition(b"\n")
    names = names_in(header)
    found, others = _lines(rest, lambda line: _wide_row(names, line))
    return found, header + b"\n" + others


def _wide_row(names: Sequence[str], line: bytes) -> Row:
    """Return a line as a row; its group has the level, if there is one, as its last pair."""
    cells, measures = FIELD.findall(line), measures_in(names)
    plain = next(csv.reader([line.decode()], strict=True))
    told = dict(zip(names, plain, strict=True))
    keys = range(len(TIMES), min(first for first, _ in measures))
    group = [(names[key], label_in(plain[key])) for key in keys if cells[key]]
    own = tuple(name for first, name in measures if cells[first : first + len(PARTS)] == [b"0"] * len(PARTS))
    text = b",".join(b'"%s":"%s"' % (name.encode(), cell) for name, cell in zip(names, cells, strict=True))
    ordered = tuple(sorted(group, key=lambda pair: pair[0] == "level"))
    return Row(told["release"], int(told["tick"]), ordered, own, text)


def label_in(cell: str) -> str:
    """Return the text of a label; a cell that begins with a quotation mark is JSON."""
    return str(json.loads(cell)) if cell.startswith('"') else cell


def unstamped(text: bytes) -> bytes:
    """All rows of a write have its stamp, so there are few."""
    place = 0
    while stamp := STAMP.search(text, place):
        place, text = stamp.start() + 1, text.replace(stamp[0], _digits(stamp))
    return text


def _digits(stamp: re.Match[bytes]) -> bytes:
    return b":".join([stamp[1], *(b"%d" % len(part) for part in stamp.groups()[1:] if part)])


def numbers_of(tokens: Sequence[bytes]) -> Floats:
    """What is no number is NaN."""
    plain = [WORDS.get(token, token) for token in tokens]
    try:
        numbers = np.array(plain or [b"0"], np.bytes_).astype(np.float64)[: len(plain)]
    except ValueError:
        numbers = np.array([_number(token) for token in plain], np.float64)
    return numbers.reshape(-1, len(PARTS))


def _number(token: bytes) -> float:
    try:
        return float(token)
    except ValueError:
        return float("nan")


def _lines(text: bytes, opened: Callable[[bytes], Row]) -> tuple[list[Row], bytes]:
    """Lines that can be read, and all others."""
    rows, rest = [], []
    for line in text.split(b"\n"):
        try:
            rows.append(opened(line))
        except (ValueError, LookupError, TypeError, AttributeError):
            rest.append(line)
    return rows, b"\n".join(rest)


def _jsonl(line: bytes) -> Row:
    told = json.loads(line)
    measures = tuple(name for name, value in told.items() if _is_measure(value) and name != "group")
    return Row(told["release"], told["tick"], tuple(told["group"].items()), measures, line)


def _is_measure(value: Any) -> bool:
    return type(value) is dict and tuple(value)[: len(PARTS)] == PARTS


def _csv(line: bytes) -> Row:
    release, tick, _, _, _, group, measure, *told = next(csv.reader([line.decode()], strict=True))
    measures = (measure,) if told[: len(PARTS)] == ["0"] * len(PARTS) else ()
    return Row(release, int(tick), tuple(json.loads(group).items()), measures, line)


def of_parquet(folder: Path) -> Found:
    """The rows of all parts; what else these say of themselves is text."""
    import duckdb

    if not any(folder.glob("*.parquet")):
        return Found("parquet", b"", numbers_of(()))
    parts = f"{folder}/*.parquet"
    with duckdb.connect(":memory:", config={"temp_directory": ""}) as engine:
        engine.execute("SET TimeZone = 'UTC'")
        asked = (
            "SELECT num_rows, num_row_groups, format_version FROM parquet_file_metadata(?)",
            "SELECT key, value FROM parquet_kv_metadata(?)",
            "DESCRIBE FROM read_parquet(?)",
        )
        about = [engine.execute(each, [parts]).fetchall() for each in asked]
        numbers = engine.execute(f"SELECT {', '.join(PARTS)} FROM read_parquet(?)", [parts]).fetchall()
        others = f"SELECT COLUMNS(* EXCLUDE ({', '.join(PARTS)}))::VARCHAR FROM read_parquet(?)"
        rest = engine.execute(others, [parts])
        names = [each[0] for each in rest.description or ()]
        rows = [json.dumps(dict(zip(names, row, strict=True))) for row in rest.fetchall()]
    text = "\n".join([repr(about), *rows]).encode()
    return Found("parquet", unstamped(text), np.array(numbers, np.float64))


def _parquet(line: bytes) -> Row:
    told = json.loads(line)
    group = tuple(json.loads(told["group"]).items())
    return Row(told["release"], int(told["tick"]), group, (told["measure"],), line)


def _reader(opened: Callable[[bytes], Row]) -> Callable[[bytes], tuple[list[Row], bytes]]:
    return lambda text: _lines(text, opened)


READERS = {"jsonl": _reader(_jsonl), "csv": _reader(_csv), "parquet": _reader(_parquet), "wide": _wide}
