"""Descriptors 0, 1 and 2, when a program was started without them (`>&-`).

**Promise.** No file that is opened later becomes standard input, output or error, so nothing that is printed
can end up in a store. What was closed stays unusable: whoever reads input or writes output there fails as if
it were closed; what would be said on standard error is said to nobody.
"""

import os
import sys

UNUSABLE = {0: os.O_WRONLY, 1: os.O_RDONLY, 2: os.O_WRONLY}


def occupy() -> None:
    """Called before anything else is opened."""
    for number, flags in UNUSABLE.items():
        if not is_open(number):
            os.set_inheritable(os.open(os.devnull, flags), True)  # which has the lowest number that is free
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


def is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True
