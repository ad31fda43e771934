"""One run at a time, and none for ever."""

import os
import signal
import time

import pytest

from streamgauge.store.errors import AlreadyRunningError, StoreUnwritableError
from streamgauge.store.lock import Lock
from tests.support.forked import forked


def test_a_second_lock_is_refused_and_told_who_holds_the_first(tmp_path):
    with Lock(tmp_path):
        with pytest.raises(AlreadyRunningError, match=f"process {os.getpid()} is using") as refusal:
            Lock(tmp_path)
        assert refusal.value.pid == os.getpid()
    Lock(tmp_path).release()


def test_other_folders_have_other_locks(tmp_path):
    (tmp_path / "a").mkdir()
    with Lock(tmp_path), Lock(tmp_path / "a"):
        pass


def test_a_holder_that_is_not_known_is_not_made_up(tmp_path):
    with Lock(tmp_path):
        (tmp_path / "lock").write_text("")
        with pytest.raises(AlreadyRunningError, match="another process") as refusal:
            Lock(tmp_path)
        assert refusal.value.pid is None


def test_a_killed_run_lets_go_although_a_child_of_it_lives_on(tmp_path):
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


def test_a_fork_does_not_let_the_parents_lock_go(tmp_path):
    with Lock(tmp_path):
        assert forked(lambda: None) == 0

        def act():
            with pytest.raises(AlreadyRunningError):
                Lock(tmp_path)

        assert forked(act) == 0


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(StoreUnwritableError, match="no such file"):
        Lock(tmp_path / "missing")
