"""The crash law on commands: a run that is killed inside one continues from its last commit.

Each of the three commands is killed at every step of its commit, in a pan-private run on posted events. Batch and
streaming files are killed in tests/runtime/test_adhoc_releases.py.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge.runtime.commands.queue import AddRelease, AnnounceIntrusion, Command, CommandQueue, EndRelease
from streamgauge.sources.http_ephemeral import EphemeralInbox
from streamgauge.testing.noise import SilentNoise
from tests.runtime.test_adhoc_releases import build_request
from tests.runtime.test_announced_intrusions import counts, state_of
from tests.support.forked import forked, killed_at
from tests.support.pipelines import event, published, ticks_of, world

BEFORE = ("releases_packed", "commit_begun", "rows_written", "slot_written")
AFTER = ("transaction_committed", "slot_destroyed", "store_committed", "guard_written")
STEPS = {
    "add": (("commands_judged", *BEFORE), (*AFTER, "commands_committed")),
    "end": (("commands_judged", *BEFORE), (*AFTER, "commands_committed")),
    "intrude": (BEFORE, (*AFTER, "state_copied")),
}
CASES = [(kind, step) for kind, steps in STEPS.items() for each in steps for step in each]
EVENTS = 100


def run_private(made: Any, begin: float, end: float, *commands: Command, step: str | None = None) -> None:
    """Run from one second to another: events in the second after the first, and, two seconds later, commands."""
    clock, stop, is_armed = world(made.file.path.parent, at=begin), Flag(), Flag()
    inbox, queue = EphemeralInbox(max_waiting_bytes=10**6), CommandQueue(now=clock.now)
    kill = killed_at(step or "never")

    def submit() -> None:
        is_armed.set()
        for command in commands:
            queue.submit(command)

    def send(key: str, second: float) -> Callable[[], object]:
        lines = "\n".join(json.dumps(event(second, u=f"u{i}")) for i in range(EVENTS))
        return lambda: inbox.put(key, lines.encode())

    clock.acts = {begin + 1: send("k", begin + 1), begin + 3: submit, begin + 4: send("l", begin + 4), end: stop.set}

    def hook(name: str) -> None:
        if is_armed.is_set():
            kill(name)

    made.run(clock=clock, source=inbox, stop=stop, commands=queue, noise=SilentNoise(), step=hook)


def build_command(kind: str, made: Any, folder: Path) -> Command:
    if kind == "intrude":
        return AnnounceIntrusion(folder / "court")
    if kind == "end":
        return EndRelease("old")
    return AddRelease(build_request(made, window="running", epsilon="1/10"))


def kill_in_command(folder: Path, kind: str, step: str) -> Any:
    """Return a pipeline whose run was killed at a step of a command, in the middle of tick 5."""
    made = counts(folder)
    run_private(made, 0, 13, AddRelease(build_request(made, name="old", window="running", epsilon="1/10")))
    act = partial(run_private, made, 41, 63, build_command(kind, made, folder), step=step)
    assert forked(act) == -9
    return made


@pytest.mark.parametrize(("kind", "step"), CASES)
def test_killed_command_is_committed_whole_or_not_at_all(tmp_path: Path, kind: str, step: str) -> None:
    made, is_committed = kill_in_command(tmp_path, kind, step), step in STEPS[kind][1]
    entries = [act.kind for act in made.ledger().ledger_entries]
    assert ("asked" in made.ledger().releases) is (kind == "add" and is_committed)
    assert (made.ledger().releases["old"].end_tick is not None) is (kind == "end" and is_committed)
    assert entries.count("intrusion") == (kind == "intrude" and is_committed)
    assert not (tmp_path / "court").exists()
    before = published(made)
    run_private(made, 71, 95)
    assert ticks_of(made) == [*range(1, 10)]
    assert published(made)[: len(before)] == before
    last = ticks_of(made, "old")[-1]
    assert last == (made.ledger().releases["old"].end_tick if kind == "end" and is_committed else 9)
    if kind == "add" and is_committed:
        first = made.ledger().releases["asked"].first
        assert ticks_of(made, "asked") == [*range(first, 10)]


@pytest.mark.one_of_each("kind")
@pytest.mark.parametrize(("kind", "step"), CASES)
def test_killed_command_leaves_the_key_of_user_hashes(tmp_path: Path, kind: str, step: str) -> None:
    made = counts(tmp_path)
    run_private(made, 0, 13, AddRelease(build_request(made, name="old", window="running", epsilon="1/10")))
    before = state_of(made)["secret"]
    forked(partial(run_private, made, 41, 63, build_command(kind, made, tmp_path), step=step))
    assert state_of(made)["secret"] == before
