"""A streaming pipeline: follow a growing file; late events count in the next tick."""

import json
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread

import streamgauge as sg
from streamgauge.store.keys import create_key

SQL = "SELECT page, COUNT(*) FROM clicks GROUP BY page"
folder = Path(tempfile.mkdtemp())
start = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1)
tables = {
    "stream": {
        "name": "clicks",
        "source": "clicks.jsonl",
        "mode": "streaming",
        "time": "at",
        "time_format": "epoch ms",
        "tick": "500ms",
        "start": start.isoformat(),
        "end": (start + timedelta(seconds=2)).isoformat(),
        "allowed_lateness": "200ms",
        "late": "next_tick",
        "unit": {"user": "who", "max_events_per_tick": 3, "max_ticks": 4},
        "budget": {"epsilon": 2},
        "key": "file:clicks.key",
        "columns": {"page": {"values": ["home", "shop"]}},
    },
    "release": [{"name": "clicks", "sql": SQL, "epsilon": 2, "horizon": "end"}],
    "sink": [{"to": "releases.csv"}],
}


def write_clicks() -> None:
    """Append a click every few milliseconds."""
    with (folder / "clicks.jsonl").open("a", buffering=1) as file:
        for number in range(600):
            click = {"at": time.time_ns() // 10**6, "who": number % 90, "page": ("home", "shop")[number % 3 > 1]}
            file.write(json.dumps(click) + "\n")
            time.sleep(0.005)


create_key(folder / "clicks.key")
Thread(target=write_clicks, daemon=True).start()
pipeline = sg.Pipeline.from_tables(tables, folder / "clicks.toml")
for release in pipeline:
    for row in release.rows():
        print(row["end"], row["group"]["page"], row["count"]["value"], "±", round(row["count"]["stddev"]))
print((folder / "releases.csv").read_text().splitlines()[0])
print(pipeline.ledger().ledger)
