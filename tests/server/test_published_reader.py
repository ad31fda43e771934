"""Readers of published commits: each method returns the same as on the store at the publish time."""

from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from streamgauge.runtime.adhoc.releases import AdHocRelease, parse_adhoc_release
from streamgauge.server.publishing.reader import PublishedReader, ReaderPool
from streamgauge.store.reader import StoreReader, Trace
from tests.support.served import IMMEDIATE, close, file_of, leave, running, stepped, write

MORE = {"sql": "SELECT COUNT(*) FROM v", "name": "more", "window": "each", "epsilon": 0.25}
QUESTIONS: dict[str, list[tuple[Any, ...]]] = {
    "trace_at": [(1,)],
    "chain_at": [(1,), (2,)],
    "knows": [(Trace(1, ""),)],
    "last_released": [("counts",)],
    "releases": [("counts",), ("counts", 1, None, 2)],
    "find_span": [("counts",)],
    "count_ticks": [("counts", 1, 9), ("counts", 2, 9, 2)],
    "count_groups": [("counts", 1, 9), ("counts", 2, 9, 2)],
    "find_release_chain": [("counts", 1), ("counts", 9)],
    "find_row_chain": [(0,), (1,), (2,)],
    "read_rows": [(0,), (1,)],
    "read_entries_after": [(0,), (1,)],
}
PRIVATE = {"marks"}  # never given to readers
SELF = {"open", "close", "folder", "last_commit", "identity", "entry_cache"}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int]:
    """A store with a published tick, a committed tick and an end, and its copy from the publish time."""
    tmp_path = tmp_path_factory.mktemp("stores")
    (tmp_path / "now").mkdir()
    file, clock = file_of(tmp_path / "now"), stepped()
    write(tmp_path / "now", 40)
    with running(file, clock, tuning=IMMEDIATE) as runner:
        runner.submit_release(AdHocRelease(parse_adhoc_release(MORE, file.stream), "ana")).result()
        close(runner, clock, 1)
        leave(runner, clock, 20)
        number = runner.event_buffer.published.commit_number
        copytree(file.folder, tmp_path / "then")
        close(runner, clock, 2)
        runner.submit_end("more").result()
    return file.folder, tmp_path / "then", number


def answers(reader: StoreReader) -> dict[str, Any]:
    """Return the results of every public method and property."""
    found: dict[str, Any] = {}
    for name in sorted({*dir(StoreReader), *dir(PublishedReader)}):
        if name.startswith("_") or name in PRIVATE | SELF:
            continue
        what = getattr(reader, name, None)
        for requested in QUESTIONS.get(name, [()]) if callable(what) else []:
            details = what(*requested)
            found[f"{name}{requested}"] = list(details) if isinstance(details, Iterator) else details
        if not callable(what):
            found[name] = what
    return found


def test_published_reader_equals_store_at_publish_time(stores: tuple[Path, Path, int]) -> None:
    now, then, number = stores
    with PublishedReader.open(now) as published, PublishedReader.open(then) as before:
        published.last_commit, before.last_commit = number, 2**62
        assert answers(published) == answers(before)
        assert published.tick == 1


def test_twin_without_commit_limit_reveals_later_entries(stores: tuple[Path, Path, int]) -> None:
    now, then, _ = stores
    with PublishedReader.open(now) as published, PublishedReader.open(then) as before:
        published.last_commit, before.last_commit = 2**62, 2**62
        details, known = answers(published), answers(before)
    assert {name.partition("(")[0] for name in details if details[name] != known[name]} == {
        *("ledger_entries", "chain", "chain_at", "find_release_chain", "find_row_chain", "last_released", "number"),
        *("row_count", "read_committed", "releases", "read_rows", "find_span", "tick", "chained_entries", "trace"),
        *("last_visible_entry", "entry_count", "read_entries_after", "count_ticks", "count_groups"),
    }


def test_every_reader_method_with_arguments_has_a_call() -> None:
    """A new method of `StoreReader` is called above. One with arguments needs a call here."""
    methods = {name: what for name, what in vars(StoreReader).items() if isfunction(what) and name[0] != "_"}
    requested = {name for name, what in methods.items() if what.__code__.co_argcount - len(what.__defaults__ or ()) > 1}
    assert requested <= {*QUESTIONS, *SELF}


def test_a_reader_is_lent_to_one_thread_at_a_time(stores: tuple[Path, Path, int]) -> None:
    readers = ReaderPool(stores[0])
    with readers.lend(1) as one, readers.lend(2) as other:
        assert one is not other
        assert (one.last_commit, other.last_commit) == (1, 2)
    with readers.lend(3) as again:
        assert again in (one, other)
    with pytest.raises(ZeroDivisionError), readers.lend(3) as failing:
        raise ZeroDivisionError
    with readers.lend(3) as fresh:
        assert fresh is not failing
    readers.close()
