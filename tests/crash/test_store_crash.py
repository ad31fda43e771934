"""The crash law of the store: after a crash at any step it has the state before or after the commit."""

import os
import random
import shutil
import signal
import time

import pytest

from streamgauge.store import store as founding
from streamgauge.store.backup import rotate
from streamgauge.store.encryption import BLOCK_BYTES, SLOT_STRUCT, KeySlots
from streamgauge.store.errors import KeyRefusedError, StoreError, StoreUnwritableError
from streamgauge.store.keys import create_key
from streamgauge.store.store import COMMIT_STEPS, Store, StoreReader
from tests.support.codes import has_code
from tests.support.forked import Fault, forked, killed_at, raised_at

BIG = 20_000  # bytes of a part that spans many pages


@pytest.fixture
def key(tmp_path):
    return create_key(tmp_path / "a.key")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "a.streamgauge"


def commit(store, tick):
    """Commit one tick with releases, small and large state parts, and a part that lives for one tick."""
    store.commit(
        tick=tick,
        released=[("a", tick, b"%d" % tick), ("b", tick, b"%d" % -tick)],
        state={"small": b"%d" % tick, "big": b"%d|" % tick * BIG, f"of {tick}": b"", f"of {tick - 1}": None},
        marks={"at": b"%d" % tick},
    )


def consistent(store):
    """Check that all of a store belongs to one tick, and return it."""
    tick = store.tick
    assert list(store.releases("a")) == [(t, b"%d" % t) for t in range(1, tick + 1)]
    assert list(store.releases("b")) == [(t, b"%d" % -t) for t in range(1, tick + 1)]
    if tick:
        state = {"small": b"%d" % tick, "big": b"%d|" % tick * BIG, f"of {tick}": b""}
        assert store.state() == state
        assert store.marks()["at"] == b"%d" % tick
    assert store.trace == (tick, store.chain_at(tick))
    return tick


def found(folder, key):
    with Store.open_writer(folder, key, create=False) as store:
        return consistent(store)


@pytest.fixture
def three(folder, key):
    """A store with three ticks."""
    with Store.open_writer(folder, key, create=True) as store:
        for tick in (1, 2, 3):
            commit(store, tick)
    return folder


AFTER = {"commit_begun": 3, "rows_written": 3, "slot_written": 3, "transaction_committed": 4, "slot_destroyed": 4}


@pytest.mark.parametrize("step", COMMIT_STEPS)
def test_commit_killed_at_any_step_is_whole_or_absent(three, key, step):
    def act():
        commit(Store.open_writer(three, key, create=False, steps=killed_at(step)), 4)

    assert forked(act) == -signal.SIGKILL
    assert found(three, key) == AFTER[step]
    with Store.open_writer(three, key, create=False) as store:
        commit(store, store.tick + 1)
        assert consistent(store) == AFTER[step] + 1


@pytest.mark.parametrize("step", COMMIT_STEPS)
def test_store_with_failed_commit_continues_or_requires_reopening(three, key, step):
    store = Store.open_writer(three, key, create=False, steps=raised_at(step))
    with pytest.raises(Fault):
        commit(store, 4)
    store.steps = str
    if AFTER[step] == 3:
        assert consistent(store) == 3
        commit(store, 4)
        store.close()
        assert found(three, key) == 4
    else:
        with pytest.raises(StoreUnwritableError, match="may or may not have failed"):
            commit(store, 5)
        with pytest.raises(StoreUnwritableError, match="may or may not have failed"):
            store.state()
        store.close()
        assert found(three, key) == 4


@pytest.mark.parametrize("step", ["store_settled"])
def test_an_opening_that_is_killed_changes_nothing(three, key, step):
    assert forked(lambda: Store.open_writer(three, key, create=False, steps=killed_at(step))) == -signal.SIGKILL
    assert found(three, key) == 3


@pytest.mark.parametrize("step", founding.CREATE_STEPS)
@pytest.mark.parametrize("end", [killed_at, raised_at])
def test_store_killed_during_creation_is_created_again(folder, key, step, end):
    assert forked(lambda: Store.open_writer(folder, key, create=True, steps=end(step))) != 0
    with Store.open_writer(folder, key, create=True) as store:
        commit(store, 1)
    assert found(folder, key) == 1


@pytest.mark.parametrize("waits", [True, False], ids=["committing", "opening"])
def test_store_killed_at_random_instants_loses_no_reported_commit(folder, key, waits):
    chance = random.Random(7)
    Store.open_writer(folder, key, create=True).close()
    tick, kills, longest = 0, 0, 0.015  # seconds, or as long as a commit takes
    while kills < (50 if waits else 10) or (waits and tick < 25):
        texts = killed_run(folder, key, waits, chance.random() * longest)
        found_tick = found(folder, key)
        assert found_tick in ((texts, texts + 1) if texts else (tick, tick + 1))
        longest *= 1 if found_tick > tick else 1.1
        tick, kills = found_tick, kills + 1


def killed_run(folder, key, waits, instant):
    """Commit in a child process until it is killed; return the last tick that it reported as committed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            with Store.open_writer(folder, key, create=False) as store:
                os.write(writing, bytes(8))
                while True:
                    commit(store, store.tick + 1)
                    os.write(writing, store.tick.to_bytes(8, "big"))
        finally:
            os._exit(1)
    os.close(writing)
    texts = os.read(reading, 8) if waits else b""
    time.sleep(instant)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with os.fdopen(reading, "rb") as pipe:
        texts += pipe.read()
    return int.from_bytes(texts[-8:], "big")


def snapshots(folder, key, to, steps):
    """Copy the folder at the given steps of a commit of tick 4."""

    def copy(step):
        if step in steps:
            shutil.copytree(folder, to / step)

    store = Store.open_writer(folder, key, create=False, steps=copy)
    shutil.copytree(folder, to / "before")
    commit(store, 4)
    store.close()


@pytest.mark.parametrize("length", [0, 1, 7, 8, 50, SLOT_STRUCT.size - 1, SLOT_STRUCT.size])
def test_torn_slot_write_leaves_state_before_commit(three, key, tmp_path, length):
    snapshots(three, key, tmp_path, ["rows_written", "slot_written"])
    torn, new = tmp_path / "rows_written", tmp_path / "slot_written"
    written = bytearray((torn / "store.keys").read_bytes())
    whole = (new / "store.keys").read_bytes()
    (at,) = {i // BLOCK_BYTES for i in range(len(whole)) if whole[i] != written[i]}
    written[at * BLOCK_BYTES : at * BLOCK_BYTES + length] = whole[at * BLOCK_BYTES : at * BLOCK_BYTES + length]
    (torn / "store.keys").write_bytes(written)
    assert found(torn, key) == 3


def test_journal_torn_anywhere_has_state_before_or_after_commit(three, key, tmp_path):
    snapshots(three, key, tmp_path, ["transaction_committed"])
    before = (tmp_path / "before" / "store.db-wal").read_bytes()
    after = (tmp_path / "transaction_committed" / "store.db-wal").read_bytes()
    assert after.startswith(before)
    lengths = [*range(len(before), len(after), (len(after) - len(before)) // 12), len(after) - 1, len(after)]
    ticks = []
    for length in lengths:
        torn = tmp_path / f"torn {length}"
        shutil.copytree(tmp_path / "transaction_committed", torn)
        (torn / "store.db-shm").unlink()
        os.truncate(torn / "store.db-wal", length)
        ticks.append(found(torn, key))
        shutil.rmtree(torn)
    assert ticks == [3] * (len(lengths) - 1) + [4]


class Hasty(KeySlots):
    """A twin that destroys the old slot before the commit."""

    def write(self, generation, slot):
        super().write(generation, slot)
        super().write(generation - 1, bytes(SLOT_STRUCT.size))


def test_twin_that_destroys_old_key_too_early_is_caught(three, key, monkeypatch):
    monkeypatch.setattr("streamgauge.store.sqlite.KeySlots", Hasty)
    with pytest.raises(StoreError, match="keys of different moments"):
        test_commit_killed_at_any_step_is_whole_or_absent(three, key, "slot_written")


def ghost(folder, key, to, opening):
    """Simulate a commit of tick 4 that reached the journal but was reported as failed; return the final tick.

    A reader has the earlier index of the journal open, so opening the store finds tick 3. Then a power failure
    destroys the index.
    """
    snapshots(folder, key, to, ["transaction_committed"])
    haunted, after = to / "before", to / "transaction_committed"
    (haunted / "store.db-shm").unlink()

    def act():
        reading = StoreReader.open(haunted)
        reading._rows.sql.execute("BEGIN")
        assert reading.tick == 3
        for name in ("store.db-wal", "store.keys"):
            with (haunted / name).open("r+b") as file:
                file.write((after / name).read_bytes())
        opening(haunted, key, create=False)
        os.kill(os.getpid(), signal.SIGKILL)

    assert forked(act) == -signal.SIGKILL
    (haunted / "store.db-shm").unlink()
    return found(haunted, key)


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("streamgauge.store.schema.BUSY_TIMEOUT_SECONDS", 0.01)


class Hurried(Store):
    """A twin that destroys the other slot without a commit of its own."""

    def _settle(self):
        self.backing.destroy_slot(self._head.generation + 1)


@pytest.mark.usefixtures("impatient")
def test_failed_commit_in_journal_does_not_reappear(three, key, tmp_path):
    assert ghost(three, key, tmp_path, Store.open_writer) == 3


@pytest.mark.usefixtures("impatient")
def test_twin_that_lets_failed_commit_reappear_is_caught(three, key, tmp_path):
    with pytest.raises(StoreError, match="keys of different moments"):
        ghost(three, key, tmp_path, Hurried.open_writer)


@pytest.mark.parametrize("step", [*COMMIT_STEPS, "store_settled"])
def test_killed_rotation_opens_under_one_key_and_can_be_repeated(three, key, tmp_path, step):
    new = create_key(tmp_path / "new.key")
    assert forked(lambda: rotate(three, key, new, killed_at(step))) == -signal.SIGKILL
    opening, other = (new, key) if AFTER.get(step) == 4 else (key, new)
    assert found(three, opening) == 3
    with pytest.raises(KeyRefusedError, check=has_code("wrong_key")):
        Store.open_writer(three, other, create=False)
    rotate(three, key, new)
    assert found(three, new) == 3
    with pytest.raises(KeyRefusedError, check=has_code("wrong_key")):
        Store.open_writer(three, key, create=False)
