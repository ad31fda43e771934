"""A pan-private table of users: announced intrusion, posterior odds, estimate."""

import numpy as np

import streamgauge as sg
from streamgauge.panprivate import Density, LimitExceededError

insured = 1_000_000
winter = Density(sg.Pure(2), universe=insured, intrusions=1)
print(f"an intrusion costs {float(winter.state_loss.epsilon):.3f}, the estimate", end=" ")
print(f"{float(winter.output_loss.epsilon):.3f}: {float(winter.loss.epsilon):.0f} in total")

patients = np.random.default_rng(2026).permutation(insured)[:100_000]  # users of a symptom checker this winter
run = winter.start()
run.add(patients[:60_000])

table = run.intrude().entries  # a subpoena: add noise, hand over, add noise
shares = table[patients[:60_000]].mean(), table[patients[60_000:]].mean()
print(f"handed over: {shares[0]:.3f} of the bits of visitors are 1, and {shares[1]:.3f} of the others'")

laws = winter.response.compose(winter.response, 1)  # law of a bit in the handed-over table
odds = max(laws.present / laws.absent, (1 - laws.absent) / (1 - laws.present))
print(f"a bit changes the odds of a visit by a factor of {float(odds):.3f},", end=" ")
print(f"e^epsilon is {np.exp(float(winter.state_loss.epsilon)):.3f}")

run.add(patients[30_000:])  # the run continues, and many users return
try:
    run.intrude()
except LimitExceededError as error:
    print("a second subpoena:", error)

estimate = run.estimate()
low, high = estimate.interval(0.95)
print(f"visitors: {estimate.count:,.0f} +- {estimate.count_stddev:,.0f}, true count {len(patients):,}", end="; ")
print(f"95 %: {low * insured:,.0f} to {high * insured:,.0f}")
