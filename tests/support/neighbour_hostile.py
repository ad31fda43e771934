"""Hostile records, as bytes, by the name of their defect.

A hostile record that has a time lies in tick 4.
"""

from collections.abc import Iterator
from itertools import islice

from tests.support.neighbour_streams import FIELDS, HEADER, TICKS, VICTIM, csv_line, json_line, without

LONGEST = 2**20  # bytes of a record
MARK = b"\xef\xbb\xbf"

TIMES = {
    "year 2099": "2099-01-01T00:00:00Z",
    "year 1": "0001-01-01T00:00:00Z",
    "the end of time": "294247-01-10T04:00:54.775806Z",
    "beyond time": "999999-01-01T00:00:00Z",
    "infinity": "infinity",
    "now": "now",
    "a zone": "2026-01-05 03:20:00 America/New_York",
    "a wild offset": "2026-01-05T03:20:00+99:99",
    "a leap second": "2026-01-05T03:59:60Z",
    "the last moment": "2026-01-05T07:59:59.999999999Z",
    "one too late": "2026-01-05T08:00:00Z",
    "one too early": "2026-01-04T23:59:59.999999Z",
    "endless digits": f"2026-01-05T03:20:00.{'1' * 1000}Z",
}
VALUES = (  # as JSON
    *("NaN", '"NaN"', "Infinity", '"-Infinity"', "1e300", "-1e300", "1e400", '"1e400"', "9" * 400, "true"),
    *("[1, 2]", '{"a": {"b": [1]}}', '"zzz"', "12345", "1e-320", "9223372036854775808", '""', '"a\\u0000b"'),
    *('"\\ud800"', '"\\r\\n"', '"0x10"', '" 37 "', "null"),
)
CELLS = (  # as CSV
    *(b"NaN", b"-inf", b"1e300", b"1e400", b"[1,2]", b"zzz", b"9" * 400, b"", b'""', b'"', b'"a', b'a"b'),
    *(b'"a"b', b'"a""', b'"a"""', b"\x00", b'\\"', b' "a"', b'"a" ', b"a\x01b", b"\xff", b'"a\rb"', MARK),
    b'",' * 99,
)


def with_value(field: str, text: str) -> bytes:
    """The victim's line with some text in place of a value."""
    rest = {name: value for name, value in VICTIM.items() if name != field}
    return json_line(rest)[:-1] + f', "{field}": {text}}}'.encode()


def with_field(field: str, text: bytes) -> bytes:
    """The same for CSV, with no quotes added."""
    cells = csv_line(VICTIM).split(b",")
    cells[FIELDS.index(field)] = text
    return b",".join(cells)


def as_long_as(line: bytes, length: int) -> bytes:
    """The line, with a note that makes it so long."""
    return line.replace(b"@@", b"y" * (length - len(line) + 2))


def broken_lines(plain: bytes, with_note: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield lines that are invalid in any format; `with_note` has the note @@."""
    yield "as long as can be", as_long_as(with_note, LONGEST)
    yield "as long as can be, CR LF", as_long_as(with_note, LONGEST) + b"\r"
    yield "one byte too long", as_long_as(with_note, LONGEST + 1)
    yield "a note of 1 MB", as_long_as(with_note, 10**6)
    yield "2 MB", as_long_as(with_note, 2**21)
    yield "invalid UTF-8", with_note.replace(b"@@", b"\xff\xfe\xc3\x28")
    yield "overlong UTF-8", with_note.replace(b"@@", b"\xc0\xaf")
    yield "UTF-16", plain.decode().encode("utf-16")
    yield "a bare CR", with_note.replace(b"@@", b"a\rb")
    yield "two records by CR", plain + b"\r" + plain
    yield "CR LF", plain + b"\r"
    yield "nothing but CR", b"\r"
    yield "NUL", with_note.replace(b"@@", b"a\x00b")
    yield "nothing but NUL", b"\x00"
    yield "0x01 first", b"\x01" + plain
    yield "many 0x01", b"\x01" * 1000
    yield "an empty line", b""
    yield "a stray quote", b'"'
    yield "half a line", plain[: len(plain) // 2]
    yield "the other half", plain[len(plain) // 2 :]
    yield "line separators", with_note.replace(b"@@", "\u2028\u2029\x85\x0b\x0c".encode())


def json_hostile() -> Iterator[tuple[str, bytes]]:
    plain, with_note = json_line(VICTIM), json_line(VICTIM | {"note": "@@"})
    yield "a plain visit", plain
    yield from broken_lines(plain, with_note)
    yield from ((f"ts: {name}", json_line(VICTIM | {"ts": time})) for name, time in TIMES.items())
    yield from ((f"no {field}", json_line(without(VICTIM, field))) for field in FIELDS[:5])
    yield "a mark first", MARK + plain
    yield "nothing but a mark", MARK
    yield "unbalanced quotes", plain.replace(b'"region"', b'"region')
    yield "an array", b"[" + plain + b"]"
    yield "two objects", plain + plain
    yield "null", b"null"
    yield "an empty object", b"{}"
    yield "deep arrays", b"[" * 10**5 + b"]" * 10**5
    yield "a deep note", with_value("note", "[" * 10**5 + "]" * 10**5)
    yield "a deep time", with_value("ts", '{"a":' * 10**5 + "1" + "}" * 10**5)
    yield "a number of 1 MB", with_value("amount", "9" * 10**6)
    yield "a patient of 1 MB", json_line(VICTIM | {"patient": "x" * 10**6})
    yield "names that come twice", plain[:-1] + b', "ts": "2026-01-05T05:00:00Z", "amount": 1e308}'
    yield "many names", json_line({f"k{i}": i for i in range(20_000)} | VICTIM)


def json_values() -> Iterator[tuple[str, bytes]]:
    """Every kind of wrong value in every column."""
    for field in FIELDS:
        for text in VALUES:
            yield f"{field}: {text[:20]}", with_value(field, text)


def csv_hostile() -> Iterator[tuple[str, bytes]]:
    plain, with_note = csv_line(VICTIM), csv_line(VICTIM | {"note": "@@"})
    yield "a plain visit", plain
    yield from islice(broken_lines(plain, with_note), None, None, 2)
    yield "year 2099", csv_line(VICTIM | {"ts": TIMES["year 2099"]})
    yield "the header again", HEADER
    yield "too few", plain[:30]
    yield "too many", plain + b",a" * 1000
    yield "commas", b"," * 100
    yield "an open quote at the end", plain + b',"'
    yield "an open quote at the beginning", b'"' + plain
    yield "quotes of 1 MB", with_note.replace(b"@@", b'"' + b'""' * 499_000 + b'"')
    yield "an open quote of 1 MB", with_note.replace(b"@@", b'"' + b"x" * 10**6)
    yield "semicolons", plain.replace(b",", b";")


def csv_values() -> Iterator[tuple[str, bytes]]:
    for field in FIELDS:
        for text in CELLS:
            yield f"{field}: {text[:20]!r}", with_field(field, text)


def at_each_tick(lines: list[bytes], ticks: int) -> Iterator[list[bytes]]:
    """Lines of the victim, as many at once as there are ticks, each moved to a tick of its own."""
    minutes = TICKS * 60 // ticks
    times = [f"2026-01-05T{at // 60:02d}:{at % 60:02d}:01Z".encode() for at in range(0, TICKS * 60, minutes)]
    for begin in range(0, len(lines), ticks):
        some = lines[begin : begin + ticks]
        yield [line.replace(VICTIM["ts"].encode(), time) for line, time in zip(some, times, strict=False)]
