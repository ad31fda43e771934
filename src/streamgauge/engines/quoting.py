"""Names and texts inside SQL. What is quoted here was declared by the curator; events are never in SQL."""

from fractions import Fraction


def text(value: str) -> str:
    """A string literal."""
    return "'" + checked(value).replace("'", "''") + "'"


def name(value: str) -> str:
    """An identifier."""
    return '"' + checked(value).replace('"', '""') + '"'


def texts(values: "tuple[str, ...] | list[str]") -> str:
    """String literals between commas."""
    return ", ".join(text(value) for value in values)


def double(value: Fraction | int | float) -> str:
    """A DOUBLE literal: a plain one would be a DECIMAL."""
    return f"({float(value)!r})::DOUBLE"


def checked(value: str) -> str:
    """Names and texts end at a NUL for DuckDB's parser."""
    if "\0" in value:
        raise ValueError(f"names and labels must have no NUL character, got {value!r}")
    return value
