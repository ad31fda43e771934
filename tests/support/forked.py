"""Children that die: a test runs a function in a fork, and the parent waits for its end."""

import os
import signal
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

NOBODY = 65534


def forked(act: Callable[[], object]) -> int:
    """Runs `act` in a child; tells how it ended, as `waitpid` does: 0 is well, -9 is killed."""
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(step: str) -> Callable[[str], None]:
    """A hook that ends the process at a step."""

    def hook(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    return hook


class Fault(Exception):  # noqa: N818 - the word of the house
    """Failure that a test injects."""


def raised_at(step: str) -> Callable[[str], None]:
    def hook(name: str) -> None:
        if name == step:
            raise Fault(step)

    return hook


def unprivileged(act: Callable[[Path], object]) -> int:
    """Runs `act` in a child to which modes of files apply, with an empty folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def run() -> None:
            if os.getuid() == 0:
                os.chown(folder, NOBODY, NOBODY)
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            act(folder)

        return forked(run)
