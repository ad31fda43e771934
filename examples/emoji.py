"""Favourite emoji and new words in the local model: the loss of a device, and the estimates."""

import numpy as np

import streamgauge as sg
from streamgauge.localdp import (
    ChargeEachReport,
    DailyBudget,
    Device,
    HadamardCountMeanSketch,
    HeavyHitters,
    WindowedCollector,
)

EMOJI = ("😂", "❤️", "🔥", "🙏", "🦩", "🧿")
SHARE = np.array([0.4, 0.25, 0.2, 0.1, 0.04, 0.01])
chance = np.random.default_rng(2026)

claim = HadamardCountMeanSketch(sg.Pure(4), hashes=256, width=256)
print(f"a report has {claim.report_bits} bits; the most that one moves a count is {claim.influence:.2f}")

phone = Device(claim, max_reports=4)
sent = {phone.report(item) for item in ("🔥", "🔥", "🧿", "🙏")}
print(f"it repeats itself: {len(sent)} report in four days, {phone.remaining_reports} are left, all lose", phone.loss)

phone = Device(claim, ChargeEachReport(total=sg.Pure(8)))
for item in ("🔥", "🔥", "🧿"):
    try:
        phone.report(item)
    except sg.localdp.BudgetExhaustedError as refused:
        print("it pays each time:", refused)

phone = Device(claim, DailyBudget(per_day=sg.Pure(4)))
print("it forgets every night: in all", phone.loss, "and within a year", phone.loss_over_days(365))

week = WindowedCollector(claim, window=7)
for day in range(1, 15):
    devices = chance.choice(6, 3_000, p=SHARE if day < 8 else SHARE[::-1])
    week.step(claim.privatise_many([EMOJI[place] for place in devices]))
    if day in {7, 10, 14}:
        found = week.estimate(EMOJI)
        told = (f"{item} {count:,.0f}" for item, count in zip(EMOJI, found.count, strict=True))
        print(f"day {day}, the last week:", "  ".join(told), f" +- {found.stddev.mean():,.0f}")

words = HeavyHitters(sg.Pure(4), length=8)
typed = ["skibidi"] * 20_000 + ["rizz"] * 16_000 + ["delulu"] * 14_000 + ["gyatt"] * 500
typed += ["".join(each) for each in chance.choice(list("aeionrst"), (49_500, 6))]
collector = words.build_collector()
collector.add(words.privatise_many(typed))
print(f"of {len(typed):,} devices, words of {words.smallest_count(len(typed)):,.0f} are found 9 times in 10:")
frequent = collector.find(10)
for word, low, high in zip(frequent.items, *frequent.interval(0.95), strict=True):
    print(f"    {word}: {low:,.0f} to {high:,.0f}, in truth {typed.count(str(word)):,}")
