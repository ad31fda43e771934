"""Save a run as bytes and resume it; only the same claim can load it."""

import numpy as np

import streamgauge as sg

counter = sg.continual.choose(sg.Zcdp("1/8"), horizon=100_000)
run = counter.start(width=2)
run.feed(np.ones((1_000, 2), int))
saved = run.save()
print(type(counter).__name__, "saved at tick", run.tick, "in", len(saved), "bytes")

run = counter.load(saved)
print("resumed:", run.step([1, 1]).round(1), "at tick", run.tick)

try:
    sg.continual.choose(sg.Zcdp("1/4"), horizon=100_000).load(saved)
except sg.continual.InvalidSaveError as refusal:
    print("another claim is refused:", str(refusal)[:40], "...")
