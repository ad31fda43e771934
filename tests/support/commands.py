"""Runs that take commands, for tests: submit some, run until each has its outcome."""

from collections.abc import Sequence
from concurrent.futures import Future
from threading import Event as Flag
from typing import Any

from streamgauge import Pipeline
from streamgauge.runtime.adhoc.releases import AdHocRelease
from streamgauge.runtime.commands.queue import AddRelease, Command, CommandQueue, CommandSchedule
from streamgauge.testing.noise import SilentNoise

AT_ONCE = CommandSchedule()


def run_until_applied(
    made: Pipeline, *commands: Command, schedule: CommandSchedule = AT_ONCE, **settings: Any
) -> list[Future[Any]]:
    """Run a pipeline with silent noise until each command has its outcome. Return the outcomes."""
    stop = settings.setdefault("stop", Flag())
    queue = CommandQueue(schedule, now=settings["clock"].now if "clock" in settings else lambda: 0)
    outcomes = [queue.submit(command) for command in commands]

    def stop_when_done(_: object) -> None:
        if all(each.done() for each in outcomes):
            stop.set()

    for each in outcomes:
        each.add_done_callback(stop_when_done)
    made.run(**{"noise": SilentNoise(), "commands": queue, **settings})
    return outcomes


def add_releases(made: Pipeline, releases: Sequence[AdHocRelease], **settings: Any) -> None:
    """Run a pipeline until releases are added. Raise the first refusal."""
    for outcome in run_until_applied(made, *map(AddRelease, releases), **settings):
        outcome.result()
