"""A poll of devices, with a column of reports of every kind; its input and its expected output."""

import json
from collections.abc import Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Any

import numpy as np
import pytest

from streamgauge import Pipeline
from streamgauge.localdp.report_bytes import pack_codes, unpack_codes
from streamgauge.plan.measure import Tally
from streamgauge.records.reports import decode_reports, encode_reports
from streamgauge.sources import build_inbox
from streamgauge.testing.noise import InsecureNoise
from tests.support.pipelines import Tables, World, pipeline, world

COUNT = "SELECT emoji, COUNT(*) FROM poll GROUP BY emoji"
COLUMN = {"report": "HadamardCountMeanSketch", "epsilon": 2, "hashes": 4, "width": 8, "seed": 7}
POLL: Tables = {
    "stream": {
        "name": "poll",
        "source": "reports",
        "allow_reports_from": "anyone",
        "tick": "10s",
        "start": "2026-01-05T00:00:00Z",
        "unit": "report",
        "budget": {"epsilon": 3},
        "key": "file:v.key",
        "columns": {
            "emoji": {**COLUMN, "values": ["a", "b", "c"], "on_repeat": "charge", "reports_per_user": 30},
            "age": {"values": ["young", "old"]},
        },
    },
    "release": [
        {"name": "all", "sql": COUNT},
        {"name": "now", "sql": COUNT, "window": "each"},
        {"name": "lately", "sql": COUNT, "window": "sliding 20s"},
        {"name": "ages", "sql": "SELECT age, COUNT(*) FROM poll GROUP BY age", "epsilon": 1, "window": "each"},
    ],
}
WINDOWS = {"all": 99, "now": 1, "lately": 2}
LISTED: Tables = {"hashes": None, "width": None, "seed": None}
PROTOCOLS: dict[str, Tables] = {
    "codes": {},
    "vectors": {"report": "CountMeanSketch", "width": 75},  # 12 bytes, the last bits of which are none
    "short vectors": {"report": "UnaryEncoding", **LISTED},  # a byte: kept as codes are
    "long vectors": {"report": "UnaryEncoding", "values": [*"abc", *map(str, range(97))], **LISTED},
}
protocols = pytest.mark.parametrize("column", PROTOCOLS.values(), ids=PROTOCOLS)
Codes = Sequence[Any]  # as records have them: numbers, or texts


def poll(folder: Path, *releases: Tables, **column: Any) -> Pipeline:
    made = deepcopy(POLL)
    made["release"] = [*releases] or made["release"]
    told = made["stream"]["columns"]["emoji"] | column
    made["stream"]["columns"]["emoji"] = {key: value for key, value in told.items() if value is not None}
    return pipeline(folder, made)


def claim(made: Pipeline) -> Any:
    return made.file.stream.reports["emoji"].mechanism


def drawn(made: Pipeline, items: str, seed: int) -> list[Any]:
    """The reports of devices that have these items."""
    rows = claim(made).privatise_many(list(items), InsecureNoise(seed))
    return encode_reports(rows) if is_vector(made) else unpack_codes(rows).tolist()


def is_vector(made: Pipeline) -> bool:
    return made.file.stream.reports["emoji"].is_vector


def rows_of(made: Pipeline, told: Codes) -> Any:
    """Return reports as bytes, without those that are none."""
    if is_vector(made):
        rows, good = decode_reports(told, claim(made).report_size)
        return rows[good]
    return pack_codes(np.array(told, np.int64), claim(made).report_size)


def said(clock: World, codes: Codes) -> bytes:
    """Records as the server hands them on."""
    lines = [{"arrived": clock.now(), "emoji": code, "age": "old"} for code in codes]
    return "".join(f"{json.dumps(each)}\n" for each in lines).encode()


def sending(folder: Path, made: Pipeline, sent: dict[float, Codes], until: float) -> dict[str, Any]:
    """The settings of a run in which so many come at each second."""
    clock, stop = world(folder), Flag()
    inbox = build_inbox(made.file, clock.now)
    clock.acts[until] = stop.set

    def post(second: float, codes: Codes) -> None:
        inbox.put(str(second), said(clock, codes))

    for second, codes in sent.items():
        clock.acts[second] = partial(post, second, codes)
    return {"clock": clock, "source": inbox, "stop": stop}


def expected(made: Pipeline, ticks: Sequence[Codes], reach: int) -> list[list[float]]:
    """Return the estimates of a collector over the last `reach` ticks."""
    found = []
    for last in range(1, len(ticks) + 1):
        collector = claim(made).build_collector()
        for codes in ticks[max(0, last - reach) : last]:
            collector.add(rows_of(made, codes))
        found.append(collector.estimate(made.file.stream.reports["emoji"].values).count.tolist())
    return found


def tally_of(rows: Any, tick: int = 1) -> Tally:
    none = np.zeros(len(rows), np.int64)
    return Tally(none + tick, none, none, none[None] + 1, reports=rows)


def told_by(tally: Tally) -> dict[bytes, int]:
    """Return how often each report is in a tally."""
    assert tally.reports is not None
    found: dict[bytes, int] = {}
    for row, times in zip(tally.reports, tally.sums[0].tolist(), strict=True):
        found[row.tobytes()] = found.get(row.tobytes(), 0) + times
    return found
