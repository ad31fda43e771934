"""Optional packages: imported late, with an error that names the installation."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingPackageError(ImportError):
    """A package is not installed; the message says how to install it."""


@contextmanager
def require_package(name: str, install: str) -> Iterator[None]:
    """Turn a missing package into an error that says what to install.

    Use it around the import. `name` lists the packages. Any other import error is raised unchanged.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in name.split():
            raise
        raise MissingPackageError(f"{name} must be installed for this: pip install {install!r}") from None
