"""The code of a forked child: it starts or resumes a run, and ends as its order says."""

import math
import os
import resource
import signal
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from threading import Thread
from typing import Any

from streamgauge.plan.planner import ReleasePlan, plan_release
from streamgauge.runtime.live.open_ticks import empty_tally
from streamgauge.runtime.release_run import ReleaseRun
from streamgauge.sinks import LineFile, ParquetParts
from streamgauge.testing.noise import SilentNoise
from tests.support.crash_streams import KINDS, Kind, Passing, Sender, World
from tests.support.crash_twins import TWINS
from tests.support.forked import NOBODY, Fault

PATIENCE = 120  # seconds after which a child that hangs is ended, and its test fails
PIECE = 1000  # bytes that are piped at once


@cache
def worked_out(kind: str) -> dict[str, ReleasePlan]:
    """The plans of a stream, with all that their claims know of themselves: children inherit it."""
    file = KINDS[kind].pipeline(Path("/nowhere")).file
    plans = {release.name: plan_release(file, release) for release in file.releases}
    for name, plan in plans.items():
        run = ReleaseRun.start(plan, name, 1, None)
        run.release_ticks([empty_tally(measure) for measure in run.scan.measures], KINDS[kind].of(name))
    return plans


def body(order: dict[str, Any], writing: int) -> None:
    """All that a child does, in its own process, which ends here."""
    signal.alarm(PATIENCE)
    code = 1
    try:
        run(order, writing)
        code = 0
    except BaseException as error:
        said = f"!{type(error).__name__}: {error}".replace("\n", "\\n")
        os.write(writing, f"{said}\n".encode())
    finally:
        os._exit(code)


def run(order: dict[str, Any], writing: int) -> None:
    """Start or resume a run."""
    folder, kind = Path(order["folder"]), KINDS[order["kind"]]
    if order.get("twin"):
        TWINS[order["twin"]]()
    if order.get("unprivileged") and os.getuid() == 0:
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    if "room" in order:
        limit(order["room"])
    if "room_in_sinks" in order:
        limit_sinks(order["room_in_sinks"])
    if kind.sinks[0]["to"] == "-":
        os.dup2(os.open(folder / "-", os.O_WRONLY | os.O_APPEND | os.O_CREAT), 1)
    settings: dict[str, Any] = {"max_batch_ticks": kind.batch, "step": telling(writing, order)}
    settings |= surroundings(kind, folder, order) | order.get("options", {})
    if kind.silent and not order.get("noisy"):
        settings["noise"] = SilentNoise()
    kind.pipeline(folder).run(**settings)


def telling(writing: int, order: dict[str, Any]) -> Callable[[str], None]:
    """A hook that tells each step; at one it ends the process, or fails, or waits for being killed."""
    met: Counter[str] = Counter()
    at, time, how = order.get("at", ("", 0, ""))

    def step(name: str) -> None:
        os.write(writing, f"{name}\n".encode())
        met[name] += 1
        if met.total() > order.get("after", math.inf):
            signal.pause()
        if (name, met[name]) == (at, time):
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            raise Fault(name)

    return step


def surroundings(kind: Kind, folder: Path, order: dict[str, Any]) -> dict[str, Any]:
    """The clock and the input of a run."""
    reading, writing = order.get("pipe", (None, None))
    if kind.mode == "batch":
        return {"standard_input": fed(folder)} if kind.source == "-" else {}
    if kind.source == "http":
        sender = Passing(folder) if kind.private else Sender(folder, kind.pipeline(folder))
        return {"clock": sender, "source": sender.inbox}
    world = World(folder, writing)
    for _ in range(order.get("down", 0)):  # what came while nobody ran
        world.sleep(0)
    return {"clock": world} | ({"standard_input": reading} if kind.source == "-" else {})


def fed(folder: Path) -> int:
    """Return a pipe into which another thread writes the source, piece by piece."""
    reading, writing = os.pipe()

    def feed() -> None:
        data = (folder / "v.jsonl").read_bytes()
        for begin in range(0, len(data), PIECE):
            os.write(writing, data[begin : begin + PIECE])
        os.close(writing)

    Thread(target=feed, daemon=True).start()
    return reading


def limit(room: int) -> None:
    """Limit files to so many bytes from now on."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, resource.RLIM_INFINITY))


def limit_sinks(room: int) -> None:
    """The same for files of sinks alone."""

    def limited(write: Callable[..., bytes]) -> Callable[..., bytes]:
        def written(*what: Any) -> bytes:
            limit(room)
            try:
                return write(*what)
            finally:
                limit(resource.RLIM_INFINITY)

        return written

    LineFile.write = limited(LineFile.write)  # type: ignore[method-assign]
    ParquetParts.write = limited(ParquetParts.write)  # type: ignore[method-assign]
