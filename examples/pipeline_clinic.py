"""A batch pipeline: plan and run a file, add a release, then plan and run again."""

import os
import tempfile
from pathlib import Path

import numpy as np

import streamgauge as sg
from streamgauge.store.keys import create_key

STREAM = """
[stream]
name = "visits"
source = "visits.csv"
time = "ts"
time_format = "epoch s"
tick = "6h"
start = "2026-01-05T00:00:00Z"
end = "2026-02-04T00:00:00Z"
unit = "event"
budget = { epsilon = 1.0 }
key = "file:clinic.key"

[stream.columns]
region = { values = ["north", "south"] }
temperature = { bounds = [35, 42], grid = 0.1 }
"""
FEVER = """
[[release]]
name = "fever"
sql = "SELECT region, COUNT(*), AVG(temperature) FROM visits WHERE temperature > 38 GROUP BY region"
epsilon = 0.5
expected_events = 15
"""
WEEK = """
[[release]]
name = "this_week"
sql = "SELECT COUNT(*) FROM visits"
window = "sliding 7d"
epsilon = 0.25
"""
rng = np.random.default_rng(1)  # for the synthetic visits only, not for the noise
seconds, temperatures = rng.uniform(0, 30 * 86400, 9000), rng.normal(38, 1, 9000).round(1)
os.chdir(tempfile.mkdtemp())
with open("visits.csv", "w") as file:
    file.write("ts,region,temperature\n")
    for second, temperature in zip(seconds, temperatures, strict=True):
        file.write(f"{1767571200 + second:.0f},{'north' if temperature > 37.5 else 'south'},{temperature}\n")
create_key(Path("clinic.key"))
for text in (STREAM + FEVER, STREAM + FEVER + WEEK):
    Path("clinic.toml").write_text(text)
    pipeline = sg.Pipeline.from_file("clinic.toml")
    print(pipeline.plan(), pipeline.run(), sep="\n\n", end="\n\n")
last = pipeline.releases("fever")[-1]
print(f"fever in the north: {last.value[0, 0]:.0f} ± {last.stddev[0, 0]:.0f}; true: {(temperatures > 38).sum()}")
