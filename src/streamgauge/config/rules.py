"""Rules for values of a pipeline file: text, names, numbers, durations, instants.

**Numbers** are exact: the file's floats arrive as decimals, and 0.1 is 1/10. They are bounded in size, so that
no arithmetic on them can take long.

**Durations** such as "5m", "1h30m" and "2w" are whole microseconds. A bare number is refused: it does not show
whether 300 are seconds, milliseconds or ticks. A month and a year are refused too, because their length varies. A day
is 24 hours.

**Instants** such as 2026-01-05T00:00:00Z are whole microseconds since 1970 (UTC). An instant without an offset, or a
date, is in the stream's time zone. If the clocks there show it twice or never, when summer time begins or ends, it is
refused, because it would have to be guessed.
"""

import re
import unicodedata
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

from streamgauge.config.toml_table import Rule
from streamgauge.privacy.rationals import parse_rational

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY
UNITS = {"w": WEEK, "d": DAY, "h": HOUR, "m": MINUTE, "s": SECOND, "ms": MILLISECOND}
MAX_DURATION = 100 * 366 * DAY
DURATION_EXAMPLE = '"5m"'
NO_UNIT_HINT = "a number alone has no unit"

_DURATION_PATTERN = re.compile("".join(rf"(?:([0-9]{{1,18}}){unit})?" for unit in UNITS))


def parse_duration(text: Any) -> int | None:
    """Return the length of a duration of at most a hundred years, or None.

    Units come from the largest down, each at most once.

    >>> parse_duration("1h30m") == 90 * MINUTE, parse_duration("300s") == parse_duration("5m")
    (True, True)
    >>> parse_duration("5 minits"), parse_duration(300), parse_duration("30m1h")
    (None, None, None)
    """
    match = _DURATION_PATTERN.fullmatch(text) if isinstance(text, str) and text else None
    if match is None:
        return None
    parts = zip(match.groups(), UNITS.values(), strict=True)
    total = sum(int(count) * length for count, length in parts if count)
    return total if total <= MAX_DURATION else None


def format_duration(length: int) -> str:
    """Return the shortest spelling of a duration in whole milliseconds.

    >>> format_duration(90 * MINUTE), format_duration(0), format_duration(2 * WEEK + SECOND)
    ('1h30m', '0s', '2w1s')
    """
    text = ""
    for unit, size in UNITS.items():
        count, length = divmod(length, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def count_ticks(length: int, tick: int) -> int | None:
    """Return the ticks of a duration, if it is a whole number of them above 0."""
    count, rest = divmod(length, tick)
    return count if count and not rest else None


MAX_TEXT_CHARS = 1024  # characters of a name, a label or a cell
MAX_ABS_NUMBER = Fraction(10**100)
MAX_COUNT = 2**40  # groups, codes, users: beyond it no machine has the memory
MAX_EXACT_INT = 2**53  # whole numbers below it are exact doubles
LINE_BREAK_CATEGORIES = {"Cc", "Cs", "Zl", "Zp"}  # categories of characters that a line of text excludes

N = TypeVar("N", bound=str)


def build_choice_rule(*options: N) -> Rule[N]:
    """Return the rule for one of these words."""
    words = " or ".join(f'"{option}"' for option in options)
    found = {str(option): option for option in options}
    return Rule(words, lambda v: found.get(v) if isinstance(v, str) else None, options)


def build_int_rule(minimum: int = 1, maximum: int = MAX_EXACT_INT) -> Rule[int]:
    """Return the rule for a whole number in limits."""
    limit = "2^40" if maximum == MAX_COUNT else "2^53" if maximum == MAX_EXACT_INT else str(maximum)

    def parse(value: Any) -> int | None:
        return value if type(value) is int and minimum <= value <= maximum else None

    return Rule(f"a whole number from {minimum} to {limit}", parse)


def parse_exact(value: Any) -> Fraction | None:
    """Return the exact value of a finite number of bounded size, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return None
    if isinstance(value, int | Fraction):
        return Fraction(value) if -MAX_ABS_NUMBER <= value <= MAX_ABS_NUMBER else None
    number = Decimal(str(value))
    if not number.is_finite() or len(number.as_tuple().digits) > 100 or abs(number.adjusted()) > 99:
        return Fraction(0) if number.is_zero() else None
    return parse_rational(number)


def parse_fraction(value: Any) -> Fraction | None:
    """Return the exact value of a number, or of a fraction in text.

    >>> parse_fraction("4/5"), parse_fraction("4/0"), parse_fraction("0.8")
    (Fraction(4, 5), None, None)
    """
    ratio = isinstance(value, str) and re.fullmatch(r"([0-9]{1,20})/([1-9][0-9]{0,19})", value)
    return Fraction(value) if ratio else parse_exact(value)


def build_number_rule(minimum: str, maximum: str) -> Rule[Fraction]:
    """Return the rule for a number in limits, or a fraction in text such as "1/3"."""

    def parse(value: Any) -> Fraction | None:
        number = parse_fraction(value)
        return number if number is not None and Fraction(minimum) <= number <= Fraction(maximum) else None

    return Rule(f"a number from {minimum} to {maximum}", parse)


def parse_label_number(value: Any) -> int | float | None:
    """Return a number as label: an int if it is whole, else the nearest double."""
    number = parse_exact(value)
    if number is None or abs(number) > MAX_EXACT_INT:
        return None
    return int(number) if number.denominator == 1 else float(number)


def is_line(value: Any, max_chars: int = MAX_TEXT_CHARS) -> bool:
    """Return whether a value is text of one line, without control characters."""
    return isinstance(value, str) and len(value) <= max_chars and not _has_control_characters(value)


def _has_control_characters(text: str) -> bool:
    return not text.isprintable() and any(unicodedata.category(c) in LINE_BREAK_CATEGORIES for c in text)


def build_name_rule(pattern: str, words: str) -> Rule[str]:
    """Return the rule for a name in a given alphabet, of at most 100 characters."""

    def parse(value: Any) -> str | None:
        return value if isinstance(value, str) and len(value) <= 100 and re.fullmatch(pattern, value) else None

    return Rule(words, parse)


def _parse_column_name(value: Any) -> str | None:
    fine = is_line(value) and value.strip() and '"' not in value and not value.startswith("$")
    return value if fine else None


def _parse_sql(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) and not _has_surrogates(value) else None


def _has_surrogates(text: str) -> bool:
    return any(unicodedata.category(c) == "Cs" or c == "\0" for c in text)


NUMBER = Rule("a number", parse_exact)
SWITCH = Rule("true or false", lambda v: v if isinstance(v, bool) else None)
DURATION = Rule(f"a duration such as {DURATION_EXAMPLE}", parse_duration, bare_number_hint=NO_UNIT_HINT)
LENGTH = Rule(DURATION.words, lambda v: parse_duration(v) or None, bare_number_hint=NO_UNIT_HINT)
LINE = Rule("text of one line", lambda v: v if is_line(v) else None)
TEXT = Rule("text", lambda v: v if isinstance(v, str) and not _has_surrogates(v) else None)
SQL = Rule("a SELECT statement", _parse_sql)
PATH = Rule("a path", lambda v: v if is_line(v, 4096) and v.strip() else None)
COLUMN = Rule("the name of a column, without control characters, double quotes or a $ in front", _parse_column_name)
IDENTIFIER = build_name_rule(r"[A-Za-z_][A-Za-z0-9_]*", "a name of letters, digits and _ that begins with no digit")
NAME = build_name_rule(r"[A-Za-z0-9_-]+", "a name of letters, digits, _ and -")
EPSILON = build_number_rule("1e-9", "1e6")
DELTA = build_number_rule("1e-100", "0.999999999")
SHARE = Rule('a part of the budget above 0 and at most 1, such as 0.5 or "1/3"', build_number_rule("1e-9", "1").parse)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
INSTANT_EXAMPLE = '"2026-01-05T00:00:00Z"'

_INSTANT_PATTERN = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?", re.ASCII | re.IGNORECASE
)
_ZONE_PATTERN = re.compile(r"(?!posix|right|localtime)[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")


def build_instant_rule(zone: str) -> Rule[int]:
    """Return the rule for an instant, in this zone if it has no offset."""

    def parse(value: Any) -> int | None:
        moment = _to_datetime(value)
        return None if moment is None else _to_microseconds(moment, ZoneInfo(zone))

    return Rule(f"an instant such as {INSTANT_EXAMPLE} (once on the clocks of {zone})", parse)


def _to_datetime(value: Any) -> datetime | None:
    if isinstance(value, str):
        return _parse_rfc_3339(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime(value.year, value.month, value.day)
    return value if isinstance(value, datetime) else None


def _parse_rfc_3339(text: str) -> datetime | None:
    if not _INSTANT_PATTERN.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper())
    except ValueError:
        return None


def _to_microseconds(moment: datetime, zone: ZoneInfo) -> int | None:
    if moment.utcoffset() is None:
        moment = moment.replace(tzinfo=zone, fold=0)
        if moment.utcoffset() != moment.replace(fold=1).utcoffset():
            return None
    return (moment - EPOCH) // MICROSECOND


def _parse_zone(value: Any) -> str | None:
    if not isinstance(value, str) or not _ZONE_PATTERN.fullmatch(value):
        return None
    try:
        return ZoneInfo(value).key
    except (KeyError, ValueError, OSError):
        return None


ZONE_RULE = Rule('a time zone such as "Europe/Berlin"', _parse_zone)
