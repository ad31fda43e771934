"""A pan-private table of users: a symptom checker, a subpoena, and its effect on one patient."""

import numpy as np

import streamgauge as sg
from streamgauge.panprivate import Density, LimitExceededError

insured = 1_000_000
winter = Density(sg.Pure(2), universe=insured, intrusions=1)
print(f"each look at the table costs {float(winter.state_loss.epsilon):.3f}, the estimate", end=" ")
print(f"{float(winter.output_loss.epsilon):.3f}: {float(winter.loss.epsilon):.0f} in all")

patients = np.random.default_rng(2026).permutation(insured)[:100_000]  # users who report a fever this winter
run = winter.start()
run.add(patients[:60_000])

table = run.intrude().entries  # the subpoena: noise, hand over, noise
ones = table[patients[:60_000]].mean(), table[patients[60_000:]].mean()
print(f"handed over: {ones[0]:.3f} of the bits of who had come are 1, and {ones[1]:.3f} of the others'")

laws = winter.response.compose(winter.response, 1)  # of a bit as it was handed over
odds = max(laws.present / laws.absent, (1 - laws.absent) / (1 - laws.present))
print(f"a bit moves the odds that somebody came by a factor of {float(odds):.3f},", end=" ")
print(f"where e^epsilon would be {np.exp(float(winter.state_loss.epsilon)):.3f}")

run.add(patients[30_000:])  # the winter continues, and many users return
try:
    run.intrude()
except LimitExceededError as refused:
    print("a second subpoena:", refused)

found = run.estimate()
low, high = found.interval(0.95)
print(f"came: {found.count:,.0f} +- {found.count_stddev:,.0f}, in truth {len(patients):,}", end="; ")
print(f"95 %: {low * insured:,.0f} to {high * insured:,.0f}")
