"""A pan-private counter: an intruder finds noise in memory, and the count continues."""

import numpy as np

import streamgauge as sg

counter = sg.continual.TwoLevel(sg.Pure(1), horizon=10_000, pan_private=True)
run = counter.start()
released = run.feed(np.ones(4_950, int))
base = int(released[4_900 - 1])  # the release when the open block of 100 ticks began
print("before the subpoena: standard error", round(run.stddev(), 1))

seen = run.intrude()  # noise, hand over, noise
print("the open block holds exactly 50 events; memory says", int(seen.total[0]) - base)

released = run.feed(np.ones(5_050, int))
print("after it: released", released[-1], "of 10000, standard error", round(run.stddev(), 1))
print("intrusions recorded:", run.intrusions, "- the loss is still", counter.loss)
