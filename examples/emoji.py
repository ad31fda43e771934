"""Favourite emoji and new words in the local model: device budgets and estimates."""

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
rng = np.random.default_rng(2026)

claim = HadamardCountMeanSketch(sg.Pure(4), hashes=256, width=256)
print(f"a report has {claim.report_bits} bits; it changes a count by at most {claim.influence:.2f}")

phone = Device(claim, max_reports=4)
reports = {phone.report(item) for item in ("🔥", "🔥", "🧿", "🙏")}
print(
    f"repeat the first report: {len(reports)} report in four days, {phone.remaining_reports} remain, total", phone.loss
)

phone = Device(claim, ChargeEachReport(total=sg.Pure(8)))
for item in ("🔥", "🔥", "🧿"):
    try:
        phone.report(item)
    except sg.localdp.BudgetExhaustedError as error:
        print("charge each report:", error)

phone = Device(claim, DailyBudget(per_day=sg.Pure(4)))
print("daily budget: in total", phone.loss, "and in a year", phone.loss_over_days(365))

week = WindowedCollector(claim, window=7)
for day in range(1, 15):
    devices = rng.choice(6, 3_000, p=SHARE if day < 8 else SHARE[::-1])
    week.step(claim.privatise_many([EMOJI[index] for index in devices]))
    if day in {7, 10, 14}:
        estimate = week.estimate(EMOJI)
        counts = (f"{item} {count:,.0f}" for item, count in zip(EMOJI, estimate.count, strict=True))
        print(f"day {day}, the last week:", "  ".join(counts), f" +- {estimate.stddev.mean():,.0f}")

words = HeavyHitters(sg.Pure(4), length=8)
typed = ["skibidi"] * 20_000 + ["rizz"] * 16_000 + ["delulu"] * 14_000 + ["gyatt"] * 500
typed += ["".join(each) for each in rng.choice(list("aeionrst"), (49_500, 6))]
collector = words.build_collector()
collector.add(words.privatise_many(typed))
print(f"of {len(typed):,} devices, words of {words.smallest_count(len(typed)):,.0f} are found with probability 0.9:")
frequent = collector.find(10)
for word, low, high in zip(frequent.items, *frequent.interval(0.95), strict=True):
    print(f"    {word}: {low:,.0f} to {high:,.0f}, true count {typed.count(str(word)):,}")
