"""Built-ins of the mapper language, defined: on doubles, and on texts as bytes.

The interpreter runs these functions, and the compiled ones equal them to the bit. `charge` takes the steps that a
function costs, and raises when the record has too few. `IndexError` is an index outside of a text: the record has no
pairs.

    division         IEEE: x / 0 is an infinity or NaN, and such values are never emitted
    a // b, a % b    floor(a / b), and a - floor(a / b) * b: exact for whole numbers below 2^53
    min, max         of two, as in Python: the second if it is smaller (larger), else the first
    int              towards zero; an index is an `int`, with NaN as 0, cut off at 2^31
    lower, upper     of ASCII letters; all other bytes stay
    number           [spaces] [+-] digits [. digits] [spaces]; digits after the fifteenth count as 0; else NaN
"""

from collections.abc import Callable
from math import ceil, copysign, floor, inf, isfinite, isnan, nan, sqrt, trunc

Charge = Callable[[int], None]
SPACES = b" \t\n\r\x0b\x0c"
MAX_DIGITS = 15
POWERS_OF_TEN = tuple(float(10**power) for power in range(23))  # all exact
MAX_CALENDAR_DAYS = 1e8


def divide(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or isnan(left):
        return nan
    return copysign(inf, left) * copysign(1.0, right)


def round_by(rounding: Callable[[float], int], value: float) -> float:
    """Return a whole double, with the sign of the value if it is zero."""
    return copysign(float(rounding(value)), value) if isfinite(value) else value


def floor_double(value: float) -> float:
    return round_by(floor, value)


NUMBER_FUNCTIONS: dict[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": divide,
    "//": lambda a, b: floor_double(divide(a, b)),
    "%": lambda a, b: a - floor_double(divide(a, b)) * b,
    "neg": lambda a: -a,
    "abs": abs,
    "floor": floor_double,
    "ceil": lambda a: round_by(ceil, a),
    "int": lambda a: round_by(trunc, a),
    "sqrt": lambda a: nan if a < 0 else sqrt(a),
    "min": lambda a, b: b if b < a else a,
    "max": lambda a, b: b if b > a else a,
    "calendar": lambda days, part: find_calendar_part(days, int(part)),
}
COMPARISON_FUNCTIONS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
}


def find_calendar_part(days: float, part: int) -> float:
    """Return day, month or year (0, 1, 2) of a day since 1970-01-01, by Hinnant's algorithm.

    >>> [find_calendar_part(19782, part) for part in range(3)]
    [29.0, 2.0, 2024.0]
    """
    if not abs(days) <= MAX_CALENDAR_DAYS:
        return nan
    moved = trunc(days) + 719_468
    era, day_of_era = divmod(moved, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    day, year = day_of_year - (153 * shifted + 2) // 5 + 1, year_of_era + era * 400 + (month <= 2)
    return float((day, month, year)[part])


def to_index(value: float) -> int:
    if isnan(value):
        return 0
    return trunc(min(max(value, -(2.0**31)), 2.0**31 - 1))


def is_same(left: bytes, right: bytes, charge: Charge) -> bool:
    if len(left) != len(right):
        return False
    charge(len(left))
    return left == right


def starts_with(text: bytes, part: bytes, charge: Charge) -> bool:
    return len(part) <= len(text) and is_same(text[: len(part)], part, charge)


def ends_with(text: bytes, part: bytes, charge: Charge) -> bool:
    return len(part) <= len(text) and is_same(text[len(text) - len(part) :], part, charge)


def find_part(text: bytes, part: bytes, begin: int, charge: Charge) -> int:
    """Return the first place of a part from `begin` on, or -1. Each place and each equal byte costs a step."""
    for place in range(begin, len(text) - len(part) + 1):
        charge(1)
        equal = 0
        while equal < len(part) and text[place + equal] == part[equal]:
            charge(1)
            equal += 1
        if equal == len(part):
            return place
    return -1


def skip_bytes(text: bytes, begin: int, spaces: bool, charge: Charge) -> int:
    """Return the first place from `begin` on whose byte is no space, or no other byte."""
    while begin < len(text) and (text[begin] in SPACES) == spaces:
        charge(1)
        begin += 1
    return begin


def next_part(text: bytes, separator: bytes, begin: int, charge: Charge) -> tuple[int, int, int] | None:
    """Return the begin and end of the next part, and the place to continue; None after the last.

    `begin` is 0 at first. After the last part of a text with a separator, it is beyond the text.
    """
    if not separator:
        first = skip_bytes(text, begin, True, charge)
        end = skip_bytes(text, first, False, charge)
        return (first, end, end) if first < len(text) else None
    if begin > len(text):
        return None
    place = find_part(text, separator, begin, charge)
    return (begin, len(text), len(text) + 1) if place < 0 else (begin, place, place + len(separator))


def select_part(text: bytes, separator: bytes, number: float, charge: Charge) -> bytes:
    index, begin = to_index(number), 0
    while index >= 0 and (found := next_part(text, separator, begin, charge)) is not None:
        if index == 0:
            return text[found[0] : found[1]]
        index, begin = index - 1, found[2]
        charge(1)
    raise IndexError


def slice_text(text: bytes, lower: float, upper: float) -> bytes:
    return text[to_index(lower) : to_index(upper)]


def select_character(text: bytes, number: float) -> bytes:
    index = to_index(number)
    if not -len(text) <= index < len(text):
        raise IndexError
    return text[index : index + 1 or None]


def to_number(text: bytes, charge: Charge) -> float:
    """Return the number that a text spells, or NaN.

    >>> [to_number(text, lambda steps: None) for text in (b" 12.50 ", b"-.5", b"1e3")]
    [12.5, -0.5, nan]
    """
    charge(len(text))
    digits = text.strip(SPACES)
    negative = digits[:1] == b"-"
    digits = digits[1:] if digits[:1] in (b"-", b"+") else digits
    mantissa = exponent = significant = 0
    points = digits.count(b".")
    if points > 1 or len(digits) == points or not digits.replace(b".", b"").isdigit():
        return nan
    whole = True
    for byte in digits:
        if byte == ord("."):
            whole = False
        elif significant < MAX_DIGITS:
            mantissa = mantissa * 10 + byte - ord("0")
            significant += mantissa > 0
            exponent -= not whole
        else:
            exponent += whole
    value = float(mantissa)
    while exponent < 0:
        step = min(22, -exponent)
        value, exponent = value / POWERS_OF_TEN[step], exponent + step
    while exponent > 0:
        step = min(22, exponent)
        value, exponent = value * POWERS_OF_TEN[step], exponent - step
    return -value if negative else value
