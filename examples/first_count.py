"""Three groups counted in one run, with exact error bars."""

import numpy as np

import streamgauge as sg

counter = sg.continual.Binary(sg.Pure(1.0), horizon=1024)
print(counter.loss, "standard error at tick 700:", round(counter.stddev(700), 1))

run = counter.start(width=3)
print("first release:", run.step(np.array([1, 0, 4])))
block = np.random.default_rng(1).integers(0, 5, (699, 3))
released = run.feed(block)
low, high = counter.interval(released[-1], tick=700)
print("at tick 700:", released[-1], "95 % between", low, "and", high)
