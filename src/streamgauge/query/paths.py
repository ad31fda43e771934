"""Where a pipeline file's paths lead, told in one way to whoever opens them and to whoever compares them.

Promise
    Two names of one place have the same `real_path`, however they are spelt: from home (`~`), through links,
    or with dots. So what must be apart is found out by its place, not by its name.
"""

import os
from pathlib import Path


def path_of(text: str, base: Path) -> Path:
    """A path of the file: relative to `base`, unless it begins at the root or at home."""
    return base / os.path.expanduser(text)


def real_path(path: Path) -> Path:
    """The place itself: absolute, all links followed, whether or not anything is there yet."""
    return Path(os.path.realpath(path))
