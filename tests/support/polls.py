"""A poll that devices report to: its file, a server over a run that stands still, and the received reports."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from starlette.routing import Route

from streamgauge.config.pipeline_file import parse_pipeline
from streamgauge.config.settings import PipelineFile
from streamgauge.localdp import wire
from streamgauge.localdp.report_bytes import pack_codes
from streamgauge.server.http.limits import Limits
from tests.support.people import House, Still

COUNT = "SELECT emoji, COUNT(*) FROM poll GROUP BY emoji"
AGES = "SELECT age, COUNT(*) FROM poll GROUP BY age"
SERVER_PAGE = Path(__file__).parents[2] / "docs" / "server.md"
START = 1_767_571_200_000_000
NOW = START + 7
PAGE = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
KEY = "k" * 22
COLUMN = {"report": "HadamardCountMeanSketch", "epsilon": 2, "values": ["a", "b"], "hashes": 32, "width": 16}


def poll(
    folder: Path, senders: str = "anyone", release: dict[str, Any] | None = None, end: str | None = None, **server: Any
) -> PipelineFile:
    tables = {
        "stream": {
            "name": "poll",
            "source": "reports",
            "allow_reports_from": senders,
            "tick": "10s",
            "start": "2026-01-05T00:00:00Z",
            "unit": "report",
            "budget": {"epsilon": 3},
            "key": "file:poll.key",
            **({} if end is None else {"end": end}),
            "columns": {
                "emoji": {**COLUMN, "on_repeat": "repeat", "reports_per_user": 1},
                "age": {"values": ["young", "old"]},
            },
        },
        "release": [
            {"name": "emoji", "sql": COUNT, "window": "each", **(release or {})},
            {"name": "ages", "sql": AGES, "epsilon": 1, "window": "each", **(release or {})},
        ],
        "server": {"rate": 1000, "publish_delay": "4s", "anonymous": True, **server},
    }
    return parse_pipeline(tables, folder / "poll.toml")


def house(
    folder: Path,
    senders: str = "anyone",
    extra: Callable[[Any, Limits], list[Route]] = lambda runner, limits: [],
    **server: Any,
) -> House:
    return House(folder, Still(poll(folder, senders, **server), now=NOW), extra=extra)


def claim(of: House) -> Any:
    return of.file.stream.reports["emoji"].mechanism


def message(of: House, *codes: int) -> bytes:
    return wire.pack_message(claim(of), pack_codes(np.array(codes, np.int64), claim(of).report_size))


def accepted_records(of: House) -> list[dict[str, Any]]:
    """The records that reached the run and lie in a tick, without their times."""
    lines = b"".join(getattr(of.runner.inbox, "batches_read", [])).decode().splitlines()
    found = [record for record in map(json.loads, lines) if record["arrived"] >= START]
    return [{key: value for key, value in record.items() if key != "arrived"} for record in found]
