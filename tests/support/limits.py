"""Real limits of the process, in place of patched system calls."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_free_descriptors() -> Iterator[None]:
    """Let every call that opens a file fail with EMFILE."""
    with _soft_limit(resource.RLIMIT_NOFILE, 0):
        yield


@contextmanager
def max_file_size(size: int) -> Iterator[None]:
    """Let writes past this size of a file fail with EFBIG, as on a full disk."""
    with _soft_limit(resource.RLIMIT_FSIZE, size):
        yield


@contextmanager
def _soft_limit(kind: int, limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))
