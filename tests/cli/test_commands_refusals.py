"""Errors are one line on standard error; standard output and exit codes reveal no data."""

import errno
import subprocess
import sys

import pytest
import typer

from streamgauge.cli.errors import CommandGroup
from tests.support.clinics import MAIN, TOML, clinic, invoke, line_of, started

READERS = {
    "plan": [],
    "run": [],
    "ledger": [],
    "releases": [],
    "export": ["--output", "out.csv"],
    "plot": ["--output", "out.html"],
    "backup": ["to"],
    "key rotate": ["--new-key", "env:NOBODY"],
}


@pytest.mark.parametrize("command", READERS)
@pytest.mark.parametrize("kind", ["missing", "folder", "empty", "binary", "not toml", "no stream"])
def test_invalid_pipeline_file_is_refused_by_every_command(command, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "clinic.toml"
    contents = {"empty": b"", "binary": b"\xff\xfe\0", "not toml": b"[stream", "no stream": b"[[release]]\n"}
    if kind == "folder":
        file.mkdir()
    elif kind != "missing":
        file.write_bytes(contents[kind])
    assert "clinic.toml" in line_of(invoke(*command.split(), file, *READERS[command]))
    assert {path.name for path in tmp_path.iterdir()} <= {"clinic.toml"}


@pytest.mark.parametrize("command", ["releases", "export", "plot", "backup", "key rotate"])
def test_a_pipeline_that_never_ran_has_nothing_to_read(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = clinic(tmp_path)
    monkeypatch.setenv("NOBODY", "ab" * 32)
    assert "run the pipeline once" in line_of(invoke(*command.split(), file, *READERS[command]))
    assert not (tmp_path / "clinic.streamgauge").exists()


def test_a_pipeline_that_never_ran_has_an_empty_ledger(tmp_path):
    found = invoke("ledger", clinic(tmp_path))
    assert found.exit_code == 0
    assert "nothing was charged yet" in found.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export", "clinic.toml", "--output", "out.xlsx"], "--output must be a file that ends with .csv"),
        (["export", "clinic.toml", "--output", "visits.jsonl"], "--output must be a new file"),
        (["export", "clinic.toml", "--output", "visits.jsonl", "--release", "x"], "--output must be a new file"),
        (["plot", "clinic.toml", "--output", "out.svg"], "--output must be a file that ends with .html or .png"),
        (["run", "clinic.toml", "--memory", "much"], "--memory must be a size"),
        (["run", "clinic.toml", "--memory", "0MB"], "--memory must be a size"),
        (["run", "clinic.toml", "--quiet", "--json"], "--quiet must be given without --json"),
        (["key", "create", "clinic.key"], "key file must be a new one"),
        (["init", "visits.jsonl", "--output", "clinic.toml"], "--output must be a new file"),
        (["init", "nothing.jsonl"], "nothing.jsonl"),
        (["demo", "--folder", "."], "--folder must be an empty folder"),
        (["demo", "--folder", "clinic.toml"], "--folder must be a folder"),
        (["quarantine", "clinic.toml"], "standard error must be a terminal"),
    ],
)
def test_invalid_argument_is_refused_without_touching_files(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    clinic(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert said in line_of(invoke(*words))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", ["[red]fever[/red]", "a\\u001b[2Jb", ":smile:"])
def test_markup_of_pipeline_file_is_not_interpreted(name, tmp_path):
    """No markup and no escape sequence of a pipeline file reaches the terminal as one."""
    file = clinic(tmp_path, TOML.replace('"each"', f'"{name}"'))
    line = line_of(invoke("run", file))
    assert "\x1b" not in line
    assert "[red]" in line or "smile" in line or "2J" in line


def app_that_raises(error):
    app = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False)

    @app.callback()
    def root(debug: bool = False) -> None: ...

    @app.command()
    def broken() -> None:
        raise error

    return app


def raised(error, *options):
    from typer.testing import CliRunner

    return CliRunner().invoke(app_that_raises(error), [*options, "broken"])


@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError, ZeroDivisionError, ImportError])
def test_unexpected_error_shows_only_its_class(error):
    line = line_of(raised(error("patient 17 has a fever")), 1)
    assert error.__name__ in line
    assert "this is a bug" in line
    assert "17" not in line


def test_with_debug_an_unexpected_error_has_a_traceback():
    found = raised(ValueError("patient 17"), "--debug")
    assert found.exit_code == 1
    assert "Traceback" in found.stderr
    assert "patient 17" in found.stderr
    assert found.stdout == ""


def test_system_failure_is_exit_code_1():
    full = OSError(errno.ENOSPC, "No space left on device", "out.csv")
    assert line_of(raised(full), 1).endswith("no space left on device: out.csv")
    assert "memory" in line_of(raised(MemoryError("patient 17")), 1)


def test_store_and_sink_errors_have_their_exit_codes(tmp_path):
    from streamgauge.sinks import SinkAccessError, SinkError
    from streamgauge.store.errors import AlreadyRunningError, StoreUnwritableError

    for error, code in (
        (StoreUnwritableError("a full disk"), 1),
        (SinkAccessError("sink out.csv could not be used: no space left"), 1),
        (SinkAccessError("standard output must stay open, got a reader that closed it"), 1),
        (AlreadyRunningError(tmp_path, 17), 2),
        (SinkError("sink must be ours"), 2),
    ):
        assert line_of(raised(error), code) == f"streamgauge: {error}"


def test_an_error_of_several_lines_is_shown_in_one(tmp_path):
    from streamgauge.privacy.errors import PrivacyError

    assert line_of(raised(PrivacyError("a\n  b\x1b[1m"))) == "streamgauge: a b\\x1b[1m"


def test_ctrl_c_in_any_command_is_exit_code_130():
    assert raised(KeyboardInterrupt()).exit_code == 130


def test_closed_output_reader_ends_command_silently(tmp_path):
    child = started("--help")
    child.stdout.close()
    assert child.stderr.read() == ""
    child.stderr.close()
    child.wait()


def test_help_works_on_terminal_without_unicode():
    command = [sys.executable, "-c", MAIN, "--help"]
    found = subprocess.run(command, capture_output=True, env={"PYTHONIOENCODING": "ascii"}, check=False)
    assert found.returncode == 0, found.stderr
