"""Dropped records are shown on the curator's terminal only; their text is read from the source again."""

import gzip
import os
import pty
import subprocess
import sys

import pytest

from streamgauge.cli.errors import BadArgumentError
from streamgauge.cli.quarantine import reread_records
from streamgauge.config.pipeline_file import read_pipeline
from streamgauge.records.blocks import DroppedRecord
from tests.support.clinics import clinic, invoke, line_of, records

LINES = [*records(20), '{"torn', *records(20), "\x1b[2Jcleared?", "x" * 5000]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
BAD = [DroppedRecord(TEXT.index(line.encode()), len(line), "not readable") for line in (LINES[20], *LINES[41:])]
SHOWN = [LINES[20].encode(), LINES[41].encode(), b"x" * 200]
PATCHED = f"""
from streamgauge.cli import main
from streamgauge.runtime.pipeline import Pipeline
from streamgauge.records.blocks import DroppedRecord
Pipeline.quarantine = lambda self: {BAD!r}
main()
"""


def test_dropped_records_are_read_again_at_their_offsets(tmp_path):
    assert reread_records(read_pipeline(clinic(tmp_path, lines=LINES)), BAD) == SHOWN


@pytest.mark.parametrize("members", [1, 7])
def test_dropped_records_are_read_again_from_compressed_files(members, tmp_path):
    file = clinic(tmp_path)
    file.write_text(file.read_text().replace("visits.jsonl", "visits.jsonl.gz"))
    size = -(-len(TEXT) // members)
    packed = b"".join(gzip.compress(TEXT[i : i + size]) for i in range(0, len(TEXT), size))
    (tmp_path / "visits.jsonl.gz").write_bytes(packed)
    assert reread_records(read_pipeline(file), BAD) == SHOWN


def test_dropped_records_that_no_longer_exist_are_empty(tmp_path):
    assert reread_records(read_pipeline(clinic(tmp_path, lines=["a"])), BAD) == [b"", b"", b""]


def test_records_of_folder_source_are_not_read_again(tmp_path):
    file = clinic(tmp_path)
    (tmp_path / "visits.jsonl").unlink()
    (tmp_path / "visits.jsonl").mkdir()
    with pytest.raises(BadArgumentError, match="--show must be for a source that is one file"):
        reread_records(read_pipeline(file), BAD)


def shown_on_a_terminal(*words):
    """Run a command with a terminal as standard error; return exit code, standard output and terminal text."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", PATCHED, *map(str, words)]
    environment = {**os.environ, "COLUMNS": "120", "TERM": "dumb"}
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=environment)
    os.close(theirs)
    observed = b""
    try:
        while piece := os.read(ours, 4096):
            observed += piece
    except OSError:  # a terminal without a writer raises this
        pass
    out = child.communicate()[0]
    os.close(ours)
    return child.returncode, out, observed.decode()


def test_quarantine_is_shown_on_terminal_never_on_standard_output(tmp_path):
    file = clinic(tmp_path, lines=LINES)
    code, out, observed = shown_on_a_terminal("quarantine", file)
    assert (code, out) == (0, b"")
    assert "not readable: 3" in observed
    assert f"{BAD[0].offset:,}" in observed
    assert "torn" not in observed


@pytest.mark.slow
def test_records_are_shown_without_terminal_escape_sequences(tmp_path):
    code, out, observed = shown_on_a_terminal("quarantine", clinic(tmp_path, lines=LINES), "--show")
    assert (code, out) == (0, b"")
    assert '{"torn' in observed
    assert "\x1b[2J" not in observed
    assert "cleared?" in observed


def test_quarantine_without_terminal_is_refused(tmp_path):
    assert "must be a terminal" in line_of(invoke("quarantine", clinic(tmp_path), "--show"))


@pytest.mark.slow
def test_a_run_on_a_terminal_shows_its_progress_there(tmp_path):
    code, out, observed = shown_on_a_terminal("run", clinic(tmp_path))
    assert (code, out) == (0, b"")
    for word in ("tick 48 of 48", "400 records", "epsilon 0.75 of 1", "fever: 48 ticks published"):
        assert word in observed
