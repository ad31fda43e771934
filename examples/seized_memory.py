"""A pan-private counter: what an intruder finds in memory is noise, and the count goes on."""

import numpy as np

import streamgauge as sg

counter = sg.continual.Kary(sg.Pure(1), horizon=10_000, pan_private=True)
run = counter.start()
run.feed(np.ones(5_000, int))
print("before the subpoena: standard error", round(run.stddev(), 1))

seen = run.intrude()  # noise, hand over, noise
print("handed over (registers on top of the last releases):", seen.entries[1:, 0])
print("exact partial counts were", [5_000 % counter.branching**i for i in range(1, counter.levels)])

released = run.feed(np.ones(5_000, int))
print("after it: released", released[-1], "of 10000, standard error", round(run.stddev(), 1))
print("intrusions recorded:", run.intrusions, "- the loss is still", counter.loss)
