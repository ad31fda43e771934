"""A draft is valid, lists all its guesses, says that it is private, and reveals nothing in refusals."""

import csv
import gzip
import json
import tomllib
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamgauge.config.pipeline_file import PipelineFileError, parse_pipeline, read_pipeline
from streamgauge.config.settings import PipelineFile
from streamgauge.runtime.draft.draft import draft, guess_schema
from streamgauge.runtime.draft.sample import load_sample
from streamgauge.sql import parse
from tests.support.clinic_file import said

VISITS = [
    {
        "ts": f"2026-01-{1 + i // 20:02d}T{i % 24:02d}:30:00Z",
        "patient": f"p{i % 97}",
        "region": ("north", "south", "east")[i % 3],
        "temperature": 36 + (i % 50) / 10,
        "fever": i % 7 == 0,
        "notes": f"free text {i}",
        "zip": f"0{i % 90}",
        "nested": {"secret": i},
    }
    for i in range(600)
]
Records = list[dict[str, Any]]


def lines(records: Records) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def source(folder: Path, records: Records = VISITS, name: str = "visits.jsonl") -> Path:
    path = folder / name
    path.write_bytes(lines(records))
    return path


def read(folder: Path, text: str) -> PipelineFile:
    path = folder / "drafted.toml"
    path.write_text(text, encoding="utf-8")
    return read_pipeline(path)


def as_csv(path: Path, records: Records) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(records[0]))
        writer.writeheader()
        writer.writerows(records)


def as_parquet(path: Path, records: Records) -> None:
    plain = path.with_suffix(".jsonl")
    plain.write_bytes(lines(records))
    duckdb.connect().sql(f"COPY (FROM read_json('{plain}')) TO '{path}' (FORMAT parquet)")


def as_gzip(path: Path, records: Records) -> None:
    path.write_bytes(gzip.compress(lines(records)))


def as_zstd(path: Path, records: Records) -> None:
    path.write_bytes(zstandard.ZstdCompressor().compress(lines(records)))


def as_lines(path: Path, records: Records) -> None:
    path.write_bytes(lines(records))


Write = Callable[[Path, Records], None]


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("visits.csv", as_csv),
        ("visits.parquet", as_parquet),
        ("visits.jsonl", as_lines),
        ("visits.jsonl.gz", as_gzip),
        ("visits.ndjson.zst", as_zstd),
        ("visits.log", as_lines),
    ],
)
def test_draft_declares_columns_and_releases_for_records(tmp_path: Path, name: str, write: Write) -> None:
    write(tmp_path / name, VISITS)
    drafted = read(tmp_path, draft(tmp_path / name))
    assert (drafted.stream.name, drafted.stream.source) == ("visits", name)
    assert (drafted.stream.time, drafted.stream.time_format) == ("ts", "iso")
    columns = drafted.stream.columns
    assert columns["region"].values == ("east", "north", "south")
    assert columns["temperature"].bounds == (36, 41)
    assert columns["fever"].values == (False, True)
    assert not {"patient", "notes", "zip"} & set(columns)
    assert drafted.stream.ticks == 30 * 24
    assert [release.sql for release in drafted.releases] == [
        "SELECT region, COUNT(*) FROM visits GROUP BY region",
        "SELECT region, AVG(temperature) FROM visits GROUP BY region",
    ]
    assert [sink.to for sink in drafted.sinks] == ["releases.jsonl"]


def test_every_guess_must_be_confirmed(tmp_path: Path) -> None:
    text = draft(source(tmp_path))
    drafted = read(tmp_path, text)
    columns = drafted.stream.columns.items()
    guessed = {f"stream.columns.{name}.{'values' if column.values else 'bounds'}" for name, column in columns}
    settings = {
        f"stream.{key}" for key in ("time", "time_format", "tick", "start", "end", "timezone", "unit", "budget")
    }
    assert set(drafted.unconfirmed_keys) == guessed | settings
    assert "PRIVATE until you have confirmed it" in text.split("confirm = [")[0]


def test_a_draft_is_a_pipeline_once_it_is_confirmed(tmp_path: Path) -> None:
    drafted = tomllib.loads(draft(source(tmp_path)))
    assert parse_pipeline({**drafted, "confirm": []}, tmp_path / "drafted.toml").unconfirmed_keys == ()
    assert parse_pipeline(drafted, tmp_path / "drafted.toml").unconfirmed_keys  # the broken twin: not confirmed


def test_possible_user_unit_is_comment(tmp_path: Path) -> None:
    text = draft(source(tmp_path))
    assert '# unit = { user = "patient", max_events_per_tick = 1, max_ticks = 30 }' in text
    assert tomllib.loads(text)["stream"]["unit"] == "event"


def test_end_of_stream_is_read_from_end_of_file(tmp_path: Path) -> None:
    drafted = read(tmp_path, draft(source(tmp_path), sample_lines=20))
    assert drafted.stream.ticks == 30 * 24


def test_a_rare_value_is_not_listed(tmp_path: Path) -> None:
    rare = [{**record, "region": "somewhere"} for record in VISITS[:2]]
    assert "somewhere" not in draft(source(tmp_path, [*VISITS, *rare]))
    common = [{**record, "region": "somewhere"} for record in VISITS[:3]]
    assert "somewhere" in draft(source(tmp_path, [*VISITS, *common]))  # the broken twin lists any


@pytest.mark.parametrize(
    ("scale", "format"), [(1, "epoch s"), (10**3, "epoch ms"), (10**6, "epoch us"), (10**9, "epoch ns")]
)
def test_numeric_times_need_column_with_time_name(tmp_path: Path, scale: int, format: str) -> None:
    records = [{"time": (1767571200 + 60 * i) * scale, "x": i % 5} for i in range(100)]
    drafted = read(tmp_path, draft(source(tmp_path, records)))
    assert drafted.stream.time_format == format
    assert drafted.stream.start <= 1767571200 * 10**6 < drafted.stream.end  # type: ignore[operator]
    with pytest.raises(PipelineFileError, match="must be records with a column of times"):
        draft(source(tmp_path, [{"income": record["time"]} for record in records]))


@pytest.mark.parametrize(
    ("values", "bounds"),
    [
        ([35.2, 41.7], (35, 42)),
        ([3, 97], (0, 100)),
        ([12, 950], (0, 1000)),
        ([-0.013, 0.02], ("-0.02", "0.02")),
        ([5, 5], (5, 6)),
        ([10**30, 10**30 + 1], (10**30, 10**30 + 1)),
    ],
)
def test_bounds_are_rounded_outward(tmp_path: Path, values: list[float], bounds: tuple[object, object]) -> None:
    records = [{"ts": "2026-01-05T00:00:00Z", "x": value} for value in values * 3]
    found = read(tmp_path, draft(source(tmp_path, records))).stream.columns["x"].bounds
    assert found == tuple(Fraction(str(bound)) for bound in bounds)


@pytest.mark.parametrize(
    "name",
    ["group", "select", "two words", "größe", "a.b", "a'b", "a\\b", "#", "=", "[x]", "{0}", "{name}", "1", "日本"],
)
def test_strange_names_are_quoted_in_toml_and_in_sql(tmp_path: Path, name: str) -> None:
    records = [{"ts": "2026-01-05T00:00:00Z", name: "ab"[i % 2]} for i in range(20)]
    drafted = read(tmp_path, draft(source(tmp_path, records)))
    assert drafted.stream.columns[name].values == ("a", "b")
    query = parse(drafted.releases[0].sql, drafted.stream, drafted.lookups)
    assert (query.columns, query.groups[0].labels) == ({name}, ("a", "b"))


@pytest.mark.parametrize("name", ['a"b', "a\nb", "", " ", "\ud800", "x" * 2000])
def test_columns_with_undeclarable_names_are_skipped(tmp_path: Path, name: str) -> None:
    records = [{"ts": "2026-01-05T00:00:00Z", name: "a", "TS": "b", "region": "c"} for _ in range(20)]
    assert set(read(tmp_path, draft(source(tmp_path, records))).stream.columns) == {"region"}


@pytest.mark.parametrize("stem", ["select", "2026", "my visits", "-", "日本", "a" * 200])
def test_any_file_name_gives_valid_stream_name(tmp_path: Path, stem: str) -> None:
    drafted = read(tmp_path, draft(source(tmp_path, name=f"{stem}.jsonl")))
    assert parse(drafted.releases[0].sql, drafted.stream, drafted.lookups).aggregates


def test_draft_in_another_folder_has_relative_source_path(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    text = draft(source(tmp_path / "data"), folder=tmp_path)
    assert read(tmp_path, text).stream.source == "data/visits.jsonl"
    assert read(tmp_path, draft(tmp_path / "data")).stream.format == "jsonl"


def test_draft_in_its_source_folder_uses_standard_output(tmp_path: Path) -> None:
    source(tmp_path)
    assert read(tmp_path, draft(tmp_path, folder=tmp_path)).sinks[0].to == "-"


def test_the_sink_is_not_the_source(tmp_path: Path) -> None:
    assert read(tmp_path, draft(source(tmp_path, name="releases.jsonl"))).sinks[0].to != "releases.jsonl"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.jsonl", b""),
        ("a.jsonl", b"\n\n"),
        ("a.jsonl", bytes(range(256)) * 50),
        ("a.jsonl", b"SECRET\n" * 9),
        ("a.jsonl", b'["SECRET"]\n' * 9),
        ("a.jsonl", b'{"SECRET": 1}\n' * 9),
        ("a.jsonl", b"[" * 100_000),
        ("a.csv", b""),
        ("a.csv", b"SECRET"),
        ("a.csv", b"SECRET,SECRET\n1,2\n"),
        ("a.csv", b'SECRET,"\n1,2\n'),
        ("a.parquet", b"SECRET"),
        ("a.parquet", b"PAR1 SECRET PAR1"),
        ("a.gz", b"SECRET"),
        ("a.jsonl.gz", gzip.compress(lines(VISITS))[:-900]),
        ("a.jsonl.zst", b"SECRET" * 9),
        ("a", b"\x00SECRET\xff"),
    ],
)
def test_refusal_is_one_line_and_reveals_no_record(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    text = said(lambda: draft(tmp_path / name))
    assert text.startswith(f"{name}: the source must be ")
    assert len(text.splitlines()) == 1
    assert "SECRET" not in text


@pytest.mark.parametrize("name", ["missing.jsonl", "empty", "a\0b", "x" * 300])
def test_a_source_that_is_not_there_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert said(lambda: draft(tmp_path / name)).endswith(": the source must be a file that is there, got none")


def test_bad_records_do_not_change_draft(tmp_path: Path) -> None:
    path = tmp_path / "visits.jsonl"
    path.write_bytes(b'{"broken\n\xff\xfe\n[1]\n\n' + lines(VISITS) + b'{"ts": "202')
    path_of_good = source(tmp_path, name="good.jsonl")
    bad, good = (read(tmp_path, draft(p)).stream.columns for p in (path, path_of_good))
    assert bad == good


def test_sampled_values_are_in_no_repr(tmp_path: Path) -> None:
    sample = load_sample(source(tmp_path), 100)
    assert "north" not in repr(sample)
    assert "north" not in repr(guess_schema(sample))


strings = ["2026-01-05T00:00:00", "2026-03-29 02:30", "1e5", "-0", "007", "true", "1e99", "9" * 31]
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
cells = plain | st.sampled_from(strings) | st.just([1]) | st.just({"a": 1})
record = st.dictionaries(st.sampled_from(["a", "A", "time", "user", "b c", 'q"', ""]), cells, max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(record, max_size=8))
def test_any_records_give_valid_draft_or_refusal(tmp_path: Path, records: Records) -> None:
    timed = [{"ts": "2026-01-05T00:00:00Z", **one} for one in records * 3]
    path = source(tmp_path, timed)
    if timed:
        read(tmp_path, draft(path))
    assert len(said(lambda: draft(source(tmp_path, records))).splitlines()) <= 1
