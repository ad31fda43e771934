"""Arrow streams that ask for much memory: refused before it is allocated, and columns that are read."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pytest

from streamgauge.server.http import bodies as arrow_batches
from streamgauge.server.http.arrow_sizes import check_sizes
from streamgauge.server.http.bodies import ARROW_TYPE, arrow_to_lines
from streamgauge.server.http.errors import HttpError
from tests.support import ROOT, arrow_bodies
from tests.support.arrow_bodies import MOST, REGION, repeated, schema, stream, views
from tests.support.people import VISIT, House, clinic

DECLARED = clinic(Path("/nowhere")).stream
BODIES = arrow_bodies.bodies()


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int | None, int]]:
    """Status and peak allocation of pyarrow for every body, measured in a separate process."""
    folder = tmp_path_factory.mktemp("bodies")
    for number, (body, _) in enumerate(BODIES.values()):
        (folder / f"{number:03}").write_bytes(body)
    found = subprocess.run(
        [sys.executable, "-m", "tests.support.arrow_bodies", folder],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    lines = [json.loads(line) for line in found.stdout.splitlines()]
    names = list(BODIES)
    return {names[int(number)]: (status, peak) for number, status, peak in lines}


@pytest.mark.parametrize("name", BODIES)
def test_hostile_body_is_refused_with_bounded_memory(measured: dict[str, tuple[int | None, int]], name: str) -> None:
    status, peak = measured[name]
    assert status == BODIES[name][1]
    assert peak <= 4 * MOST


def test_hostile_bodies_are_small() -> None:
    """So no body is refused for its own length."""
    assert max(len(body) for body, _ in BODIES.values()) < 2 * MOST
    assert min(len(body) for body, status in BODIES.values() if status == 413) < 300


@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
@pytest.mark.parametrize(
    "column",
    [
        arrow.array(["north", None, "south"]),
        arrow.array(["north", None, "south"]).dictionary_encode(),
        arrow.array(["north", None, "south"], arrow.large_string()),
        arrow.array(["north", None, "south"], arrow.string_view()),
        arrow.DictionaryArray.from_arrays(
            arrow.array([0, None, 1], arrow.int8()), arrow.array(["north", "south"], arrow.string_view())
        ),
    ],
    ids=lambda column: str(column.type),
)
def test_texts_of_every_kind_are_read(column: Any, compression: str | None) -> None:
    other = ("other", arrow.array([[1], [2], [3]]))
    body = stream(other, (REGION, column), compression=compression)
    lines = arrow_to_lines(body, DECLARED, MOST).splitlines()
    assert [json.loads(line) for line in lines] == [{"region": "north"}, {"region": None}, {"region": "south"}]


@pytest.mark.parametrize("column", [repeated("y" * 50_000, 20), views("y" * 50_000, 20)], ids=["dictionary", "views"])
def test_long_texts_are_read_a_few_rows_at_a_time(column: Any) -> None:
    lines = arrow_to_lines(stream((REGION, column)), DECLARED, 2 * MOST).splitlines()
    assert [len(json.loads(line)["region"]) for line in lines] == [50_000] * 20


def test_dictionary_of_many_batches_is_validated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    measure, dictionaries = arrow_batches._compute_chunk_rows, []

    def count(found: Any, column: Any) -> int:
        dictionaries.append(column.dictionary.to_pylist())
        return measure(found, column)

    monkeypatch.setattr(arrow_batches, "_compute_chunk_rows", count)
    first, second = encoded([0, None], ["north", "south"]), encoded([1, 0], ["east", "west"])
    body = stream_of(*[first] * 50, *[second] * 50)
    regions = [json.loads(line)["region"] for line in arrow_to_lines(body, DECLARED, MOST).splitlines()]
    assert regions == ["north", None] * 50 + ["west", "east"] * 50
    assert dictionaries == [["north", "south"], ["east", "west"]]


@pytest.mark.parametrize("index", [2, -1, 127])
def test_index_outside_known_dictionary_is_refused(index: int) -> None:
    good, bad = encoded([0, 1], ["north", "south"]), encoded([0, index], ["north", "south"])
    assert len(arrow_to_lines(stream_of(good, good), DECLARED, MOST).splitlines()) == 4
    with pytest.raises(HttpError, match="must be an Arrow stream"):
        arrow_to_lines(stream_of(good, bad), DECLARED, MOST)


def test_later_dictionary_is_validated_too() -> None:
    no_text = arrow.Array.from_buffers(arrow.string(), 2, arrow.array([b"\xff", b"a"]).buffers())
    bad = arrow.DictionaryArray.from_arrays(arrow.array([0, 1], arrow.int8()), no_text)
    for batches in ([bad], [encoded([0, 1], ["north", "south"]), bad]):
        with pytest.raises(HttpError, match="must be an Arrow stream"):
            arrow_to_lines(stream_of(*batches), DECLARED, MOST)


def test_views_are_added_up_before_they_are_validated() -> None:
    """The texts are malformed, so a 413 shows that their sum is checked first."""
    column = views("\udcff" * 1000, 2 * MOST // 1000)
    values = arrow.DictionaryArray.from_arrays(arrow.array([0], arrow.int8()), column)
    for each in (column, values):
        with pytest.raises(HttpError) as found:
            arrow_to_lines(stream((REGION, each)), DECLARED, MOST)
        assert found.value.status == 413


def encoded(indices: list[int | None], values: list[str]) -> Any:
    found = arrow.array(indices, arrow.int8())
    return arrow.DictionaryArray.from_arrays(found, arrow.array(values), safe=False)


def stream_of(*columns: Any) -> bytes:
    """A stream with a batch for each; a dictionary is written where it differs from the last one."""
    sink = arrow.BufferOutputStream()
    schema = arrow.schema([(REGION, columns[0].type)])
    with arrow.ipc.new_stream(sink, schema) as writer:
        for column in columns:
            writer.write_batch(arrow.record_batch([column], schema=schema))
    found: bytes = sink.getvalue().to_pybytes()
    return found


def test_column_that_is_not_declared_is_not_read() -> None:
    """The column may even be malformed, such as texts with decreasing offsets."""
    offsets = arrow.py_buffer(b"\x00\x00\x00\x00\x09\x00\x00\x00\x01\x00\x00\x00")
    torn = arrow.Array.from_buffers(arrow.string(), 2, [None, offsets, arrow.py_buffer(b"ab")])
    body = stream((REGION, arrow.array(["north", "south"])), ("other", torn))
    assert arrow_to_lines(body, DECLARED, MOST) == b'{"region": "north"}\n{"region": "south"}\n'
    with pytest.raises(HttpError, match="must be an Arrow stream"):
        arrow_to_lines(stream((REGION, torn)), DECLARED, MOST)


@pytest.mark.parametrize("version", [arrow.ipc.MetadataVersion.V4, arrow.ipc.MetadataVersion.V5])
def test_streams_of_both_versions_are_read(version: Any) -> None:
    body = stream((REGION, arrow.array(["north"])), metadata_version=version)
    assert arrow_to_lines(body, DECLARED, MOST) == b'{"region": "north"}\n'


def test_bound_counts_compressed_buffers_by_their_stated_length() -> None:
    body = stream((REGION, arrow.array(["x" * 100_000])), compression="zstd")
    assert check_sizes(arrow, body, 101_000).names == ["region"]
    with pytest.raises(HttpError) as found:
        check_sizes(arrow, body, 100_000)
    assert (found.value.status, found.value.code) == (413, "too_large")


def test_stream_cut_or_changed_anywhere_is_refused_or_read() -> None:
    """No metadata raise another exception than `HttpError`."""
    whole = stream((REGION, repeated("north", 3)), ("ts", arrow.array(["a", "b", "c"])), compression="lz4")
    answers = set()
    for place in range(len(whole)):
        for body in (whole[:place], whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :]):
            try:
                answers.add(type(arrow_to_lines(body, DECLARED, MOST)))
            except HttpError as refusal:
                answers.add(refusal.status)
    assert answers <= {bytes, 400, 413, 422}
    assert {bytes, 400, 413} <= answers


def test_schema_limit_counts_references_and_not_bytes() -> None:
    assert check_sizes(arrow, schema(fields=3), MOST).names == ["n", "n", "n"]
    assert check_sizes(arrow, schema(depth=3), MOST).field(0).type.num_fields == 2
    with pytest.raises(HttpError):
        check_sizes(arrow, schema(fields=3000), MOST)


def test_server_refuses_hostile_body_and_continues(tmp_path: Path) -> None:
    client = House(tmp_path, max_body="1MiB").client("curator")
    headers = {"Content-Type": ARROW_TYPE, "Batch-Key": "k"}
    for name in ("a compressed dictionary", "a compressed column that is not declared", "nulls"):
        reply = client.post("/api/events", content=BODIES[name][0], headers=headers)
        error = reply.json()["error"]
        assert (reply.status_code, error["code"], error["accepted"]) == (413, "too_large", False)
    lines = {"Content-Type": "application/x-ndjson", "Batch-Key": "k"}
    assert client.post("/api/events", content=VISIT, headers=lines).status_code == 200
