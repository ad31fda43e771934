"""Smart meters of two districts, hour by hour over a week, any day of a household hidden."""

from typing import Any

import numpy as np

import streamgauge as sg
from streamgauge.statistics import Mean, Sum, Variance

DISTRICTS = ("harbour", "old town")
METERS, HOURS = 5_000, 168
# The owners of meters and the hourly reports are public. The readings in any 24 hours are private.
SETTINGS: dict[str, Any] = {
    "lower": 0,
    "upper": 3,
    "step": 0.01,
    "window": "each",
    "public_counts": True,
    "unit": sg.WEvent(24, replace=True),
}
Columns = dict[str, np.ndarray]


def readings(seed: int = 2026) -> Columns:
    """One row per meter and hour: the kilowatt-hours used, more in the evening and at the weekend."""
    rng = np.random.default_rng(seed)
    hour = np.arange(HOURS)
    evening, morning = (np.exp(-(((hour % 24 - at) / width) ** 2)) for at, width in ((19, 3.5), (8, 2)))
    habit = (0.4 + 0.4 * evening + 0.2 * morning) * np.where(hour >= 120, 1.25, 1)
    scale = np.multiply.outer(habit, [0.45, 0.6])[:, :, None]
    used = rng.gamma(2, scale, (HOURS, len(DISTRICTS), METERS))
    return {
        "hour": np.repeat(hour + 1, 2 * METERS),
        "district": np.tile(np.repeat(DISTRICTS, METERS), HOURS),
        "kwh": used.ravel(),
    }


def main() -> None:
    seen = readings()
    loss = sg.Pure(1)  # for each statistic: if you publish all of them, the losses add
    claims = {
        "load": Sum(loss, **SETTINGS),
        "mean": Mean(loss, **SETTINGS),
        "standard deviation": Variance(loss, root=True, **SETTINGS),
    }
    for name, claim in claims.items():
        run = claim.start(groups=DISTRICTS)
        found = run.feed(seen["kwh"], ticks=seen["hour"], groups=seen["district"], until=HOURS)
        for where, value, error in zip(DISTRICTS, found.value[-1], found.stddev[-1], strict=True):
            print(f"{name:<18}  {where:<8} {value:>8.2f}, standard error {error:.2f} kWh")


if __name__ == "__main__":
    main()
