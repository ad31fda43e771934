"""Sparse, bursty wifi counts: plain noise, Pegasus, and Pegasus on a rollup."""

import os
import tempfile
from pathlib import Path

import numpy as np

import streamgauge as sg
from streamgauge.store.keys import create_key

FILE = """
[stream]
name = "wifi"
source = "wifi.csv"
time = "ts"
time_format = "epoch s"
tick = "15m"
start = "2026-01-05T00:00:00Z"
end = "2026-01-09T00:00:00Z"
unit = "event"
budget = { epsilon = 0.3 }
key = "file:wifi.key"

[stream.columns]
house = { values = ["library", "hall"] }
room = { values = ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7"] }
"""
RELEASE = """
[[release]]
name = "{name}"
sql = "SELECT house, room, COUNT(*) FROM wifi GROUP BY {by}"
window = "each"
epsilon = 0.1
mechanism = {mechanism}
"""
RELEASES = {
    "plain": ("house, room", '"auto"'),
    "smooth": ("house, room", '{ name = "Pegasus", theta = 20 }'),
    "levels": ("ROLLUP (house, room)", '{ name = "Pegasus", theta = 20 }'),
}
rng = np.random.default_rng(1)  # for the synthetic devices only, not for the noise
truth = np.zeros((4 * 96, 2, 8), int)
for day, house, room in rng.integers(0, [4, 2, 8], (12, 3)):  # a lecture here and there
    truth[day * 96 + rng.integers(32, 64) :, house, room][:6] += rng.poisson(60)
os.chdir(tempfile.mkdtemp())
with open("wifi.csv", "w") as file:
    file.write("ts,house,room\n")
    for tick, house, room in np.argwhere(truth):
        line = f"{1767571200 + 900 * tick},{('library', 'hall')[house]},r{room}\n"
        file.write(line * truth[tick, house, room])
create_key(Path("wifi.key"))
releases = "".join(RELEASE.format(name=name, by=by, mechanism=mechanism) for name, (by, mechanism) in RELEASES.items())
Path("wifi.toml").write_text(FILE + releases)
pipeline = sg.Pipeline.from_file("wifi.toml")
print(pipeline.plan(), pipeline.run(), sep="\n\n", end="\n\n")
for name in RELEASES:
    error = np.abs(pipeline.releases(name).values("count")[:, :16] - truth.reshape(-1, 16)).mean()
    print(f"{name}: mean error of a room {error:.1f}, largest true count {truth.max()}")
