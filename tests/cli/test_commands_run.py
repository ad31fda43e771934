"""A pipeline on the command line: run, read, stopped, run again."""

import csv
import json
import os
import re
import signal
import stat
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest

from streamgauge.store.errors import StoreNotFoundError
from streamgauge.store.reader import StoreReader
from tests.support.clinics import TICKS, TOML, clinic, invoke, line_of, records, started

STDOUT = '\n[[sink]]\nto = "-"\nformat = "jsonl"\n'
SECONDS = 120


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A clinic that was run to its end."""
    file = clinic(tmp_path_factory.mktemp("ran"))
    found = invoke("run", file)
    assert found.exit_code == 0, found.stderr
    return file


def test_run_reports_published_ticks_on_standard_error_only(tmp_path):
    found = invoke("run", clinic(tmp_path))
    assert found.exit_code == 0
    assert found.stdout == ""
    assert f"fever: {TICKS} ticks published" in found.stderr
    assert "same file system" in found.stderr


def test_a_second_run_has_nothing_left_to_do(ran):
    found = invoke("run", ran)
    assert (found.exit_code, found.stdout) == (0, "")
    assert "nothing was left to publish" in found.stderr


def test_a_quiet_run_is_quiet(tmp_path):
    found = invoke("run", clinic(tmp_path), "--quiet")
    assert (found.exit_code, found.stdout, found.stderr) == (0, "", "")


def test_standard_output_has_only_rows_of_its_sink(tmp_path):
    found = invoke("run", clinic(tmp_path, TOML + STDOUT))
    rows = [json.loads(line) for line in found.stdout.splitlines()]
    assert len(rows) == TICKS * (2 + 1)
    assert {row["release"] for row in rows} == {"fever", "visits_each_hour"}


def test_json_progress_reveals_nothing_private(tmp_path):
    """Two clinics of different sizes report the same ticks and published ticks."""
    said = []
    for name, count in (("small", 50), ("large", 500)):
        found = invoke("run", clinic(tmp_path / name, lines=records(count)), "--json")
        lines = [json.loads(line) for line in found.stderr.splitlines()]
        assert found.stdout == ""
        said.append(lines)
    assert said[0] == said[1]
    assert [line["event"] for line in said[0]] == ["warning", "progress", "ended"]
    assert said[0][1] == {"event": "progress", "tick": TICKS, "ticks": TICKS}
    assert said[0][2]["published_ticks"] == {"fever": TICKS, "visits_each_hour": TICKS}


def test_output_of_run_does_not_depend_on_its_records(tmp_path):
    """Only the values of releases differ: bad records change nothing visible."""
    bad = ["{", '{"ts": "2099-01-01"}', "\x00\x01", "x" * 5000, '{"ts":"2026-01-05T01:00:00Z","temperature":"NaN"}']
    said = []
    for name, lines in (("good", records()), ("bad", [*records(), *bad]), ("none", [])):
        found = invoke("run", clinic(tmp_path / name, lines=lines))
        warning, *rest = found.stderr.splitlines()
        assert "same file system" in warning
        said.append((found.exit_code, found.stdout, rest))
    assert said[0] == said[1] == said[2]


def test_counters_are_in_log_readable_by_curator_only(tmp_path):
    file = clinic(tmp_path, lines=[*records(), "{", "{"])
    invoke("run", file)
    log = file.with_suffix(".streamgauge") / "curator.log"
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    shares, progress, ended = log.read_text().splitlines()
    assert "of 402 records over 99 % have a readable time inside the stream (ts)" in shares
    assert f"tick {TICKS} of {TICKS}, 402 records" in progress
    assert "dropped" in progress
    assert ended.endswith(f"ended with tick {TICKS}")


def test_quiet_run_writes_no_counters(tmp_path):
    file = clinic(tmp_path, lines=[*records(), "{", "{"])
    invoke("run", file, "--quiet")
    (ended,) = (file.with_suffix(".streamgauge") / "curator.log").read_text().splitlines()
    assert ended.endswith(f"ended with tick {TICKS}")


def test_large_curator_log_is_rotated(tmp_path):
    from streamgauge.cli.runs.monitor import MAX_LOG_BYTES, CuratorLog

    log = CuratorLog(tmp_path)
    log.path.write_bytes(bytes(MAX_LOG_BYTES + 1))
    log.write("anew")
    assert log.path.read_text().endswith("Z anew\n")
    assert (tmp_path / "curator.log.1").stat().st_size == MAX_LOG_BYTES + 1
    CuratorLog(tmp_path / "nowhere").write("lost, and no reason to end a run")


def test_plan_shows_releases_and_spends_nothing(tmp_path):
    file = clinic(tmp_path)
    found = invoke("plan", file)
    assert (found.exit_code, found.stderr) == (0, "")
    for word in ("fever", "visits_each_hour", "std error", "epsilon 0.5", "before", "after"):
        assert word in found.stdout
    assert not file.with_suffix(".streamgauge").exists()
    printed_json = json.loads(invoke("plan", file, "--json").stdout)
    assert [release["name"] for release in printed_json["releases"]] == ["fever", "visits_each_hour"]


def test_plan_with_refusal_has_exit_code_2(tmp_path):
    file = clinic(tmp_path, TOML.replace("epsilon = 0.5", "epsilon = 0.9"))
    found = invoke("plan", file)
    assert found.exit_code == 2
    assert "refused" in found.stdout
    assert "visits_each_hour" in found.stdout
    assert json.loads(invoke("plan", file, "--json").stdout)["refusals"]
    assert "charge must be at most" in line_of(invoke("run", file, "--quiet"))


def test_plan_shows_changes_of_edited_file(tmp_path):
    file = clinic(tmp_path)
    invoke("run", file)
    file.write_text(TOML.split('[[release]]\nname = "visits_each_hour"')[0])
    found = invoke("plan", file)
    assert "visits_each_hour ends" in found.stdout
    file.write_text(TOML.replace("epsilon = 1.0", "epsilon = 2.0"))
    assert "epsilon 1 becomes epsilon 2" in invoke("plan", file).stdout
    assert "--change-budget" in line_of(invoke("run", file, "--quiet"))
    assert invoke("run", file, "--change-budget").exit_code == 0


def test_ledger_shows_charges_entries_and_remaining_budget(ran):
    found = invoke("ledger", ran)
    assert (found.exit_code, found.stderr) == (0, "")
    for word in ("fever", "epsilon 0.5", "epsilon 0.25", f"1 to {TICKS}", "finished", "budget", "charge"):
        assert word in found.stdout
    printed_json = json.loads(invoke("ledger", ran, "--json").stdout)
    assert printed_json["spent"] == {"epsilon": "3/4"}
    assert printed_json["remaining"] == {"epsilon": "1/4"}
    assert [charge["release"] for charge in printed_json["charges"]] == ["fever", "visits_each_hour"]


def test_the_newest_values_are_shown_with_trends(ran):
    found = invoke("releases", ran)
    assert (found.exit_code, found.stderr) == (0, "")
    for word in ("fever", "north", "south", "count", "avg_temperature", f"tick {TICKS}", "trend"):
        assert word in found.stdout
    one = invoke("releases", ran, "visits_each_hour", "--last", "5").stdout
    assert "over 5 ticks" in one
    assert "fever" not in one
    assert "did you mean fever?" in line_of(invoke("releases", ran, "fevr"))


def test_an_export_has_every_tick_in_every_form(ran, tmp_path):
    import duckdb

    for ending in ("csv", "json", "jsonl", "parquet"):
        shape = ("--shape", "long") if ending == "csv" else ()
        found = invoke("export", ran, "--output", tmp_path / f"out.{ending}", *shape)
        assert (found.exit_code, found.stdout) == (0, "")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert len(rows) == TICKS * (2 * 2 + 1)
    objects = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert json.loads((tmp_path / "out.json").read_text()) == objects
    assert len(objects) == TICKS * 3
    ((count, total),) = duckdb.connect().sql(f"SELECT count(*), sum(value) FROM '{tmp_path}/out.parquet'").fetchall()
    assert count == len(rows)
    assert total == pytest.approx(sum(float(row["value"]) for row in rows if row["value"]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.json", "out.jsonl", "out.parquet"]


def test_partial_export_overwrites_file_only_with_force(ran, tmp_path):
    out = tmp_path / "out.jsonl"
    words = ("export", ran, "--output", out, "--release", "fever", "--from-tick", 3, "--to-tick", 4)
    assert invoke(*words).exit_code == 0
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(row["release"], row["tick"]) for row in rows] == [("fever", 3)] * 2 + [("fever", 4)] * 2
    before = out.read_bytes()
    assert "which exists" in line_of(invoke(*words))
    assert out.read_bytes() == before
    assert invoke(*words, "--force").exit_code == 0
    empty = tmp_path / "none.json"
    invoke("export", ran, "--output", empty, "--from-tick", 1000)
    assert json.loads(empty.read_text()) == []


def test_a_plot_is_a_page_or_a_picture(ran, tmp_path):
    for name, begin in (("plot.html", b"<!"), ("plot.png", b"\x89PNG")):
        found = invoke("plot", ran, "--output", tmp_path / name)
        assert (found.exit_code, found.stdout) == (0, "")
        assert found.stderr == f"{tmp_path / name} shows 2 releases\n"
        assert (tmp_path / name).read_bytes().lower().startswith(begin.lower())


def test_counts_of_one_are_printed_in_singular(ran, tmp_path):
    one = ("--release", "fever")
    assert invoke("plot", ran, "--output", tmp_path / "a.html", *one).stderr.endswith("shows 1 release\n")
    tick = ("--from-tick", 3, "--to-tick", 3)
    assert invoke("export", ran, "--output", tmp_path / "a.csv", *one, *tick).stderr.endswith("has 1 tick of fever\n")
    assert "trends over 1 tick\n" in invoke("releases", ran, "fever", "--last", 1).stdout


def test_reading_needs_no_key(tmp_path):
    file = clinic(tmp_path)
    invoke("run", file)
    (tmp_path / "clinic.key").unlink()
    for words in (
        ["releases", file],
        ["ledger", file],
        ["export", file, "--output", tmp_path / "out.csv"],
        ["plan", file],
    ):
        assert invoke(*words).exit_code == 0
    assert "key file must be the one that the store" in line_of(invoke("run", file))


def test_a_backup_reads_like_the_store(tmp_path):
    file = clinic(tmp_path / "first")
    invoke("run", file)
    assert invoke("backup", file, tmp_path / "copy").exit_code == 0
    assert "must go to a new folder" in line_of(invoke("backup", file, tmp_path / "copy"))
    again = clinic(tmp_path / "second")
    (tmp_path / "copy").rename(again.with_suffix(".streamgauge"))
    assert invoke("releases", again).stdout == invoke("releases", file).stdout


def test_rotated_store_opens_with_new_key_only(tmp_path):
    file = clinic(tmp_path)
    invoke("run", file)
    invoke("key", "create", tmp_path / "new.key")
    assert "another key" in line_of(invoke("key", "rotate", file, "--new-key", "file:clinic.key"))
    found = invoke("key", "rotate", file, "--new-key", "file:new.key")
    assert (found.exit_code, found.stdout) == (0, "")
    assert "key must be the one" in line_of(invoke("run", file, "--quiet"))
    file.write_text(TOML.replace("clinic.key", "new.key"))
    assert invoke("run", file).exit_code == 0


def live(folder, source="visits.jsonl"):
    """Return a live clinic with ticks of 200 ms, which close by the clock."""
    start = datetime.now(UTC).replace(microsecond=0) - timedelta(seconds=5)
    toml = TOML.replace('"batch"', '"streaming"').replace('tick = "1h"', 'tick = "200ms"').replace("end =", "# end =")
    toml = toml.replace("2026-01-05T00:00:00Z", start.strftime("%Y-%m-%dT%H:%M:%SZ"))
    return clinic(folder, toml.replace("visits.jsonl", source))


@contextmanager
def running(*words):
    """A run in a process of its own, which does not outlive the test."""
    child = started("run", *words)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def until_tick(file, tick):
    """Wait until a run has committed a tick."""
    folder = file.with_suffix(".streamgauge")
    for _ in range(SECONDS * 20):
        with suppress(StoreNotFoundError), StoreReader.open(folder) as reader:
            if reader.tick >= tick:
                return
        time.sleep(0.05)
    raise AssertionError(f"tick {tick} must be committed after {SECONDS} s")


def published(file, name):
    """Return the lines of an export."""
    assert invoke("export", file, "--output", file.with_name(name)).exit_code == 0
    return file.with_name(name).read_text().splitlines()


@pytest.mark.one_of_each
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=str)
def test_signal_ends_run_after_batch_and_next_run_continues(number, tmp_path):
    file = live(tmp_path)
    with running(file) as child:
        until_tick(file, 1)
        child.send_signal(number)
        out, err = child.communicate(timeout=SECONDS)
    assert (child.returncode, out) == (130, "")
    assert "stopping; Ctrl-C again ends at once" in err
    (tick,) = re.findall(r"^stopped after tick (\d+); run again to resume$", err, re.MULTILINE)
    before = published(file, "before.jsonl")
    with running(file, "--quiet") as again:
        until_tick(file, int(tick) + 1)
        again.send_signal(number)
        assert again.communicate(timeout=SECONDS) == ("", "")
    assert again.returncode == 130
    assert set(before) < set(published(file, "after.jsonl"))


@pytest.mark.slow
def test_a_second_signal_ends_at_once(tmp_path):
    file = live(tmp_path)
    with running(file) as child:
        until_tick(file, 1)
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
            child.send_signal(number)
        out, err = child.communicate(timeout=SECONDS)
    assert (child.returncode, out) == (130, "")
    assert "stopped after" not in err


def test_second_run_is_refused_while_readers_continue(tmp_path):
    file = live(tmp_path)
    with running(file, "--quiet") as child:
        until_tick(file, 1)
        assert f"process {child.pid}" in line_of(invoke("run", file, "--quiet"))
        assert "process" in line_of(invoke("key", "rotate", file, "--new-key", f"file:{_other(tmp_path)}"))
        for words in (["releases", file], ["ledger", file], ["plan", file], ["backup", file, tmp_path / "copy"]):
            found = invoke(*words)
            assert found.exit_code == 0, found.stderr


def _other(folder):
    invoke("key", "create", folder / "other.key")
    return folder / "other.key"


def test_a_folder_that_cannot_be_written_is_exit_code_1(tmp_path):
    if os.geteuid() == 0:
        file = clinic(tmp_path)
        file.with_suffix(".streamgauge").write_text("a file in the way")
        assert invoke("run", file, "--quiet").exit_code == 1
        return
    file = clinic(tmp_path)
    tmp_path.chmod(0o500)
    try:
        line_of(invoke("run", file, "--quiet"), 1)
    finally:
        tmp_path.chmod(0o700)
