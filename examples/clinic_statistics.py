"""A made-up clinic, hour by hour over a week: visits, ages, waits and patients."""

import numpy as np

import streamgauge as sg
from streamgauge.statistics import Axis, Count, Distinct, Extremes, Quantile, RangeCount

HOURS, PATIENTS = 168, 4_000
Columns = dict[str, np.ndarray]


def visits(seed: int = 2026) -> Columns:
    """One row per visit. Waits, in minutes, are longer by day, and longest on the fourth."""
    rng = np.random.default_rng(seed)
    hour = np.arange(1, HOURS + 1)
    rate = 60 + 45 * np.sin((hour % 24 - 8) / 24 * 2 * np.pi) + 40 * ((hour > 72) & (hour <= 96))
    hours = np.repeat(hour, rng.poisson(rate))
    waits = rng.gamma(3, 5 + 0.12 * rate[hours - 1])
    ages = np.clip(rng.normal(48, 22, len(hours)), 0, 99).astype(int)
    users = (PATIENTS * rng.beta(1, 3, len(hours))).astype(int)
    return {"hour": hours, "wait": waits, "age": ages, "patient": users}


def main() -> None:
    seen = visits()
    loss = sg.Pure(1)  # for each statistic: if you publish all of them, the losses add

    count = Count(loss, window="sliding 24").start()  # the last day, for ever
    today = count.feed(ticks=seen["hour"], until=HOURS)
    print(f"visits of the last day: {today.value[-1, 0]:.0f}, standard error {today.stddev[-1, 0]:.0f}")

    waits = Quantile(loss, q=(0.5, 0.9), lower=0, upper=240, step=5, horizon=HOURS).start()
    waits.feed(seen["wait"], ticks=seen["hour"], until=HOURS - 1)
    found = waits.step(seen["wait"][seen["hour"] == HOURS])  # the last hour, as it would come
    low, high = found.interval()
    for q, value, least, most in zip((50, 90), found.value, low, high, strict=True):
        print(f"{q} % waited up to {value[0]:.0f} minutes (95 %: {least[0]:.0f} to {most[0]:.0f})")

    longest = Extremes(loss, lower=0, upper=240, step=5, horizon=HOURS).start()
    ends = longest.feed(seen["wait"], ticks=seen["hour"], until=HOURS).select_tick(-1)
    most = ends.count_beyond()[1][1, 0]
    print(f"someone waited {ends.maximum[0]:.0f} minutes, and at most {most:.0f} visits were longer")

    axes = {"age": Axis(0, 100, 5), "wait": Axis(0, 240, 10)}
    table = {name: seen[name] for name in axes}
    boxes = RangeCount(loss, axes=axes, horizon=HOURS).start()
    answers = boxes.feed(table, ticks=seen["hour"], until=HOURS)
    old = answers.count(age=(65, None), wait=(60, None)).select_tick(-1)
    print(f"65 and over, waited an hour or more: {old.value[0]:.0f}, standard error {old.stddev[0]:.0f}")

    claim = Distinct(loss, universe=PATIENTS, horizon=HOURS, unit=sg.User(10, HOURS))
    people = claim.start().feed(users=seen["patient"], ticks=seen["hour"], until=HOURS).select_tick(-1)
    print(f"different patients: {people.value[0]:.0f}, standard error {people.stddev[0]:.0f}")


if __name__ == "__main__":
    main()
