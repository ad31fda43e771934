"""Packages that only some people need: imported when they are, with a word on how to have them."""

from collections.abc import Iterator
from contextlib import contextmanager


class MissingPackage(ImportError):  # noqa: N818 - named for what it is
    """A package that is not installed, and how to install it."""


@contextmanager
def needs(name: str, install: str) -> Iterator[None]:
    """Around an import: an error that says what to install, if it is one of those named that is not there.
    Any other, of a package that is broken or of this one, is seen as it is."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in name.split():
            raise
        raise MissingPackage(f"{name} must be installed for this: pip install {install!r}") from None
