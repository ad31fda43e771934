"""Help is fast and has examples; a mistyped command is one line that points to help."""

import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from streamgauge.cli.app import app

HEAVY = {"numpy", "duckdb", "sqlglot", "plotly", "matplotlib", "sqlite3", "cryptography"}


def commands(command, path=()):
    """Yield every command with the words that lead to it."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))


ALL = dict(commands(get_command(app)))
LEAVES = {path: command for path, command in ALL.items() if not hasattr(command, "commands")}
OPTIONS = [
    (path, name)
    for path, command in ALL.items()
    for option in command.params
    for name in option.opts
    if name.startswith("--")
]


def details(*words):
    return CliRunner().invoke(app, list(words))


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_of_every_command_shows_example(path):
    found = details(*path, "--help")
    assert found.exit_code == 0
    assert "Example: streamgauge" in found.stdout or path == ("key",)
    assert not found.stderr


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_help_of_every_command_states_its_file_access(path):
    words = set(details(*path, "--help").stdout.replace(".", " ").replace(",", " ").split())
    assert words & {"Reads", "reads", "Touches", "touches", "new", "copy", "Copy"}


def test_help_imports_no_heavy_package():
    look = "finally: print(*sys.modules, file=sys.stderr)"
    code = f"import sys\nfrom streamgauge.cli import main\ntry: main()\n{look}"
    found = subprocess.run([sys.executable, "-c", code, "--help"], capture_output=True, text=True, check=True)
    assert not HEAVY & {name.partition(".")[0] for name in found.stderr.split()}
    assert "streamgauge.runtime" not in found.stderr.split()


@pytest.mark.parametrize(("path", "name"), OPTIONS, ids=lambda each: each if isinstance(each, str) else " ".join(each))
def test_mistyped_option_is_one_line_and_exit_code_2(path, name):
    found = details(*path, f"{name}x")
    assert found.exit_code == 2
    assert found.stdout == ""
    (line,) = found.stderr.splitlines()
    assert line.startswith("streamgauge: no such option")
    assert f"{name}x" in line
    assert "--help" in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["pln", "clinic.toml"], "did you mean 'plan'"),
        (["key", "rotte"], "did you mean 'rotate'"),
        (["plan"], "missing argument"),
        (["plan", "a.toml", "b.toml"], "unexpected extra argument"),
        (["export", "a.toml"], "missing option"),
        (["export", "a.toml", "--output", "a.csv", "--first", "0"], "--first"),
        (["releases", "a.toml", "--last", "many"], "--last"),
        (["demo", "--events", "0"], "--events"),
    ],
)
def test_mistyped_command_is_shown_in_one_line(words, said):
    found = details(*words)
    assert found.exit_code == 2
    assert found.stdout == ""
    (line,) = found.stderr.splitlines()
    assert said in line.lower()


def test_call_without_command_shows_help():
    found = details()
    assert found.exit_code == 2
    assert "Example" in found.stdout
    assert not found.stderr


def test_the_version_is_shown():
    from streamgauge import __version__

    assert details("--version").stdout == f"streamgauge {__version__}\n"
