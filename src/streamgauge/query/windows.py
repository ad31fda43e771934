"""Windows of a release as a curator writes them: durations become whole numbers of ticks.

"running"                   since the release's first tick
"each"                      every tick by itself
"sliding 24h"               the last 24 hours:            "sliding 288" with ticks of 5 minutes
"decayed half-life 1h"      halved with every hour:       "decayed 12"
"decayed polynomial 1.5"    (age in ticks + 1)^-1.5:      "decayed polynomial 1.5"
"""

import re
from decimal import Decimal
from typing import Any

from streamgauge.continual.choice import POLYNOMIAL
from streamgauge.query.durations import microseconds, spelled, ticks_of
from streamgauge.query.toml_keys import Rule

_LONG = re.compile(r"(sliding|decayed half-life) ([0-9a-z]+)")
_POWER = re.compile(POLYNOMIAL + r" ([0-9]{1,2}(?:\.[0-9]{1,3})?)")
LEAST_EXPONENT, MOST_EXPONENT = Decimal("0.01"), Decimal(10)
KINDS = {"sliding": "sliding", "decayed": "decayed half-life"}
EXAMPLES = ("running", "each", "sliding 24h", "decayed half-life 1h", "decayed polynomial 1.5")
FORMS = '"running", "each", "sliding 24h" or "decayed half-life 1h"'


def window_rule(tick: int) -> Rule[str]:
    """A window over ticks of this length."""

    def parse(value: Any) -> str | None:
        if value in ("running", "each"):
            return str(value)
        if isinstance(value, str) and value.startswith(POLYNOMIAL):
            return _parse_power(value)
        match = _LONG.fullmatch(value) if isinstance(value, str) else None
        length = microseconds(match[2]) if match else None
        count = ticks_of(length, tick) if length else None
        return f"{match[1].split()[0]} {count}" if match and count else None

    powers = f'"{EXAMPLES[-1]}" with an exponent from {LEAST_EXPONENT} to {MOST_EXPONENT}'
    return Rule(f"{FORMS}, of a whole number of ticks of {spelled(tick)}, or {powers}", parse, EXAMPLES)


def _parse_power(text: str) -> str | None:
    """Return a polynomial decay with the shortest spelling of its exponent; None if it is none."""
    match = _POWER.fullmatch(text)
    if not match or not LEAST_EXPONENT <= Decimal(match[1]) <= MOST_EXPONENT:
        return None
    return f"{POLYNOMIAL} {Decimal(match[1]).normalize():f}"


def window_text(window: str, tick: int) -> str:
    """A window as the file has it.

    >>> window_text("sliding 28", 6 * 3600 * 10**6), window_text("each", 1), window_text("decayed 90", 10**6)
    ('sliding 1w', 'each', 'decayed half-life 1m30s')
    >>> window_text("decayed polynomial 1.5", 10**6)
    'decayed polynomial 1.5'
    """
    if window.startswith(POLYNOMIAL):
        return window
    kind, _, ticks = window.partition(" ")
    return f"{KINDS[kind]} {spelled(int(ticks) * tick)}" if ticks else window


def ticks_rule(tick: int, end: int | None, example: str = "365d") -> Rule[int]:
    """A horizon: a whole number of ticks, or "end" where the stream has one, after so many."""

    def parse(value: Any) -> int | None:
        if value == "end":
            return end
        length = microseconds(value)
        return ticks_of(length, tick) if length else None

    ways = "" if end is None else 'or "end" '
    return Rule(f'a duration such as "{example}" {ways}of a whole number of ticks of {spelled(tick)}', parse)
