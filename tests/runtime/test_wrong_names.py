"""Wrong names: a column missing in a header is refused before the charge; record shares are private."""

import gzip
import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.clock import SystemClock
from streamgauge.runtime.published import read_ledger_entries
from streamgauge.runtime.session import RunRefusedError
from streamgauge.sources import build_inbox
from streamgauge.sources.http_ephemeral import EphemeralInbox
from tests.support.pipelines import START, Tables, event, one_a_second, pipeline, published, run, tables, world, write

CSV: Tables = {"source": "v.csv"}
PARQUET: Tables = {"source": "v.parquet"}
INPUT: Tables = {"source": "-", "format": "csv"}
COMMAS = "; is its first line a header, with commas between the names?"
MAIN = "from streamgauge.cli import main; main()"


def csv_text(header: str = "ts,g,x", seconds: int = 100) -> str:
    rows = [f"{START + second},{'ab'[second % 2]},{second % 11}\n" for second in range(seconds)]
    return "".join([f"{header}\n", *rows])


def parquet(path: Path, columns: str = "ts,g,x") -> None:
    import duckdb

    source = f"SELECT {START} + range AS a, 'a' AS b, 1 AS c FROM range(100)"
    named = ", ".join(f"{old} AS {new}" for old, new in zip("abc", columns.split(","), strict=True))
    duckdb.connect().execute(f"COPY (SELECT {named} FROM ({source})) TO '{path}' (FORMAT parquet)")


def refusal(made: Pipeline, **options: Any) -> str:
    """Return the refusal of a run that has charged nothing."""
    with pytest.raises(RunRefusedError) as refused:
        run(made, **options)
    assert read_ledger_entries(made.file) == ()
    return str(refused.value)


def list_output(made: Pipeline, **options: Any) -> list[str]:
    """Return the lines of a run that only the curator sees."""
    found: list[str] = []
    run(made, diagnose=found.append, **options)
    return found


def without(file: Path | str, what: str) -> str:
    return f"v.toml: source must have every declared column, got {file} without {what}"


@pytest.mark.parametrize(
    ("header", "stream", "what"),
    [
        ("ts,g,x", {"time": "when"}, "when (time)"),
        ("time_hour,g,x", {"time": "when"}, "when (time) (did you mean time_hour?)"),
        ("ts_s,g,x", {}, "ts (time) (did you mean ts_s?)"),
        ("ts,G,x", {}, "g (did you mean G?)"),
        ("ts,g,y", {}, "x"),  # no release reads it
        ("ts,g,x", {"unit": {"user": "tail", "max_ticks": 3, "max_events_per_tick": 1}}, "tail (user)"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_column_missing_in_file_is_refused_before_charge(
    tmp_path: Path, header: str, stream: Tables, what: str, kind: str
) -> None:
    path = tmp_path / f"v.{kind}"
    if kind == "parquet":
        parquet(path, header)
    else:
        text = csv_text(header).encode()
        path.write_bytes(gzip.compress(text) if kind == "csv.gz" else text)
    made = pipeline(tmp_path, tables(source=path.name, **stream))
    assert refusal(made) == without(path, what)
    assert made.plan().refusals == (without(path, what),)


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "\r\n"])
def test_csv_file_without_header_is_refused_before_charge(tmp_path: Path, text: str) -> None:
    (tmp_path / "v.csv").write_text(text, newline="")
    rule = "source must begin with a line that names its columns"
    got = f"got {tmp_path / 'v.csv'} without one"
    assert refusal(pipeline(tmp_path, tables(**CSV))) == f"v.toml: {rule}, {got}"


def test_a_header_alone_is_published(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("\ufeffts,g,x\n")
    made = pipeline(tmp_path, tables(**CSV))
    assert list_output(made) == ["warning: no record was read: what is published is noise alone"]
    assert published(made) == [[0, 0]] * 10


def test_record_in_place_of_header_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text("1767571200,gg,xx\n")
    said = refusal(pipeline(tmp_path, tables(**CSV)))
    assert said == without(tmp_path / "v.csv", f"g, x, ts (time){COMMAS}")


def test_every_file_of_a_folder_has_every_declared_column(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name, header in (("1.csv", "ts,g,x"), ("2.csv", "ts,gg,x"), ("3.csv", "ts,g,z")):
        (tmp_path / "in" / name).write_text(csv_text(header))
    made = pipeline(tmp_path, tables(source="in", format="csv"))
    one, other = (without(tmp_path / "in" / "2.csv", "g (did you mean gg?)"), without(tmp_path / "in" / "3.csv", "x"))
    assert refusal(made) == f"{one}; {other.removeprefix('v.toml: ')}"
    assert made.plan().refusals == (one, other)
    for name in ("2.csv", "3.csv"):
        (tmp_path / "in" / name).unlink()
    run(made)
    assert published(made) == [[5, 5]] * 10


def test_long_list_of_refused_files_is_abbreviated(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(1005):
        (tmp_path / "in" / f"{number:04}.csv").write_text("ts,g\n")
    assert refusal(pipeline(tmp_path, tables(source="in", format="csv"))).endswith("; and 1,002 more files")


def test_a_parquet_column_without_values_is_refused(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "v.parquet"
    duckdb.connect().execute(f"COPY (SELECT 1 AS ts, 1 AS x, ['a'] AS g) TO '{path}' (FORMAT parquet)")
    said = refusal(pipeline(tmp_path, tables(**PARQUET)))
    assert said == without(path, "g (its type VARCHAR[] is not read)")


def test_parquet_names_are_suggested_even_if_none_is_declared(tmp_path: Path) -> None:
    parquet(tmp_path / "v.parquet", "tss,gg,xx")
    named = "g (did you mean gg?), x (did you mean xx?), ts (time) (did you mean tss?)"
    assert refusal(pipeline(tmp_path, tables(**PARQUET))) == without(tmp_path / "v.parquet", named)


def test_name_in_other_case_is_only_suggestion(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(csv_text("TS,gg,b"))
    shown = f"g, x, ts (time) (did you mean TS?){COMMAS}"
    assert refusal(pipeline(tmp_path, tables(**CSV))) == without(tmp_path / "v.csv", shown)


def test_wrong_separator_is_refused_with_question_about_commas(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(csv_text().replace(",", ";"))
    said = refusal(pipeline(tmp_path, tables(**CSV)))
    assert said == without(tmp_path / "v.csv", f"g, x, ts (time){COMMAS}")


def test_missing_key_column_of_lookup_is_refused(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(csv_text())
    (tmp_path / "rooms.csv").write_text("sensor,room\ns1,kitchen\n")
    made = tables(**CSV) | {"lookup": {"rooms": {"file": "rooms.csv", "on": "sensor"}}}
    assert refusal(pipeline(tmp_path, made)) == without(tmp_path / "v.csv", "sensor")


def test_release_added_later_follows_same_column_rule(tmp_path: Path) -> None:
    (tmp_path / "v.csv").write_text(csv_text())
    run(pipeline(tmp_path, tables(**CSV)))
    more = tables({"name": "counts", "sql": "SELECT g, COUNT(*) FROM v GROUP BY g"}, **CSV)
    more["release"].append({"name": "all", "sql": "SELECT COUNT(*) FROM v", "epsilon": "1/4"})
    (tmp_path / "v.csv").write_text(csv_text("ts,g,y"))
    with pytest.raises(RunRefusedError, match="source must stay as it was charged"):
        run(pipeline(tmp_path, more))
    with pytest.raises(RunRefusedError, match="without x"):
        run(pipeline(tmp_path, more), recharge_source=True)


def test_plan_notes_missing_source(tmp_path: Path) -> None:
    plan = pipeline(tmp_path, tables(**CSV)).plan()
    assert plan.refusals == ()
    assert plan.notes == (f"source must be readable, got {tmp_path / 'v.csv'}: No such file or directory",)


# Live sources


def live(folder: Path, **stream: Any) -> Pipeline:
    return pipeline(folder, tables(live=True, end="2026-01-05T00:01:40Z", **stream))


@pytest.mark.parametrize("source", ["v.csv", "in"])
def test_live_source_with_wrong_header_is_refused(tmp_path: Path, source: str) -> None:
    (tmp_path / "in").mkdir()
    path = tmp_path / ("v.csv" if source == "v.csv" else "in/1.csv")
    path.write_text(csv_text("ts,G,x"))
    made = live(tmp_path, source=source, format="csv")
    assert refusal(made, clock=world(tmp_path)) == without(path, "g (did you mean G?)")
    path.write_text("ts,G")  # may grow: the line has no end yet
    assert list_output(made, clock=world(tmp_path)) == []
    assert published(made) == [[0, 0]] * 10


def test_live_parquet_folder_with_wrong_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    parquet(tmp_path / "in" / "1.parquet", "ts,gg,x")
    (tmp_path / "in" / "2.parquet").write_bytes(b"no parquet")
    made = live(tmp_path, source="in", format="parquet")
    assert refusal(made, clock=world(tmp_path)) == without(tmp_path / "in" / "1.parquet", "g (did you mean gg?)")


def test_wrong_header_after_charge_warns_and_resumed_run_continues(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    made, clock, stop = live(tmp_path, source="in", format="csv"), world(tmp_path), Flag()
    first, second = csv_text(seconds=20), csv_text("ts,G,x", seconds=40)
    clock.acts = {
        5: lambda: (tmp_path / "in" / "1.csv").write_text(first),
        26: lambda: (tmp_path / "in" / "2.csv").write_text(second),
        42: stop.set,
    }
    said = list_output(made, clock=clock, stop=stop)
    got = without("a file of in", "g (did you mean G?)").removeprefix("v.toml: ")
    assert f"warning: {got}" in said
    again = list_output(made, clock=clock)  # nothing is charged, so nothing is refused
    assert len(published(made)) == 10
    assert not [line for line in again if "header" in line]


@pytest.mark.parametrize("late", [False, True])
def test_batch_standard_input_with_wrong_header_is_refused_before_charge(tmp_path: Path, late: bool) -> None:
    reading, writing = os.pipe()
    made = pipeline(tmp_path, tables(**INPUT))

    def feed() -> None:
        with os.fdopen(writing, "wb") as file:
            file.write(b"ts,g,")
            file.flush()
            file.write(b"xx\n" if late else b"")

    feeding = Thread(target=feed)
    feeding.start()
    assert refusal(made, standard_input=reading, clock=SystemClock()) == without(
        "standard input", "x (did you mean xx?)" if late else "x"
    )
    feeding.join()
    os.close(reading)


def test_standard_input_is_read_once_its_header_was_checked(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text(csv_text())
    made = pipeline(tmp_path, tables(**INPUT))
    with path.open("rb") as file:
        run(made, standard_input=file.fileno())
    assert published(made) == [[5, 5]] * 10


def test_stop_ends_wait_for_header_before_charge(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    made, stop, clock = pipeline(tmp_path, tables(**INPUT)), Flag(), world(tmp_path)
    clock.acts = {3: stop.set}
    run(made, standard_input=reading, stop=stop, clock=clock)
    assert stop.is_set()
    assert read_ledger_entries(made.file) == ()
    os.close(reading)
    os.close(writing)


# Shares of records

TIME = "a readable time inside the stream (ts)"


def shares(records: int, *found: str) -> str:
    return f"of {records} records {', '.join(found)}"


def none(records: int, what: str) -> str:
    return f"warning: none of {records} records has {what}: releases that need it publish noise alone"


RELEASE: Tables = {"name": "counts", "sql": "SELECT g, COUNT(*), SUM(x) FROM v GROUP BY g"}


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("blocks", [False, True])
def test_shares_of_records_are_reported_alike_by_every_reader(tmp_path: Path, kind: str, blocks: bool) -> None:
    """A file with carriage returns is read in blocks, any other by the engine itself."""
    rows = [(START + s, "a" if s < 3 else "z", None if s % 2 else s % 11) for s in range(1000)]
    path, end = tmp_path / f"v.{kind}", "\r\n" if blocks else "\n"
    if kind == "jsonl":
        texts = [json.dumps({"ts": ts, "g": g} | ({} if x is None else {"x": x})) for ts, g, x in rows]
        path.write_bytes("".join(f"{text}{end}" for text in texts).encode())
    else:
        texts = [f"{ts},{g},{'' if x is None else x}" for ts, g, x in rows]
        plain = tmp_path / "plain.csv" if kind == "parquet" else path
        plain.write_bytes("".join(f"{text}{end}" for text in ["ts,g,x", *texts]).encode())
    if kind == "parquet":
        import duckdb

        duckdb.connect().execute(f"COPY (FROM '{plain}') TO '{path}' (FORMAT parquet)")
    made = pipeline(tmp_path, tables(RELEASE, source=path.name))
    assert list_output(made) == [
        shares(
            1000,
            f"10 % have {TIME}",
            "100 % have the column g",
            "under 1 % have a declared value of g",
            "50 % have the column x",
            "50 % have a number in x",
        ).replace("1000", "1,000")
    ]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"time": "when"}, [TIME.replace("ts", "when")]),
        ({"columns": {"g": {"values": ["A", "B"]}}}, ["a declared value of g"]),
        ({"columns": {"gg": {"values": ["a"]}}}, ["the column gg", "a declared value of gg"]),
        ({"time_format": "iso"}, [TIME]),
        ({"start": "2027-01-05T00:00:00Z", "end": "2027-01-05T00:01:40Z"}, [TIME]),
    ],
)
def test_share_of_zero_is_reported_as_warning(tmp_path: Path, change: Tables, what: list[str]) -> None:
    write(tmp_path, one_a_second())
    column = next(iter(change.get("columns", {"g": None})))
    release = {"name": "counts", "sql": f"SELECT {column}, COUNT(*) FROM v GROUP BY {column}"}
    made = pipeline(tmp_path, tables(release, **change))
    assert list_output(made)[1:] == [none(100, each) for each in what]
    assert {value for values in published(made) for value in values} == {0}
    assert list_output(made) == []  # nothing is left to read


def test_users_and_lookups_are_counted(tmp_path: Path) -> None:
    (tmp_path / "rooms.csv").write_text("sensor,room\ns1,kitchen\n")
    write(tmp_path, [event(s, u="u1" if s < 50 else None, sensor="s2") for s in range(100)])
    user = {"unit": {"user": "u", "max_ticks": 3, "max_events_per_tick": 1}}
    release = {"name": "counts", "sql": "SELECT COUNT(*) FROM v JOIN rooms ON v.sensor = rooms.sensor"}
    made = tables(release, **user) | {"lookup": {"rooms": {"file": "rooms.csv", "on": "sensor"}}}
    assert list_output(pipeline(tmp_path, made)) == [
        shares(
            100,
            f"100 % have {TIME}",
            "50 % have a user in u",
            "100 % have the column sensor",
            "0 % have a row of rooms for sensor",
        ),
        none(100, "a row of rooms for sensor"),
    ]


def test_discovered_keys_are_counted(tmp_path: Path) -> None:
    write(tmp_path, one_a_second())
    release = {"name": "counts", "sql": "SELECT k, COUNT(*) FROM v GROUP BY k", "delta": "1/1000000", "epsilon": "1/10"}
    stream = {"columns": {"k": {"max_groups": 10}}, "budget": {"epsilon": 1, "delta": "1/1000"}}
    made = pipeline(tmp_path, tables(release, **stream))
    assert list_output(made)[1:] == [none(100, "the column k")]


def test_live_run_reports_shares_after_first_block_and_end(tmp_path: Path) -> None:
    happens = {4.0: [event(1, "A")], 30.0: [event(28, "a"), event(29, "A")]}
    made = pipeline(tmp_path, tables(live=True, end="2026-01-05T00:01:40Z"))
    first = ["of 1 record 100 % have", "100 % have the column g", "0 % have a declared value of g"]
    assert list_output(made, clock=world(tmp_path, happens)) == [
        f"{first[0]} {TIME}, {first[1]}, {first[2]}",
        none(1, "a declared value of g").replace("records", "record"),
        shares(3, f"100 % have {TIME}", "100 % have the column g", "33 % have a declared value of g"),
    ]


def test_events_that_are_sent_are_counted(tmp_path: Path) -> None:
    made = pipeline(tmp_path, tables(live=True, source="http", end="2026-01-05T00:01:40Z"))
    clock = world(tmp_path)
    inbox = build_inbox(made.file, clock.now)
    clock.acts = {
        4: lambda: inbox.put("1", b'{"ts": 1767571203, "G": "a"}\n') and None,
        14: lambda: inbox.put("2", b'{"ts": 1767571213, "g": "a"}\n{"ts": "?"}\n') and None,
    }
    what = "the column g", "a declared value of g"
    assert list_output(made, clock=clock, source=inbox) == [
        f"of 1 record 100 % have {TIME}, 0 % have {what[0]}, 0 % have {what[1]}",
        *(none(1, each).replace("records", "record") for each in what),
        f"of 3 records 67 % have {TIME}, 33 % have {what[0]}, 33 % have {what[1]}",
    ]


def test_nothing_is_counted_in_a_pan_private_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from streamgauge.engines.duckdb import engine as duck

    built: list[Any] = []
    source = duck.RowSource

    def note(*settings: Any) -> Any:
        built.append(source(*settings))
        return built[-1]

    monkeypatch.setattr(duck, "RowSource", note)
    inbox, clock = EphemeralInbox(max_waiting_bytes=10**6), world(tmp_path)
    clock.acts = {4: lambda: inbox.put("", b'{"ts": 1767571203, "g": "A"}\n') and None}
    private = {
        "source": "http",
        "pan_private": True,
        "allowed_lateness": None,
        "allowed_earliness": None,
        "columns": None,
    }
    private["columns"] = {"g": {"values": ["a", "b"]}}
    made = pipeline(tmp_path, tables(live=True, end="2026-01-05T00:01:40Z", **private))
    assert list_output(made, clock=clock, source=inbox) == []
    assert built
    assert {str(each.counters) for each in built} == {"{}"}


# Commands: no public output depends on the shares


def command(folder: Path, *, terminal: bool = False) -> tuple[int, bytes, bytes]:
    """Return exit code, standard output and standard error of a run; the last one may be a terminal."""
    words = [sys.executable, "-c", MAIN, "run", str(folder / "v.toml")]
    if not terminal:
        done = subprocess.run(words, capture_output=True, check=False)
        return done.returncode, done.stdout, done.stderr
    ours, theirs = pty.openpty()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        said = io.BytesIO()
        while piece := read_terminal(ours):
            said.write(piece)
        out = process.stdout.read() if process.stdout else b""
    os.close(ours)
    return process.returncode, out, said.getvalue()


def read_terminal(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 2**16)
    except OSError:
        return b""


TOML = """
[stream]
name = "v"
source = "v.jsonl"
mode = "batch"
time = "ts"
time_format = "epoch s"
tick = "10s"
start = "2026-01-05T00:00:00Z"
end = "2026-01-05T00:01:40Z"
unit = "event"
budget = { epsilon = 1 }
key = "file:v.key"
[stream.columns]
g = { values = ["a", "b"] }
[[release]]
name = "counts"
sql = "SELECT g, COUNT(*) FROM v GROUP BY g"
epsilon = 0.5
window = "each"
"""


def clinic(folder: Path, values: str) -> Path:
    folder.mkdir()
    pipeline(folder, tables())  # makes a key
    (folder / "v.toml").write_text(TOML)
    write(folder, [event(second, values[second % 2]) for second in range(100)])
    return folder


def test_unmatched_values_are_reported_in_private_log(tmp_path: Path) -> None:
    good, bad = clinic(tmp_path / "1", "ab"), clinic(tmp_path / "2", "AB")
    assert [command(folder)[0] for folder in (good, bad)] == [0, 0]
    log = (bad / "v.streamgauge" / "curator.log").read_text()
    assert none(100, "a declared value of g") in log
    assert "warning" not in (good / "v.streamgauge" / "curator.log").read_text()
    assert (bad / "v.streamgauge" / "curator.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_pipes_do_not_reveal_unmatched_values(tmp_path: Path) -> None:
    good, bad = (command(clinic(tmp_path / name, values)) for name, values in (("1", "ab"), ("2", "AB")))
    same = [(code, out, error.replace(b"/2/", b"/1/")) for code, out, error in (good, bad)]
    assert same[0] == same[1]
    assert same[0][1] == b""


def test_a_terminal_shows_shares_and_warnings(tmp_path: Path) -> None:
    folder = clinic(tmp_path / "1", "AB")
    code, out, error = command(folder, terminal=True)
    assert (code, out) == (0, b"")
    assert b"0 % have a declared value of g" in error
    assert none(100, "a declared value of g").encode() in error
    assert "declared value" not in (folder / "v.streamgauge" / "curator.log").read_text()
