"""Web logs: minutes by section of a site, by a mapper in a pipeline file."""

import os
import tempfile
from pathlib import Path

import numpy as np

import streamgauge as sg
from streamgauge.store.keys import create_key

FILE = """
[stream]
name = "web"
source = "web.csv"
time = "time"
time_format = "epoch s"
tick = "1h"
start = "2026-01-05"
end = "2026-01-06"
unit = { user = "visitor", max_events_per_tick = 3, max_ticks = 4 }
budget = { epsilon = 4 }
key = "file:web.key"
[stream.columns]
url = { type = "text" }
seconds = { bounds = [0, 1200] }
[mapper.sections]
source = '''
def mapper(url, seconds, time):
    path = url.lower()
    if path.split("/")[1] in ("news", "blog"):
        emit("read", seconds / 60)
    elif path.startswith("/shop/"):
        emit("cart" if "basket" in path else "browse", seconds / 60)
    if time.weekday() < 5 and 8 <= time.hour < 18:
        emit("office hours", seconds / 60)
'''
columns = ["url", "seconds", "time"]
keys = ["read", "browse", "cart", "office hours"]
max_pairs = 2
bounds = [0, 20]

[[release]]
name = "minutes"
map = "sections"
reduce = "mean"
epsilon = 4
"""
os.chdir(tempfile.mkdtemp())
chance, count = np.random.default_rng(5), 60_000
pages = chance.choice(["/news/today", "/Blog/7", "/shop/shoes", "/shop/basket/pay", "/help"], count)
columns = np.sort(chance.integers(0, 86_400, count)), chance.integers(0, 6000, count), pages
lines = [f"{1_767_571_200 + s},v{u},{url},{chance.exponential(200):.0f}\n" for s, u, url in zip(*columns, strict=True)]
Path("web.csv").write_text("time,visitor,url,seconds\n" + "".join(lines))
Path("web.toml").write_text(FILE)
create_key(Path("web.key"))
pipeline = sg.Pipeline.from_file("web.toml")
pipeline.run()
print(pipeline.releases("minutes").to_pandas().tail(4).to_string())
