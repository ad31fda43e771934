"""The folder of a demo: the next demo removes its content, unless that demo is refused."""

import re
import signal
import socket

import pytest

from streamgauge.cli.demo.clinic import CLINIC_MARK
from streamgauge.store.lock import Lock
from tests.support.clinics import invoke, line_of, started

POLL = ("--local",)
CLINIC = ()
DEMOS = [("--events", 1000), ("--live", "--ticks", 1, "--port", 0), ("--local", "--live", "--ticks", 1, "--port", 0)]


@pytest.fixture
def folder(tmp_path):
    """A folder with the files of an earlier demo of each kind."""
    found = tmp_path / "demo"
    for name in ("clinic", "emoji"):
        (found / f"{name}.streamgauge").mkdir(parents=True)
        (found / f"{name}.key").write_text("key")
    (found / "clinic.toml").write_text(CLINIC_MARK)
    return found


def blocked(folder):
    """Return all files except locks, with their content."""
    files = (path for path in folder.rglob("*") if path.name != "lock")
    return {path: path.read_bytes() if path.is_file() else None for path in files}


@pytest.mark.parametrize("kind", [POLL, CLINIC])
def test_live_demo_with_used_port_removes_nothing_and_suggests_remedy(folder, kind):
    before = blocked(folder)
    with socket.create_server(("127.0.0.1", 0)) as accepted:
        port = accepted.getsockname()[1]
        refused = invoke("demo", *kind, "--live", "--ticks", 1, "--port", port, "--folder", folder)
    line = line_of(refused, code=1)
    assert line.endswith(f"got 127.0.0.1:{port}: address already in use: choose another with --port")
    assert blocked(folder) == before


@pytest.mark.parametrize("store", ["clinic", "emoji"])
@pytest.mark.parametrize("options", DEMOS)
def test_demo_in_folder_of_active_run_removes_nothing(folder, store, options):
    before = blocked(folder)
    with Lock(folder / f"{store}.streamgauge"):
        refused = invoke("demo", *options, "--folder", folder)
    assert "must be used by one run at a time" in line_of(refused)
    assert blocked(folder) == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", [POLL, CLINIC])
def test_second_demo_in_used_folder_is_refused_before_removal(tmp_path, kind):
    folder = tmp_path / "demo"
    running = started("demo", *kind, "--live", "--port", 0, "--folder", folder)
    try:
        assert re.search("live at http://127", running.stdout.readline())
        before = set(blocked(folder))
        for second in DEMOS:
            line = line_of(invoke("demo", *second, "--folder", folder))
            assert line.endswith(f"got {folder}, which process {running.pid} is using")
        assert before <= set(blocked(folder))
        assert running.poll() is None
    finally:
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=60)
    assert running.returncode == 0


def test_ended_demo_does_not_block_next_demo(folder):
    for _ in range(2):
        ended = invoke("demo", "--local", "--live", "--ticks", 1, "--port", 0, "--folder", folder)
        assert ended.exit_code == 0, ended.stderr
    assert not (folder / "clinic.toml").exists()
