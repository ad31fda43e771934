"""A synthetic clinic with hourly ticks: counts, quantiles, extremes, distinct users."""

import numpy as np

import streamgauge as sg
from streamgauge.statistics import Axis, Count, Distinct, Extremes, Quantile, RangeCount

HOURS, PATIENTS = 168, 4_000
Columns = dict[str, np.ndarray]


def build_visits(seed: int = 2026) -> Columns:
    """Build one row per visit. Waits are in minutes, longest on the fourth day."""
    rng = np.random.default_rng(seed)
    hour = np.arange(1, HOURS + 1)
    rate = 60 + 45 * np.sin((hour % 24 - 8) / 24 * 2 * np.pi) + 40 * ((hour > 72) & (hour <= 96))
    hours = np.repeat(hour, rng.poisson(rate))
    waits = rng.gamma(3, 5 + 0.12 * rate[hours - 1])
    ages = np.clip(rng.normal(48, 22, len(hours)), 0, 99).astype(int)
    users = (PATIENTS * rng.beta(1, 3, len(hours))).astype(int)
    return {"hour": hours, "wait": waits, "age": ages, "patient": users}


def main() -> None:
    visits = build_visits()
    loss = sg.Pure(1)  # of each statistic; publishing all of them adds the losses up

    count = Count(loss, window="sliding 24").start()  # the last day, without an end
    today = count.feed(ticks=visits["hour"], until=HOURS)
    print(f"visits of the last day: {today.value[-1, 0]:.0f}, standard error {today.stddev[-1, 0]:.0f}")

    waits = Quantile(loss, q=(0.5, 0.9), lower=0, upper=240, step=5, horizon=HOURS).start()
    waits.feed(visits["wait"], ticks=visits["hour"], until=HOURS - 1)
    quantiles = waits.step(visits["wait"][visits["hour"] == HOURS])  # the last hour as a single step
    low, high = quantiles.interval()
    for q, value, least, most in zip((50, 90), quantiles.value, low, high, strict=True):
        print(f"{q} % waited up to {value[0]:.0f} minutes (95 %: {least[0]:.0f} to {most[0]:.0f})")

    longest = Extremes(loss, lower=0, upper=240, step=5, horizon=HOURS).start()
    ends = longest.feed(visits["wait"], ticks=visits["hour"], until=HOURS).select_tick(-1)
    most = ends.count_beyond()[1][1, 0]
    print(f"someone waited {ends.maximum[0]:.0f} minutes, and at most {most:.0f} visits were longer")

    axes = {"age": Axis(0, 100, 5), "wait": Axis(0, 240, 10)}
    table = {name: visits[name] for name in axes}
    boxes = RangeCount(loss, axes=axes, horizon=HOURS).start()
    answers = boxes.feed(table, ticks=visits["hour"], until=HOURS)
    old = answers.count(age=(65, None), wait=(60, None)).select_tick(-1)
    print(f"65 and over, waited an hour or more: {old.value[0]:.0f}, standard error {old.stddev[0]:.0f}")

    claim = Distinct(loss, universe=PATIENTS, horizon=HOURS, unit=sg.User(10, HOURS))
    distinct = claim.start().feed(users=visits["patient"], ticks=visits["hour"], until=HOURS).select_tick(-1)
    print(f"different patients: {distinct.value[0]:.0f}, standard error {distinct.stddev[0]:.0f}")


if __name__ == "__main__":
    main()
