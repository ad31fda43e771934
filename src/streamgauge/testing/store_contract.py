"""Contract test of a store: `check_store` runs `Store` on your driver.

    def test_my_store(tmp_path):
        check_store(lambda: MyDriver("my://address"), tmp_path)

Each check gets a new folder and its own driver, which must have no store yet. Checks fork processes and kill
them, so a driver must not start threads before it opens a store. A broken promise raises `ContractError`.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from streamgauge.interfaces import (
    MAX_ENTRY,
    EntryRow,
    MarkRow,
    StepHook,
    StopRequestedError,
    StoreBacking,
    StoreDriver,
    ignore,
)
from streamgauge.noise.entropy import read_system_key
from streamgauge.store.encryption import parse_slot
from streamgauge.store.errors import AlreadyRunningError, RollbackError, StoreError, StoreNotFoundError
from streamgauge.store.keys import Key, create_key
from streamgauge.store.reader import LedgerEntry, StoreReader
from streamgauge.store.rollback_guard import RollbackGuard, refuse_rollback
from streamgauge.store.store import COMMIT_STEPS, CREATE_STEPS, Store

OPEN_STEPS = ("store_settled",)
COMMITTED_STEPS = ("transaction_committed", "slot_destroyed")  # a commit killed here has happened
PART_BYTES = 20_000


class ContractError(AssertionError):
    """A promise of the store contract that the driver breaks."""


class StoreUnderTest(NamedTuple):
    """A driver, a folder without a store, and a key."""

    driver: StoreDriver
    folder: Path
    key: Key

    def open(self, *, create: bool = False, steps: StepHook = ignore) -> Store:
        return Store.open_writer(self.folder, self.key, create=create, steps=steps, driver=self.driver)

    def read(self) -> StoreReader:
        return StoreReader.open(self.folder, self.driver)


def check_store(make_driver: Callable[[], StoreDriver], folder: Path) -> None:
    """Run all checks.

    Args:
        make_driver: Returns a driver of a store that does not exist yet.
        folder: An empty folder.

    Raises:
        ContractError: The driver breaks a promise.
    """
    for check in STORE_CHECKS:
        own = folder / check.__name__
        own.mkdir()
        try:
            check(StoreUnderTest(make_driver(), own / "store", create_key(own / "store.key")))
        except StoreError as error:
            raise ContractError(f"{check.__name__} must not raise, got {error}") from error


def check_kills(tested: StoreUnderTest) -> None:
    """Kill a process at every step.

    The store must open, be before or after the commit, and continue.
    """
    for step in CREATE_STEPS:
        _kill_at(step, lambda hook: tested.open(create=True, steps=hook))
    with tested.open(create=True) as store:
        _require(store.tick == 0, "a store whose creation was killed must be created again, empty")
    for step in (*OPEN_STEPS, *COMMIT_STEPS):
        with tested.open() as store:
            before = store.tick
        drawn = read_system_key()[:16]
        _kill_at(step, lambda hook: _commit_tick(tested.open(steps=hook), before + 1, drawn))  # noqa: B023 - used at once
        with tested.open() as store:
            expected = before + (step in COMMITTED_STEPS)
            _require(store.tick == expected, f"a commit killed at {step} must be at tick {expected}, got {store.tick}")
            _check_consistent(store)
            if store.tick == before:
                drawn = _commit_tick(store, before + 1)
        with tested.read() as reader:
            last = [payload for _, payload in _read_committed(reader, "a")][-1]
            _require(last == drawn, f"a tick must have the value that was committed first, after a kill at {step}")


def check_one_draw(tested: StoreUnderTest) -> None:
    """Commit a tick a second time. It is refused and leaves nothing."""
    with tested.open(create=True) as store:
        _commit_tick(store, 1)
        for released in ([("a", 1, b"another draw")], [("c", 2, b"new"), ("a", 1, b"another draw")]):
            before = store.trace, dict(store.marks()), store.state()
            with _expect(StoreError, "a second value for a release and tick", "already_released"):
                store.commit(tick=2, released=released, state={"small": b"2"}, marks={"at": b"2"})
            found = store.trace, dict(store.marks()), store.state()
            _require(found == before, "a refused commit must leave nothing")
        _commit_tick(store, 2)
        _check_consistent(store)


def check_torn_transactions(tested: StoreUnderTest) -> None:
    """Raise inside a transaction. Readers see nothing of it, before and after."""
    with tested.open(create=True) as store:
        _commit_tick(store, 1)
        store.show()
        for step in ("rows_written", "slot_written"):
            with tested.read() as reader:
                before = _read_public(reader)

                def interrupt(
                    name: str, step: str = step, reader: StoreReader = reader, before: object = before
                ) -> None:
                    if name == step:
                        _require(_read_public(reader) == before, "a reader must not see an open transaction")
                        raise StopRequestedError

                store.steps = interrupt
                with suppress(StopRequestedError):
                    _commit_tick(store, 2)
                store.steps = ignore
                _require(_read_public(reader) == before, f"a commit that raised at {step} must leave nothing")
            _check_consistent(store)
        _commit_tick(store, 2)
        _check_consistent(store)
    with tested.open() as store:
        _check_consistent(store)


def check_two_writers(tested: StoreUnderTest) -> None:
    """Open a store twice. The second writer is refused until the first closes.

    This applies also to a writer of another process.
    """
    with _expect(StoreNotFoundError, "opening a store that does not exist"):
        tested.open()
    _require(not tested.driver.exists(tested.folder), "looking for a store must not create it")
    with tested.open(create=True) as store:
        _commit_tick(store, 1)
        with _expect(AlreadyRunningError, "a second writer in the same process"):
            tested.open()

        def open_second() -> None:
            with _expect(AlreadyRunningError, "a second writer in another process"):
                tested.open()

        _require(_fork(open_second) == 0, "a second writer in another process must be refused")
        _check_stale_head(store.backing)
    _kill_at("commit_begun", lambda hook: _commit_tick(tested.open(steps=hook), 2))
    with tested.open() as store:
        _commit_tick(store, 2)
        _check_consistent(store)


def _check_stale_head(backing: StoreBacking) -> None:
    head = backing.head()
    with _expect(StoreError, "a head that another writer has replaced", "writer_replaced"), backing.transaction():
        backing.write_head(head, b"stale")
    _require(backing.head() == head, "a refused head must not be written")


def check_rollback(tested: StoreUnderTest) -> None:
    """Replace a store by an old copy. The rollback guard refuses it."""
    copy = tested._replace(folder=tested.folder.with_name("copy"))
    with tested.open(create=True) as store:
        _commit_tick(store, 1)
        _commit_tick(store, 2)
        copy.folder.mkdir(mode=0o700)
        tested.driver.copy(tested.folder, copy.folder)
        _commit_tick(store, 3)
        guard = RollbackGuard.find(tested.key, store)
        guard.write(store.trace)
        refuse_rollback(store, guard.traces())
    with copy.open() as old:
        _require(old.tick == 2, f"a copy must be of its moment, tick 2, got {old.tick}")
        _check_consistent(old)
        with _expect(RollbackError, "an old copy, by the guard"):
            refuse_rollback(old, guard.traces())
        _commit_tick(old, 3)
        with _expect(RollbackError, "an old copy that continued, by the guard"):
            refuse_rollback(old, guard.traces())


def check_slots(tested: StoreUnderTest) -> None:
    """Check that after commits the newest generation alone has a slot."""
    with tested.open(create=True) as store:
        for tick in (1, 2, 3):
            _commit_tick(store, tick)
            backing, generation = store.backing, store._head.generation
            for other in (generation - 1, generation, generation + 1):
                found = parse_slot(backing.find_slot(other), other)
                _require((found is not None) == (other == generation), "the newest generation alone must have a slot")
        backing.write_slot(generation + 1, b"torn")
        _require(parse_slot(backing.find_slot(generation), generation) is not None, "one slot must not harm the other")
    with tested.open() as store:
        _check_consistent(store)


def check_rows(tested: StoreUnderTest) -> None:
    """Read rows in every order that the protocol has."""
    with tested.open(create=True) as store:
        for tick in range(1, 8):
            _commit_tick(store, tick)
        store.commit(acts=[LedgerEntry("note", {"n": 1}), LedgerEntry("note", {"n": 2})])
        rows, until = store.backing, MAX_ENTRY
        ticks = [row.tick for row in rows.releases("a", 2, 7, until, step=2, limit=2)]
        _require(ticks == [2, 4], f"releases must follow step and limit, got ticks {ticks}")
        newest = rows.releases("a", 1, 6, until, limit=1, payload_bytes=3, newest_first=True)
        _require(
            [(row.tick, len(row.payload)) for row in newest] == [(6, 3)], "the newest release must come first, cut"
        )
        _require(rows.count_ticks("a", 1, 7, 3) == 3, "ticks must be counted by step")
        _require(rows.release_names(until) == ["a", "b"], "names must come in the order of their first commit")
        _require(rows.count_rows(3) == 6, "rows must be counted up to an entry")
        _require([row.place for row in rows.rows(4, 4, 9)] == [5, 6, 7, 8], "rows must follow a place up to an entry")
        _require(len(rows.ledger()) == 2 and len(rows.ledger(skip=1)) == 1, "ledger entries must be skipped")
        _require(rows.count_ledger(7) == 0 and rows.count_ledger(8) == 2, "ledger entries must belong to their entry")
        _require(rows.entries_at(7, 7) == [EntryRow(7, 7, store.trace_at(7).chain)], "entries must be found by tick")
        _require([entry.number for entry in rows.entries(6, 2)] == [6, 7], "entries must come in order")
        with rows.transaction():
            rows.write_marks([MarkRow("at", b"x", b"y")])
        _require([mark for mark in rows.marks() if mark.name == "at"] == [MarkRow("at", b"x", b"y")], "marks replace")


STORE_CHECKS: tuple[Callable[[StoreUnderTest], None], ...] = (
    check_rows,
    check_one_draw,
    check_torn_transactions,
    check_two_writers,
    check_slots,
    check_rollback,
    check_kills,
)


def _commit_tick(store: Store, tick: int, drawn: bytes | None = None) -> bytes:
    """Commit one tick with parts that change, grow and end. Return its drawn value."""
    drawn = read_system_key()[:16] if drawn is None else drawn
    parts = {"small": b"%d" % tick, "big": b"%d|" % tick * PART_BYTES, f"of {tick}": b"", f"of {tick - 1}": None}
    store.commit(tick=tick, released=[("a", tick, drawn), ("b", tick, b"")], state=parts, marks={"at": b"%d" % tick})
    return drawn


def _check_consistent(store: Store) -> None:
    tick, state = store.tick, store.state()
    for name in ("a", "b"):
        ticks = [at for at, _ in _read_committed(store, name)]
        _require(ticks == list(range(1, tick + 1)), f"releases must be of ticks 1 to {tick}, got {ticks}")
    if tick:
        expected = {"small": b"%d" % tick, "big": b"%d|" % tick * PART_BYTES, f"of {tick}": b""}
        _require(state == expected, f"state must be that of tick {tick}")
        _require(store.marks()["at"] == b"%d" % tick, f"marks must be those of tick {tick}")
    _require(store.trace.chain == store.chain_at(tick), "the head must be the end of the history")


def _read_committed(reader: StoreReader, name: str) -> list[tuple[int, bytes]]:
    return [(tick, payload) for _, _, release, tick, payload in reader.read_committed() if release == name]


def _read_public(reader: StoreReader) -> object:
    return reader.trace, reader.number, list(reader.read_committed()), reader.marks(), reader.ledger_entries()


def _require(holds: bool, promise: str) -> None:
    if not holds:
        raise ContractError(promise)


@contextmanager
def _expect(error: type[StoreError], what: str, code: str | None = None) -> Iterator[None]:
    try:
        yield
    except error as found:
        if code in {None, found.code}:
            return
        raise
    raise ContractError(f"{what} must be refused with {error.__name__}, got no error")


def _kill_at(step: str, act: Callable[[StepHook], object]) -> None:
    def kill(name: str) -> None:
        if name == step:
            os.kill(os.getpid(), signal.SIGKILL)

    _require(_fork(lambda: act(kill)) == -signal.SIGKILL, f"the step {step} must be reached")


def _fork(act: Callable[[], object]) -> int:
    child = os.fork()
    if child == 0:
        try:
            act()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
