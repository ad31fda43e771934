"""What values of a pipeline file must be: text, names, whole numbers, exact numbers, choices, durations.

Numbers are exact: the file's floats arrive as decimals, and 0.1 is 1/10. They are bounded in size, so that
no arithmetic on them can take long.
"""

import re
import unicodedata
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeVar

from streamgauge.privacy.exact import exact
from streamgauge.query.durations import EXAMPLE, NO_UNIT, microseconds
from streamgauge.query.toml_keys import Rule

LONGEST_TEXT = 1024  # characters of a name, a label or a cell
LARGEST = Fraction(10**100)
MOST = 2**40  # groups, codes, users: beyond it no machine has the memory
FARTHEST = 2**53  # whole numbers that a double tells apart
SINGLE = {"Cc", "Cs", "Zl", "Zp"}  # categories of characters that are not on one line of text

N = TypeVar("N", bound=str)


def one_of(*options: N) -> Rule[N]:
    """One of these words."""
    words = " or ".join(f'"{option}"' for option in options)
    found = {str(option): option for option in options}
    return Rule(words, lambda v: found.get(v) if isinstance(v, str) else None, options)


def whole(least: int = 1, most: int = FARTHEST) -> Rule[int]:
    """A whole number within limits."""
    limit = "2^40" if most == MOST else "2^53" if most == FARTHEST else str(most)

    def parse(value: Any) -> int | None:
        return value if type(value) is int and least <= value <= most else None

    return Rule(f"a whole number from {least} to {limit}", parse)


def exactly(value: Any) -> Fraction | None:
    """The exact value of what is a finite number of bearable size."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | Fraction):
        return None
    if isinstance(value, int | Fraction):
        return Fraction(value) if -LARGEST <= value <= LARGEST else None
    number = Decimal(str(value))
    if not number.is_finite() or len(number.as_tuple().digits) > 100 or abs(number.adjusted()) > 99:
        return Fraction(0) if number.is_zero() else None
    return exact(number)


def rational(value: Any) -> Fraction | None:
    """The exact value of a number, or of a fraction in text.

    >>> rational("4/5"), rational("4/0"), rational("0.8")
    (Fraction(4, 5), None, None)
    """
    ratio = isinstance(value, str) and re.fullmatch(r"([0-9]{1,20})/([1-9][0-9]{0,19})", value)
    return Fraction(value) if ratio else exactly(value)


def amount(least: str, most: str) -> Rule[Fraction]:
    """A number between limits, or a fraction in text such as "1/3"."""

    def parse(value: Any) -> Fraction | None:
        number = rational(value)
        return number if number is not None and Fraction(least) <= number <= Fraction(most) else None

    return Rule(f"a number from {least} to {most}", parse)


def label_number(value: Any) -> int | float | None:
    """A number that can be a label: whole ones as such, others as the nearest double."""
    number = exactly(value)
    if number is None or abs(number) > FARTHEST:
        return None
    return int(number) if number.denominator == 1 else float(number)


def is_line(value: Any, longest: int = LONGEST_TEXT) -> bool:
    """Whether it is text of one line, without control characters."""
    return isinstance(value, str) and len(value) <= longest and not _marked(value)


def _marked(text: str) -> bool:
    return not text.isprintable() and any(unicodedata.category(c) in SINGLE for c in text)


def named(pattern: str, words: str) -> Rule[str]:
    """A name in a given alphabet, of at most 100 characters."""

    def parse(value: Any) -> str | None:
        return (
            value if isinstance(value, str) and len(value) <= 100 and re.fullmatch(pattern, value) else None
        )

    return Rule(words, parse)


def _column(value: Any) -> str | None:
    fine = is_line(value) and value.strip() and '"' not in value and not value.startswith("$")
    return value if fine else None


def _sql(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) and not _unpaired(value) else None


def _unpaired(text: str) -> bool:
    return any(unicodedata.category(c) == "Cs" or c == "\0" for c in text)


NUMBER = Rule("a number", exactly)
SWITCH = Rule("true or false", lambda v: v if isinstance(v, bool) else None)
DURATION = Rule(f"a duration such as {EXAMPLE}", microseconds, number=NO_UNIT)
LENGTH = Rule(DURATION.words, lambda v: microseconds(v) or None, number=NO_UNIT)
LINE = Rule("text of one line", lambda v: v if is_line(v) else None)
TEXT = Rule("text", lambda v: v if isinstance(v, str) and not _unpaired(v) else None)
SQL = Rule("a SELECT statement", _sql)
PATH = Rule("a path", lambda v: v if is_line(v, 4096) and v.strip() else None)
COLUMN = Rule("the name of a column, without control characters, double quotes or a $ in front", _column)
IDENTIFIER = named(r"[A-Za-z_][A-Za-z0-9_]*", "a name of letters, digits and _ that begins with no digit")
NAME = named(r"[A-Za-z0-9_-]+", "a name of letters, digits, _ and -")
EPSILON = amount("1e-9", "1e6")
DELTA = amount("1e-100", "0.999999999")
SHARE = Rule('a part of the budget above 0 and at most 1, such as 0.5 or "1/3"', amount("1e-9", "1").parse)
