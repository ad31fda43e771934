"""Records that carry marks, and every form in which a mark might be found on a disk.

All texts of a record contain the mark of their column, and in one the mark is all there is, so that its hash
would be found, too. One number is rare: alone in a release of its own, it is the exact sum of a tick. No word
is frequent enough to be published.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

TEXTS = {
    "who": "ZephyrineQuill8c1f",
    "note": "OssifrageVellum52d9",
    "badge": "CalliopeNimbus7be3",
    "word": "TamarackSolstice04aa",
    "bad": "PelagicThimble9f60",
}
NUMBER = 271828.182845
STEP = 2  # of the grid on which so wide a range is summed up
HASHES = ("md5", "sha1", "sha256", "sha512", "sha3_256", "blake2b", "blake2s")
DECLARED = f"""
[stream.columns]
x = {{ bounds = [-1000000, 1000000] }}
note = {{ type = "text" }}
badge = {{ hash_cells = 65536 }}
word = {{ max_groups = 5 }}
who = {{ type = "text" }}

[[release]]
name = "rare"
sql = "SELECT SUM(x), COUNT(*) FROM v WHERE note = 'alone'"
epsilon = 1

[[release]]
name = "noted"
sql = "SELECT COUNT(*), AVG(x) FROM v WHERE note LIKE '{TEXTS["note"][:3]}%'"
window = "each"
epsilon = 1

[[sink]]
to = "out.jsonl"
"""
OF_EVENTS = """
[[release]]
name = "words"
sql = "SELECT word, COUNT(*) FROM v GROUP BY word"
epsilon = 1
delta = 1e-7

[[release]]
name = "badges"
sql = "SELECT COUNT(DISTINCT badge) FROM v"
epsilon = 1
"""


def records(start: float, seconds: float, count: int) -> Iterator[str]:
    """Yield lines: a number without an object, a line that is no record, and `count` records over some seconds."""
    who, note, badge, word, bad = TEXTS.values()
    yield json.dumps({"ts": start + seconds / 3, "x": NUMBER, "note": "alone", "who": "somebody"})
    yield f"{bad} is no record"
    yield json.dumps({"ts": bad, "note": note})
    for number in range(count):
        own = f"-{number}" if number else ""
        yield (
            f'{{"ts": {start + seconds * number / count:.6f}, "x": 7, "who": "{who}{own}", '
            f'"note": "{note}{own}", "badge": "{badge}{own}", "word": "{word}{own * 12}"}}'
        )
    yield json.dumps({"ts": start + seconds / 2, "note": bad + "y" * 2**20})


def write(path: Path, lines: Iterator[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def found(contents: Mapping[str, bytes]) -> set[tuple[str, str]]:
    """Return the marks that occur in each file, in any encoding."""
    return {(name, mark) for name, data in contents.items() for mark in marks_in(data)}


def marks_in(data: bytes) -> set[str]:
    """Return the marks in the data. All forms are slow to compare, so only those whose first four bytes occur are."""
    known, seen = beginnings(), set()
    for odd in (0, 1):
        pairs = np.frombuffer(data, "<u2", count=max(0, len(data) - odd) // 2, offset=min(odd, len(data)))
        near = np.flatnonzero(first_pairs()[pairs[:-1]])
        fours = pairs[near] + (pairs[near + 1].astype(np.int64) << 16)
        begun = np.isin(fours, list(known))
        for place, four in zip(near[begun].tolist(), fours[begun].tolist(), strict=True):
            at = 2 * place + odd
            seen |= {mark for mark, form in known[four] if data.startswith(form, at - zeros(form))}
    return seen


@cache
def first_pairs() -> "np.ndarray[Any, np.dtype[np.bool_]]":
    """Return the pairs of bytes that begin a form."""
    return np.isin(np.arange(2**16), [four % 2**16 for four in beginnings()])


@cache
def beginnings() -> dict[int, list[tuple[str, bytes]]]:
    """Marks and forms by the first four octets of a form, after its zeros."""
    known: dict[int, list[tuple[str, bytes]]] = {}
    for mark, form in ((mark, form) for mark, forms in all_forms().items() for form in forms):
        begin = form[zeros(form) : zeros(form) + 4]
        assert len(begin) == 4, "a form must have four octets"
        known.setdefault(int.from_bytes(begin, "little"), []).append((mark, form))
    return known


@cache
def zeros(form: bytes) -> int:
    """Return the number of leading zeros: whole pages begin with them."""
    return len(form) - len(form.lstrip(b"\0"))


@cache
def all_forms() -> dict[str, tuple[bytes, ...]]:
    forms = {column: tuple(of_text(mark)) for column, mark in TEXTS.items()}
    return forms | {"x": tuple(of_number(NUMBER))}


def of_text(mark: str) -> Iterator[bytes]:
    plain = mark.encode()
    for written in (plain, mark.encode("utf-16-le"), plain[::-1]):
        yield from (written, *in_hex(written), *in_base64(written))
    for digest in (hashlib.new(name, plain).digest() for name in HASHES):
        yield from (digest[:8], *in_hex(digest[:8]), *in_base64(digest[:12]))
    with duckdb.connect() as engine:
        (hashed,) = engine.execute("SELECT hash(?)", [mark]).fetchall()[0]
    yield from (struct.pack("<Q", hashed), struct.pack(">Q", hashed), str(hashed).encode(), b"%x" % hashed)


def of_number(number: float) -> Iterator[bytes]:
    """Yield a number as text, as a float, and on its grid with the preceding 0 or 1, since it is short there."""
    yield from (str(number).encode(), str(number).encode("utf-16-le"))
    yield from (struct.pack(f"{order}d", number) for order in "<>")
    yield from (struct.pack("<qq", before, round(number / STEP)) for before in (0, 1))


def in_hex(data: bytes) -> list[bytes]:
    return [data.hex().encode(), data.hex().upper().encode()]


def in_base64(data: bytes) -> Iterator[bytes]:
    """Yield the encoding at each of three offsets, without characters that depend on its neighbours."""
    for before in range(3):
        encoded = base64.b64encode(bytes(before) + data)
        yield encoded[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
