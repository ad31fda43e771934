"""Pipelines that were run and are edited, for tests."""

import shutil
from copy import deepcopy
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from streamgauge import Pipeline
from streamgauge.runtime.session import RunRefusedError
from tests.support.pipelines import Tables, as_they_happen, one_a_second, pipeline, run, tables, world, write

EXACT = [[5.0, 5.0]] * 10  # one event a second, of two groups in turn, in ticks of ten seconds
USERS = {"user": "u", "max_events_per_tick": 1, "max_ticks": 5}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with something to read."""
    write(tmp_path, one_a_second())
    return tmp_path


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose usual file was run to its end."""
    folder = tmp_path_factory.mktemp("once")
    write(folder, one_a_second())
    write(folder, one_a_second(), "other.jsonl")
    run(pipeline(folder, tables()))
    return folder


@pytest.fixture
def ran(once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(once, tmp_path / "ran"))


def charged(folder: Path, made: Tables) -> Tables:
    """A file that was run to its end."""
    run(pipeline(folder, made))
    return deepcopy(made)


def refusal(folder: Path, made: Tables, **settings: Any) -> str:
    """Return the refusal of a run. The plan gives the same one, and neither writes anything."""
    edited = pipeline(folder, made)
    before = edited.ledger().ledger_entries, (folder / "out.jsonl").read_bytes()
    with pytest.raises(RunRefusedError) as found:
        run(edited, **settings)
    assert (edited.ledger().ledger_entries, (folder / "out.jsonl").read_bytes()) == before
    assert all(reason in str(found.value) for reason in edited.plan().edits.refusals)
    return str(found.value)


def live_until(folder: Path, made: Tables, second: float, **settings: Any) -> Pipeline:
    """Runs a live file up to a second after its start, everything being written as it happens."""
    clock = world(folder, as_they_happen(one_a_second(300)), at=settings.pop("at", 0))
    edited = pipeline(folder, made)
    stop = Flag()
    clock.acts[second] = stop.set
    run(edited, clock=clock, stop=stop, **settings)
    return edited
