"""Devices on a campus's wifi, sparse and bursty: counted under noise alone, by Pegasus, and on all levels."""

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
ASKED = {
    "plain": ("house, room", '"auto"'),
    "smooth": ("house, room", '{ name = "Pegasus", theta = 20 }'),
    "levels": ("ROLLUP (house, room)", '{ name = "Pegasus", theta = 20 }'),
}
chance = np.random.default_rng(1)  # of the synthetic devices; the noise has its own
truth = np.zeros((4 * 96, 2, 8), int)
for day, house, room in chance.integers(0, [4, 2, 8], (12, 3)):  # a lecture here and there
    truth[day * 96 + chance.integers(32, 64) :, house, room][:6] += chance.poisson(60)
os.chdir(tempfile.mkdtemp())
with open("wifi.csv", "w") as file:
    file.write("ts,house,room\n")
    for tick, house, room in np.argwhere(truth):
        line = f"{1767571200 + 900 * tick},{('library', 'hall')[house]},r{room}\n"
        file.write(line * truth[tick, house, room])
create_key(Path("wifi.key"))
asked = "".join(RELEASE.format(name=name, by=by, mechanism=how) for name, (by, how) in ASKED.items())
Path("wifi.toml").write_text(FILE + asked)
pipeline = sg.Pipeline.from_file("wifi.toml")
print(pipeline.plan(), pipeline.run(), sep="\n\n", end="\n\n")
for name in ASKED:
    off = np.abs(pipeline.releases(name).values("count")[:, :16] - truth.reshape(-1, 16)).mean()
    print(f"{name}: rooms are off by {off:.1f} on average, of {truth.max()} at most")
