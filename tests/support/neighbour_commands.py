"""Commands over the streams of `neighbour_streams`, in this process, and everything that they write.

Released numbers are left out, since each run draws them again. So are the times of ledger entries.
"""

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
from typer.testing import CliRunner

from streamgauge.cli.app import app
from tests.support.neighbour_streams import COUNTED, FEW
from tests.support.watched_runs import House, shape_of, tables

SINKS = ("-", "out.jsonl", "out.csv", "out.parquet")
READ = (("ledger", "--json"), ("ledger",), ("releases",))
KEYS = ("release", "tick", "start", "end", "level", "group", "measure")
DRAWN = re.compile(r'(?:[-+±\d.,%│─━▁-█() ]|\bto\b|unreliable)+|"time": "[^"]*"')  # sides of an interval may differ


def commanded(house: House, *words: str, lines: list[bytes]) -> Any:
    """Return the output of a command that starts from nothing over these lines."""
    house.clear()
    return said(*words, written(house.folder, lines))


def said(*words: Any) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def public(house: House, *words: str, lines: list[bytes]) -> dict[str, Any]:
    """Everything visible in the output of a run, in its sinks, and in its store by other commands."""
    ran = commanded(house, *words, lines=lines)
    file, export = house.folder / "v.toml", house.folder / "out.export.csv"
    read = [said(*command, file) for command in (*READ, ("export", "--output", export))]
    return {
        "exit codes": [ran.exit_code, *(each.exit_code for each in read)],
        "standard error": ran.stderr,
        "standard output": shapes_of(ran.stdout),
        "files": sorted(str(path.relative_to(house.folder)) for path in house.folder.rglob("*")),
        "jsonl": shapes_of(text_of(house.folder / "out.jsonl")),
        "csv": keys_of(house.folder / "out.csv"),
        "parquet": parts_of(house.folder / "out.parquet"),
        "export": keys_of(export),
        "read": [DRAWN.sub(" ", each.output) for each in read],
    }


def text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def shapes_of(text: str) -> list[Any]:
    return [shape_of(json.loads(line)) for line in text.splitlines()]


def keys_of(path: Path) -> list[tuple[str, ...]]:
    """The lines of a wide CSV file without their numbers, and which measures each of them has."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [tuple(_key(row)) for row in csv.DictReader(file)]


def _key(row: dict[str, str]) -> Iterator[str]:
    measures = [name for name in row if f"{name}_reliable" in row]
    numbers = {name + ending for name in measures for ending in ("", "_stddev", "_low", "_high", "_reliable")}
    yield from (f"{name}={cell}" for name, cell in row.items() if name not in numbers and name != "trace")
    yield from (name for name in measures if row[f"{name}_reliable"])


def parts_of(folder: Path) -> list[Any]:
    """The rows of each part of a Parquet sink, without their numbers."""
    columns = ", ".join(f'"{name}"::VARCHAR' for name in KEYS)
    with duckdb.connect() as engine:
        parts = sorted(folder.glob("*.parquet"))
        return [(part.name, engine.sql(f"SELECT {columns} FROM '{part}'").fetchall()) for part in parts]


def written(folder: Path, lines: list[bytes]) -> Path:
    """The pipeline as a file, with all kinds of sinks, and its source."""
    stream = tables("v.jsonl", releases=FEW)["stream"]
    text = table("stream", {name: value for name, value in stream.items() if name != "columns"})
    text += table("stream.columns", stream["columns"])
    text += table("[release]", {"name": "counted", "sql": COUNTED, "window": "each", "epsilon": 1})
    text += "".join(table("[sink]", {"to": to}) for to in SINKS)
    (folder / "v.toml").write_text(text)
    (folder / "v.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))
    return folder / "v.toml"


def table(name: str, rows: dict[str, Any]) -> str:
    return f"[{name}]\n" + "".join(f"{key} = {inline(value)}\n" for key, value in rows.items())


def inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {inline(each)}" for name, each in value.items()) + " }"
    return json.dumps(value)
