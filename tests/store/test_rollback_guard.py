"""The rollback guard next to the key: it may lag behind the store, and it detects an old copy."""

import json
import shutil
import stat

import pytest

from streamgauge.runtime.rollback import _list_unknown
from streamgauge.store.errors import RollbackError, StoreError, StoreUnwritableError
from streamgauge.store.keys import create_key, load_key
from streamgauge.store.rollback_guard import RollbackGuard, find_guard_path, find_unknown_traces, refuse_rollback
from streamgauge.store.store import LedgerEntry, Store, StoreReader, Trace
from tests.support.codes import has_code
from tests.support.forked import forked, killed_at


@pytest.fixture
def key(tmp_path):
    return create_key(tmp_path / "keys" / "a.key")


@pytest.fixture
def store(tmp_path, key):
    with Store.open_writer(tmp_path / "s", key, create=True) as opened:
        yield opened


def commit(store, tick):
    store.commit(tick=tick, released=[("a", tick, b"%d" % tick)])


def test_store_knows_every_trace_of_its_own_history(store, key):
    guard = RollbackGuard.find(key, store)
    assert guard.traces() == []
    traces = [store.trace]
    for tick in range(1, 6):
        commit(store, tick)
        traces.append(store.trace)
        store.commit(acts=[LedgerEntry("note", {"at": tick})])
        traces.append(store.trace)
        store.commit(state={"run": b"private"})
    for trace in traces:
        guard.write(trace)
        assert guard.traces() == [trace]
        assert find_unknown_traces(store, guard.traces()) == ()
        refuse_rollback(store, guard.traces())


@pytest.mark.parametrize("later", [lambda s: commit(s, 3), lambda s: s.commit(acts=[LedgerEntry("note")])])
def test_old_copy_of_store_is_refused_even_at_same_tick(store, key, tmp_path, later):
    commit(store, 1)
    commit(store, 2)
    store.empty_journal()
    shutil.copytree(store.folder, tmp_path / "old")
    later(store)
    guard = RollbackGuard.find(key, store)
    guard.write(store.trace)
    refuse_rollback(store, guard.traces())
    with Store.open_writer(tmp_path / "old", key, create=False) as old:
        assert find_unknown_traces(old, guard.traces()) == (store.trace,)
        with pytest.raises(
            RollbackError, match=r"bring the newest store back, or run with --accept-rollback"
        ) as refusal:
            refuse_rollback(old, guard.traces())
        assert (refusal.value.tick, refusal.value.store_tick) == (store.tick, 2)


def test_old_copy_that_committed_other_ticks_is_refused(store, key, tmp_path):
    commit(store, 1)
    store.empty_journal()
    shutil.copytree(store.folder, tmp_path / "old")
    commit(store, 2)
    sink = store.trace
    with Store.open_writer(tmp_path / "old", key, create=False) as old:
        for tick in (2, 3):
            old.commit(tick=tick, released=[("a", tick, b"another draw")])
            with pytest.raises(RollbackError, check=has_code("rollback")):
                refuse_rollback(old, [sink])


class ByTick:
    """A twin that compares ticks alone."""

    def __init__(self, store):
        self.store = store

    def knows(self, trace):
        return trace.tick <= self.store.tick


def test_a_twin_that_compares_ticks_alone_is_caught(store, key, tmp_path):
    commit(store, 2)
    assert find_unknown_traces(ByTick(store), [Trace(2, "another chain")]) == ()
    assert find_unknown_traces(store, [Trace(2, "another chain")])


def test_crash_between_commit_and_guard_write_is_no_rollback(tmp_path, key):
    folder = tmp_path / "s"

    def act():
        store = Store.open_writer(folder, key, create=True)
        for tick in (1, 2, 3):
            store.steps = killed_at("transaction_committed" if tick == 3 else "never")
            commit(store, tick)
            RollbackGuard.find(key, store).write(store.trace)

    assert forked(act) == -9
    with Store.open_writer(folder, key, create=False) as store:
        guard = RollbackGuard.find(key, store)
        assert store.tick == 3
        assert guard.traces() == [(2, store.chain_at(2))]
        refuse_rollback(store, guard.traces())


def test_stores_with_one_key_share_guard_file_with_separate_traces(tmp_path, key):
    traces = {}
    for name in "abc":
        with Store.open_writer(tmp_path / name, key, create=True) as store:
            commit(store, 1)
            traces[name] = store.trace
    path = key.path.with_name("a.key.guard")

    def guard(name):
        with StoreReader.open(tmp_path / name) as reader:
            return RollbackGuard(path, reader)

    def act():
        for name, (_, chain) in traces.items():
            for tick in range(20):
                guard(name).write(Trace(tick, chain))

    for name, (_, chain) in traces.items():
        guard(name).write(Trace(0, chain))
    assert forked(act) == 0
    for name, (_, chain) in traces.items():
        assert guard(name).traces() == [Trace(19, chain)]
        assert guard(name).other_stores() == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_guard_of_key_without_file_is_next_to_store(tmp_path, monkeypatch, store):
    monkeypatch.setenv("CLINIC", "ab" * 32)
    guard = RollbackGuard.find(load_key("env:CLINIC", tmp_path), store)
    guard.write(store.trace)
    assert guard.path == tmp_path / "s.guard"
    assert RollbackGuard(tmp_path / "s.guard", store).traces() == [store.trace]


def test_second_of_two_concurrent_store_copies_is_refused(store, key, tmp_path):
    commit(store, 1)
    store.empty_journal()
    shutil.copytree(store.folder, tmp_path / "copy")
    RollbackGuard.find(key, store).write(store.trace)
    with Store.open_writer(tmp_path / "copy", key, create=False) as copy:
        first, second = RollbackGuard.find(key, store), RollbackGuard.find(key, copy)
        for guard, each in ((first, store), (second, copy)):
            refuse_rollback(each, guard.traces())  # both are the newest
            each.commit(tick=2, released=[("a", 2, each.folder.name.encode())])
        first.write(store.trace)
        with pytest.raises(RollbackError, match="got another that went on"):
            second.write(copy.trace)
        commit(store, 3)
        first.write(store.trace)
    assert first.traces() == [store.trace]


def test_moved_guard_points_to_its_new_place(store, key, tmp_path):
    RollbackGuard.find(key, store).write(store.trace)
    for number in range(3):
        moved = create_key(tmp_path / f"place {number}" / "a.key")
        guard = RollbackGuard(find_guard_path(moved, store), store)
        guard.replace(RollbackGuard.find(key, store), store.trace, ())
        assert RollbackGuard.find(key, store).path == RollbackGuard.find(moved, store).path == guard.path
        assert RollbackGuard.find(key, store).traces() == [store.trace]
    RollbackGuard.find(moved, store).replace(RollbackGuard.find(moved, store), store.trace, ())
    assert RollbackGuard.find(moved, store).traces() == [store.trace]


def test_guards_that_point_at_each_other_are_refused(store, key, tmp_path):
    here, there = (tmp_path / name for name in ("keys/a.key.guard", "b"))
    for path, other in ((here, there), (there, here)):
        path.write_text(json.dumps({store.identity: {"moved": str(other)}}))
    with pytest.raises(StoreError, check=has_code("guard_damaged")):
        RollbackGuard.find(key, store)


@pytest.mark.parametrize(
    "content",
    [
        *("", "{", "[]", "3", "[" * 10**5, '{"%s": 3}', '{"%s": {"tick": 1}}'),
        '{"%s": {"tick": "x", "chain": ""}}',
        '{"%s": {"tick": 1' + "0" * 30 + ', "chain": ""}}',
    ],
    ids=lambda content: content[:20],
)
def test_guard_with_invalid_content_is_refused(store, key, content):
    find_guard_path(key, store).write_text(content.replace("%s", store.identity))
    with pytest.raises(StoreError, match="check that the store was not rolled back, move the file away"):
        RollbackGuard.find(key, store).traces()


def test_unwritable_guard_raises_store_error(store, key, monkeypatch):
    guard = RollbackGuard(key.path / "not a folder", store)
    with pytest.raises(StoreUnwritableError, match="not a directory"):
        guard.write(store.trace)


def test_store_knows_trace_with_shortened_chain_of_sink(store, key, tmp_path):
    commit(store, 1)
    commit(store, 2)
    tick, chain = store.trace
    other = chain[:15] + ("0" if chain[15] != "0" else "1")
    assert store.knows(Trace(tick, chain[:16]))
    wrong = [chain[:15], chain[:17], "", other, other + chain[16:], chain[:16] + "0" * 48]
    assert not any(store.knows(Trace(tick, each)) for each in wrong)
    assert not store.knows(Trace(1, chain[:16]))


def test_trace_matches_shortened_trace_of_same_history():
    chain = "9f86d081884c7d65" + "a" * 48
    whole, short = Trace(7, chain), Trace(7, chain[:16])
    assert whole.matches(short)
    assert short.matches(whole)
    assert short.matches(Trace(7, chain[:16]))
    for other in (Trace(8, chain[:16]), Trace(7, "0" * 16), Trace(7, chain[:8]), Trace(7, "")):
        assert not whole.matches(other)
        assert not short.matches(other)


def test_unknown_trace_from_guard_and_sinks_is_listed_once(store):
    lost, paid = Trace(9, "ab" * 32), Trace(8, "cd" * 32)
    found = [lost, Trace(9, "ab" * 8), Trace(9, "ef" * 8), Trace(8, "cd" * 8), store.trace]
    assert _list_unknown(store, found, {paid}) == [lost, Trace(9, "ef" * 8)]
    assert _list_unknown(store, found, {paid, Trace(9, "ab" * 8), Trace(9, "ef" * 8)}) == []
