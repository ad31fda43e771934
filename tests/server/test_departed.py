"""No way of reading tells of more than has left: every method of a reader, beside the store as it was."""

from collections.abc import Iterator
from inspect import isfunction
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest
from served import close, file_of, leave, running, stepped, turns_at_once, write

from streamgauge.pipeline.asked_releases import AskedRelease, release_of_json
from streamgauge.pipeline.reader import Reader, Trace
from streamgauge.server.departed import Departed, Readers

MORE = {"sql": "SELECT COUNT(*) FROM v", "name": "more", "window": "each", "epsilon": 0.25}
QUESTIONS: dict[str, list[tuple[Any, ...]]] = {
    "trace_at": [(1,)],
    "chain_at": [(1,), (2,)],
    "knows": [(Trace(1, ""),)],
    "last_released": [("counts",)],
    "releases": [("counts",), ("counts", 1, None, 2)],
    "span": [("counts",)],
    "count_ticks": [("counts", 1, 9), ("counts", 2, 9, 2)],
    "count_places": [("counts", 1, 9), ("counts", 2, 9, 2)],
    "chain_of": [("counts", 1), ("counts", 9)],
    "chain_with": [(0,), (1,), (2,)],
    "rows": [(0,), (1,)],
    "acts_after": [(0,), (1,)],
}
PRIVATE = {"marks"}  # what is never told to readers
SELF = {"at", "close", "folder", "until", "identity", "known"}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, int]:
    """A store with a tick that has left and one that has not, and an end between; and as it was before."""
    tmp_path = tmp_path_factory.mktemp("stores")
    (tmp_path / "now").mkdir()
    file, clock = file_of(tmp_path / "now"), stepped()
    write(tmp_path / "now", 40)
    with turns_at_once(), running(file, clock) as runner:
        runner.ask(AskedRelease(release_of_json(MORE, file.stream), "ana"))
        close(runner, clock, 1)
        leave(runner, clock, 20)
        number = runner.board.shown.number
        copytree(file.folder, tmp_path / "then")
        close(runner, clock, 2)
        runner.end("more")
    return file.folder, tmp_path / "then", number


def answers(reader: Reader) -> dict[str, Any]:
    """What every public method and property tells."""
    found: dict[str, Any] = {}
    for name in sorted({*dir(Reader), *dir(Departed)}):
        if name.startswith("_") or name in PRIVATE | SELF:
            continue
        what = getattr(reader, name, None)
        for asked in QUESTIONS.get(name, [()]) if callable(what) else []:
            told = what(*asked)
            found[f"{name}{asked}"] = list(told) if isinstance(told, Iterator) else told
        if not callable(what):
            found[name] = what
    return found


def test_a_reader_of_what_has_left_tells_what_the_store_was_when_it_left(
    stores: tuple[Path, Path, int],
) -> None:
    now, then, number = stores
    with Departed.at(now) as departed, Departed.at(then) as before:
        departed.until, before.until = number, 2**62
        assert answers(departed) == answers(before)
        assert departed.tick == 1


def test_a_reader_that_is_not_held_back_is_caught(stores: tuple[Path, Path, int]) -> None:
    now, then, _ = stores
    with Departed.at(now) as departed, Departed.at(then) as before:
        departed.until, before.until = 2**62, 2**62
        told, known = answers(departed), answers(before)
    assert {name.partition("(")[0] for name in told if told[name] != known[name]} == {
        *("acts", "chain", "chain_at", "chain_of", "chain_with", "last_released", "number", "place"),
        *("published", "releases", "rows", "span", "tick", "told_acts", "trace"),
        *("shown", "act_count", "acts_after", "count_ticks", "count_places"),
    }


def test_every_method_of_a_reader_is_held_back_or_needs_not_be() -> None:
    """A method that is added to `Reader` is asked above; whoever takes arguments needs a question here."""
    methods = {name: what for name, what in vars(Reader).items() if isfunction(what) and name[0] != "_"}
    asked = {
        name for name, what in methods.items() if what.__code__.co_argcount - len(what.__defaults__ or ()) > 1
    }
    assert asked <= {*QUESTIONS, *SELF}


def test_a_reader_is_lent_to_one_thread_at_a_time(stores: tuple[Path, Path, int]) -> None:
    readers = Readers(stores[0])
    with readers.lent(1) as one, readers.lent(2) as other:
        assert one is not other
        assert (one.until, other.until) == (1, 2)
    with readers.lent(3) as again:
        assert again in (one, other)
    with pytest.raises(ZeroDivisionError), readers.lent(3) as failing:
        raise ZeroDivisionError
    with readers.lent(3) as fresh:
        assert fresh is not failing
    readers.close()
