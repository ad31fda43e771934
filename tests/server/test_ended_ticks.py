"""Last tick of a release that ends during a slow round: independent of the round's duration."""

from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.runtime.commands.queue import Command, CommandQueue
from streamgauge.runtime.published import read_releases
from streamgauge.server.runner import Runner
from tests.support.served import (
    IMMEDIATE,
    SECOND,
    START,
    PausedRunner,
    Stepped,
    committed,
    eventually,
    file_of,
    running,
    write,
)

MORE = {"name": "more", "sql": "SELECT COUNT(*) FROM v", "window": "each", "epsilon": 0.25}
ASKED = 57  # seconds; readers learn of it at 64, when tick 5 is closed and tick 6 is not
LAST = 5
SPEEDS = {"quick": ASKED, "slow": 95}  # second at which the current round ends


@dataclass
class Counted(Stepped):
    """A clock that counts the rounds of an idle run, which sleeps after each."""

    rounds: int = 0

    def sleep(self, microseconds: int) -> None:
        self.rounds += 1
        super().sleep(microseconds)


class Gate:
    """A gate that pauses a run after a read while it is shut."""

    def __init__(self) -> None:
        self.open, self.reached = Flag(), Flag()
        self.open.set()

    def step(self, name: str) -> None:
        if name == "block_read" and not self.open.is_set():
            self.reached.set()
            self.open.wait()


def reach(runner: Runner, clock: Stepped, second: float, tick: int) -> None:
    clock.to(second)
    eventually(lambda: committed(runner)[1] == tick)


def slowed(runner: Runner, clock: Stepped, gate: Gate, second: float) -> None:
    """Request an end during a round that lasts until `second`."""
    gate.open.clear()
    with (runner.file.path.parent / "v.jsonl").open("a") as file:
        file.write('{"ts": 1767571255, "g": "a", "x": 1}\n')
    gate.reached.wait()
    asking = Thread(target=lambda: runner.submit_end("more").result())
    asking.start()
    eventually(lambda: runner.command_queue.pending_count)
    clock.to(second)
    gate.open.set()
    asking.join()


def paced(runner: PausedRunner, clock: Counted, second: float) -> None:
    """Request an end that is due at `second`, while the run continues."""
    with runner.pause_commands():
        asking = Thread(target=lambda: runner.submit_end("more").result())
        asking.start()
        eventually(lambda: runner.command_queue.pending_count)
        clock.to(second)
        rounds = clock.rounds
        eventually(lambda: clock.rounds > rounds + 2)  # a whole one among them
    asking.join()


def last_tick(folder: Path, way: str, speed: str, kind: type[PausedRunner] = PausedRunner) -> int:
    """Return the last tick, published and charged, of a release that ends at 57 s."""
    folder.mkdir()
    file, clock, gate = file_of(folder), Counted(time=START * SECOND), Gate()
    write(folder, 50)
    with running(file, clock, step=gate.step, tuning=IMMEDIATE, kind=kind) as runner:
        runner.submit_release(AdHocRelease(parse_adhoc_release(MORE, file.stream), "ana")).result()
        reach(runner, clock, ASKED, LAST)
        if way == "slowed":
            slowed(runner, clock, gate, SPEEDS[speed])
        else:
            paced(runner, clock, SPEEDS[speed])
        reach(runner, clock, 126, 12)
        clock.to(129)
        eventually(lambda: runner.load_ledger().releases["more"].end_tick is not None)
        ended: Any = runner.load_ledger().releases["more"].end_tick
    assert [each.tick for each in read_releases(file, "more")][-1] == ended
    return int(ended)


@pytest.mark.parametrize("way", ["slowed", "paced"])
@pytest.mark.parametrize("speed", SPEEDS)
def test_last_tick_does_not_depend_on_the_duration(tmp_path: Path, way: str, speed: str) -> None:
    assert last_tick(tmp_path / speed, way, speed) == LAST


class ApplyTimedQueue(CommandQueue):
    """A twin that ends a release by the time at which the command is applied."""

    def take_due(self) -> list[Command]:
        found = super().take_due()
        for command in found:
            command.requested_at = self.now()
        return found


class ApplyTimedRunner(PausedRunner):
    queue_class = ApplyTimedQueue


def test_twin_that_ends_when_applied_reveals_the_duration(tmp_path: Path) -> None:
    found = {speed: last_tick(tmp_path / speed, "slowed", speed, ApplyTimedRunner) for speed in SPEEDS}
    assert found == {"quick": LAST, "slow": 9}


class HastyQueue(CommandQueue):
    """A twin that closes all ticks that are due."""

    def limit_due_tick(self, due: Any, last: Any, endable: Any) -> int:
        return int(due())


class HastyRunner(PausedRunner):
    queue_class = HastyQueue


def test_twin_that_closes_all_due_ticks_publishes_too_many(tmp_path: Path) -> None:
    assert last_tick(tmp_path / "twin", "paced", "slow", HastyRunner) == 9
