"""Bodies of requests: read up to a bound and a time, unpacked up to the same bound, parsed strictly.

**Promise.** No more than the bound is ever held of one body, however it is sent or packed; a client that
sends it drop by drop is let go.
"""

import asyncio
import json
import zlib
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from starlette.requests import Request

from streamgauge.server.errors import HttpRefusal
from streamgauge.server.limits import BODY_SECONDS, too_large

SMALL = 2**16  # bytes of a body that asks for something
JSON = "application/json"
GZIP = 16 + zlib.MAX_WBITS


def no_hold(size: int) -> None:
    """Nobody counts."""


def media_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def unsupported(*known: str) -> HttpRefusal:
    return HttpRefusal(415, "media_type", f"content type must be {' or '.join(known)}, got another")


def malformed(rule: str) -> HttpRefusal:
    return HttpRefusal(400, "malformed", f"body must be {rule}, got something else")


async def whole_body(
    request: Request,
    most: int,
    *,
    seconds: float = BODY_SECONDS,
    hold: Callable[[int], None] = no_hold,
) -> bytes:
    """The body as it was sent."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told[:20]) > most:
        raise too_large(most)
    try:
        async with asyncio.timeout(seconds):
            return await _taken(request, most, hold)
    except TimeoutError:
        rule = f"body must be sent within {seconds:g} s, got a part of it"
        raise HttpRefusal(408, "slow", rule, {"Connection": "close"}) from None


async def _taken(request: Request, most: int, hold: Callable[[int], None]) -> bytes:
    parts, length = [], 0
    async for part in request.stream():
        length += len(part)
        if length > most:
            raise too_large(most)
        hold(len(part))
        parts.append(part)
    return b"".join(parts)


def unpacked(body: bytes, encoding: str, most: int) -> bytes:
    """What was packed, by its content encoding."""
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding != "gzip":
        raise HttpRefusal(415, "encoding", "content encoding must be gzip or left out, got another")
    inflater = zlib.decompressobj(GZIP)
    try:
        found = inflater.decompress(body, most + 1)
    except zlib.error:
        raise malformed("in the encoding that it tells") from None
    if len(found) > most:
        raise too_large(most)
    if not inflater.eof or inflater.unused_data:
        raise malformed("whole, and nothing more, in the encoding that it tells")
    return found


async def json_object(request: Request, *, most: int = SMALL) -> dict[str, Any]:
    """A body that is one JSON object; its numbers are exact, and no key comes twice."""
    if media_type(request) != JSON:
        raise unsupported(JSON)
    body = await whole_body(request, most)
    try:
        found = json.loads(
            body, parse_float=Decimal, parse_constant=_no_constant, object_pairs_hook=_distinct
        )
    except (ValueError, RecursionError):
        raise malformed("a JSON object") from None
    if not isinstance(found, dict):
        raise malformed("a JSON object")
    return found


def _no_constant(word: str) -> None:
    raise ValueError


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found
