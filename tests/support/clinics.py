"""A small clinic for the tests of commands: 48 ticks of an hour, a few hundred visits."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from streamgauge.cli.app import app

MAIN = "from streamgauge.cli import main; main()"
TICKS = 48

TOML = """
[stream]
name = "visits"
source = "visits.jsonl"
mode = "batch"
time = "ts"
tick = "1h"
start = "2026-01-05T00:00:00Z"
end = "2026-01-07T00:00:00Z"
unit = "event"
budget = { epsilon = 1.0 }
key = "file:clinic.key"

[stream.columns]
region = { values = ["north", "south"] }
temperature = { bounds = [35.0, 42.0], grid = 0.1 }

[[release]]
name = "fever"
sql = "SELECT region, COUNT(*), AVG(temperature) FROM visits WHERE temperature > 38 GROUP BY region"
epsilon = 0.5

[[release]]
name = "visits_each_hour"
sql = "SELECT COUNT(*) FROM visits"
window = "each"
epsilon = 0.25
"""


def records(count: int = 400) -> list[str]:
    """Visits spread over all ticks."""
    return [
        json.dumps(
            {
                "ts": f"2026-01-{5 + hour // 24:02d}T{hour % 24:02d}:{i % 60:02d}:00Z",
                "region": ("north", "south")[i % 2],
                "temperature": 36 + i % 40 / 10,
            }
        )
        for i in range(count)
        for hour in [i * TICKS // count]
    ]


def clinic(folder: Path, toml: str = TOML, lines: list[str] | None = None) -> Path:
    """Write a source, a key and a pipeline file; return the path of the file."""
    folder.mkdir(exist_ok=True)
    (folder / "visits.jsonl").write_text("".join(f"{line}\n" for line in (records() if lines is None else lines)))
    (folder / "clinic.toml").write_text(toml)
    if not (folder / "clinic.key").exists():
        assert told("key", "create", folder / "clinic.key").exit_code == 0
    return folder / "clinic.toml"


def invoke(*words: object) -> Result:
    """Run a command in this process, and return its output."""
    return CliRunner().invoke(app, [str(word) for word in words])


told = invoke  # its earlier name


def line_of(found: Result, code: int = 2) -> str:
    """The one line of a refusal, which says nothing on standard output."""
    assert found.exit_code == code, found.output
    assert found.stdout == ""
    (line,) = found.stderr.splitlines()
    assert line.startswith("streamgauge: ")
    assert "Traceback" not in line
    return line


def started(*words: object, **settings: Any) -> subprocess.Popen[str]:
    """A command in a process of its own."""
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "TERM": "dumb"}
    command = [sys.executable, "-c", MAIN, *map(str, words)]
    return subprocess.Popen(command, env=environment, **{**pipes, **settings})
