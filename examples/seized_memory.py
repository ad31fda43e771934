"""A pan-private counter: an intruder reads noisy memory, and the count continues."""

import numpy as np

import streamgauge as sg

counter = sg.continual.TwoLevel(sg.Pure(1), horizon=10_000, pan_private=True)
run = counter.start()
released = run.feed(np.ones(4_950, int))
base = int(released[4_900 - 1])  # the release when the open block of 100 ticks began
print("before the subpoena: standard error", round(run.stddev(), 1))

state = run.intrude()  # add noise, hand over, add noise
print("true events of the open block: 50; memory contains", int(state.total[0]) - base)

released = run.feed(np.ones(5_050, int))
print("after it: released", released[-1], "of 10000, standard error", round(run.stddev(), 1))
print("intrusions recorded:", run.intrusions, "- the loss is still", counter.loss)
