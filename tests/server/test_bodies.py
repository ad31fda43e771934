"""Request bodies: bounded memory in every encoding, and strict JSON."""

import asyncio
import gzip
import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from streamgauge.server.http.bodies import decompress_body, read_body, read_json_object
from streamgauge.server.http.errors import HttpError

MOST = 1000


def request(parts: list[bytes | None], **headers: str) -> Request:
    """Return a request whose body arrives in parts. A part of None never arrives."""
    left = list(parts)

    async def receive() -> dict[str, Any]:
        part = left.pop(0)
        if part is None:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": part, "more_body": bool(left)}

    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": "POST", "headers": named}, receive)  # type: ignore[arg-type]


def refused(call: Any) -> HttpError:
    with pytest.raises(HttpError) as found:
        asyncio.run(call) if asyncio.iscoroutine(call) else call()
    return found.value


def test_body_in_parts_is_joined() -> None:
    assert asyncio.run(read_body(request([b"a" * 400, b"b" * 600]), MOST)) == b"a" * 400 + b"b" * 600


def test_body_with_too_long_content_length_is_not_read() -> None:
    assert refused(read_body(request([], content_length="1001"), MOST)).status == 413
    assert refused(read_body(request([], content_length="9" * 5000), MOST)).status == 413


def test_reading_stops_when_body_exceeds_limit() -> None:
    endless = request([b"a" * 600] * 1000)
    blocked: list[int] = []
    assert refused(read_body(endless, MOST, count_bytes=blocked.append)).status == 413
    assert blocked == [600]


def test_body_that_stalls_is_refused_after_timeout() -> None:
    assert refused(read_body(request([b"a", None]), MOST, seconds=0.01)).status == 408


def test_gzip_is_decompressed_up_to_the_limit() -> None:
    assert decompress_body(gzip.compress(b"a" * MOST), "gzip", MOST) == b"a" * MOST
    assert decompress_body(b"as it is", "", MOST) == decompress_body(b"as it is", "identity", MOST) == b"as it is"
    assert refused(lambda: decompress_body(gzip.compress(bytes(10**8)), "gzip", MOST)).status == 413


@pytest.mark.parametrize(
    "body",
    [b"", b"plain", gzip.compress(b"a" * 99)[:-1], gzip.compress(b"a") + b"b", gzip.compress(b"a") * 2],
    ids=["empty", "plain", "cut", "followed", "twice"],
)
def test_body_other_than_one_whole_gzip_is_refused(body: bytes) -> None:
    assert refused(lambda: decompress_body(body, "gzip", MOST)).status == 400


def test_other_encodings_are_refused() -> None:
    assert refused(lambda: decompress_body(b"", "br", MOST)).status == 415
    assert refused(lambda: decompress_body(b"", "gzip, gzip", MOST)).status == 415


JSON_TYPE = {"content_type": "application/json; charset=utf-8"}


def parsed(body: bytes) -> Any:
    return asyncio.run(read_json_object(request([body], **JSON_TYPE)))


def test_numbers_are_exact() -> None:
    assert str(parsed(b'{"epsilon": 0.1}')["epsilon"]) == "0.1"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"1",
        b'{"a": 1',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": 1, "a": 2}',
        b'{"a": "\xff"}',
        b'{"a": ' + b"[" * 30000,
        b'{"a": ' + b"1" * 5000 + b"}",
    ],
)
def test_invalid_json_object_is_refused_without_quoting_it(body: bytes) -> None:
    refusal = refused(read_json_object(request([body], **JSON_TYPE)))
    assert (refusal.status, refusal.message) == (400, "body must be a JSON object, got something else")


def test_json_needs_its_content_type() -> None:
    assert refused(read_json_object(request([b"{}"], content_type="text/plain"))).status == 415


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_refused(body: bytes) -> None:
    with suppress(HttpError):
        assert isinstance(parsed(body), dict)


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.booleans(), max_size=5))
def test_written_json_is_read_back(details: dict[str, Any]) -> None:
    assert parsed(json.dumps(details).encode()) == details
