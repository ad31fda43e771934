"""What a device's clocks say: days for budgets that come back, seconds for the pace. Anything but a number is
refused before a report is charged."""

from math import isfinite
from time import time
from typing import Any

import numpy as np

DAY = 24 * 60 * 60


def utc_day() -> int:
    """Whole days since 1970, by the system's clock."""
    return int(time() // DAY)


def is_number(value: Any) -> bool:
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    return number and isfinite(value)


def whole_day(day: Any) -> int:
    if not is_number(day):
        raise ValueError(f"today must tell a number of days, got {day!r}")
    return int(day // 1)


def moment(now: Any) -> float:
    if not is_number(now):
        raise ValueError(f"now must tell seconds since 1970, got {now!r}")
    return float(now)
