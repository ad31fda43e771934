"""The largest groups of a stream: ORDER BY and LIMIT, declared groups beside discovered ones."""

import json
import random
import tempfile
from pathlib import Path

import streamgauge as sg
from streamgauge.store.keys import create_key

AIRPORTS = ["ATL", "BOS", "CLT", "DEN", "FLL", "LAX", "MCO", "MIA", "ORD", "SFO"]
BY_AIRPORT = "SELECT dest, COUNT(*) FROM flights GROUP BY dest ORDER BY COUNT(*) DESC LIMIT 3"
BY_CITY = "SELECT city, COUNT(*) FROM flights GROUP BY city ORDER BY COUNT(*) DESC LIMIT 3"
folder = Path(tempfile.mkdtemp())
tables = {
    "stream": {
        "name": "flights",
        "source": "flights.jsonl",
        "mode": "batch",
        "time": "at",
        "time_format": "epoch s",
        "tick": "1h",
        "start": "2026-01-05T00:00:00Z",
        "end": "2026-01-06T00:00:00Z",
        "unit": "event",
        "budget": {"epsilon": 1, "delta": 1e-6},
        "key": "file:flights.key",
        "columns": {"dest": {"values": AIRPORTS}, "city": {"max_groups": 100}},  # cities are discovered
    },
    "release": [
        {"name": "airports", "sql": BY_AIRPORT, "share": 0.5},
        {"name": "cities", "sql": BY_CITY, "share": 0.5, "delta": 1e-7},
    ],
}
chance = random.Random(1)
with (folder / "flights.jsonl").open("w") as file:
    for number in range(6000):
        place = min(int(chance.expovariate(0.4)), len(AIRPORTS) - 1)
        flight = {"at": 1_767_571_200 + 14 * number, "dest": AIRPORTS[place], "city": f"city {place}"}
        file.write(json.dumps(flight) + "\n")

create_key(folder / "flights.key")
pipeline = sg.Pipeline.from_tables(tables, folder / "flights.toml")
print(pipeline.plan())
pipeline.run()
for name in ("airports", "cities"):
    table = pipeline.releases(name).to_pandas()
    print(table[table["tick"] == 24][["rank", *pipeline.releases(name).shape.columns, "count", "count_low"]])
