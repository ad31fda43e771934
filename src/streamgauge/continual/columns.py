"""States side by side: more groups for a run that is on its way.

Most arrays of a state have one column per group, on their last axis; some are public and have none. Which is
which shows in two blank states, of one and of two groups: what differs in width has columns.
"""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def append_columns(state: Any, more: Any, one: Any, two: Any) -> None:
    """Appends the groups of `more` to those of `state`, in place; `one` and `two` are the blanks."""
    for name in (field.name for field in fields(state)):
        part, other, narrow, wide = (getattr(whole, name) for whole in (state, more, one, two))
        if is_dataclass(part):
            append_columns(part, other, narrow, wide)
        elif isinstance(part, np.ndarray) and narrow.shape[-1] != wide.shape[-1]:
            setattr(state, name, beside(part, other))


def beside(left: Array, right: Array) -> Array:
    """Both arrays as one; where one has made more room for rows to come, the other gets it too."""
    rows = max(left.shape[0], right.shape[0])
    if left.ndim > 1:
        left, right = with_rows(left, rows), with_rows(right, rows)
    return np.concatenate([left, right], axis=-1)


def with_rows(array: Array, rows: int) -> Array:
    room = np.zeros((rows - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, room]) if len(room) else array
