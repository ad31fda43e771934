"""Memory that is let go of, overwritten by the allocator: for runs whose memory can be seized.

Events are read once and dropped. What they were in (a request, its lines, the engine's buffers) is freed by
libraries that overwrite nothing, and would be there until something else is written over it by chance. glibc
overwrites blocks as they are freed if it is asked to: M_PERTURB, once for the whole process, for good. Beyond
that are a few blocks of up to 1,032 bytes that a thread keeps aside, and small objects of Python's own (below
512 bytes), which lie in pools; docs/deploy.md has the settings of the environment by which there are none.
"""

import ctypes

PERTURB = -6  # M_PERTURB, as malloc.h has it
BYTE = 0xA5


def overwrite_freed() -> bool:
    """Whether what is freed from now on is overwritten: not where the C library is another."""
    try:
        return bool(ctypes.CDLL(None).mallopt(PERTURB, BYTE))
    except (OSError, AttributeError):
        return False
