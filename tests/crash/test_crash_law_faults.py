"""The crash law on full or read-only disks: a run fails with one clear line and loses nothing."""

import os
import re
import shutil
from contextlib import contextmanager

import pytest

from tests.support.crash_readers import Watched
from tests.support.forked import NOBODY

UNWRITABLE = "StoreUnwritableError: store must be readable and writable, got .*: mend that, then run again; .*lost"
SINK_FAILED = "SinkAccessError: sink {} could not be used: [A-Z][a-z ]+"


def fails(run, complaint, **order):
    """Start a run that must end with one line, and change nothing that readers have read."""
    end = run.child(**order)
    assert end.code == 1
    assert re.fullmatch(complaint, end.error), end.error


def goes_on(run):
    run.finish()
    run.whole()
    run.silent()


@pytest.mark.one_of_each
@pytest.mark.parametrize("kind", ["batch", "followed"])
def test_run_without_space_for_store_fails_then_continues_with_space(kind):
    with Watched(kind) as run:
        for room in (0, 4096, 20_000, 600_000):
            fails(run, UNWRITABLE, room=room)
        assert run.tick > 0
        goes_on(run)


def test_run_without_space_for_sink_fails_then_continues_with_space():
    with Watched("batch") as run:
        for room, sink in ((0, "out.jsonl"), (1000, "out.jsonl"), (2400, "out.parquet"), (5000, "out.jsonl")):
            fails(run, SINK_FAILED.format(sink), room_in_sinks=room)
        goes_on(run)


@pytest.fixture
def half():
    """A half-finished run, owned by a user to whom file modes apply."""
    with Watched("batch", unprivileged=True) as run:
        if os.getuid() == 0:
            for path in (run.folder.parent, run.folder, *run.folder.rglob("*")):
                os.chown(path, NOBODY, NOBODY)
        run.child(at=["noise_drawn", 10, "fault"])
        yield run


@contextmanager
def read_only(path):
    mode = path.stat().st_mode
    path.chmod(mode & ~0o222)
    try:
        yield
    finally:
        path.chmod(mode)


@pytest.mark.one_of_each
@pytest.mark.parametrize("name", ["", "store.db", "store.keys", "lock"])
def test_run_with_read_only_store_fails_then_continues_when_writable(half, name):
    with read_only(half.folder / "c.streamgauge" / name):
        fails(half, UNWRITABLE)
    goes_on(half)


def test_unwritable_rollback_guard_is_refused_before_any_commit(half):
    with read_only(half.folder):
        fails(half, "StoreUnwritableError: rollback guard must be writable, got .* at .*c.key.guard: .*")
        assert set(half.deaths[-1].steps) <= {"store_settled"}
    goes_on(half)


@pytest.mark.parametrize("name", ["out.jsonl", "out.parquet"])
def test_run_with_read_only_sink_fails_then_continues_when_writable(half, name):
    with read_only(half.folder / name):
        fails(half, SINK_FAILED.format(name))
        fails(half, SINK_FAILED.format(name))
    goes_on(half)


def test_store_that_cannot_be_created_fails_run_in_one_line(half):
    shutil.rmtree(half.folder / "c.streamgauge")
    with read_only(half.folder):
        fails(half, UNWRITABLE)
