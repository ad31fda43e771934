"""Where a run is broken off, before it is gone on with from its store.

asked to stop      in its second tick, which is published first
killed             at a step of the second tick's commit, from drawing to publishing: by an exception that
                   no code catches, and that none of it is told beforehand
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from threading import Event as Flag

from streamgauge.pipeline.options import Options

STEPS = ("drawn", "packed", "stored", "witnessed", "written", "marked")  # of a commit, in order


class Killed(BaseException):
    """A run is over, at once."""


@dataclass(frozen=True)
class Broken:
    """A run that ends too early: killed at a step, or asked to stop there."""

    step: str
    stopped: bool = False
    tick: int = 2

    def __str__(self) -> str:
        return "asked to stop" if self.stopped else f"killed when {self.step}"

    def options(self, options: Options) -> Options:
        """Of its first life."""
        stop = Flag()
        return replace(options, stop=stop, step=self._hook(stop))

    def _hook(self, stop: Flag) -> Callable[[str], None]:
        drawn = 0

        def step(name: str) -> None:
            nonlocal drawn
            drawn += name == "drawn"
            if drawn < self.tick or name != self.step:
                return
            if not self.stopped:
                raise Killed
            stop.set()

        return step


PUBLISHED = Broken("written", tick=1)  # readers have the tick, and the store does not know
EVERY = (Broken("stored", stopped=True), *map(Broken, STEPS))
