"""Batches of events as they are posted, made into JSON lines.

    application/json                      an object, or an array of objects
    application/x-ndjson                  lines, as they came
    application/vnd.apache.arrow.stream   Arrow's record batches (takes pyarrow)

**Privacy.** What is wrong with a batch as a whole (no JSON, no Arrow) refuses it before any of it is taken,
and is told to the curator who sent it. Records are not looked into here: each is cleaned or dropped later, by
rules that look at that record alone. An element of an array goes on as the very text that was sent, so that
the road of a record does not matter to what it means; outside of its strings JSON has no line ends but as
white space, so they become blanks and the text one line.
"""

import json
import re
from collections.abc import Callable, Mapping

from streamgauge.query.settings import Stream
from streamgauge.server.bodies import JSON, malformed, unsupported

LINES = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
RULE = "JSON in UTF-8"
BLANKS = re.compile(r"[ \t\r\n]*")
FLAT = str.maketrans("\r\n", "  ")


def lines_of(kind: str, body: bytes, stream: Stream, most: int) -> bytes:
    """The lines of a batch; at most `most` bytes of them where they are longer than what was sent."""
    if kind not in READERS:
        raise unsupported(*READERS)
    return READERS[kind](body, stream, most)


def _as_sent(body: bytes, stream: Stream, most: int) -> bytes:
    return body


def _of_json(body: bytes, stream: Stream, most: int) -> bytes:
    try:
        texts = _elements(body.decode())
    except (ValueError, RecursionError):
        raise malformed(RULE) from None
    return "".join(f"{text.translate(FLAT)}\n" for text in texts).encode()


def _elements(text: str) -> list[str]:
    """The texts of an array's elements, or the one text of anything else.

    >>> _elements(' [{"a": 1.50} , {"a": "]"}] ')
    ['{"a": 1.50}', '{"a": "]"}']
    """
    decode, at = json.JSONDecoder(parse_int=str).raw_decode, _after_blanks(text, 0)  # numbers of any length
    if not text.startswith("[", at):
        return [text[at : _ended(text, decode(text, at)[1])].rstrip()]
    found: list[str] = []
    at = _after_blanks(text, at + 1)
    if text.startswith("]", at):
        _ended(text, at + 1)
        return found
    while True:
        end = decode(text, at)[1]
        found.append(text[at:end])
        at = _after_blanks(text, end)
        if text.startswith("]", at):
            _ended(text, at + 1)
            return found
        if not text.startswith(",", at):
            raise ValueError
        at = _after_blanks(text, at + 1)


def _after_blanks(text: str, at: int) -> int:
    found = BLANKS.match(text, at)
    return at if found is None else found.end()


def _ended(text: str, at: int) -> int:
    """The same place, after which nothing may come."""
    if _after_blanks(text, at) != len(text):
        raise ValueError
    return at


def _of_arrow(body: bytes, stream: Stream, most: int) -> bytes:
    from streamgauge.server.arrow_batches import arrow_lines

    return arrow_lines(body, stream, most)


READERS: Mapping[str, Callable[[bytes, Stream, int], bytes]] = {
    JSON: _of_json,
    LINES: _as_sent,
    ARROW: _of_arrow,
}
