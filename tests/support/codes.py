"""Checks of the `code` of an error, for `pytest.raises(..., check=...)`."""

from collections.abc import Callable
from typing import Any


def has_code(code: str) -> Callable[[Any], bool]:
    """Return a check that accepts errors of this code."""
    return lambda error: error.code == code
