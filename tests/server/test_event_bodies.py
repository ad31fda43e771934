"""Bodies of batches: each array element becomes one line with the text that was sent."""

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgauge.server.http.bodies import ARROW_TYPE, JSON_TYPE, NDJSON_TYPE, arrow_to_lines, to_lines
from streamgauge.server.http.errors import HttpError
from tests.support.people import clinic

STREAM = clinic(Path("/nowhere")).stream
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


def lines(body: bytes, kind: str = JSON_TYPE, most: int = 10**6) -> bytes:
    return to_lines(kind, body, STREAM, most)


def test_array_element_becomes_line_of_same_text() -> None:
    assert lines(b'[{"t": 1.50e3, "t": "\\u00e9"} ,{"a":[1, 2]}]') == (b'{"t": 1.50e3, "t": "\\u00e9"}\n{"a":[1, 2]}\n')


def test_object_with_line_breaks_becomes_one_line() -> None:
    assert lines(b'\r\n{\r\n "a": 1,\n "b": "x\\ny"}\n') == b'{   "a": 1,  "b": "x\\ny"}\n'


def test_number_of_any_length_stays_as_sent() -> None:
    """Its record is accepted or dropped alone, as on a separate line."""
    record = b'{"a": -%s}' % (b"9" * 5000)
    assert lines(record) == lines(record + b"\n", NDJSON_TYPE) == record + b"\n"
    assert lines(b'[{"a": 1}, %s]' % record) == b'{"a": 1}\n' + record + b"\n"


def test_an_empty_array_has_no_lines() -> None:
    assert lines(b" [ ] ") == b""


@given(st.lists(VALUES, max_size=6), st.sampled_from([None, 0, 2]), st.booleans())
def test_lines_equal_elements_of_the_array(values: list[Any], indent: int | None, escaped: bool) -> None:
    sent = json.dumps(values, indent=indent, ensure_ascii=escaped)
    found = lines(sent.encode(errors="surrogatepass")) if escaped else lines(json.dumps(values).encode())
    assert [json.loads(line) for line in found.split(b"\n")[:-1]] == values


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[", b"[1", b"[1,", b"[1,]", b"[,]", b"[1 2]", b"[1]]", b"[1] x", b"{} {}", b'{"a": 1', b"nul"),
        *(b'["\xff"]', b'["a\nb"]', b"[" * 100_000, b"\xef\xbb\xbf[]"),
    ],
)
def test_invalid_json_is_refused_without_quoting_it(body: bytes) -> None:
    with pytest.raises(HttpError, match=r"^body must be JSON in UTF-8, got something else$"):
        lines(body)


@given(st.binary(max_size=100))
def test_any_bytes_are_lines_or_refused(body: bytes) -> None:
    for kind in (JSON_TYPE, ARROW_TYPE):
        with suppress(HttpError):
            assert lines(body, kind).endswith(b"\n") or body.strip() == b"[]"


def test_ndjson_lines_stay_unchanged() -> None:
    assert lines(b'{"a": 1}\n\xff torn', NDJSON_TYPE) == b'{"a": 1}\n\xff torn'


def test_other_types_are_refused() -> None:
    with pytest.raises(HttpError, match="content type must be application/json or") as refusal:
        lines(b"a,b", "text/csv")
    assert refusal.value.status == 415


def sent(**columns: Any) -> bytes:
    batch = arrow.record_batch(columns)
    sink = arrow.BufferOutputStream()
    with arrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def test_arrow_becomes_lines_of_declared_columns() -> None:
    when = datetime(2026, 1, 5, 0, 0, 1, tzinfo=UTC)
    body = sent(ts=arrow.array([when, None]), region=["north", "south"], secret=[b"x", b"y"])
    assert [json.loads(line) for line in lines(body, ARROW_TYPE).splitlines()] == [
        {"ts": "2026-01-05T00:00:01+00:00", "region": "north"},
        {"ts": None, "region": "south"},
    ]


def test_arrow_times_are_numbers_if_time_format_is_numeric() -> None:
    when = arrow.array([1_500_000], arrow.timestamp("us", "UTC"))
    found = arrow_to_lines(sent(ts=when), replace(STREAM, time_format="epoch ms"), 10**6)
    assert json.loads(found) == {"ts": 1500}


def test_unreadable_arrow_time_becomes_null_and_changes_no_other() -> None:
    """The rule checks each value alone, so one record does not refuse its batch."""
    far, near = 2**60, 1_767_571_201
    kinds = {
        "s": (arrow.timestamp("s"), "2026-01-05T00:00:01"),
        "zone": (arrow.timestamp("s", "Nowhere/Else"), "2026-01-05T00:00:01+00:00"),
    }
    for kind, text in kinds.values():
        lines = arrow_to_lines(sent(region=arrow.array([near, far, None], kind)), STREAM, 10**6)
        assert [json.loads(line)["region"] for line in lines.splitlines()] == [text, None, None]
    days = arrow.array([20_458, 2**31 - 1], arrow.int32()).cast(arrow.date32())
    lines = arrow_to_lines(sent(region=days.dictionary_encode()), STREAM, 10**6)
    assert [json.loads(line)["region"] for line in lines.splitlines()] == ["2026-01-05", None]
    stream = replace(STREAM, time_format="epoch ns")
    lines = arrow_to_lines(sent(ts=arrow.array([near, far], arrow.timestamp("s"))), stream, 10**6)
    assert [json.loads(line)["ts"] for line in lines.splitlines()] == [near * 10**9, None]


def test_arrow_decimals_keep_all_digits() -> None:
    exact = arrow.array([Decimal("0.10"), Decimal("-1234567890123456789.01"), None], arrow.decimal128(30, 2))
    found = lines(sent(region=exact), ARROW_TYPE).splitlines()
    assert found == [b'{"region": 0.10}', b'{"region": -1234567890123456789.01}', b'{"region": null}']
    scaled = arrow.array([Decimal("5E+6")], arrow.decimal128(3, -6))
    assert json.loads(lines(sent(region=scaled), ARROW_TYPE)) == {"region": 5e6}


def test_numbers_texts_and_times_of_any_width_are_accepted() -> None:
    kinds = [arrow.int8(), arrow.uint64(), arrow.float16(), arrow.float32(), arrow.bool_(), arrow.string_view()]
    for kind in [*kinds, arrow.date32(), arrow.large_string(), arrow.null()]:
        assert json.loads(lines(sent(region=arrow.nulls(1, kind)), ARROW_TYPE)) == {"region": None}
    assert json.loads(lines(sent(region=arrow.array([1.5], arrow.float16())), ARROW_TYPE)) == {"region": 1.5}


@pytest.mark.parametrize(
    "kind", [arrow.binary(), arrow.list_(arrow.int8()), arrow.time64("us"), arrow.duration("s")], ids=str
)
def test_arrow_column_of_other_type_is_refused_by_name(kind: Any) -> None:
    with pytest.raises(HttpError, match=r"^column region must be of numbers") as refusal:
        lines(sent(ts=["2026-01-05T00:00:01Z"], region=arrow.nulls(1, kind)), ARROW_TYPE)
    assert refusal.value.status == 422
    assert refusal.value.message.endswith(f"got {kind}")


def test_too_deep_record_refuses_its_array() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    with pytest.raises(HttpError, match="body must be JSON"):
        lines(b'[{"ts": 1}, {"a": ' + deep + b"}]")
    assert lines(b'{"ts": 1}\n{"a": ' + deep + b"}\n", NDJSON_TYPE).startswith(b'{"ts": 1}\n')


def test_repeated_dictionary_values_are_refused_above_byte_limit() -> None:
    codes = arrow.array([0] * 5000, arrow.int32())
    body = sent(region=arrow.DictionaryArray.from_arrays(codes, arrow.array(["x" * 10_000])))
    assert len(body) < 100_000
    with pytest.raises(HttpError, match="at most 1000000 bytes") as refusal:
        lines(body, ARROW_TYPE)
    assert refusal.value.status == 413


def test_a_torn_arrow_stream_is_refused() -> None:
    body = sent(region=["north"] * 100)
    with pytest.raises(HttpError, match="body must be an Arrow stream"):
        lines(body[: len(body) // 2], ARROW_TYPE)
