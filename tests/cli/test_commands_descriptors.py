"""Commands with closed standard input, output or error: one line or silence, and no file is harmed."""

import json
import subprocess
import sys

import pytest

from tests.support.clinics import MAIN, TOML, clinic, invoke, started

SINK = '\n[[sink]]\nto = "out.jsonl"\n'


def closed(which, *words):
    """Run a command with descriptors closed as a shell closes them; return the output of the others."""
    words = ["sh", "-c", f'exec "$@" {which}', "sh", sys.executable, "-c", MAIN, *map(str, words)]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    assert "Traceback" not in found.stderr
    return found


@pytest.mark.slow
def test_run_with_closed_descriptors_publishes_everything(tmp_path):
    file = clinic(tmp_path, TOML + SINK)
    assert closed("<&- >&- 2>&-", "run", file).returncode == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(rows) == 48 * 3
    assert invoke("run", file).exit_code == 0  # this checks all of the store
    log = (tmp_path / "clinic.streamgauge" / "curator.log").read_text()
    assert "warning" not in log


@pytest.mark.one_of_each
@pytest.mark.parametrize("words", [["ledger", "--json"], ["plan"]], ids=" ".join)
def test_a_closed_output_is_one_line_and_exit_code_1(tmp_path, words):
    command, *rest = words
    found = closed(">&-", command, clinic(tmp_path), *rest)
    assert (found.returncode, found.stderr) == (1, "streamgauge: bad file descriptor\n")


def test_a_full_output_is_one_line_and_exit_code_1(tmp_path):
    with open("/dev/full", "w") as full:
        child = started("ledger", clinic(tmp_path), "--json", stdout=full)
        _, err = child.communicate()
    assert (child.returncode, err) == (1, "streamgauge: no space left on device\n")


def test_closed_output_as_sink_is_refused_before_charge(tmp_path):
    file = clinic(tmp_path, TOML + SINK.replace("out.jsonl", "-"))
    found = closed(">&-", "run", file, "--quiet")
    assert found.returncode == 1
    assert found.stderr == "streamgauge: standard output must be open where it is a sink, got a closed one\n"
    assert "nothing was charged yet" in invoke("ledger", file).stdout


def test_closed_input_as_source_is_refused_before_charge(tmp_path):
    piped = TOML.replace('"visits.jsonl"', '"-"\nformat = "jsonl"')
    file = clinic(tmp_path, piped)
    found = closed("<&-", "run", file, "--quiet")
    assert found.returncode == 2
    assert "standard input must be open where it is the source, got a closed one" in found.stderr
    assert not (tmp_path / "clinic.streamgauge").exists()


def test_a_twin_that_leaves_closed_descriptors_gives_them_to_files(tmp_path):
    code = "import os; number = os.open('store', os.O_CREAT | os.O_RDWR); open('told', 'w').write(str(number))"
    occupied = f"from streamgauge.cli import occupy_descriptors; occupy_descriptors(); {code}"
    for twin, least in ((code, 1), (occupied, 3)):
        words = ["sh", "-c", 'exec "$@" >&- 2>&-', "sh", sys.executable, "-c", twin]
        assert subprocess.run(words, cwd=tmp_path, check=False).returncode == 0
        shown_number = int((tmp_path / "told").read_text())
        assert shown_number == 1 if least == 1 else shown_number >= least
