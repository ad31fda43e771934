"""Windows of a release: the curator's durations become whole numbers of ticks.

"running"                   since the release's first tick
"each"                      every tick by itself
"sliding 24h"               the last 24 hours:            "sliding 288" with ticks of 5 minutes
"decayed half-life 1h"      halved with every hour:       "decayed 12"
"decayed polynomial 1.5"    (age in ticks + 1)^-1.5:      "decayed polynomial 1.5"
"tumbling 1d"               each period of 24 hours:      "tumbling 288"
"tumbling day ZONE"         each day, week or month of a time zone, by default the stream's
["sliding 1h", ...]         the last hour, and others:    ["sliding 12", ...], the longest last
"""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from zoneinfo import available_timezones

from streamgauge.config.periods import CALENDAR_UNITS, TUMBLING
from streamgauge.config.rules import ZONE_RULE, count_ticks, format_duration, parse_duration
from streamgauge.config.toml_table import Rule
from streamgauge.continual.choice import POLYNOMIAL_KIND

_DURATION_WINDOW = re.compile(r"(sliding|decayed half-life|tumbling) ([0-9a-z]+)")
_CALENDAR_WINDOW = re.compile(rf"({TUMBLING} (?:{'|'.join(CALENDAR_UNITS)}))(?: (\S+))?")
_POLYNOMIAL_WINDOW = re.compile(POLYNOMIAL_KIND + r" ([0-9]{1,2}(?:\.[0-9]{1,3})?)")
MIN_EXPONENT, MAX_EXPONENT = Decimal("0.01"), Decimal(10)
MIN_WINDOWS, MAX_WINDOWS = 2, 8  # of one release
KINDS = {"sliding": "sliding", "decayed": "decayed half-life", TUMBLING: TUMBLING}
EXAMPLES = (
    *("running", "each", "sliding 24h", "tumbling 1d", "tumbling day Europe/Berlin"),
    *("decayed half-life 1h", "decayed polynomial 1.5"),
)
FORMS = '"running", "each", "sliding 24h", "tumbling 1d" or "decayed half-life 1h"'
CALENDAR_FORM = '"tumbling day Europe/Berlin" (or week, or month)'


def build_window_rule(tick: int, zone: str = "UTC", value: Any = None) -> Rule[str]:
    """Return the rule for a window with ticks of this length, in a stream's time zone.

    If it refuses `value`, which names a kind of window, its words are about that kind.
    """

    def parse(value: Any) -> str | None:
        if value in ("running", "each"):
            return str(value)
        if isinstance(value, str) and value.startswith(POLYNOMIAL_KIND):
            return _parse_power(value)
        if isinstance(value, str) and (calendar := _CALENDAR_WINDOW.fullmatch(value)):
            found = ZONE_RULE.parse(calendar[2] or zone)
            return None if found is None else f"{calendar[1]} {found}"
        match = _DURATION_WINDOW.fullmatch(value) if isinstance(value, str) else None
        length = parse_duration(match[2]) if match else None
        count = count_ticks(length, tick) if length else None
        if match and match[1] == TUMBLING and count == 1:
            return "each"
        return f"{match[1].split()[0]} {count}" if match and count else None

    if (words := _explain_window(value, tick)) is not None:
        return Rule(words[0], parse, words[1])
    others = f'{CALENDAR_FORM}, or "{EXAMPLES[-1]}" with an exponent from {MIN_EXPONENT} to {MAX_EXPONENT}'
    return Rule(f"{FORMS}, of a whole number of ticks of {format_duration(tick)}, or {others}", parse, EXAMPLES)


def _explain_window(value: Any, tick: int) -> tuple[str, tuple[str, ...]] | None:
    """Return the rule of the part of a window that is wrong, and options for hints. None if it may be any part."""
    if not isinstance(value, str):
        return None
    if (found := _DURATION_WINDOW.fullmatch(value)) and parse_duration(found[2]):
        return f'"{found[1]} DURATION" of a whole number of ticks of {format_duration(tick)}', ()
    kind, _, rest = value.partition(" ")
    unit, _, zone = rest.partition(" ")
    if kind != TUMBLING or not zone:
        return None
    if unit in CALENDAR_UNITS:
        options = tuple(f"{kind} {unit} {name}" for name in sorted(available_timezones()))
        return f'"{kind} {unit} ZONE" with a time zone such as "Europe/Berlin"', options
    options = tuple(f"{kind} {name} {zone}" for name in CALENDAR_UNITS)
    return f'"{kind} UNIT ZONE" with a unit of day, week or month', options


def build_window_list_rule(tick: int) -> Rule[list[str]]:
    """Return the rule for several windows of one release, whose ticks have this length."""
    window_rule = build_window_rule(tick)

    def parse(value: Any) -> list[str] | None:
        if not MIN_WINDOWS <= len(value) <= MAX_WINDOWS:
            return None
        windows = {window_rule.parse(each) for each in value}
        sliding = [window for window in windows if window is not None and window.startswith("sliding ")]
        return sorted(sliding, key=count_window_ticks) if len(sliding) == len(value) else None

    words = f'an array of {MIN_WINDOWS} to {MAX_WINDOWS} different "sliding ..." windows'
    return Rule(f"{words}, of a whole number of ticks of {format_duration(tick)}", parse)


def count_window_ticks(window: str) -> int:
    """Return the ticks of a sliding window."""
    return int(window.partition(" ")[2])


def split_windows(windows: str | Sequence[str]) -> tuple[str, tuple[int, ...]]:
    """Return the window, the longest of several, and the ticks of all shorter ones.

    >>> split_windows(["sliding 12", "sliding 288"]), split_windows("each")
    (('sliding 288', (12,)), ('each', ()))
    """
    if isinstance(windows, str):
        return windows, ()
    return windows[-1], tuple(map(count_window_ticks, windows[:-1]))


def _parse_power(text: str) -> str | None:
    """Return a polynomial decay with the shortest exponent spelling, or None."""
    match = _POLYNOMIAL_WINDOW.fullmatch(text)
    if not match or not MIN_EXPONENT <= Decimal(match[1]) <= MAX_EXPONENT:
        return None
    return f"{POLYNOMIAL_KIND} {Decimal(match[1]).normalize():f}"


def format_window(window: str | Sequence[str], tick: int) -> str:
    """Return a window, or several, in the spelling of the pipeline file.

    >>> format_window("sliding 28", 6 * 3600 * 10**6), format_window("each", 1), format_window("decayed 90", 10**6)
    ('sliding 1w', 'each', 'decayed half-life 1m30s')
    >>> format_window("decayed polynomial 1.5", 10**6)
    'decayed polynomial 1.5'
    >>> format_window(["sliding 60", "sliding 90"], 10**6)
    'sliding 1m, sliding 1m30s'
    >>> format_window("tumbling 24", 3600 * 10**6), format_window("tumbling day UTC", 1)
    ('tumbling 1d', 'tumbling day UTC')
    """
    if not isinstance(window, str):
        return ", ".join(format_window(each, tick) for each in window)
    if window.startswith(POLYNOMIAL_KIND):
        return window
    kind, _, ticks = window.partition(" ")
    return f"{KINDS[kind]} {format_duration(int(ticks) * tick)}" if ticks.isdecimal() else window


def build_ticks_rule(tick: int, end: int | None, example: str = "365d") -> Rule[int]:
    """Return the rule for a horizon: whole ticks, or "end" if the stream has one."""

    def parse(value: Any) -> int | None:
        if value == "end":
            return end
        length = parse_duration(value)
        return count_ticks(length, tick) if length else None

    ways = "" if end is None else 'or "end" '
    return Rule(f'a duration such as "{example}" {ways}of a whole number of ticks of {format_duration(tick)}', parse)
