"""A pipeline file to change in tests, one with every key, and checks of refusals."""

import tomllib
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from streamgauge.config.pipeline_file import PipelineFileError, parse_pipeline, read_pipeline
from streamgauge.config.settings import PipelineFile

CLINIC = """
[stream]
name = "visits"
source = "visits.jsonl"
time = "ts"
tick = "5m"
start = "2026-01-05T00:00:00Z"
end = "2026-04-05T00:00:00Z"
unit = "event"
budget = { epsilon = 1.0 }

[stream.columns]
region = { values = ["north", "south", "east", "west"] }
temperature = { bounds = [35.0, 42.0], grid = 0.1 }

[[release]]
name = "fever_by_region"
sql = "SELECT region, COUNT(*), AVG(temperature) FROM visits WHERE temperature > 38 GROUP BY region"
epsilon = 0.5

[[sink]]
to = "releases.parquet"
"""

EVERYTHING: dict[str, Any] = {
    "confirm": ["stream.tick", "release.one.sql"],
    "stream": {
        "name": "visits",
        "source": "visits.log",
        "mode": "streaming",
        "format": "jsonl",
        "time": "ts",
        "time_format": "epoch ms",
        "timezone": "Europe/Berlin",
        "tick": "5m",
        "start": "2026-01-05T00:00:00",
        "end": "2026-02-05",
        "allowed_lateness": "10m",
        "allowed_earliness": "90s",
        "late": "drop",
        "unit": {
            **{"user": "patient", "max_events_per_tick": 2, "max_ticks": 30, "max_users": 1000},
            **{"per": "1d", "renewal": "12h"},
        },
        "adjacency": "add_remove",
        "budget": {"epsilon": 1, "delta": Decimal("1e-6")},
        "key": "env:CLINIC_KEY",
        "options": {},
        "columns": {
            "region": {"values": ["north", "south"], "other": True, "type": "text"},
            "body heat": {"bounds": [35, Decimal("42.0")], "grid": Decimal("0.1")},
            "sensor": {"max_groups": 100},
            "device": {"hash_cells": 65536, "expected_distinct": 500},
        },
    },
    "lookup": {"sites": {"file": "sites.csv", "on": "sensor"}},
    "release": [
        {
            "name": "one",
            "sql": "SELECT COUNT(*) FROM visits",
            "window": "sliding 1h",
            "rho": Decimal("0.01"),
            "horizon": "end",
            "mechanism": {"name": "Kary", "branching": 13},
            "max_groups": 10,
            "delta": Decimal("1e-9"),
            "expected_events": 100,
            "alerts": {"kind": "low", "size": "1/2", "window": "1d", "measure": "count", "name": "few"},
            "title": "One",
            "description": "Of two.\nOr three.",
        },
        {"name": "two", "sql": "SELECT COUNT(*) FROM visits", "share": "1/3", "consistent": True},
        {
            **{"name": "three", "sql": "SELECT COUNT(*) FROM visits", "epsilon": 0.25},
            **{"window": "tumbling 1d", "partial": True},
        },
    ],
    "sink": [{"to": "-", "format": "csv", "shape": "long", "releases": ["one", "two"]}],
    "plugins": {"allow": ["pytest"]},
    "engine": {"kind": "embedded", "options": {}},
    "server": {
        "anonymous": True,
        "https": True,
        "publish_delay": "2s",
        "max_body": "4MB",
        "max_buffer": "32MB",
        "max_reports": 100,
        "show_intruder": True,
        "rate": Decimal("12.5"),
        "max_streams": 500,
        "max_streams_per_client": 10,
        "max_downloads": 50,
        "max_downloads_per_client": 2,
        "hosts": ["clinic.example"],
        "adhoc": {
            "max_groups": 1000,
            "max_active": 20,
            "max_active_per_analyst": 5,
            "max_total": 50,
            "max_requests_per_minute": 10,
            "max_plans_per_minute": 20,
            "max_memory": "16MB",
            "max_cpu_ms": 100,
        },
    },
}
REPORTED: dict[str, Any] = {
    "stream": {
        "name": "poll",
        "source": "reports",
        "allow_reports_from": "anyone",
        "tick": "10s",
        "start": "2026-01-05T00:00:00Z",
        "unit": "report",
        "budget": {"epsilon": 3},
        "columns": {
            "emoji": {
                "report": "HadamardCountMeanSketch",
                "epsilon": 2,
                "values": ["a", "b", "c"],
                "hashes": 16,
                "width": 32,
                "seed": 7,
                "on_repeat": "charge",
                "reports_per_user": 30,
            },
            "age": {"values": ["young", "old"]},
        },
    },
    "release": [
        {"name": "emoji", "sql": "SELECT emoji, COUNT(*) FROM poll GROUP BY emoji"},
        {"name": "ages", "sql": "SELECT age, COUNT(*) FROM poll GROUP BY age", "epsilon": 1},
    ],
}
NAMED = ("region", "body heat", "sensor", "device", "sites", "emoji", "age")  # by the curator: no keys of ours
ELSEWHERE = {"w_event", "branching", "pan_private", "reserved_intrusions", "store", "weight", "max_changes"}
ELSEWHERE |= {"allow_reports_from", "report", "hashes", "width", "seed", "on_repeat", "reports_per_user"}  # of REPORTED
ELSEWHERE |= {"mapper", "map", "reduce"}  # tests/mapreduce/test_mapper_releases.py

Change = Callable[[dict[str, Any]], object]


def path_in(folder: Path) -> Path:
    """Return the path of the file, and write the table that it may look up into its folder."""
    if not (folder / "sites.csv").exists():
        (folder / "sites.csv").write_text("sensor,room\na,1\n")
    return folder / "clinic.toml"


def written(folder: Path, text: str | bytes) -> PipelineFile:
    path = path_in(folder)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_pipeline(path)


def clinic(folder: Path, old: str = "", new: str = "") -> PipelineFile:
    assert old in CLINIC
    return written(folder, CLINIC.replace(old, new, 1) if old else CLINIC)


def tables(change: Change = lambda _: None) -> dict[str, Any]:
    changed: dict[str, Any] = tomllib.loads(CLINIC, parse_float=Decimal)
    change(changed)
    return changed


def changed(folder: Path, change: Change) -> PipelineFile:
    return parse_pipeline(tables(change), path_in(folder))


def stream(**settings: Any) -> Change:
    return lambda top: top["stream"].update(settings)


def column(**settings: Any) -> Change:
    return lambda top: top["stream"]["columns"].update(extra=settings)


def release(**settings: Any) -> Change:
    return lambda top: top["release"][0].update(settings)


def cost(budget: dict[str, Any], **settings: Any) -> Change:
    def change(top: dict[str, Any]) -> None:
        del top["release"][0]["epsilon"]
        top["release"][0].update(settings)
        top["stream"]["budget"] = budget

    return change


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(PipelineFileError) as refused:
        act()
    text = str(refused.value)
    assert len(text.splitlines()) == 1
    assert text.startswith("clinic.toml: ")
    assert refused.value.__suppress_context__
    return text.removeprefix("clinic.toml: ")


def said(act: Callable[[], object]) -> str:
    """The refusal, or nothing where there is none."""
    try:
        act()
    except PipelineFileError as refused:
        return str(refused)
    return ""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all keys of a table and of those in it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        if isinstance(value, dict):
            yield (*path, key)
        yield from places(inner, (*path, key))


def at(top: Any, place: tuple[Any, ...]) -> Any:
    for key in place:
        top = top[key]
    return top


KEYS = [place for place in places(EVERYTHING) if place[-1] not in NAMED]
REPORTED_KEYS = [place for place in places(REPORTED) if place[-1] not in NAMED]
