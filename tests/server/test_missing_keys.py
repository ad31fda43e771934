"""A pan-private server without its key file: it accepts all commands, because none needs the key."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from streamgauge.runtime.published import read_ledger_log
from streamgauge.store.errors import KeyRefusedError
from streamgauge.store.keys import create_key
from tests.server.test_live_intrusions import COUNTS, NOTED, PRIVATE, SERVER, Served, made
from tests.support.served import committed, eventually, file_of, running

VISITS = {"name": "more", "sql": "SELECT COUNT(*) FROM v", "window": "running", "epsilon": "1/4"}


def remove(key: Path) -> None:
    key.rename(key.with_name("elsewhere.key"))


def replace_key(key: Path) -> None:
    remove(key)
    create_key(key)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Served]:
    NOTED.clear()
    run = Served(file_of(tmp_path, COUNTS, server=SERVER, **PRIVATE), tmp_path)
    yield run
    run.runner.stop()
    run.house.tokens.close()


@pytest.mark.parametrize("change", [remove, replace_key])
def test_server_accepts_all_commands_without_its_key(
    run: Served, tmp_path: Path, change: Callable[[Path], None]
) -> None:
    run.send(range(3), 1)
    change(tmp_path / "v.key")
    assert run.intrude("a").status_code == 201
    reply = run.curator.post("/api/releases", json=VISITS)
    assert reply.status_code == 201, reply.text
    run.clock.to(1.1)
    assert run.curator.delete("/api/releases/more").status_code == 200
    assert (run.runner.state, NOTED) == ("running", [])
    assert run.close(1)["count"]["value"] is not None
    assert run.intrude("b").json()["intrusion"] == 2
    run.runner.stop()
    assert (run.runner.error, made(run), NOTED) == ("", 2, [])
    releases = read_ledger_log(run.file).releases
    assert {name: entry.end_tick is not None for name, entry in releases.items()} == {"n": False, "more": True}


def test_server_continues_when_it_is_started_with_the_key_again(run: Served, tmp_path: Path) -> None:
    remove(tmp_path / "v.key")
    assert run.intrude("a").status_code == 201
    run.runner.stop()
    (tmp_path / "elsewhere.key").rename(tmp_path / "v.key")
    with running(run.file, run.clock) as runner:
        run.clock.to(10.001)
        eventually(lambda: committed(runner)[1] == 1, "the commit of tick 1")
        assert (runner.state, made(run)) == ("running", 1)


def test_server_does_not_start_without_its_key(tmp_path: Path) -> None:
    file = file_of(tmp_path, COUNTS, server=SERVER, **PRIVATE)
    (tmp_path / "v.key").unlink()
    with pytest.raises(KeyRefusedError, match="key file must be readable"):
        Served(file, tmp_path)
