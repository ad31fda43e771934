"""The store lock: one run at a time, and a dead run releases it."""

import os
import signal
import time

import pytest

from streamgauge.store.errors import AlreadyRunningError, StoreUnwritableError
from streamgauge.store.lock import Lock
from tests.support.forked import forked


def test_second_lock_is_refused_with_process_id_of_first(tmp_path):
    with Lock(tmp_path):
        with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()} is using") as refusal:
            Lock(tmp_path)
        assert refusal.value.pid == os.getpid()
    Lock(tmp_path).release()


def test_other_folders_have_other_locks(tmp_path):
    (tmp_path / "a").mkdir()
    with Lock(tmp_path), Lock(tmp_path / "a"):
        pass


def test_refused_lock_with_unknown_owner_has_no_process_id(tmp_path):
    with Lock(tmp_path):
        (tmp_path / "lock").write_text("")
        with pytest.raises(AlreadyRunningError, match="another process") as refusal:
            Lock(tmp_path)
        assert refusal.value.pid is None


def test_killed_run_releases_lock_although_its_child_lives(tmp_path):
    reading, writing = os.pipe()

    def act():
        held = Lock(tmp_path)
        if os.fork() == 0:
            os.write(writing, os.getpid().to_bytes(4, "big"))
            time.sleep(60)
            os._exit(0)
        assert held
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(act) == -signal.SIGKILL
    child = int.from_bytes(os.read(reading, 4), "big")
    os.close(reading)
    os.close(writing)
    try:
        with Lock(tmp_path):
            os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


def test_fork_does_not_release_lock_of_parent(tmp_path):
    with Lock(tmp_path):
        assert forked(lambda: None) == 0

        def act():
            with pytest.raises(AlreadyRunningError):
                Lock(tmp_path)

        assert forked(act) == 0


def test_lock_in_missing_folder_is_refused(tmp_path):
    with pytest.raises(StoreUnwritableError, match="no such file"):
        Lock(tmp_path / "missing")
