"""Smart meters of two districts with hourly ticks; the unit is a day of a meter."""

from typing import Any

import numpy as np

import streamgauge as sg
from streamgauge.statistics import Mean, Sum, Variance

DISTRICTS = ("harbour", "old town")
METERS, HOURS = 5_000, 168
# The meters and their hourly reporting are public. The readings of any 24 hours are private.
SETTINGS: dict[str, Any] = {
    "lower": 0,
    "upper": 3,
    "step": 0.01,
    "window": "each",
    "public_counts": True,
    "unit": sg.WEvent(24, replace=True),
}
Columns = dict[str, np.ndarray]


def build_readings(seed: int = 2026) -> Columns:
    """Build one row per meter and hour, with more kWh in evenings and at weekends."""
    rng = np.random.default_rng(seed)
    hour = np.arange(HOURS)
    evening, morning = (np.exp(-(((hour % 24 - at) / width) ** 2)) for at, width in ((19, 3.5), (8, 2)))
    habit = (0.4 + 0.4 * evening + 0.2 * morning) * np.where(hour >= 120, 1.25, 1)
    scale = np.multiply.outer(habit, [0.45, 0.6])[:, :, None]
    kwh = rng.gamma(2, scale, (HOURS, len(DISTRICTS), METERS))
    return {
        "hour": np.repeat(hour + 1, 2 * METERS),
        "district": np.tile(np.repeat(DISTRICTS, METERS), HOURS),
        "kwh": kwh.ravel(),
    }


def main() -> None:
    readings = build_readings()
    loss = sg.Pure(1)  # of each statistic; publishing all of them adds the losses up
    claims = {
        "load": Sum(loss, **SETTINGS),
        "mean": Mean(loss, **SETTINGS),
        "standard deviation": Variance(loss, root=True, **SETTINGS),
    }
    for name, claim in claims.items():
        run = claim.start(groups=DISTRICTS)
        estimate = run.feed(readings["kwh"], ticks=readings["hour"], groups=readings["district"], until=HOURS)
        for district, value, error in zip(DISTRICTS, estimate.value[-1], estimate.stddev[-1], strict=True):
            print(f"{name:<18}  {district:<8} {value:>8.2f}, standard error {error:.2f} kWh")


if __name__ == "__main__":
    main()
